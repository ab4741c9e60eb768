! Files: every way to read and write (at offsets, individual and shared pointers, collective or not, split, non-blocking), views, sizes, names
! with blanks around them, errors of files.
! The size right behind MPI_File_preallocate was 1200 bytes instead of 800 once, without the library.
! conformance: ranks=3 unsteady=openmpi
#include "conformance.inc"

program io
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer, parameter :: N = 4
  character(*), parameter :: NAME = ' io.data  '
  integer :: rank, ranks, ierr, i
  integer, asynchronous :: out(N), in(N)
  integer(MPI_OFFSET_KIND) :: zero, mine  ! in units of the view: integers
  COMM_T :: world
  FILE_T :: file
  REQUEST_T :: request
  STATUS(s)

  call begin_transcript
  call set_for_open_mpi('fcoll', 'two_phase')  ! its default (vulcan) crashes now and then in collective writes as small as ours
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  zero = 0
  mine = N * rank
  call clear(s)
  ierr = UNSET

  call open_and_look
  call offsets
  call individual_pointers
  call split_collectives
  call shared_pointers
  call errors
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! What a write or read says; a read also what it read. For its status only the count: Open MPI's files write nothing else, and give Fortran
  ! what lies on the stack there.
  subroutine wrote(call)
    character(*), intent(in) :: call
    integer :: elements
    call PMPI_Get_count(s, MPI_INTEGER, elements, i)
    call note(call, ierr, [elements])
    call clear(s)
  end subroutine

  subroutine did_read(call)
    character(*), intent(in) :: call
    call wrote(call)
    call say(call, in)
    in = -1
  end subroutine

  subroutine did_post(call)
    character(*), intent(in) :: call
    call note(call, ierr)
    call MPI_Wait(request, s, ierr)
    call wrote('MPI_Wait')
    call say(call, in)
    in = -1
  end subroutine

  subroutine fresh(round)
    integer, intent(in) :: round
    out = [(1000 * round + 100 * rank + i, i = 1, N)]
    in = -1
  end subroutine

  subroutine settle
    call MPI_File_sync(file, ierr)
    call MPI_Barrier(world, ierr)
    ierr = UNSET
  end subroutine

  subroutine open_and_look
    integer(MPI_OFFSET_KIND) :: size_bytes, offset
    integer(MPI_ADDRESS_KIND) :: extent
    integer :: mode, members
    character(64) :: representation
    DATATYPE_T :: etype, filetype
    GROUP_T :: group
    INFO_T :: info
    call MPI_File_open(world, NAME, MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, file, ierr)
    call note('MPI_File_open', ierr)
    call MPI_File_get_amode(file, mode, ierr)
    call note('MPI_File_get_amode', ierr, [mode])
    call MPI_File_get_group(file, group, ierr)
    call MPI_Group_size(group, members, ierr)
    call note('MPI_File_get_group', ierr, [members])
    call MPI_Group_free(group, ierr)
    call MPI_File_set_size(file, int(400, MPI_OFFSET_KIND), ierr)
    call note('MPI_File_set_size', ierr)
    call MPI_File_preallocate(file, int(800, MPI_OFFSET_KIND), ierr)
    call note('MPI_File_preallocate', ierr)
    call MPI_File_get_size(file, size_bytes, ierr)
    call note('MPI_File_get_size', ierr, [int(size_bytes)])
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, 'access_style', 'write_once', ierr)
    call MPI_File_set_info(file, info, ierr)
    call note('MPI_File_set_info', ierr)
    call MPI_Info_free(info, ierr)
    call MPI_File_get_info(file, info, ierr)
    call note('MPI_File_get_info', ierr, [merge(1, 0, info == MPI_INFO_NULL)])
    call MPI_Info_free(info, ierr)
    call MPI_File_set_view(file, zero, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierr)
    call note('MPI_File_set_view', ierr)
    representation = ''
    call MPI_File_get_view(file, offset, etype, filetype, representation, ierr)
    call note('MPI_File_get_view', ierr, [int(offset)])
    call say('representation', trim(representation))
    call MPI_File_get_type_extent(file, MPI_INTEGER, extent, ierr)
    call note('MPI_File_get_type_extent', ierr, [int(extent)])
  end subroutine

  subroutine offsets
    call fresh(1)
    call MPI_File_write_at(file, mine, out, N, MPI_INTEGER, s, ierr)
    call wrote('MPI_File_write_at')
    call settle
    call MPI_File_read_at(file, mine + 1, in, 3, MPI_INTEGER, s, ierr)
    call did_read('MPI_File_read_at')
    call fresh(2)
    call MPI_File_write_at_all(file, mine, out, N, MPI_INTEGER, s, ierr)
    call wrote('MPI_File_write_at_all')
    call settle
    call MPI_File_read_at_all(file, mod(mine + N, int(N * ranks, MPI_OFFSET_KIND)), in, N, MPI_INTEGER, s, ierr)
    call did_read('MPI_File_read_at_all')
    call MPI_File_read_at(file, mine, in, N, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
    call note('MPI_File_read_at', ierr, in)
    call fresh(3)
    call MPI_File_iwrite_at(file, mine, out, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iwrite_at')
    call settle
    call MPI_File_iread_at(file, mine, in, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iread_at')
    call fresh(4)
    call MPI_File_iwrite_at_all(file, mine, out, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iwrite_at_all')
    call settle
    call MPI_File_iread_at_all(file, mine, in, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iread_at_all')
    call settle
    call fresh(5)
    call MPI_File_write_at_all_begin(file, mine, out, N, MPI_INTEGER, ierr)
    call note('MPI_File_write_at_all_begin', ierr)
    call MPI_File_write_at_all_end(file, out, s, ierr)
    call wrote('MPI_File_write_at_all_end')
    call settle
    call MPI_File_read_at_all_begin(file, mine, in, N, MPI_INTEGER, ierr)
    call note('MPI_File_read_at_all_begin', ierr)
    call MPI_File_read_at_all_end(file, in, s, ierr)
    call did_read('MPI_File_read_at_all_end')
    call settle
  end subroutine

  ! To our own part of the file.
  subroutine go
    call MPI_File_seek(file, mine, MPI_SEEK_SET, ierr)
    call note('MPI_File_seek', ierr)
  end subroutine

  subroutine individual_pointers
    integer(MPI_OFFSET_KIND) :: position, place
    call go
    call fresh(6)
    call MPI_File_write(file, out, N, MPI_INTEGER, s, ierr)
    call wrote('MPI_File_write')
    call MPI_File_get_position(file, position, ierr)
    call MPI_File_get_byte_offset(file, position, place, ierr)
    call note('MPI_File_get_byte_offset', ierr, [int(position), int(place)])
    call settle
    call MPI_File_seek(file, zero - 1, MPI_SEEK_CUR, ierr)
    call note('MPI_File_seek', ierr)
    call go
    call MPI_File_read(file, in, N, MPI_INTEGER, s, ierr)
    call did_read('MPI_File_read')
    call go
    call fresh(7)
    call MPI_File_write_all(file, out, N, MPI_INTEGER, s, ierr)
    call wrote('MPI_File_write_all')
    call settle
    call go
    call MPI_File_read_all(file, in, N, MPI_INTEGER, s, ierr)
    call did_read('MPI_File_read_all')
    call settle
    call go
    call fresh(8)
    call MPI_File_iwrite(file, out, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iwrite')
    call settle
    call go
    call MPI_File_iread(file, in, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iread')
    call settle
    call go
    call fresh(9)
    call MPI_File_iwrite_all(file, out, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iwrite_all')
    call settle
    call go
    call MPI_File_iread_all(file, in, N, MPI_INTEGER, request, ierr)
    call did_post('MPI_File_iread_all')
    call settle
  end subroutine

  subroutine split_collectives
    call go
    call fresh(10)
    call MPI_File_write_all_begin(file, out, N, MPI_INTEGER, ierr)
    call note('MPI_File_write_all_begin', ierr)
    call MPI_File_write_all_end(file, out, s, ierr)
    call wrote('MPI_File_write_all_end')
    call settle
    call go
    call MPI_File_read_all_begin(file, in, N, MPI_INTEGER, ierr)
    call note('MPI_File_read_all_begin', ierr)
    call MPI_File_read_all_end(file, in, MPI_STATUS_IGNORE LEFT_OUT)
    call say('in', in)
    ierr = UNSET
    call settle
  end subroutine

  ! The pointer that all ranks share. Only one rank at a time where the order would show.
  subroutine shared_pointers
    integer(MPI_OFFSET_KIND) :: position
    integer :: turn
    call rewind_shared
    call fresh(11)
    do turn = 0, ranks - 1
      if (turn == rank) then
        call MPI_File_write_shared(file, out, 2, MPI_INTEGER, s, ierr)
        call wrote('MPI_File_write_shared')
        call MPI_File_iwrite_shared(file, out(3), 2, MPI_INTEGER, request, ierr)
        call did_post('MPI_File_iwrite_shared')
      end if
      call settle
    end do
    call MPI_File_get_position_shared(file, position, ierr)
    call note('MPI_File_get_position_shared', ierr, [int(position)])
    call rewind_shared
    do turn = ranks - 1, 0, -1
      if (turn == rank) then
        call MPI_File_read_shared(file, in, 2, MPI_INTEGER, s, ierr)
        call did_read('MPI_File_read_shared')
        call MPI_File_iread_shared(file, in, 2, MPI_INTEGER, request, ierr)
        call did_post('MPI_File_iread_shared')
      end if
      call settle
    end do
    call rewind_shared
    call fresh(12)
    call MPI_File_write_ordered(file, out, rank + 1, MPI_INTEGER, s, ierr)
    call wrote('MPI_File_write_ordered')
    call settle
    call rewind_shared
    call MPI_File_read_ordered(file, in, 2, MPI_INTEGER, s, ierr)
    call did_read('MPI_File_read_ordered')
    call rewind_shared
    call fresh(13)
    call MPI_File_write_ordered_begin(file, out, 2, MPI_INTEGER, ierr)
    call note('MPI_File_write_ordered_begin', ierr)
    call MPI_File_write_ordered_end(file, out, s, ierr)
    call wrote('MPI_File_write_ordered_end')
    call settle
    call rewind_shared
    call MPI_File_read_ordered_begin(file, in, 2, MPI_INTEGER, ierr)
    call note('MPI_File_read_ordered_begin', ierr)
    call MPI_File_read_ordered_end(file, in, s, ierr)
    call did_read('MPI_File_read_ordered_end')
    call MPI_File_close(file, ierr)
    call note('MPI_File_close', ierr, [merge(1, 0, file == MPI_FILE_NULL)])
  end subroutine

  subroutine rewind_shared
    call MPI_Barrier(world, ierr)
    call MPI_File_seek_shared(file, zero, MPI_SEEK_SET, ierr)
    call note('MPI_File_seek_shared', ierr)
  end subroutine

  ! Files return their errors unless told otherwise.
  subroutine errors
    integer :: class
    logical :: flag
    call MPI_File_open(MPI_COMM_SELF, 'no/such/folder/file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
    call MPI_Error_class(ierr, class, i)
    call note('MPI_File_open of nothing', ierr, [class])
    call MPI_File_open(MPI_COMM_SELF, NAME, MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
    call note('MPI_File_open', ierr)
    call MPI_File_set_atomicity(file, .true., ierr)  ! not before: Open MPI fails at random where ranks share the file
    call note('MPI_File_set_atomicity', ierr)
    call MPI_File_get_atomicity(file, flag, ierr)
    call note('MPI_File_get_atomicity', ierr, [is(flag)])
    call MPI_File_set_atomicity(file, .false. LEFT_OUT)
    ierr = UNSET
    call MPI_File_write_at(file, zero, out, 1, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
    call MPI_Error_class(ierr, class, i)
    call note('MPI_File_write_at of a file to read', ierr, [class])
    call MPI_File_read_at(file, int(100000, MPI_OFFSET_KIND), in, 2, MPI_INTEGER, s, ierr)
    call did_read('MPI_File_read_at beyond the end')
    call MPI_File_close(file, ierr)
    call note('MPI_File_close', ierr)
    call MPI_Barrier(world, ierr)
    ierr = UNSET
    if (rank == 0) then
      call MPI_File_delete(NAME, MPI_INFO_NULL, ierr)
      call note('MPI_File_delete', ierr)
      call MPI_File_delete(NAME, MPI_INFO_NULL, ierr)
      call MPI_Error_class(ierr, class, i)
      call note('MPI_File_delete of nothing', ierr, [class])
    end if
  end subroutine

#include "note_status.inc"
end program
