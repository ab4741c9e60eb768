# Environment in which the tests run mpirun, for the test property ENVIRONMENT. Line by line the same as mpi_env.sh, which has the reasons.
set(DDL_MPI_ENV
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_pml=ob1
  OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_hwloc_base_binding_policy=none
  OMPI_MCA_btl_vader_single_copy_mechanism=none
  HWLOC_PLUGINS_PATH=/none
  HWLOC_COMPONENTS=-linux:pci
  OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1)
