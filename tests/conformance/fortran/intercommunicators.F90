! Intercommunicators of one and of several ranks: made, merged, duplicated, used for messages and for collectives with MPI_ROOT, freed.
! conformance: ranks=3
#include "conformance.inc"

program intercommunicators
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, me, here, there, ierr, i, root
  logical :: flag, first
  COMM_T :: world, side, inter, again, both
  REQUEST_T :: request
  STATUS(s)
  integer :: numbers(4)
  integer, allocatable, asynchronous :: mine(:), theirs(:)

  call begin_transcript
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call clear(s)

  ! Rank 0 on one side, the others on the other.
  first = rank == 0
  call MPI_Comm_split(world, merge(0, 1, first), rank, side, ierr)
  ierr = UNSET
  call MPI_Intercomm_create(side, 0, world, merge(1, 0, first), 5, inter, ierr)
  call note('MPI_Intercomm_create', ierr)
  call MPI_Comm_rank(inter, me, ierr)
  call MPI_Comm_size(inter, here, ierr)
  call MPI_Comm_remote_size(inter, there, ierr)
  call MPI_Comm_test_inter(inter, flag, ierr)
  call note('inter', ierr, [me, here, there, is(flag)])

  call messages
  call collectives(inter)
  call nonblocking_collectives

  call MPI_Comm_dup(inter, again, ierr)
  call note('MPI_Comm_dup', ierr)
  call collectives(again)
  call MPI_Comm_free(again, ierr)
  call note('MPI_Comm_free', ierr)
  ! Everybody, rank 0 and the last of the others.
  call MPI_Comm_split(inter, merge(MPI_UNDEFINED, 0, .not. first .and. me /= here - 1), 0, again, ierr)
  call note('MPI_Comm_split', ierr, [merge(1, 0, again == MPI_COMM_NULL)])
  if (again /= MPI_COMM_NULL) then
    call MPI_Barrier(again, ierr)
    call note('MPI_Barrier', ierr)
    call MPI_Comm_free(again, ierr)
    call note('MPI_Comm_free', ierr)
  end if

  call MPI_Intercomm_merge(inter, first, both, ierr)
  call note('MPI_Intercomm_merge', ierr)
  call MPI_Comm_rank(both, me, ierr)
  call MPI_Comm_size(both, here, ierr)
  call MPI_Allreduce(2**rank, numbers, 1, MPI_INTEGER, MPI_SUM, both, ierr)
  call note('both', ierr, [me, here, numbers(1)])
  call MPI_Comm_free(both, ierr)
  call note('MPI_Comm_free', ierr)
  call MPI_Comm_disconnect(inter, ierr)
  call note('MPI_Comm_disconnect', ierr, [merge(1, 0, inter == MPI_COMM_NULL)])
  call MPI_Comm_free(side, ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Ranks are those of the other side.
  subroutine messages
    if (first) then
      do i = 0, there - 1
        call MPI_Send([10 * i, 10 * i + 1], 2, MPI_INTEGER, i, i, inter, ierr)
        call note('MPI_Send', ierr)
      end do
      do i = 0, there - 1
        call MPI_Recv(numbers, 4, MPI_INTEGER, i, MPI_ANY_TAG, inter, s, ierr)
        call note_status('MPI_Recv', ierr, s, MPI_INTEGER)
        call say('numbers', numbers(1:3))
      end do
    else
      call MPI_Sendrecv([rank, 2, 3], 3, MPI_INTEGER, 0, 50, numbers, 4, MPI_INTEGER, MPI_ANY_SOURCE, me, inter, s, ierr)
      call note_status('MPI_Sendrecv', ierr, s, MPI_INTEGER)
      call say('numbers', numbers(1:2))
    end if
  end subroutine

  ! From rank 0 to the others, then from the second of the others to rank 0, then both ways.
  subroutine collectives(comm)
    COMM_T, intent(in) :: comm
    if (allocated(mine)) deallocate (mine, theirs)
    allocate (mine(2 * there), theirs(2 * there))
    call MPI_Barrier(comm, ierr)
    call note('MPI_Barrier', ierr)
    mine = 100 * rank + [(i, i = 1, 2 * there)]
    root = merge(MPI_ROOT, 0, first)
    theirs = -1
    call MPI_Bcast(mine, 2, MPI_INTEGER, root, comm, ierr)
    call note('MPI_Bcast', ierr, mine)
    call MPI_Scatter(mine, 2, MPI_INTEGER, theirs, 2, MPI_INTEGER, root, comm, ierr)
    call note('MPI_Scatter', ierr, theirs)
    call MPI_Scatterv(mine, [(2, i = 1, there)], [(2 * i, i = 0, there - 1)], MPI_INTEGER, theirs, 2, MPI_INTEGER, root, comm, ierr)
    call note('MPI_Scatterv', ierr, theirs)
    call MPI_Gather(mine, 2, MPI_INTEGER, theirs, 2, MPI_INTEGER, root, comm, ierr)
    call note('MPI_Gather', ierr, theirs)
    call MPI_Gatherv(mine, 1, MPI_INTEGER, theirs, [(1, i = 1, there)], [(2 * i, i = 0, there - 1)], MPI_INTEGER, root, comm, ierr)
    call note('MPI_Gatherv', ierr, theirs)
    theirs = -1
    call MPI_Reduce(mine, theirs, 2, MPI_INTEGER, MPI_SUM, root, comm, ierr)
    call note('MPI_Reduce', ierr, theirs)
    if (first) root = 1
    if (.not. first) root = merge(MPI_ROOT, MPI_PROC_NULL, me == 1)
    call MPI_Bcast(mine, 1, MPI_INTEGER, root, comm, ierr)
    call note('MPI_Bcast back', ierr, mine)
    theirs = -1
    call MPI_Reduce(mine, theirs, 1, MPI_INTEGER, MPI_MAX, root, comm, ierr)
    call note('MPI_Reduce back', ierr, theirs)
    call MPI_Allreduce(mine, theirs, 2, MPI_INTEGER, MPI_SUM, comm, ierr)
    call note('MPI_Allreduce', ierr, theirs)
    theirs = -1
    call MPI_Allgather(mine, 2, MPI_INTEGER, theirs, 2, MPI_INTEGER, comm, ierr)
    call note('MPI_Allgather', ierr, theirs)
    call MPI_Allgatherv(mine, here, MPI_INTEGER, theirs, [(there, i = 1, there)], [(i, i = 0, there - 1)], MPI_INTEGER, comm, ierr)
    call note('MPI_Allgatherv', ierr, theirs(1:merge(2, 1, first)))
    call MPI_Alltoall(mine, 2, MPI_INTEGER, theirs, 2, MPI_INTEGER, comm, ierr)
    call note('MPI_Alltoall', ierr, theirs)
    call MPI_Alltoallv(mine, [(1, i = 1, there)], [(2 * i, i = 0, there - 1)], MPI_INTEGER, theirs, [(1, i = 1, there)], &
                       [(i, i = 0, there - 1)], MPI_INTEGER, comm, ierr)
    call note('MPI_Alltoallv', ierr, theirs)
  end subroutine

  subroutine nonblocking_collectives
    call MPI_Ibarrier(inter, request, ierr)
    call note('MPI_Ibarrier', ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr)
    root = merge(MPI_ROOT, 0, first)
    call MPI_Ibcast(mine, 2, MPI_INTEGER, root, inter, request, ierr)
    call note('MPI_Ibcast', ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, mine)
    call MPI_Iallreduce(mine, theirs, 2, MPI_INTEGER, MPI_SUM, inter, request, ierr)
    call note('MPI_Iallreduce', ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, theirs)
    call MPI_Ialltoall(mine, 2, MPI_INTEGER, theirs, 2, MPI_INTEGER, inter, request, ierr)
    call note('MPI_Ialltoall', ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, theirs)
  end subroutine

#include "note_status.inc"
end program
