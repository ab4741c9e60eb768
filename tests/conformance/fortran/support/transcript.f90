! What a conformance program saw, line by line, in $CONFORMANCE_OUT/[PREFIX-]RANK.THREAD, and how often it called what, in RANK.calls: the
! independent count that the recorded profile is compared with. Each line is on disk before the next call is made, so that a job that is
! aborted leaves what it saw.
module transcript
  use, intrinsic :: iso_c_binding, only: c_int, c_char, c_null_char
  implicit none
  private
  public :: begin_transcript, note, say, is, count_call, write_calls, set_for_open_mpi, UNSET

  ! Error codes and status fields hold this before a call, so that one that is not written, or is written where MPI says it is not, shows.
  integer, parameter :: UNSET = -777

  integer :: unit = -1
  character(4096) :: stem = ''

  integer :: called = 0
  character(40) :: names(400)
  integer :: calls(400) = 0

  interface note
    module procedure note_code, note_numbers, note_reals
  end interface

  interface say
    module procedure say_numbers, say_text
  end interface

contains

  ! May be called before MPI_Init. A prefix tells the processes of a spawned job from ours.
  subroutine begin_transcript(prefix)
    character(*), intent(in), optional :: prefix
    character(4096) :: folder
    character(16) :: rank
    integer :: length
    call get_environment_variable('CONFORMANCE_OUT', folder, length)
    if (length == 0) folder = '.'
    call get_environment_variable('OMPI_COMM_WORLD_RANK', rank, length)
    if (length == 0) call get_environment_variable('PMI_RANK', rank, length)
    if (length == 0) rank = '0'
    stem = trim(folder) // '/'
    if (present(prefix)) stem = trim(stem) // prefix // '-'
    stem = trim(stem) // rank
    open (newunit=unit, file=trim(stem) // '.0', status='replace', action='write')
  end subroutine

  ! A call and what it returned: its error code, then numbers. The code is unset again, for the next call.
  subroutine note_code(call, code)
    character(*), intent(in) :: call
    integer, intent(inout) :: code
    write (unit, '(a, " =", 1x, i0)') call, code
    flush (unit)
    code = UNSET
  end subroutine

  subroutine note_numbers(call, code, numbers)
    character(*), intent(in) :: call
    integer, intent(inout) :: code
    integer, intent(in) :: numbers(:)
    write (unit, '(a, " =", 1x, i0, " :", *(1x, i0))') call, code, numbers
    flush (unit)
    code = UNSET
  end subroutine

  subroutine note_reals(call, code, numbers)
    character(*), intent(in) :: call
    integer, intent(inout) :: code
    double precision, intent(in) :: numbers(:)
    write (unit, '(a, " =", 1x, i0, " :", *(1x, es23.16))') call, code, numbers
    flush (unit)
    code = UNSET
  end subroutine

  ! What else is worth comparing.
  subroutine say_numbers(what, numbers)
    character(*), intent(in) :: what
    integer, intent(in) :: numbers(:)
    write (unit, '(a, " :", *(1x, i0))') what, numbers
    flush (unit)
  end subroutine

  subroutine say_text(what, text)
    character(*), intent(in) :: what, text
    write (unit, '(a, " : [", a, "]")') what, text
    flush (unit)
  end subroutine

  ! The bits of a logical: a flag must hold what gfortran takes for .true., not just something that is not 0.
  integer function is(flag)
    logical, intent(in) :: flag
    is = transfer(flag, 0)
  end function

  ! Put in front of every `call MPI_...` by insert_counts.py.
  subroutine count_call(name)
    character(*), intent(in) :: name
    integer :: i
    !$omp critical (counting)
    do i = 1, called
      if (names(i) == name) exit
    end do
    if (i > called) then
      called = i
      names(i) = name
    end if
    calls(i) = calls(i) + 1
    !$omp end critical (counting)
  end subroutine

  ! When nothing but `last` (MPI_Finalize, as a rule) remains to be called and to return, which is counted too.
  subroutine write_calls(last)
    character(*), intent(in), optional :: last
    integer :: file, i
    if (.not. present(last)) then
      call count_call('MPI_Finalize')
    else
      call count_call(last)
    end if
    open (newunit=file, file=trim(stem) // '.calls', status='replace', action='write')
    do i = 1, called
      write (file, '(a, 1x, i0)') trim(names(i)), calls(i)
    end do
    close (file)
  end subroutine

  ! To be called before MPI_Init.
  subroutine set_for_open_mpi(parameter, value)
    character(*), intent(in) :: parameter, value
    interface
      integer(c_int) function setenv(name, value, overwrite) bind(c)
        import
        character(kind=c_char), intent(in) :: name(*), value(*)
        integer(c_int), value :: overwrite
      end function
    end interface
    if (setenv('OMPI_MCA_' // parameter // c_null_char, value // c_null_char, 1_c_int) /= 0) error stop 'setenv'
  end subroutine
end module
