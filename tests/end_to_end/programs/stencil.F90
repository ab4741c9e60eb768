! A Fortran job as people write them, which knows what it calls: heat on a periodic grid with halos of derived datatypes, a residual on a row
! communicator, parameters averaged over replicas. Every call of MPI that is recorded has a COUNT in its line;
! at the end each rank writes "LINE OP CALLS BYTES COMMUNICATOR" to $STENCIL_OUT/RANK: the independent count, by line of this source.
#include "conformance.inc"
#define COUNT(op, comm, bytes) call counted(op, comm, bytes, __LINE__)

program stencil
  USE_MPI
  implicit none
  INCLUDE_MPI

  integer, parameter :: N = 24, STEPS = 30, PARAMETERS = 500
  character(*), parameter :: WORLD = 'MPI_COMM_WORLD', NONE = '-'
  character(16) :: grid = 'grid', row, replicas
  integer :: rank, ranks, ierr, provided, step, place(2), up, down, west, east
  double precision :: field(0:N + 1, 0:N + 1), next(0:N + 1, 0:N + 1), residual, worst, mean(PARAMETERS)
  double precision, asynchronous :: parameters_of_us(PARAMETERS), sums(PARAMETERS)
  double precision, allocatable :: all(:)
  COMM_T :: grid_comm, row_comm, replica_comm
  DATATYPE_T :: column
  REQUEST_T :: requests(4), average, ring(2)
  STATUSES(statuses, 4)
  logical :: done

  type line_count
    integer :: line = 0
    character(24) :: op = '', comm = ''
    integer(8) :: calls = 0, bytes = 0
  end type
  type(line_count) :: counts(100)

  COUNT('MPI_Init_thread', NONE, 0); call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  if (ranks /= 4) error stop 'four ranks, please'
  call set_up

  do step = 1, STEPS
    call exchange_halos
    call relax
    call residuals
    call average_parameters
    if (mod(step, 10) == 0) call look
  end do

  call pass_around
  call MPI_Type_free(column, ierr)
  COUNT('MPI_Comm_free', row, 0); call MPI_Comm_free(row_comm LEFT_OUT)
  COUNT('MPI_Comm_free', replicas, 0); call MPI_Comm_free(replica_comm LEFT_OUT)
  COUNT('MPI_Comm_disconnect', grid, 0); call MPI_Comm_disconnect(grid_comm LEFT_OUT)
  COUNT('MPI_Finalize', NONE, 0); call MPI_Finalize(ierr)
  if (rank == 0) print '(a, 2es12.4)', 'stencil: ', worst, mean(1)
  call write_counts

