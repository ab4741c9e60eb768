! Errors: what each family of calls returns for wrong arguments, whose handler is called with what, handlers of communicators, windows and
! files, MPI_ERRORS_RETURN, and the end of a job under MPI_ERRORS_ARE_FATAL.
! conformance: ranks=2 cases=return:0,handler:0,fatal:6
#include "conformance.inc"

! Handlers, and what they compare their argument with. Not internal procedures: those would need an executable stack.
module handlers
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI
  private
  public :: on_comm, on_win, on_file, world, other, win, file, invocations

  COMM_T :: world, other
  WIN_T :: win
  FILE_T :: file
  integer :: invocations

contains

  subroutine on_comm(comm, code)
    COMM_T :: comm
    integer :: code, class, ignored
    invocations = invocations + 1
    call PMPI_Error_class(code, class, ignored)
    call say('  handler of a communicator', [merge(1, 0, comm == world), merge(1, 0, comm == other), class])
  end subroutine

  subroutine on_win(of, code)
    WIN_T :: of
    integer :: code, class, ignored
    invocations = invocations + 1
    call PMPI_Error_class(code, class, ignored)
    call say('  handler of a window', [merge(1, 0, of == win), class])
  end subroutine

  subroutine on_file(of, code)
    FILE_T :: of
    integer :: code, class, ignored
    invocations = invocations + 1
    call PMPI_Error_class(code, class, ignored)
    call say('  handler of a file', [merge(1, 0, of == file), merge(1, 0, of == MPI_FILE_NULL), class])
  end subroutine
end module

