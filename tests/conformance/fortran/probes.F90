! Probes, plain and matched, blocking and not; receives of matched messages; MPI_MESSAGE_NO_PROC.
! conformance: ranks=3
#include "conformance.inc"

program probes
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, i, numbers(4), peer
  logical :: flag
  COMM_T :: world
  MESSAGE_T :: message
  REQUEST_T :: request
  STATUS(s)

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call begin_transcript
  call clear(s)

  ! Nothing is on its way.
  ierr = UNSET
  flag = .true.
  call MPI_Iprobe(MPI_ANY_SOURCE, 99, world, flag, s, ierr)
  call note('MPI_Iprobe', ierr, [is(flag)])
  flag = .true.
  call MPI_Improbe(MPI_ANY_SOURCE, 99, world, flag, message, s, ierr)
  call note('MPI_Improbe', ierr, [is(flag)])
  call MPI_Barrier(world, ierr)

  if (rank == 0) then
    do peer = 1, ranks - 1
      do i = 1, 4
        call MPI_Send([(10 * peer + i, i = 1, 4)], i, MPI_INTEGER, peer, i, world, ierr)
        call note('MPI_Send', ierr)
      end do
    end do
  else
    ierr = UNSET
    call MPI_Probe(0, 1, world, s, ierr)
    call note_status('MPI_Probe', ierr, s, MPI_INTEGER)
    call MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, MPI_STATUS_IGNORE LEFT_OUT)
    ierr = UNSET
    call receive_plainly(1)

    do
      call MPI_Iprobe(MPI_ANY_SOURCE, 2, world, flag, s, ierr)
      if (flag) exit
    end do
    call say('flag', [is(flag)])
    call note_status('MPI_Iprobe', ierr, s, MPI_INTEGER)
    call MPI_Iprobe(0, 2, world, flag, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Iprobe', ierr, [is(flag)])
    call receive_plainly(2)

    call MPI_Mprobe(MPI_ANY_SOURCE, 3, world, message, s, ierr)
    call say('message', [merge(1, 0, message == MPI_MESSAGE_NULL)])
    call note_status('MPI_Mprobe', ierr, s, MPI_INTEGER)
    numbers = -1
    call MPI_Mrecv(numbers, 4, MPI_INTEGER, message, s, ierr)
    call note_status('MPI_Mrecv', ierr, s, MPI_INTEGER)
    call say('numbers', [numbers, merge(1, 0, message == MPI_MESSAGE_NULL)])

    do
      call MPI_Improbe(0, MPI_ANY_TAG, world, flag, message, s, ierr)
      if (flag) exit
    end do
    call say('flag', [is(flag)])
    call note_status('MPI_Improbe', ierr, s, MPI_INTEGER)
    numbers = -1
    call MPI_Imrecv(numbers, 4, MPI_INTEGER, message, request, ierr)
    call note('MPI_Imrecv', ierr, [merge(1, 0, message == MPI_MESSAGE_NULL)])
    call MPI_Wait(request, s, ierr)
    call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
    call say('numbers', numbers)
  end if

  call statuses_ignored
  call from_nobody
  call write_calls
  call MPI_Finalize(ierr)

contains

  subroutine receive_plainly(tag)
    integer, intent(in) :: tag
    numbers = -1
    call MPI_Recv(numbers, 4, MPI_INTEGER, 0, tag, world, s, ierr)
    call note_status('MPI_Recv', ierr, s, MPI_INTEGER)
    call say('numbers', numbers)
  end subroutine

  ! To oneself, so that what is probed for is there.
  subroutine statuses_ignored
    integer, asynchronous :: one, two
    REQUEST_T :: sends(2)
    one = rank
    call MPI_Isend(one, 1, MPI_INTEGER, 0, 5, MPI_COMM_SELF, sends(1), ierr)
    call MPI_Isend(one, 1, MPI_INTEGER, 0, 6, MPI_COMM_SELF, sends(2), ierr)
    ierr = UNSET
    call MPI_Mprobe(0, 5, MPI_COMM_SELF, message, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Mprobe', ierr)
    two = -1
    call MPI_Mrecv(two, 1, MPI_INTEGER, message, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Mrecv', ierr, [two])
    call MPI_Improbe(0, 6, MPI_COMM_SELF, flag, message, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Improbe', ierr, [is(flag)])
    two = -1
    call MPI_Mrecv(two, 1, MPI_INTEGER, message, MPI_STATUS_IGNORE LEFT_OUT)
    call say('two', [two])
    call MPI_Waitall(2, sends, MPI_STATUSES_IGNORE LEFT_OUT)
    ierr = UNSET
  end subroutine

  subroutine from_nobody
    call MPI_Probe(MPI_PROC_NULL, 1, world, s, ierr)
    call note_status('MPI_Probe of nobody', ierr, s, MPI_INTEGER)
    flag = .false.
    call MPI_Iprobe(MPI_PROC_NULL, 1, world, flag, s, ierr)
    call say('flag', [is(flag)])
    call note_status('MPI_Iprobe of nobody', ierr, s, MPI_INTEGER)
    call MPI_Mprobe(MPI_PROC_NULL, 1, world, message, s, ierr)
    call say('message', [merge(1, 0, message == MPI_MESSAGE_NO_PROC)])
    call note_status('MPI_Mprobe of nobody', ierr, s, MPI_INTEGER)
    call MPI_Mrecv(numbers, 4, MPI_INTEGER, message, s, ierr)
    call say('message', [merge(1, 0, message == MPI_MESSAGE_NULL)])
    call note_status('MPI_Mrecv from nobody', ierr, s, MPI_INTEGER)
    flag = .false.
    call MPI_Improbe(MPI_PROC_NULL, 1, world, flag, message, s, ierr)
    call say('flag', [is(flag)])
    call note_status('MPI_Improbe of nobody', ierr, s, MPI_INTEGER)
    call MPI_Imrecv(numbers, 4, MPI_INTEGER, message, request, ierr)
    call note('MPI_Imrecv from nobody', ierr)
    call MPI_Wait(request, s, ierr)
    call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
  end subroutine

#include "note_status.inc"
end program