contains

  ! Rows of the grid share a communicator; so do ranks of the same parity: the replicas.
  subroutine set_up
    COUNT('MPI_Cart_create', WORLD, 0); call MPI_Cart_create(MPI_COMM_WORLD, 2, [2, 2], [.true., .true.], .false., grid_comm, ierr)
    COUNT('MPI_Comm_set_name', grid, 0); call MPI_Comm_set_name(grid_comm, 'grid', ierr)
    call MPI_Cart_coords(grid_comm, rank, 2, place, ierr)
    call MPI_Cart_shift(grid_comm, 0, 1, up, down, ierr)
    call MPI_Cart_shift(grid_comm, 1, 1, west, east, ierr)
    write (row, '("row ", i1)') place(1)
    write (replicas, '("replicas ", i1)') mod(rank, 2)
    COUNT('MPI_Cart_sub', grid, 0); call MPI_Cart_sub(grid_comm, [.false., .true.], row_comm LEFT_OUT)
    COUNT('MPI_Comm_set_name', row, 0); call MPI_Comm_set_name(row_comm, trim(row) LEFT_OUT)
    COUNT('MPI_Comm_split', WORLD, 0); call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, replica_comm, ierr)
    COUNT('MPI_Comm_set_name', replicas, 0); call MPI_Comm_set_name(replica_comm, replicas, ierr)
    call MPI_Type_vector(N, 1, N + 2, MPI_DOUBLE_PRECISION, column, ierr)
    call MPI_Type_commit(column, ierr)
    allocate (all(ranks * N))
    field = rank
    parameters_of_us = rank
    ! Parameters of rank 0 for all; in f08 what is sent has gaps.
    COUNT('MPI_Bcast', WORLD, 8 * PARAMETERS); call MPI_Bcast(parameters_of_us, PARAMETERS, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD LEFT_OUT)
    COUNT('MPI_Bcast', WORLD, 8 * N); call MPI_Bcast(field(1, 1:N), N, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, ierr)
  end subroutine

  ! Rows of the array have gaps: a derived datatype. What a receive records is what arrived.
  subroutine exchange_halos
    COUNT('MPI_Irecv', grid, 8 * N); call MPI_Irecv(field(1, 0), N, MPI_DOUBLE_PRECISION, west, 1, grid_comm, requests(1), ierr)
    COUNT('MPI_Irecv', grid, 8 * N); call MPI_Irecv(field(0, 1), 1, column, up, 2, grid_comm, requests(2), ierr)
    COUNT('MPI_Isend', grid, 8 * N); call MPI_Isend(field(1, N), N, MPI_DOUBLE_PRECISION, east, 1, grid_comm, requests(3), ierr)
    COUNT('MPI_Isend', grid, 8 * N); call MPI_Isend(field(N, 1), 1, column, down, 2, grid_comm, requests(4) LEFT_OUT)
    COUNT('MPI_Waitall', grid, 0); call MPI_Waitall(4, requests, statuses, ierr)
    COUNT('MPI_Sendrecv', grid, 8 * N); call MPI_Sendrecv(field(1, 1), N, MPI_DOUBLE_PRECISION, west, 3, field(1, N + 1), N, MPI_DOUBLE_PRECISION, east, 3, grid_comm, MPI_STATUS_IGNORE, ierr)
  end subroutine

  subroutine relax
    next(1:N, 1:N) = 0.25d0 * (field(0:N - 1, 1:N) + field(2:N + 1, 1:N) + field(1:N, 0:N - 1) + field(1:N, 2:N + 1))
    residual = maxval(abs(next(1:N, 1:N) - field(1:N, 1:N)))
    field(1:N, 1:N) = next(1:N, 1:N)
  end subroutine

  subroutine residuals
    COUNT('MPI_Allreduce', row, 8); call MPI_Allreduce(MPI_IN_PLACE, residual, 1, MPI_DOUBLE_PRECISION, MPI_MAX, row_comm, ierr)
    COUNT('MPI_Allreduce', grid, 8); call MPI_Allreduce(residual, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, grid_comm LEFT_OUT)
  end subroutine

  ! The sum is on its way while others arrive at it; asked once whether it is there, then waited for.
  subroutine average_parameters
    parameters_of_us = parameters_of_us + 1d-3 * rank
    COUNT('MPI_Iallreduce', replicas, 8 * PARAMETERS); call MPI_Iallreduce(parameters_of_us, sums, PARAMETERS, MPI_DOUBLE_PRECISION, MPI_SUM, replica_comm, average, ierr)
    COUNT('MPI_Test', NONE, 0); call MPI_Test(average, done, MPI_STATUS_IGNORE, ierr)
    if (.not. done) then
      COUNT('MPI_Wait', replicas, 0); call MPI_Wait(average, MPI_STATUS_IGNORE LEFT_OUT)
    end if
    mean = sums / 2
    parameters_of_us = mean
  end subroutine

  ! Every tenth step: to rank 0 of the grid, who decides whether to go on.
  subroutine look
    integer :: root
    root = 0
    COUNT('MPI_Gather', grid, 8 * N); call MPI_Gather(field(1, 1), N, MPI_DOUBLE_PRECISION, all, N, MPI_DOUBLE_PRECISION, root, grid_comm, ierr)
    COUNT('MPI_Reduce', WORLD, 8 * PARAMETERS); call MPI_Reduce(parameters_of_us, sums, PARAMETERS, MPI_DOUBLE_PRECISION, MPI_SUM, root, MPI_COMM_WORLD, ierr)
    COUNT('MPI_Barrier', WORLD, 0); call MPI_Barrier(MPI_COMM_WORLD LEFT_OUT)
  end subroutine

  ! Persistent requests around the grid: bytes belong to the call that made them, once for every start.
  subroutine pass_around
    integer :: round
    COUNT('MPI_Send_init', grid, 5 * 8 * 3); call MPI_Send_init(parameters_of_us, 3, MPI_DOUBLE_PRECISION, east, 9, grid_comm, ring(1), ierr)
    COUNT('MPI_Recv_init', grid, 5 * 8 * 3); call MPI_Recv_init(sums, 10, MPI_DOUBLE_PRECISION, west, MPI_ANY_TAG, grid_comm, ring(2), ierr)
    do round = 1, 5
      COUNT('MPI_Startall', NONE, 0); call MPI_Startall(2, ring, ierr)
      COUNT('MPI_Waitall', grid, 0); call MPI_Waitall(2, ring, MPI_STATUSES_IGNORE LEFT_OUT)
    end do
    COUNT('MPI_Request_free', NONE, 0); call MPI_Request_free(ring(1) LEFT_OUT)
    COUNT('MPI_Request_free', NONE, 0); call MPI_Request_free(ring(2) LEFT_OUT)
    if (rank == 1) then
      COUNT('MPI_Send', grid, 8 * 7); call MPI_Send(mean, 7, MPI_DOUBLE_PRECISION, 2, 4, grid_comm, ierr)
    else if (rank == 2) then
      COUNT('MPI_Recv', grid, 8 * 7); call MPI_Recv(mean, PARAMETERS, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 4, grid_comm, MPI_STATUS_IGNORE, ierr)
    end if
  end subroutine

  subroutine counted(op, comm, bytes, line)
    character(*), intent(in) :: op, comm
    integer, intent(in) :: bytes, line
    integer :: i
    do i = 1, size(counts)
      if (counts(i)%calls == 0) counts(i) = line_count(line, op, comm)
      if (counts(i)%line == line .and. counts(i)%comm == comm) exit
    end do
    counts(i)%calls = counts(i)%calls + 1
    counts(i)%bytes = counts(i)%bytes + bytes
  end subroutine

  subroutine write_counts
    character(4096) :: folder
    character(8) :: name
    integer :: file, i
    call get_environment_variable('STENCIL_OUT', folder)
    write (name, '(i0)') rank
    open (newunit=file, file=trim(folder) // '/' // name, status='replace', action='write')
    do i = 1, size(counts)
      if (counts(i)%calls > 0) write (file, '(i0, 1x, a, 2(1x, i0), 1x, a)') counts(i)%line, trim(counts(i)%op), counts(i)%calls, counts(i)%bytes, trim(counts(i)%comm)
    end do
    close (file)
  end subroutine
end program