program errors
  USE_MPI
  use handlers
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr
  character(16) :: what
  STATUS(s)

  call get_command_argument(1, what)
  call begin_transcript
  call set_for_open_mpi('osc', 'sm,pt2pt')
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call MPI_Comm_dup(world, other, ierr)
  call MPI_Comm_set_name(other, 'other', ierr)
  call clear(s)
  invocations = 0
  ierr = UNSET

  select case (what)
  case ('return')
    call set_handlers(MPI_ERRORS_RETURN, world)
    call set_handlers(MPI_ERRORS_RETURN, other)
    call wrong_messages(world)
    call wrong_requests(world)
    call wrong_collectives(other)
    call wrong_communicators
  case ('handler')
    call with_our_handlers
  case ('fatal')
    call end_of_the_job
  end select
  call say('invocations', [invocations])
  call MPI_Comm_free(other, ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

  subroutine set_handlers(handler, comm)
    ERRHANDLER_T, intent(in) :: handler
    COMM_T, intent(in) :: comm
    call MPI_Comm_set_errhandler(comm, handler, ierr)
    call note('MPI_Comm_set_errhandler', ierr)
  end subroutine

  ! A code as its class: classes are the same everywhere, codes need not be.
  subroutine code(call)
    character(*), intent(in) :: call
    integer :: class, ignored
    if (ierr == UNSET) error stop 'no error code'
    call PMPI_Error_class(ierr, class, ignored)
    call note(call, class)
    ierr = UNSET
  end subroutine

  subroutine wrong_messages(comm)
    COMM_T, intent(in) :: comm
    integer :: numbers(2)
    logical :: flag
    MESSAGE_T :: message
    numbers = 5
    call MPI_Send(numbers, 1, MPI_INTEGER, ranks, 1, comm, ierr)
    call code('MPI_Send to no rank')
    call MPI_Send(numbers, 1, MPI_INTEGER, 0, -1, comm, ierr)
    call code('MPI_Send without a tag')
    call MPI_Send(numbers, -1, MPI_INTEGER, 0, 1, comm, ierr)
    call code('MPI_Send of less than nothing')
    call MPI_Send(numbers, 1, MPI_DATATYPE_NULL, 0, 1, comm, ierr)
    call code('MPI_Send of no type')
    call MPI_Send(numbers, 1, MPI_INTEGER, 0, 1, MPI_COMM_NULL, ierr)
    call code('MPI_Send on no communicator')
    call MPI_Ssend(numbers, 1, MPI_INTEGER, ranks, 1, comm, ierr)
    call code('MPI_Ssend to no rank')
    call MPI_Bsend(numbers, 1, MPI_INTEGER, ranks, 1, comm, ierr)
    call code('MPI_Bsend to no rank')
    call MPI_Rsend(numbers, 1, MPI_INTEGER, ranks, 1, comm, ierr)
    call code('MPI_Rsend to no rank')
    call MPI_Recv(numbers, 1, MPI_INTEGER, ranks, 1, comm, s, ierr)
    call code('MPI_Recv from no rank')
    call MPI_Recv(numbers, -1, MPI_INTEGER, 0, 1, comm, MPI_STATUS_IGNORE, ierr)
    call code('MPI_Recv of less than nothing')
    call MPI_Sendrecv(numbers, 1, MPI_INTEGER, 0, 1, numbers, 1, MPI_INTEGER, ranks, 1, comm, s, ierr)
    call code('MPI_Sendrecv from no rank')
    call MPI_Sendrecv_replace(numbers, 1, MPI_INTEGER, ranks, 1, 0, 1, comm, s, ierr)
    call code('MPI_Sendrecv_replace to no rank')
    call MPI_Probe(ranks, 1, comm, s, ierr)
    call code('MPI_Probe of no rank')
    flag = .false.
    call MPI_Iprobe(ranks, 1, comm, flag, s, ierr)
    call code('MPI_Iprobe of no rank')
    call MPI_Mprobe(ranks, 1, comm, message, s, ierr)
    call code('MPI_Mprobe of no rank')
    call MPI_Improbe(ranks, 1, comm, flag, message, s, ierr)
    call code('MPI_Improbe of no rank')
    ! Too long for its receive.
    if (rank == 0) then
      call MPI_Send(numbers, 2, MPI_INTEGER, 1, 2, comm, ierr)
      call code('MPI_Send')
    else if (rank == 1) then
      numbers = -1
      call MPI_Recv(numbers, 1, MPI_INTEGER, 0, 2, comm, s, ierr)
      call code('MPI_Recv of too much')
      call say('numbers', numbers)
    end if
  end subroutine

  subroutine wrong_requests(comm)
    COMM_T, intent(in) :: comm
    integer, asynchronous :: numbers(2)
    REQUEST_T :: request, requests(2)
    logical :: flag
    request = MPI_REQUEST_NULL
    requests = MPI_REQUEST_NULL
    call MPI_Isend(numbers, 1, MPI_INTEGER, ranks, 1, comm, request, ierr)
    call code('MPI_Isend to no rank')
    call MPI_Irecv(numbers, 1, MPI_INTEGER, 0, -5, comm, request, ierr)
    call code('MPI_Irecv without a tag')
    call MPI_Issend(numbers, -1, MPI_INTEGER, 0, 1, comm, request, ierr)
    call code('MPI_Issend of less than nothing')
    call MPI_Irsend(numbers, 1, MPI_DATATYPE_NULL, 0, 1, comm, request, ierr)
    call code('MPI_Irsend of no type')
    call MPI_Send_init(numbers, 1, MPI_INTEGER, ranks, 1, comm, request, ierr)
    call code('MPI_Send_init to no rank')
    call MPI_Recv_init(numbers, -1, MPI_INTEGER, 0, 1, comm, request, ierr)
    call code('MPI_Recv_init of less than nothing')
    request = MPI_REQUEST_NULL
    call MPI_Start(request, ierr)
    call code('MPI_Start of null')
    call MPI_Startall(2, requests, ierr)
    call code('MPI_Startall of null')
    call MPI_Cancel(request, ierr)
    call code('MPI_Cancel of null')
    call MPI_Request_free(request, ierr)
    call code('MPI_Request_free of null')
    call MPI_Waitall(-1, requests, MPI_STATUSES_IGNORE, ierr)  ! answered by Open MPI's Fortran layer
    call code('MPI_Waitall of less than none')
    call MPI_Testall(-1, requests, flag, MPI_STATUSES_IGNORE, ierr)  ! answered by Open MPI's Fortran layer
    call code('MPI_Testall of less than none')
  end subroutine

  subroutine wrong_collectives(comm)
    COMM_T, intent(in) :: comm
    integer :: numbers(4), sums(4)
    REQUEST_T :: request
    numbers = 1
    call MPI_Barrier(MPI_COMM_NULL, ierr)
    call code('MPI_Barrier of nobody')
    call MPI_Bcast(numbers, 1, MPI_INTEGER, ranks, comm, ierr)
    call code('MPI_Bcast from no rank')
    call MPI_Bcast(numbers, -1, MPI_INTEGER, 0, comm, ierr)
    call code('MPI_Bcast of less than nothing')
    call MPI_Reduce(numbers, sums, 1, MPI_INTEGER, MPI_OP_NULL, 0, comm, ierr)
    call code('MPI_Reduce without an operation')
    call MPI_Allreduce(numbers, sums, 1, MPI_DATATYPE_NULL, MPI_SUM, comm, ierr)
    call code('MPI_Allreduce of no type')
    call MPI_Allreduce(numbers, sums, -1, MPI_INTEGER, MPI_SUM, comm, ierr)
    call code('MPI_Allreduce of less than nothing')
    call MPI_Gather(numbers, 1, MPI_INTEGER, sums, 1, MPI_INTEGER, -1, comm, ierr)
    call code('MPI_Gather to no rank')
    call MPI_Scatter(numbers, 1, MPI_INTEGER, sums, -1, MPI_INTEGER, 0, comm, ierr)
    call code('MPI_Scatter of less than nothing')
    call MPI_Scan(numbers, sums, 1, MPI_INTEGER, MPI_OP_NULL, comm, ierr)
    call code('MPI_Scan without an operation')
    call MPI_Iallreduce(numbers, sums, 1, MPI_INTEGER, MPI_OP_NULL, comm, request, ierr)
    call code('MPI_Iallreduce without an operation')
    call MPI_Ibcast(numbers, 1, MPI_INTEGER, ranks, comm, request, ierr)
    call code('MPI_Ibcast from no rank')
    call MPI_Neighbor_allgather(numbers, 1, MPI_INTEGER, sums, 1, MPI_INTEGER, comm, ierr)
    call code('MPI_Neighbor_allgather without neighbours')
  end subroutine

  subroutine wrong_communicators
    COMM_T :: made
    call MPI_Comm_dup(MPI_COMM_NULL, made, ierr)
    call code('MPI_Comm_dup of null')
    call MPI_Comm_split(MPI_COMM_NULL, 0, 0, made, ierr)
    call code('MPI_Comm_split of null')
    call MPI_Comm_create(world, MPI_GROUP_NULL, made, ierr)
    call code('MPI_Comm_create of no group')
    call MPI_Cart_create(world, 1, [ranks + 1], [.false.], .false., made, ierr)
    call code('MPI_Cart_create of too many')
    call MPI_Intercomm_create(MPI_COMM_NULL, 0, world, 0, 1, made, ierr)
    call code('MPI_Intercomm_create of null')
    call MPI_Intercomm_merge(world, .false., made, ierr)
    call code('MPI_Intercomm_merge of one side')
    made = MPI_COMM_NULL
    call MPI_Comm_free(made, ierr)
    call code('MPI_Comm_free of null')
    call MPI_Comm_disconnect(made, ierr)
    call code('MPI_Comm_disconnect of null')
    call MPI_Comm_set_name(MPI_COMM_NULL, 'nobody', ierr)
    call code('MPI_Comm_set_name of null')
  end subroutine

  ! Handlers written in Fortran: called with the object and the code, once for each error.
  subroutine with_our_handlers
    ERRHANDLER_T :: handler, got
    integer, asynchronous :: memory(4)
    integer(MPI_ADDRESS_KIND) :: bytes, place
    integer(MPI_OFFSET_KIND) :: offset
    call MPI_Comm_create_errhandler(on_comm, handler, ierr)
    call note('MPI_Comm_create_errhandler', ierr)
    call set_handlers(handler, world)
    call set_handlers(handler, other)
    call MPI_Comm_get_errhandler(other, got, ierr)
    call note('MPI_Comm_get_errhandler', ierr, [merge(1, 0, got == handler)])
    call MPI_Errhandler_free(handler, ierr)
    call wrong_messages(other)
    call wrong_requests(other)
    call wrong_collectives(world)
    call wrong_communicators
    call MPI_Send(memory, 1, MPI_INTEGER, ranks, 1, other LEFT_OUT)
    call MPI_Comm_call_errhandler(other, MPI_ERR_OTHER, ierr)
    call note('MPI_Comm_call_errhandler', ierr)

    bytes = 16
    memory = 0
    call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, world, win, ierr)
    call note('MPI_Win_create', ierr)
    call MPI_Win_create_errhandler(on_win, handler, ierr)
    call MPI_Win_set_errhandler(win, handler, ierr)
    call MPI_Errhandler_free(handler, ierr)
    ierr = UNSET
    call MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, win, ierr)
    call code('MPI_Win_lock of no rank')
    place = 0
    call MPI_Win_fence(0, win, ierr)
    call code('MPI_Win_fence')
    call MPI_Put(memory, -1, MPI_INTEGER, 0, place, 1, MPI_INTEGER, win, ierr)
    call code('MPI_Put of less than nothing')
    call MPI_Get(memory, 1, MPI_INTEGER, ranks, place, 1, MPI_INTEGER, win, ierr)
    call code('MPI_Get from no rank')
    call MPI_Accumulate(memory, 1, MPI_INTEGER, 0, place, 1, MPI_INTEGER, MPI_OP_NULL, win, ierr)
    call code('MPI_Accumulate without an operation')
    call MPI_Win_fence(0, win, ierr)
    call code('MPI_Win_fence')
    call MPI_Win_call_errhandler(win, MPI_ERR_WIN, ierr)
    call note('MPI_Win_call_errhandler', ierr)
    call MPI_Win_free(win, ierr)
    call note('MPI_Win_free', ierr)

    call MPI_File_create_errhandler(on_file, handler, ierr)
    call MPI_File_set_errhandler(MPI_FILE_NULL, handler, ierr)
    call note('MPI_File_set_errhandler', ierr)
    call MPI_File_open(MPI_COMM_SELF, 'no/such/folder/file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierr)
    call code('MPI_File_open of nothing')
    call MPI_File_open(MPI_COMM_SELF, 'errors.data', MPI_MODE_RDWR + MPI_MODE_CREATE + MPI_MODE_DELETE_ON_CLOSE + MPI_MODE_UNIQUE_OPEN, &
                       MPI_INFO_NULL, file, ierr)
    call code('MPI_File_open')
    call MPI_File_set_errhandler(file, handler, ierr)
    call MPI_Errhandler_free(handler, ierr)
    offset = -5
    ierr = UNSET
    call MPI_File_write(file, memory, -1, MPI_INTEGER, s, ierr)
    call code('MPI_File_write of less than nothing')
    call MPI_File_seek(file, offset, MPI_SEEK_SET, ierr)
    call code('MPI_File_seek before the begin')
    call MPI_File_call_errhandler(file, MPI_ERR_FILE, ierr)
    call note('MPI_File_call_errhandler', ierr)
    call MPI_File_close(file, ierr)
    call note('MPI_File_close', ierr)
  end subroutine

  ! Rank 0 errs when rank 1 has written all it will: the launcher kills it at once, wherever it is then.
  subroutine end_of_the_job
    integer :: numbers(2)
    call say('before an error', [rank])
    call write_calls('MPI_Barrier')
    call MPI_Barrier(world, ierr)
    if (rank == 0) then
      call MPI_Send(numbers, 1, MPI_INTEGER, ranks, 1, other, ierr)
    else
      call MPI_Recv(numbers, 1, MPI_INTEGER, 0, 1, world, MPI_STATUS_IGNORE, ierr)
    end if
    call say('back from an error', [ierr])
  end subroutine

#include "note_status.inc"
end program
