! Persistent requests: every mode made, started singly and together, several times, completed by waits and tests, freed idle and active, to and
! from MPI_PROC_NULL.
! conformance: ranks=3
#include "conformance.inc"

program persistent
  USE_MPI
  use, intrinsic :: iso_c_binding, only: c_ptr
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, left, right, ierr, i, round
  COMM_T :: world
  integer, asynchronous :: out(4), in(4, 4), idle(2)
  integer :: room(1000), bytes
  REQUEST_T :: requests(8)
  STATUS(s)
  STATUSES(statuses, 8)
  logical :: flag
#if defined(BINDING_F08)
  type(c_ptr) :: detached
#else
  integer :: detached(2)
#endif

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call begin_transcript
  left = mod(rank + ranks - 1, ranks)
  right = mod(rank + 1, ranks)
  call MPI_Buffer_attach(room, 4000, ierr)
  call clear(s)
  do i = 1, 8
    call clear(STATUS_AT(statuses, i))
  end do

  ierr = UNSET
  do i = 1, 4
    call MPI_Recv_init(in(1, i), 4, MPI_INTEGER, left, i, world, requests(i), ierr)
    call note('MPI_Recv_init', ierr)
  end do
  call MPI_Send_init(out, 4, MPI_INTEGER, right, 1, world, requests(5), ierr)
  call note('MPI_Send_init', ierr)
  call MPI_Ssend_init(out, 3, MPI_INTEGER, right, 2, world, requests(6), ierr)
  call note('MPI_Ssend_init', ierr)
  call MPI_Bsend_init(out, 2, MPI_INTEGER, right, 3, world, requests(7), ierr)
  call note('MPI_Bsend_init', ierr)
  call MPI_Rsend_init(out, 1, MPI_INTEGER, right, 4, world, requests(8), ierr)
  call note('MPI_Rsend_init', ierr)

  ! Inactive requests are complete, with an empty status.
  call MPI_Wait(requests(1), s, ierr)
  call note_status('MPI_Wait of an idle request', ierr, s, MPI_INTEGER)
  flag = .false.
  call MPI_Test(requests(5), flag, s, ierr)
  call say('flag', [is(flag)])
  call note_status('MPI_Test of an idle request', ierr, s, MPI_INTEGER)

  do round = 1, 3
    out = 100 * rank + 10 * round + [1, 2, 3, 4]
    in = -1
    call MPI_Startall(4, requests(1:4), ierr)
    call note('MPI_Startall', ierr)
    call MPI_Barrier(world, ierr)  ! for the ready send
    if (round == 2) then
      call MPI_Startall(4, requests(5:8), ierr)
      call note('MPI_Startall', ierr)
    else
      ierr = UNSET
      do i = 5, 7
        call MPI_Start(requests(i), ierr)
        call note('MPI_Start', ierr)
      end do
      call MPI_Start(requests(8) LEFT_OUT)
      ierr = UNSET
    end if
    if (round == 3) then
      do i = 8, 1, -1
        call MPI_Wait(requests(i), s, ierr)
        if (i <= 4) then
          call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
        else
          call note('MPI_Wait', ierr)
        end if
      end do
    else
      call MPI_Waitall(8, requests, statuses, ierr)
      call note('MPI_Waitall', ierr)
      do i = 1, 4
        call note_status('status', ierr, STATUS_AT(statuses, i), MPI_INTEGER)
      end do
    end if
    call say('in', reshape(in, [16]))
    call say('still there', [(merge(1, 0, requests(i) == MPI_REQUEST_NULL), i = 1, 8)])
  end do

  ! Freed idle, and a send freed while it is active.
  do i = 1, 8
    if (i == 1 .or. i == 5) cycle
    call MPI_Request_free(requests(i), ierr)
    call note('MPI_Request_free', ierr, [merge(1, 0, requests(i) == MPI_REQUEST_NULL)])
  end do
  in = -1
  call MPI_Start(requests(1), ierr)
  call MPI_Start(requests(5), ierr)
  call note('MPI_Start', ierr)
  call MPI_Request_free(requests(5), ierr)
  call note('MPI_Request_free of an active request', ierr, [merge(1, 0, requests(5) == MPI_REQUEST_NULL)])
  call MPI_Wait(requests(1), s, ierr)
  call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
  call say('in', in(:, 1))
  call MPI_Barrier(world, ierr)
  call MPI_Request_free(requests(1) LEFT_OUT)

  ! With nobody.
  ierr = UNSET
  call MPI_Send_init(idle, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, requests(1), ierr)
  call note('MPI_Send_init to nobody', ierr)
  call MPI_Recv_init(idle, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, requests(2), ierr)
  call note('MPI_Recv_init from nobody', ierr)
  call MPI_Startall(2, requests, ierr)
  call note('MPI_Startall', ierr)
  call MPI_Wait(requests(2), s, ierr)
  call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
  call note('MPI_Wait', ierr)
  call MPI_Request_free(requests(1), ierr)
  call MPI_Request_free(requests(2), ierr)
  call note('MPI_Request_free', ierr)

  call MPI_Buffer_detach(detached, bytes, ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

#include "note_status.inc"
end program
