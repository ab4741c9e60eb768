! Persistent collectives (Open MPI 4.1 has them as MPIX_ extensions): every one made, started twice, completed, freed; in place; two at once.
! conformance: ranks=3
#include "conformance.inc"

program persistent_collectives
  USE_MPI
#if defined(BINDING_F08)
  use mpi_f08_ext
#elif defined(BINDING_MPI)
  use mpi_ext
#endif
  use transcript
  implicit none
  INCLUDE_MPI
#if defined(BINDING_MPIF_H)
  include 'mpif-ext.h'
#endif

  integer, parameter :: M = 6
  integer :: rank, ranks, ierr, i
  integer, asynchronous :: out(M), in(M)
  integer, asynchronous, allocatable :: twos(:), at(:), bytes(:)
  DATATYPE_T, allocatable :: types(:)
  COMM_T :: world, ring
  REQUEST_T :: request

  call begin_transcript
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  allocate (twos(ranks), at(ranks), bytes(ranks), types(ranks))
  twos = 2
  at = [(2 * i, i = 0, ranks - 1)]
  bytes = 4 * at
  types = MPI_INTEGER
  ierr = UNSET

  call MPIX_Barrier_init(world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Barrier_init')
  call MPIX_Bcast_init(out, 3, MPI_INTEGER, 1, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Bcast_init')
  call MPIX_Gather_init(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, 1, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Gather_init')
  call MPIX_Gatherv_init(out, 2, MPI_INTEGER, in, twos, at, MPI_INTEGER, 0, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Gatherv_init')
  call MPIX_Scatter_init(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, 1, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Scatter_init')
  call MPIX_Scatterv_init(out, twos, at, MPI_INTEGER, in, 2, MPI_INTEGER, 0, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Scatterv_init')
  call MPIX_Allgather_init(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Allgather_init')
  call MPIX_Allgatherv_init(out, 2, MPI_INTEGER, in, twos, at, MPI_INTEGER, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Allgatherv_init')
  call MPIX_Alltoall_init(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Alltoall_init')
  call MPIX_Alltoallv_init(out, twos, at, MPI_INTEGER, in, twos, at, MPI_INTEGER, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Alltoallv_init')
  call MPIX_Alltoallw_init(out, twos, bytes, types, in, twos, bytes, types, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Alltoallw_init')
  call MPIX_Reduce_init(out, in, 3, MPI_INTEGER, MPI_SUM, 2, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Reduce_init')
  call MPIX_Allreduce_init(out, in, 3, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Allreduce_init')
  call MPIX_Allreduce_init(MPI_IN_PLACE, in, 3, MPI_INTEGER, MPI_MAX, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Allreduce_init in place')
  call MPIX_Reduce_scatter_block_init(out, in, 2, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Reduce_scatter_block_init')
  call MPIX_Reduce_scatter_init(out, in, twos, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Reduce_scatter_init')
  call MPIX_Scan_init(out, in, 2, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Scan_init')
  call MPIX_Exscan_init(out, in, 2, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, request, ierr)
  call twice('MPIX_Exscan_init')

  call MPI_Cart_create(world, 1, [ranks], [.true.], .false., ring, ierr)
  ierr = UNSET
  call neighbours
  call both_at_once
  call MPI_Comm_free(ring, ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Started and completed twice, with other data each time, then freed.
  subroutine twice(call)
    character(*), intent(in) :: call
    integer :: round
    STATUS(s)
    call note(call, ierr, [merge(1, 0, request == MPI_REQUEST_NULL)])
    do round = 1, 2
      out = 1000 * round + 100 * rank + [(i, i = 1, M)]
      in = -1
      call MPI_Start(request, ierr)
      call note('MPI_Start', ierr)
      call MPI_Wait(request, s, ierr)
      call note('MPI_Wait', ierr)  ! nothing of a collective's status is defined
      if (index(call, 'Exscan') > 0 .and. rank == 0) in = 0  ! undefined there
      call say(call, [out, in])
    end do
    call MPI_Request_free(request, ierr)
    call note('MPI_Request_free', ierr, [merge(1, 0, request == MPI_REQUEST_NULL)])
  end subroutine

  subroutine neighbours
    integer(MPI_ADDRESS_KIND), asynchronous :: places(2)
    places = [0, 8]
    call MPIX_Neighbor_allgather_init(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, ring, MPI_INFO_NULL, request, ierr)
    call twice('MPIX_Neighbor_allgather_init')
    call MPIX_Neighbor_allgatherv_init(out, 2, MPI_INTEGER, in, twos, at, MPI_INTEGER, ring, MPI_INFO_NULL, request, ierr)
    call twice('MPIX_Neighbor_allgatherv_init')
    call MPIX_Neighbor_alltoall_init(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, ring, MPI_INFO_NULL, request, ierr)
    call twice('MPIX_Neighbor_alltoall_init')
    call MPIX_Neighbor_alltoallv_init(out, twos, at, MPI_INTEGER, in, twos, at, MPI_INTEGER, ring, MPI_INFO_NULL, request, ierr)
    call twice('MPIX_Neighbor_alltoallv_init')
    call MPIX_Neighbor_alltoallw_init(out, twos, places, types, in, twos, places, types, ring, MPI_INFO_NULL, request, ierr)
    call twice('MPIX_Neighbor_alltoallw_init')
  end subroutine

  subroutine both_at_once
    integer, asynchronous :: sums(2)
    REQUEST_T :: requests(2)
    call MPIX_Allreduce_init(out, sums(1), 1, MPI_INTEGER, MPI_SUM, world, MPI_INFO_NULL, requests(1), ierr)
    call MPIX_Allreduce_init(out, sums(2), 1, MPI_INTEGER, MPI_MAX, ring, MPI_INFO_NULL, requests(2), ierr)
    out = 10 * rank + 1
    call MPI_Startall(2, requests, ierr)
    call note('MPI_Startall', ierr)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
    call note('MPI_Waitall', ierr, sums)
    call MPI_Request_free(requests(1), ierr)
    call MPI_Request_free(requests(2), ierr)
    ierr = UNSET
  end subroutine
end program
