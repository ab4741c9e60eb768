! One-sided communication that the target takes no part in: locks of one and of all, flushes, requests of operations, sync. One rank at a time
! where the order would show.
! conformance: ranks=3
#include "conformance.inc"

program rma_passive
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer, parameter :: N = 8
  integer :: rank, ranks, right, ierr, i, turn
  integer, asynchronous :: memory(N), out(N), in(N)
  integer(MPI_ADDRESS_KIND) :: zero, bytes
  COMM_T :: world
  WIN_T :: win

  call begin_transcript
  call set_for_open_mpi('osc', 'sm,pt2pt')  ! without direct copies between processes its default has no windows of our memory
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  right = mod(rank + 1, ranks)
  zero = 0
  bytes = 4 * N
  ierr = UNSET

  memory = [(100 * rank + i, i = 1, N)]
  call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, world, win, ierr)
  call note('MPI_Win_create', ierr)
  call locks
  call locks_of_all
  call requests_of_operations
  call MPI_Win_free(win, ierr)
  call note('MPI_Win_free', ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Everybody has seen what everybody did.
  subroutine agree(what)
    character(*), intent(in) :: what
    call MPI_Barrier(world, ierr)
    call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win, ierr)
    call MPI_Win_sync(win, ierr)
    call note('MPI_Win_sync', ierr)
    call say(what, memory)
    call MPI_Win_unlock(rank, win, ierr)
    call MPI_Barrier(world, ierr)
    ierr = UNSET
  end subroutine

  subroutine locks
    out = [(1000 * rank + i, i = 1, N)]
    in = -1
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win, ierr)
    call note('MPI_Win_lock', ierr)
    call MPI_Put(out, 2, MPI_INTEGER, right, zero, 2, MPI_INTEGER, win, ierr)
    call note('MPI_Put', ierr)
    call MPI_Win_flush(right, win, ierr)
    call note('MPI_Win_flush', ierr)
    call MPI_Get(in, 4, MPI_INTEGER, right, zero, 4, MPI_INTEGER, win, ierr)
    call note('MPI_Get', ierr)
    call MPI_Win_flush_local(right, win, ierr)
    call note('MPI_Win_flush_local', ierr, in)
    call MPI_Win_unlock(right, win, ierr)
    call note('MPI_Win_unlock', ierr)
    call agree('put')
    ! A counter on rank 0: each takes its number in turn.
    do turn = 0, ranks - 1
      if (turn == rank) then
        call MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, win, ierr)
        call note('MPI_Win_lock', ierr)
        call MPI_Fetch_and_op(rank + 1, in, MPI_INTEGER, 0, zero + 4, MPI_SUM, win, ierr)
        call note('MPI_Fetch_and_op', ierr)
        call MPI_Win_flush(0, win LEFT_OUT)
        call MPI_Compare_and_swap(-1, in(1) + rank + 1, in(2), MPI_INTEGER, 0, zero + 4, win, ierr)
        call note('MPI_Compare_and_swap', ierr)
        call MPI_Win_unlock(0, win, ierr)
        call note('MPI_Win_unlock', ierr, in(1:2))
      end if
      call MPI_Barrier(world, ierr)
    end do
    call agree('numbers')
  end subroutine

  subroutine locks_of_all
    call MPI_Win_lock_all(0, win, ierr)
    call note('MPI_Win_lock_all', ierr)
    call MPI_Accumulate([(i, i = 1, N)], N, MPI_INTEGER, 0, zero, N, MPI_INTEGER, MPI_SUM, win, ierr)
    call note('MPI_Accumulate', ierr)
    call MPI_Win_flush_local_all(win, ierr)
    call note('MPI_Win_flush_local_all', ierr)
    call MPI_Win_flush_all(win, ierr)
    call note('MPI_Win_flush_all', ierr)
    call MPI_Win_unlock_all(win, ierr)
    call note('MPI_Win_unlock_all', ierr)
    call agree('sums')
  end subroutine

  subroutine requests_of_operations
    REQUEST_T :: requests(4)
    out = [(10 * rank + i, i = 1, N)]
    in = -1
    call MPI_Win_lock_all(MPI_MODE_NOCHECK, win, ierr)
    call note('MPI_Win_lock_all', ierr)
    call MPI_Rput(out, 2, MPI_INTEGER, right, zero, 2, MPI_INTEGER, win, requests(1), ierr)
    call note('MPI_Rput', ierr)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, [merge(1, 0, requests(1) == MPI_REQUEST_NULL)])
    call MPI_Win_flush(right, win, ierr)
    call MPI_Rget(in, 2, MPI_INTEGER, right, zero, 2, MPI_INTEGER, win, requests(1), ierr)
    call note('MPI_Rget', ierr)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, in(1:2))
    call MPI_Raccumulate(out, 2, MPI_INTEGER, right, zero + 2, 2, MPI_INTEGER, MPI_SUM, win, requests(1), ierr)
    call note('MPI_Raccumulate', ierr)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE LEFT_OUT)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Rget_accumulate(out, 2, MPI_INTEGER, in(3), 2, MPI_INTEGER, right, zero + 2, 2, MPI_INTEGER, MPI_MAX, win, requests(1), ierr)
    call note('MPI_Rget_accumulate', ierr)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, in(1:4))
    ! Four at once, to different places.
    call MPI_Rput(out, 1, MPI_INTEGER, right, zero + 4, 1, MPI_INTEGER, win, requests(1), ierr)
    call MPI_Rput(out(2), 1, MPI_INTEGER, right, zero + 5, 1, MPI_INTEGER, win, requests(2), ierr)
    call MPI_Raccumulate(out(3), 1, MPI_INTEGER, right, zero + 6, 1, MPI_INTEGER, MPI_REPLACE, win, requests(3), ierr)
    call MPI_Rget(in(5), 1, MPI_INTEGER, right, zero + 7, 1, MPI_INTEGER, win, requests(4), ierr)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierr)
    call note('MPI_Waitall', ierr, in(5:5))
    call MPI_Win_unlock_all(win, ierr)
    call note('MPI_Win_unlock_all', ierr)
    call agree('requests')
  end subroutine
end program
