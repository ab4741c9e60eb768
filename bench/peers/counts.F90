! 1,000 MPI_ALLREDUCE and 500 MPI_BARRIER on every rank, by module mpi, or mpi_f08 with -DF08.
program counts
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: i, ierror
  real :: in, out
  in = 1
  call MPI_Init(ierror)
  do i = 1, 1000
    call MPI_Allreduce(in, out, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierror)
  end do
  do i = 1, 500
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end do
  call MPI_Finalize(ierror)
end program
