! MPI_THREAD_MULTIPLE: two OpenMP threads make every call of the families at once, each on communicators of its own, then hand each other
! requests to complete.
! conformance: ranks=2
#include "conformance.inc"

program threads
  USE_MPI
  use omp_lib
  use transcript
  implicit none
  INCLUDE_MPI

  integer, parameter :: T = 2, ROUNDS = 20
  integer :: rank, ranks, ierr, provided, i
  COMM_T :: comms(T)
  integer :: results(40, T)
  integer, asynchronous :: halves(ROUNDS, T), sent(ROUNDS, T)
  REQUEST_T :: requests(2 * ROUNDS, T)

  call begin_transcript
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, ierr)
  call note('MPI_Init_thread', ierr, [provided])
  if (provided < MPI_THREAD_MULTIPLE) then
    print *, 'no MPI_THREAD_MULTIPLE here'
    stop 77
  end if
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  do i = 1, T
    call MPI_Comm_dup(MPI_COMM_WORLD, comms(i), ierr)
  end do

  results = UNSET
  !$omp parallel num_threads(T)
  call families(omp_get_thread_num() + 1)
  !$omp end parallel
  do i = 1, T
    call say('thread', [i, results(:, i)])
  end do

  ! What one thread posts another completes.
  !$omp parallel num_threads(T)
  call post(omp_get_thread_num() + 1)
  !$omp barrier
  call complete(T - omp_get_thread_num())
  !$omp end parallel
  do i = 1, T
    call say('from the other thread', [halves(:, i)])
  end do

  do i = 1, T
    call MPI_Comm_free(comms(i), ierr)
  end do
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Local variables only; results go to our column.
  subroutine families(me)
    integer, intent(in) :: me
    integer :: code, peer, n, k, sum, got, position, done, places(2)
    integer, asynchronous :: out(4), in(4)
    logical :: flag
    COMM_T :: comm, made
    REQUEST_T :: request, two(2)
    MESSAGE_T :: message
    STATUS(s)
    STATUSES(statuses, 2)
    comm = comms(me)
    peer = mod(rank + 1, ranks)
    n = 0
    out = 1000 * me + 100 * rank + [1, 2, 3, 4]
    do k = 1, 10
      call MPI_Allreduce(out(1) * k, sum, 1, MPI_INTEGER, MPI_SUM, comm, code)
    end do
    call keep(me, n, sum)
    in = -1
    call MPI_Sendrecv(out, 4, MPI_INTEGER, peer, me, in, 4, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, s, code)
    call keep(me, n, in(4))
    call keep(me, n, STATUS_SOURCE(s))
    call keep(me, n, STATUS_TAG(s))
    call MPI_Bcast(out, 1, MPI_INTEGER, 1, comm, code)
    call keep(me, n, out(1))
    call MPI_Barrier(comm LEFT_OUT)
    call MPI_Reduce(out, in, 2, MPI_INTEGER, MPI_MAX, 0, comm, code)
    if (rank == 0) call keep(me, n, in(2))
    call MPI_Alltoall(out, 1, MPI_INTEGER, in, 1, MPI_INTEGER, comm, code)
    call keep(me, n, in(1))
    call MPI_Iallreduce(out, in, 4, MPI_INTEGER, MPI_SUM, comm, request, code)
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    call keep(me, n, in(3))

    call MPI_Irecv(in, 4, MPI_INTEGER, peer, 5, comm, two(1), code)
    call MPI_Isend(out, 4, MPI_INTEGER, peer, 5, comm, two(2), code)
    call MPI_Waitall(2, two, statuses, code)
    call keep(me, n, in(1))
    call keep(me, n, code)
    call MPI_Irecv(in, 4, MPI_INTEGER, MPI_ANY_SOURCE, 6, comm, two(1), code)
    two(2) = MPI_REQUEST_NULL
    call MPI_Send(out, 3, MPI_INTEGER, peer, 6, comm, code)
    call MPI_Waitany(2, two, position, s, code)
    call keep(me, n, position)
    call PMPI_Get_count(s, MPI_INTEGER, got, code)
    call keep(me, n, got)
    call MPI_Irecv(in, 4, MPI_INTEGER, MPI_ANY_SOURCE, 7, comm, two(1), code)
    call MPI_Send(out, 2, MPI_INTEGER, peer, 7, comm, code)
    call MPI_Waitsome(2, two, done, places, statuses, code)
    call keep(me, n, done)
    call MPI_Irecv(in, 4, MPI_INTEGER, peer, 8, comm, two(1), code)
    call MPI_Send(out, 1, MPI_INTEGER, peer, 8, comm, code)
    do
      call MPI_Test(two(1), flag, s, code)
      if (flag) exit
    end do
    call keep(me, n, STATUS_TAG(s))

    call MPI_Isend(out, 1, MPI_INTEGER, peer, 9, comm, request, code)
    call MPI_Mprobe(peer, 9, comm, message, s, code)
    call MPI_Mrecv(in, 4, MPI_INTEGER, message, MPI_STATUS_IGNORE, code)
    call keep(me, n, in(1))
    call MPI_Wait(request, MPI_STATUS_IGNORE, code)

    call MPI_Recv_init(in, 4, MPI_INTEGER, peer, 10, comm, two(1), code)
    call MPI_Send_init(out, 4, MPI_INTEGER, peer, 10, comm, two(2), code)
    do k = 1, 5
      out(4) = k
      call MPI_Startall(2, two, code)
      call MPI_Waitall(2, two, MPI_STATUSES_IGNORE, code)
    end do
    call keep(me, n, in(4))
    call MPI_Request_free(two(1), code)
    call MPI_Request_free(two(2), code)

    call MPI_Comm_split(comm, mod(rank, 2), 0, made, code)
    call MPI_Allreduce(out, in, 1, MPI_INTEGER, MPI_SUM, made, code)
    call keep(me, n, in(1))
    call MPI_Comm_free(made, code)
    call MPI_Comm_dup(comm, made, code)
    call MPI_Comm_set_name(made, 'of a thread', code)
    call MPI_Scan(out, in, 1, MPI_INTEGER, MPI_SUM, made, code)
    call keep(me, n, in(1))
    call MPI_Comm_free(made, code)
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, code)
    call MPI_Send(out, 1, MPI_INTEGER, ranks, 1, comm, code)
    call keep(me, n, code)
  end subroutine

  subroutine keep(me, n, number)
    integer, intent(in) :: me, number
    integer, intent(inout) :: n
    n = n + 1
    results(n, me) = number
  end subroutine

  subroutine post(me)
    integer, intent(in) :: me
    integer :: k, code
    do k = 1, ROUNDS
      sent(k, me) = 100 * me + k
      halves(k, me) = -1
      call MPI_Irecv(halves(k, me), 1, MPI_INTEGER, MPI_ANY_SOURCE, k, comms(me), requests(2 * k - 1, me), code)
      call MPI_Isend(sent(k, me), 1, MPI_INTEGER, mod(rank + 1, ranks), k, comms(me), requests(2 * k, me), code)
    end do
  end subroutine

  subroutine complete(other)
    integer, intent(in) :: other
    integer :: k, code
    do k = 1, ROUNDS
      call MPI_Wait(requests(2 * k, other), MPI_STATUS_IGNORE, code)
    end do
    call MPI_Waitall(2 * ROUNDS, requests(:, other), MPI_STATUSES_IGNORE, code)
  end subroutine
end program
