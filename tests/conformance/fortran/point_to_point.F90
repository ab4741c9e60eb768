! Sends and receives of every mode, blocking and not; wildcards, MPI_PROC_NULL, oneself; messages below and above the eager limit; statuses
! wanted and ignored.
! conformance: ranks=3
#include "conformance.inc"

program point_to_point
  USE_MPI
  use, intrinsic :: iso_c_binding, only: c_ptr
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, left, right, ierr, i
  COMM_T :: world

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call begin_transcript
  left = mod(rank + ranks - 1, ranks)
  right = mod(rank + 1, ranks)
  ierr = UNSET

  call blocking
  call wildcards
  call both_ways
  call nobody
  call nonblocking(5)
  call nonblocking(100000)
  call buffers
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! From rank 0 to all others in every mode; the others answer with a ready send.
  subroutine blocking
    integer :: numbers(4), peer, room(10000), bytes
    real :: answer
    STATUS(s)
#if defined(BINDING_F08)
    type(c_ptr) :: detached
#else
    integer :: detached(2)
#endif
    call clear(s)
    call MPI_Buffer_attach(room, 40000, ierr)
    call note('MPI_Buffer_attach', ierr)
    if (rank == 0) then
      do peer = 1, ranks - 1
        numbers = 10 * peer + [1, 2, 3, 4]
        call MPI_Send(numbers, 4, MPI_INTEGER, peer, 1, world, ierr)
        call note('MPI_Send', ierr)
        call MPI_Ssend(numbers, 3, MPI_INTEGER, peer, 2, world, ierr)
        call note('MPI_Ssend', ierr)
        call MPI_Bsend(numbers, 2, MPI_INTEGER, peer, 3, world, ierr)
        call note('MPI_Bsend', ierr)
        call MPI_Send(numbers, 0, MPI_INTEGER, peer, 4, world LEFT_OUT)
        call MPI_Recv(answer, 1, MPI_REAL, peer, 5, world, s, ierr)
        call note_status('MPI_Recv', ierr, s, MPI_REAL)
        call say('answer', [int(answer)])
        call MPI_Rsend(numbers, 1, MPI_INTEGER, peer, 6, world, ierr)
        call note('MPI_Rsend', ierr)
      end do
    else
      numbers = -1
      call MPI_Recv(numbers, 4, MPI_INTEGER, 0, 1, world, s, ierr)
      call note_status('MPI_Recv', ierr, s, MPI_INTEGER)
      call MPI_Recv(numbers, 4, MPI_INTEGER, 0, 2, world, MPI_STATUS_IGNORE, ierr)
      call note('MPI_Recv', ierr, numbers)
      call MPI_Recv(numbers(3), 2, MPI_INTEGER, 0, 3, world, s, ierr)
      call note_status('MPI_Recv', ierr, s, MPI_INTEGER)
      call MPI_Recv(numbers, 4, MPI_INTEGER, 0, 4, world, MPI_STATUS_IGNORE LEFT_OUT)
      call say('numbers', numbers)
      ierr = UNSET
      call receive_ready
    end if
    call MPI_Buffer_detach(detached, bytes, ierr)
    call note('MPI_Buffer_detach', ierr, [bytes])
  end subroutine

  ! A ready send needs its receive posted: it is, before rank 0 is answered.
  subroutine receive_ready
    integer, asynchronous :: one
    REQUEST_T :: request
    STATUS(s)
    call clear(s)
    one = -1
    call MPI_Irecv(one, 1, MPI_INTEGER, 0, 6, world, request, ierr)
    call note('MPI_Irecv', ierr)
    call MPI_Ssend(rank + 0.5, 1, MPI_REAL, 0, 5, world, ierr)
    call note('MPI_Ssend', ierr)
    call MPI_Wait(request, s, ierr)
    call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
    call say('one', [one])
  end subroutine

  ! Any source and any tag; the order of arrival is not ours to compare, what arrived is.
  subroutine wildcards
    integer :: got(ranks - 1), from, tag, length, k
    STATUS(s)
    if (rank == 0) then
      got = -1
      do k = 1, ranks - 1
        call MPI_Recv(length, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, world, s, ierr)
        from = STATUS_SOURCE(s)
        tag = STATUS_TAG(s)
        got(from) = 1000 * length + 10 * tag + ierr
      end do
      call say('from anybody', got)
      ierr = UNSET
    else
      call MPI_Send(rank, 1, MPI_INTEGER, 0, 20 + rank, world, ierr)
      call note('MPI_Send', ierr)
    end if
    call MPI_Barrier(world, ierr)
    ierr = UNSET
  end subroutine

  subroutine both_ways
    integer :: out(3), in(3)
    character(8) :: text
    STATUS(s)
    call clear(s)
    out = 10 * rank + [1, 2, 3]
    in = -1
    call MPI_Sendrecv(out, 2, MPI_INTEGER, right, 7, in, 3, MPI_INTEGER, left, 7, world, s, ierr)
    call note_status('MPI_Sendrecv', ierr, s, MPI_INTEGER)
    call say('in', in)
    call MPI_Sendrecv(out, 3, MPI_INTEGER, left, rank, in, 3, MPI_INTEGER, right, MPI_ANY_TAG, world, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Sendrecv', ierr, in)
    call MPI_Sendrecv_replace(out, 3, MPI_INTEGER, right, 8, left, 8, world, s, ierr)
    call note_status('MPI_Sendrecv_replace', ierr, s, MPI_INTEGER)
    call say('out', out)
    call MPI_Sendrecv_replace(out, 1, MPI_INTEGER, right, 8, left, 8, world, MPI_STATUS_IGNORE LEFT_OUT)
    call say('out', out)
    ierr = UNSET
    write (text, '("rank ", i3)') rank
    call MPI_Sendrecv_replace(text, 8, MPI_CHARACTER, right, 9, left, 9, world, s, ierr)
    call note_status('MPI_Sendrecv_replace', ierr, s, MPI_CHARACTER)
    call say('text', text)
    call MPI_Sendrecv(out, 3, MPI_INTEGER, rank, 9, in, 3, MPI_INTEGER, rank, 9, MPI_COMM_WORLD, s, ierr)
    call note_status('MPI_Sendrecv to itself', ierr, s, MPI_INTEGER)
    call MPI_Sendrecv(out, 3, MPI_INTEGER, 0, 9, in, 3, MPI_INTEGER, 0, 9, MPI_COMM_SELF, s, ierr)
    call note_status('MPI_Sendrecv on MPI_COMM_SELF', ierr, s, MPI_INTEGER)
  end subroutine

  subroutine nobody
    integer, asynchronous :: numbers(2)
    REQUEST_T :: requests(2)
    STATUS(s)
    call clear(s)
    numbers = 3
    call MPI_Send(numbers, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, ierr)
    call note('MPI_Send to nobody', ierr)
    call MPI_Recv(numbers, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, s, ierr)
    call note_status('MPI_Recv from nobody', ierr, s, MPI_INTEGER)
    call MPI_Sendrecv(numbers, 2, MPI_INTEGER, MPI_PROC_NULL, 1, numbers, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, s, ierr)
    call note_status('MPI_Sendrecv with nobody', ierr, s, MPI_INTEGER)
    call MPI_Isend(numbers, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, requests(1), ierr)
    call note('MPI_Isend to nobody', ierr)
    call MPI_Irecv(numbers, 2, MPI_INTEGER, MPI_PROC_NULL, 1, world, requests(2), ierr)
    call note('MPI_Irecv from nobody', ierr)
    call MPI_Wait(requests(2), s, ierr)
    call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr, numbers)
  end subroutine

  ! Every mode to the right, receives from the left posted before a barrier, because of the ready send.
  subroutine nonblocking(length)
    integer, intent(in) :: length
    integer, allocatable, asynchronous :: out(:), in(:, :), room(:)
    REQUEST_T :: requests(8)
    STATUSES(statuses, 8)
    integer :: bytes, k
