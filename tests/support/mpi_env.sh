# shellcheck shell=sh
# Environment in which the tests run mpirun: `. tests/support/mpi_env.sh`. Line by line the same as MpiEnv.cmake, which ctest uses.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers and chroots
export OMPI_MCA_pml=ob1                                           # what it chooses without a fabric, after a while of looking for one
export OMPI_MCA_rmaps_base_oversubscribe=1                        # more ranks than cores
export OMPI_MCA_mpi_yield_when_idle=1                             # ... that do not steal each other's core while they wait
export OMPI_MCA_hwloc_base_binding_policy=none                    # ... and are not pinned two to a core
export OMPI_MCA_btl_vader_single_copy_mechanism=none              # process_vm_readv is forbidden in many containers
export HWLOC_PLUGINS_PATH=/none                                   # ranks and mpirun would look for X displays and OpenCL devices
export HWLOC_COMPONENTS=-linux:pci                                # ... and read every PCI device's configuration
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1                   # a rank is one thread
