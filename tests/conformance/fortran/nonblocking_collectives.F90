! Non-blocking collectives: every row, in place, several in flight on two communicators, completed out of order.
! conformance: ranks=3
#include "conformance.inc"

program nonblocking_collectives
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, i
  COMM_T :: world
  REQUEST_T :: request

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call begin_transcript
  ierr = UNSET

  call whole_buffers(world)
  call whole_buffers(MPI_COMM_SELF)
  call unequal_counts
  call in_place
  call in_flight
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! The post, then its completion; the handle is MPI_REQUEST_NULL afterwards. Nothing of a collective's status is defined unless the call
  ! returns MPI_ERR_IN_STATUS: Open MPI copies what an earlier request left there.
  subroutine finish(call, code)
    character(*), intent(in) :: call
    integer, intent(inout) :: code
    STATUS(s)
    call note(call, code, [merge(1, 0, request == MPI_REQUEST_NULL)])
    call MPI_Wait(request, s, code)
    call note(call // ' wait', code)
    if (request /= MPI_REQUEST_NULL) error stop 'the handle of a completed request'
  end subroutine

  subroutine whole_buffers(comm)
    COMM_T, intent(in) :: comm
    integer :: me, n
    integer, allocatable, asynchronous :: all(:), there(:), twos(:)
    integer, asynchronous :: two(2), sum(2)
    call MPI_Comm_rank(comm, me, ierr)
    call MPI_Comm_size(comm, n, ierr)
    ierr = UNSET
    allocate (all(2 * n), there(2 * n), twos(n))
    twos = 2
    all = 100 * me + [(i, i = 1, 2 * n)]
    there = -1
    two = [me + 1, -me]
    sum = -1
    call MPI_Ibarrier(comm, request, ierr)
    call finish('MPI_Ibarrier', ierr)
    call MPI_Ibcast(all, 2, MPI_INTEGER, n - 1, comm, request, ierr)
    call finish('MPI_Ibcast', ierr)
    call say('MPI_Ibcast', all)
    call MPI_Igather(two, 2, MPI_INTEGER, there, 2, MPI_INTEGER, 0, comm, request, ierr)
    call finish('MPI_Igather', ierr)
    call say('MPI_Igather', there)
    call MPI_Iscatter(all, 2, MPI_INTEGER, sum, 2, MPI_INTEGER, n - 1, comm, request, ierr)
    call finish('MPI_Iscatter', ierr)
    call say('MPI_Iscatter', sum)
    call MPI_Iallgather(two, 2, MPI_INTEGER, there, 2, MPI_INTEGER, comm, request, ierr)
    call finish('MPI_Iallgather', ierr)
    call say('MPI_Iallgather', there)
    call MPI_Ialltoall(all, 2, MPI_INTEGER, there, 2, MPI_INTEGER, comm, request, ierr)
    call finish('MPI_Ialltoall', ierr)
    call say('MPI_Ialltoall', there)
    call MPI_Ireduce(two, sum, 2, MPI_INTEGER, MPI_SUM, n - 1, comm, request, ierr)
    call finish('MPI_Ireduce', ierr)
    call say('MPI_Ireduce', sum)
    call MPI_Iallreduce(two, sum, 2, MPI_INTEGER, MPI_SUM, comm, request, ierr)
    call finish('MPI_Iallreduce', ierr)
    call say('MPI_Iallreduce', sum)
    call MPI_Ireduce_scatter_block(all, sum, 2, MPI_INTEGER, MPI_SUM, comm, request, ierr)
    call finish('MPI_Ireduce_scatter_block', ierr)
    call say('MPI_Ireduce_scatter_block', sum)
    call MPI_Ireduce_scatter(all, sum, twos, MPI_INTEGER, MPI_MAX, comm, request, ierr)
    call finish('MPI_Ireduce_scatter', ierr)
    call say('MPI_Ireduce_scatter', sum)
    call MPI_Iscan(two, sum, 2, MPI_INTEGER, MPI_SUM, comm, request, ierr)
    call finish('MPI_Iscan', ierr)
    call say('MPI_Iscan', sum)
    sum = 0
    call MPI_Iexscan(two, sum, 2, MPI_INTEGER, MPI_SUM, comm, request, ierr)
    call finish('MPI_Iexscan', ierr)
    if (me == 0) sum = 0  ! undefined there
    call say('MPI_Iexscan', sum)
    ! ierror left out, of the post and of the wait
    call MPI_Iallreduce(two, sum, 2, MPI_INTEGER, MPI_MIN, comm, request LEFT_OUT)
    call MPI_Wait(request, MPI_STATUS_IGNORE LEFT_OUT)
    call say('MPI_Iallreduce', sum)
    ierr = UNSET
  end subroutine

  ! Rank r has r + 1 elements.
  subroutine unequal_counts
    integer, asynchronous :: counts(ranks), at(ranks), mine(ranks), ones(ranks), places(ranks)
    integer, allocatable, asynchronous :: all(:), out(:), in(:)
    DATATYPE_T :: types(ranks)
    integer :: total
    counts = [(i, i = 1, ranks)]
    at = [((i - 1) * i / 2, i = 1, ranks)]
    total = ranks * (ranks + 1) / 2
    allocate (all(total), out(total), in(ranks * (rank + 1)))
    mine = 10 * rank + [(i, i = 1, ranks)]
    out = [(100 * rank + i, i = 1, total)]
    all = -1
    call MPI_Igatherv(mine, rank + 1, MPI_INTEGER, all, counts, at, MPI_INTEGER, ranks - 1, world, request, ierr)
    call finish('MPI_Igatherv', ierr)
    call say('MPI_Igatherv', all)
    call MPI_Iscatterv(out, counts, at, MPI_INTEGER, mine, rank + 1, MPI_INTEGER, ranks - 1, world, request, ierr)
    call finish('MPI_Iscatterv', ierr)
    call say('MPI_Iscatterv', mine)
    call MPI_Iallgatherv(mine, rank + 1, MPI_INTEGER, all, counts, at, MPI_INTEGER, world, request, ierr)
    call finish('MPI_Iallgatherv', ierr)
    call say('MPI_Iallgatherv', all)
    ones = rank + 1
    places = [(i * (rank + 1), i = 0, ranks - 1)]
    in = -1
    call MPI_Ialltoallv(out, counts, at, MPI_INTEGER, in, ones, places, MPI_INTEGER, world, request, ierr)
    call finish('MPI_Ialltoallv', ierr)
    call say('MPI_Ialltoallv', in)
    in = -1
    types = MPI_INTEGER
    at = 4 * at
    places = 4 * places
    call MPI_Ialltoallw(out, counts, at, types, in, ones, places, types, world, request, ierr)
    call finish('MPI_Ialltoallw', ierr)
    call say('MPI_Ialltoallw', in)
  end subroutine

  subroutine in_place
    integer, asynchronous :: a(2 * ranks), twos(ranks), at(ranks)
    DATATYPE_T :: types(ranks)
    twos = 2
    at = [(2 * i, i = 0, ranks - 1)]
    types = MPI_INTEGER
    call fill(a)
    if (rank == 0) then
      call MPI_Igather(MPI_IN_PLACE, 2, MPI_INTEGER, a, 2, MPI_INTEGER, 0, world, request, ierr)
    else
      call MPI_Igather(a, 2, MPI_INTEGER, a, 2, MPI_INTEGER, 0, world, request, ierr)
    end if
    call finish('MPI_Igather in place', ierr)
    call say('MPI_Igather in place', a)
    if (rank == 0) then
      call MPI_Igatherv(MPI_IN_PLACE, 2, MPI_INTEGER, a, twos, at, MPI_INTEGER, 0, world, request, ierr)
    else
      call MPI_Igatherv(a, 2, MPI_INTEGER, a, twos, at, MPI_INTEGER, 0, world, request, ierr)
    end if
    call finish('MPI_Igatherv in place', ierr)
    call say('MPI_Igatherv in place', a)
    if (rank == 0) then
      call MPI_Iscatter(a, 2, MPI_INTEGER, MPI_IN_PLACE, 2, MPI_INTEGER, 0, world, request, ierr)
    else
      call MPI_Iscatter(a, 2, MPI_INTEGER, a, 2, MPI_INTEGER, 0, world, request, ierr)
    end if
    call finish('MPI_Iscatter in place', ierr)
    call say('MPI_Iscatter in place', a)
    if (rank == 0) then
      call MPI_Iscatterv(a, twos, at, MPI_INTEGER, MPI_IN_PLACE, 2, MPI_INTEGER, 0, world, request, ierr)
    else
      call MPI_Iscatterv(a, twos, at, MPI_INTEGER, a, 2, MPI_INTEGER, 0, world, request, ierr)
    end if
    call finish('MPI_Iscatterv in place', ierr)
    call say('MPI_Iscatterv in place', a)
    call fill(a)
    if (rank == 1) then
      call MPI_Ireduce(MPI_IN_PLACE, a, 2, MPI_INTEGER, MPI_SUM, 1, world, request, ierr)
    else
      call MPI_Ireduce(a, a, 2, MPI_INTEGER, MPI_SUM, 1, world, request, ierr)
    end if
    call finish('MPI_Ireduce in place', ierr)
    call say('MPI_Ireduce in place', a)
    call MPI_Iallreduce(MPI_IN_PLACE, a, 3, MPI_INTEGER, MPI_SUM, world, request, ierr)
    call finish('MPI_Iallreduce in place', ierr)
    call say('MPI_Iallreduce in place', a)
    call MPI_Iscan(MPI_IN_PLACE, a, 3, MPI_INTEGER, MPI_SUM, world, request, ierr)
    call finish('MPI_Iscan in place', ierr)
    call say('MPI_Iscan in place', a)
    call MPI_Iexscan(MPI_IN_PLACE, a, 3, MPI_INTEGER, MPI_SUM, world, request, ierr)
    call finish('MPI_Iexscan in place', ierr)
    if (rank == 0) a = 0
    call say('MPI_Iexscan in place', a)
    call fill(a)
    call MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 2, MPI_INTEGER, world, request, ierr)
    call finish('MPI_Iallgather in place', ierr)
    call say('MPI_Iallgather in place', a)
    call fill(a)
    call MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, twos, at, MPI_INTEGER, world, request, ierr)
    call finish('MPI_Iallgatherv in place', ierr)
    call say('MPI_Iallgatherv in place', a)
    call fill(a)
    call MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 2, MPI_INTEGER, world, request, ierr)
    call finish('MPI_Ialltoall in place', ierr)
    call say('MPI_Ialltoall in place', a)
    call MPI_Ialltoallv(MPI_IN_PLACE, twos, at, MPI_DATATYPE_NULL, a, twos, at, MPI_INTEGER, world, request, ierr)
    call finish('MPI_Ialltoallv in place', ierr)
    call say('MPI_Ialltoallv in place', a)
    at = 4 * at
    call MPI_Ialltoallw(MPI_IN_PLACE, twos, at, types, a, twos, at, types, world, request, ierr)
    call finish('MPI_Ialltoallw in place', ierr)
    call say('MPI_Ialltoallw in place', a)
    call fill(a)
    call MPI_Ireduce_scatter_block(MPI_IN_PLACE, a, 2, MPI_INTEGER, MPI_SUM, world, request, ierr)
    call finish('MPI_Ireduce_scatter_block in place', ierr)
    call say('MPI_Ireduce_scatter_block in place', a(1:2))
    call fill(a)
    call MPI_Ireduce_scatter(MPI_IN_PLACE, a, twos, MPI_INTEGER, MPI_SUM, world, request, ierr)
    call finish('MPI_Ireduce_scatter in place', ierr)
    call say('MPI_Ireduce_scatter in place', a(1:2))
  end subroutine

  subroutine fill(a)
    integer, intent(out) :: a(:)
    a = 100 * rank + [(i, i = 1, size(a))]
  end subroutine

  ! Ten on two communicators, completed together and last first.
  subroutine in_flight
    integer, asynchronous :: a(10), sums(10)
    REQUEST_T :: requests(10)
    STATUSES(statuses, 10)
    COMM_T :: other, comms(2)
    call MPI_Comm_dup(world, other, ierr)
    comms = [world, other]
    do i = 1, 10
      a(i) = rank + i
      call MPI_Iallreduce(a(i), sums(i), 1, MPI_INTEGER, MPI_SUM, comms(1 + mod(i, 2)), requests(i), ierr)
    end do
    call note('ten MPI_Iallreduce', ierr)
    call MPI_Wait(requests(10), MPI_STATUS_IGNORE, ierr)
    call note('the tenth', ierr, [sums(10)])
    call MPI_Waitall(10, requests, statuses, ierr)
    call note('MPI_Waitall', ierr, sums)
    call MPI_Comm_free(other, ierr)
    call note('MPI_Comm_free', ierr, [merge(1, 0, other == MPI_COMM_NULL)])
  end subroutine
end program
