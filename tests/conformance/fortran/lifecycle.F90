! Beginning and end: MPI_Init and MPI_Init_thread, what they answer before, between and after; MPI_Pcontrol; MPI_Abort; a program
! that stops without MPI_Finalize.
! conformance: ranks=2 cases=init:0,funneled:0,multiple:0,abort:7,stop:5
#include "conformance.inc"

program lifecycle
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, provided, level, sum
  logical :: flag
  character(16) :: what

  call get_command_argument(1, what)
  call begin_transcript
  ierr = UNSET
  call ask('before')
  provided = UNSET
  select case (what)
  case ('init')
    call MPI_Init(ierr)
    call note('MPI_Init', ierr)
  case ('abort', 'stop')
    call MPI_Init(LEFT_OUT_FIRST)
  case ('funneled')
    call begin(MPI_THREAD_FUNNELED)
  case ('multiple')
    call begin(MPI_THREAD_MULTIPLE)
  end select
  ierr = UNSET
  call ask('between')
  call MPI_Query_thread(level, ierr)
  call note('MPI_Query_thread', ierr, [level])
  call MPI_Is_thread_main(flag, ierr)
  call note('MPI_Is_thread_main', ierr, [is(flag)])

  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call MPI_Allreduce(rank + 1, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call note('MPI_Allreduce', ierr, [rank, ranks, sum])
  call MPI_Pcontrol(1)
  call MPI_Pcontrol(0)
  call say('MPI_Pcontrol', [0])

  ! One ends when all have written what they saw and called: the launcher kills the other at once, wherever it is then.
  if (what == 'abort' .or. what == 'stop') then
    call write_calls('MPI_Barrier')
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    if (rank == 1 .and. what == 'stop') stop 5
    if (rank == 1) then
      call MPI_Abort(MPI_COMM_WORLD, 7, ierr)
    end if
    call MPI_Recv(sum, 1, MPI_INTEGER, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call say('MPI_Recv returned', [1])
  end if

  call write_calls
  if (what == 'multiple') then
    call MPI_Finalize(LEFT_OUT_FIRST)
  else
    ierr = UNSET
    call MPI_Finalize(ierr)
    call note('MPI_Finalize', ierr)
  end if
  call ask('after')

contains

  subroutine begin(wanted)
    integer, intent(in) :: wanted
    call MPI_Init_thread(wanted, provided, ierr)
    call note('MPI_Init_thread', ierr, [wanted, provided])
  end subroutine

  subroutine ask(when)
    character(*), intent(in) :: when
    logical :: finalized
    call MPI_Initialized(flag, ierr)
    call note('MPI_Initialized ' // when, ierr, [is(flag)])
    call MPI_Finalized(finalized, ierr)
    call note('MPI_Finalized ' // when, ierr, [is(finalized)])
  end subroutine
end program