#if defined(BINDING_F08)
    type(c_ptr) :: detached
#else
    integer :: detached(2)
#endif
    allocate (out(length), in(length, 4), room(length + 1000))
    out = [(rank + i, i = 1, length)]
    in = -1
    call MPI_Buffer_attach(room, 4 * (length + 1000), ierr)
    do k = 1, 4
      call MPI_Irecv(in(1, k), length, MPI_INTEGER, left, k, world, requests(k), ierr)
      call note('MPI_Irecv', ierr, [merge(1, 0, requests(k) == MPI_REQUEST_NULL)])
    end do
    call MPI_Barrier(world, ierr)
    call MPI_Irsend(out, length, MPI_INTEGER, right, 1, world, requests(5), ierr)
    call note('MPI_Irsend', ierr)
    call MPI_Isend(out, length, MPI_INTEGER, right, 2, world, requests(6), ierr)
    call note('MPI_Isend', ierr)
    call MPI_Issend(out, length, MPI_INTEGER, right, 3, world, requests(7), ierr)
    call note('MPI_Issend', ierr)
    call MPI_Ibsend(out, length - 2, MPI_INTEGER, right, 4, world, requests(8), ierr)
    call note('MPI_Ibsend', ierr)
    do k = 1, 8
      call clear(STATUS_AT(statuses, k))
    end do
    call MPI_Waitall(8, requests, statuses, ierr)
    call note('MPI_Waitall', ierr, [(merge(1, 0, requests(k) == MPI_REQUEST_NULL), k = 1, 8)])
    do k = 1, 4
      call note_status('status', ierr, STATUS_AT(statuses, k), MPI_INTEGER)
      call say('in', [in(1, k), in(length - 2, k), in(length, k), iand(sum(in(:, k)), 65535)])
    end do
    call MPI_Buffer_detach(detached, bytes, ierr)
    call note('MPI_Buffer_detach', ierr, [bytes])
  end subroutine

  ! Sections with gaps for blocking calls, MPI_BOTTOM, a derived datatype with gaps.
  subroutine buffers
    integer :: matrix(3, 4), k
    integer, volatile :: near
    integer(MPI_ADDRESS_KIND) :: place(1)
    DATATYPE_T :: row, absolute
    STATUS(s)
    call clear(s)
    matrix = reshape([(100 * rank + i, i = 1, 12)], [3, 4])
    call MPI_Sendrecv(matrix(1, :), 4, MPI_INTEGER, right, 1, matrix(3, :), 4, MPI_INTEGER, left, 1, world, s, ierr)
    call note_status('MPI_Sendrecv of sections', ierr, s, MPI_INTEGER)
    call say('matrix', reshape(matrix, [12]))
    call MPI_Type_vector(4, 1, 3, MPI_INTEGER, row, ierr)
    call MPI_Type_commit(row, ierr)
    call MPI_Sendrecv_replace(matrix(2, 1), 1, row, right, 1, left, 1, world, s, ierr)
    call note_status('MPI_Sendrecv_replace of a row', ierr, s, row)
    call say('matrix', reshape(matrix, [12]))
    near = rank
    call MPI_Get_address(near, place(1), ierr)
    call MPI_Type_create_hindexed(1, [1], place, MPI_INTEGER, absolute, ierr)
    call MPI_Type_commit(absolute, ierr)
    if (rank == 0) then
      do k = 1, ranks - 1
        call MPI_Send(MPI_BOTTOM, 1, absolute, k, 1, world, ierr)
        call note('MPI_Send of MPI_BOTTOM', ierr)
      end do
    else
      call MPI_Recv(MPI_BOTTOM, 1, absolute, 0, 1, world, s, ierr)
      call note_status('MPI_Recv to MPI_BOTTOM', ierr, s, absolute)
    end if
    call say('near', [near])
    call MPI_Type_free(row, ierr)
    call MPI_Type_free(absolute, ierr)
  end subroutine

#include "note_status.inc"
end program
