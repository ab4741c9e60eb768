! Dynamic processes: spawned jobs of one and of several programs, who their parent is; ports and names, connect and accept between ranks;
! a communicator from a socket. Spawned processes run this program too, with an argument that says so.
! conformance: ranks=2 unsteady=openmpi
#include "conformance.inc"

program dynamic
  USE_MPI
  use, intrinsic :: iso_c_binding
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, i
  character(16) :: role
  character(1024) :: self
  COMM_T :: world, inter, both
  STATUS(s)

  interface
    integer(c_int) function socket(domain, kind, protocol) bind(c)
      import
      integer(c_int), value :: domain, kind, protocol
    end function
    integer(c_int) function bind_socket(fd, address, length) bind(c, name='bind')
      import
      integer(c_int), value :: fd, length
      integer(c_int) :: address(4)
    end function
    integer(c_int) function listen_socket(fd, backlog) bind(c, name='listen')
      import
      integer(c_int), value :: fd, backlog
    end function
    integer(c_int) function name_of_socket(fd, address, length) bind(c, name='getsockname')
      import
      integer(c_int), value :: fd
      integer(c_int) :: address(4), length
    end function
    integer(c_int) function accept_socket(fd, address, length) bind(c, name='accept')
      import
      integer(c_int), value :: fd
      type(c_ptr), value :: address, length
    end function
    integer(c_int) function connect_socket(fd, address, length) bind(c, name='connect')
      import
      integer(c_int), value :: fd, length
      integer(c_int) :: address(4)
    end function
    integer(c_int) function close_socket(fd) bind(c, name='close')
      import
      integer(c_int), value :: fd
    end function
  end interface

  call get_command_argument(0, self)
  call get_command_argument(1, role)
  if (role == '') then
    call begin_transcript
  else
    call begin_transcript(trim(role))
  end if
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call clear(s)
  ierr = UNSET
  call MPI_Comm_get_parent(inter, ierr)
  call note('MPI_Comm_get_parent', ierr, [merge(1, 0, inter == MPI_COMM_NULL), rank, ranks])
  if (role == '') then
    call spawn
    call spawn_multiple
    call ports
    call names
    call join
  else
    do i = 1, command_argument_count()
      call get_command_argument(i, role)
      call say('argument', trim(role))
    end do
    call talk
  end if
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Between a job and the one that spawned it.
  subroutine talk
    integer :: there, numbers(2), sum
    call MPI_Comm_remote_size(inter, there, ierr)
    call note('MPI_Comm_remote_size', ierr, [there])
    call MPI_Barrier(inter, ierr)
    call note('MPI_Barrier', ierr)
    call MPI_Allreduce(10**rank, sum, 1, MPI_INTEGER, MPI_SUM, inter, ierr)
    call note('MPI_Allreduce', ierr, [sum])
    if (rank == 0) then
      call MPI_Sendrecv([there, 7], 2, MPI_INTEGER, 0, 1, numbers, 2, MPI_INTEGER, 0, 1, inter, s, ierr)
      call note_status('MPI_Sendrecv', ierr, s, MPI_INTEGER)
      call say('numbers', numbers)
    end if
    call MPI_Intercomm_merge(inter, role /= '', both, ierr)
    call note('MPI_Intercomm_merge', ierr)
    call MPI_Allreduce(1, sum, 1, MPI_INTEGER, MPI_SUM, both, ierr)
    call note('MPI_Allreduce', ierr, [sum])
    call MPI_Comm_free(both, ierr)
    call MPI_Comm_disconnect(inter, ierr)
    call note('MPI_Comm_disconnect', ierr, [merge(1, 0, inter == MPI_COMM_NULL)])
  end subroutine

  subroutine spawn
    integer :: codes(2)
    character(16) :: arguments(3)
    arguments = [character(16) :: 'child', 'and a blank', '']
    codes = UNSET
    call MPI_Comm_spawn(self, arguments, 2, MPI_INFO_NULL, 0, world, inter, codes, ierr)
    call note('MPI_Comm_spawn', ierr, codes)
    call talk
    arguments = [character(16) :: 'ignored', '', '']
    call MPI_Comm_spawn(self, arguments, 1, MPI_INFO_NULL, 1, world, inter, MPI_ERRCODES_IGNORE, ierr)
    call note('MPI_Comm_spawn', ierr)
    call talk
  end subroutine

  subroutine spawn_multiple
    character(1024) :: commands(2)
    character(16) :: arguments(2, 2)  ! of command i: arguments(i, :)
    integer :: codes(3)
    INFO_T :: infos(2)
    commands = self
    arguments(1, :) = [character(16) :: 'several', '']
    arguments(2, :) = [character(16) :: 'several', '']
    infos = MPI_INFO_NULL
    codes = UNSET
    call MPI_Comm_spawn_multiple(2, commands, arguments, [1, 2], infos, 0, world, inter, codes, ierr)
    call note('MPI_Comm_spawn_multiple', ierr, codes)
    call talk
  end subroutine

  ! Rank 0 accepts, rank 1 connects.
  subroutine ports
    character(MPI_MAX_PORT_NAME) :: port
    integer :: sum
    if (rank == 0) then
      port = ''
      call MPI_Open_port(MPI_INFO_NULL, port, ierr)
      call note('MPI_Open_port', ierr, [merge(1, 0, port /= '')])
      call MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHARACTER, 1, 9, world, ierr)
      call MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierr)
      call note('MPI_Comm_accept', ierr)
    else if (rank == 1) then
      call MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHARACTER, 0, 9, world, MPI_STATUS_IGNORE, ierr)
      call MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierr)
      call note('MPI_Comm_connect', ierr)
    end if
    if (rank < 2) then
      call MPI_Allreduce(rank + 5, sum, 1, MPI_INTEGER, MPI_SUM, inter, ierr)
      call note('MPI_Allreduce', ierr, [sum])
      call MPI_Comm_disconnect(inter, ierr)
      call note('MPI_Comm_disconnect', ierr, [merge(1, 0, inter == MPI_COMM_NULL)])
    end if
    if (rank == 0) then
      call MPI_Close_port(port, ierr)
      call note('MPI_Close_port', ierr)
    end if
    call MPI_Barrier(world, ierr)
    ierr = UNSET
  end subroutine

  ! A port under a name, which mpirun keeps.
  subroutine names
    character(MPI_MAX_PORT_NAME) :: port, found
    if (rank == 0) then
      call MPI_Open_port(MPI_INFO_NULL, port, ierr)
      call MPI_Publish_name('ddl conformance', MPI_INFO_NULL, port, ierr)
      call note('MPI_Publish_name', ierr)
      call MPI_Lookup_name('ddl conformance', MPI_INFO_NULL, found, ierr)
      call note('MPI_Lookup_name', ierr, [merge(1, 0, port == found)])
      call MPI_Unpublish_name('ddl conformance', MPI_INFO_NULL, port, ierr)
      call note('MPI_Unpublish_name', ierr)
      call MPI_Close_port(port, ierr)
    end if
    call MPI_Barrier(world, ierr)
    ierr = UNSET
  end subroutine

  subroutine join
    integer(c_int) :: fd, listening, address(4), length
    integer :: sum
    address = [2, int(z'0100007f'), 0, 0]  ! AF_INET, any port; 127.0.0.1
    if (rank == 0) then
      listening = socket(2_c_int, 1_c_int, 0_c_int)
      i = bind_socket(listening, address, 16_c_int)
      i = listen_socket(listening, 1_c_int)
      length = 16
      i = name_of_socket(listening, address, length)
      call MPI_Send(address, 4, MPI_INTEGER, 1, 3, world, ierr)
      fd = accept_socket(listening, c_null_ptr, c_null_ptr)
      i = close_socket(listening)
    else if (rank == 1) then
      call MPI_Recv(address, 4, MPI_INTEGER, 0, 3, world, MPI_STATUS_IGNORE, ierr)
      fd = socket(2_c_int, 1_c_int, 0_c_int)
      i = connect_socket(fd, address, 16_c_int)
    else
      return
    end if
    call MPI_Comm_join(int(fd), inter, ierr)
    call note('MPI_Comm_join', ierr, [merge(1, 0, inter == MPI_COMM_NULL)])
    call MPI_Allreduce(rank + 7, sum, 1, MPI_INTEGER, MPI_SUM, inter, ierr)
    call note('MPI_Allreduce', ierr, [sum])
    call MPI_Comm_disconnect(inter, ierr)
    call note('MPI_Comm_disconnect', ierr)
    i = close_socket(fd)
  end subroutine

#include "note_status.inc"
end program
