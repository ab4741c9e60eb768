! Blocking collectives: every row, in place, from MPI_BOTTOM, with unequal counts, derived datatypes, our own reduction, array sections.
! conformance: ranks=3
#include "conformance.inc"

program collectives
  USE_MPI
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, i
  COMM_T :: world

  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  call begin_transcript

  call whole_buffers(world)
  call whole_buffers(MPI_COMM_SELF)
  call unequal_counts
  call in_place
  call reductions
  call types_and_places
  call sections
  call nothing
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Equal counts, everybody sends and receives as much.
  subroutine whole_buffers(comm)
    COMM_T, intent(in) :: comm
    integer :: me, n, last
    double precision :: here(3)
    double precision, allocatable :: there(:), all(:)
    real :: vector(4)
    integer :: numbers(5), sums(5)
    call MPI_Comm_rank(comm, me, ierr)
    call MPI_Comm_size(comm, n, ierr)
    last = n - 1
    allocate (there(3 * n), all(3 * n))
    ierr = UNSET

    call MPI_Barrier(comm, ierr)
    call note('MPI_Barrier', ierr)
    call MPI_Barrier(comm LEFT_OUT)

    numbers = 10 * me + [1, 2, 3, 4, 5]
    call MPI_Bcast(numbers, 5, MPI_INTEGER, last, comm, ierr)
    call note('MPI_Bcast', ierr, numbers)
    vector = me + 0.5
    call MPI_Bcast(vector, 4, MPI_REAL, 0, comm LEFT_OUT)
    call say('MPI_Bcast', int(2 * vector))

    here = me + [0.25d0, 0.5d0, 0.75d0]
    there = -1
    call MPI_Gather(here, 3, MPI_DOUBLE_PRECISION, there, 3, MPI_DOUBLE_PRECISION, last, comm, ierr)
    call note('MPI_Gather', ierr, there)
    all = 100 * me + [(dble(i), i = 1, 3 * n)]
    here = -1
    call MPI_Scatter(all, 3, MPI_DOUBLE_PRECISION, here, 3, MPI_DOUBLE_PRECISION, 0, comm, ierr)
    call note('MPI_Scatter', ierr, here)
    call MPI_Allgather(here, 3, MPI_DOUBLE_PRECISION, there, 3, MPI_DOUBLE_PRECISION, comm, ierr)
    call note('MPI_Allgather', ierr, there)
    call MPI_Alltoall(all, 3, MPI_DOUBLE_PRECISION, there, 3, MPI_DOUBLE_PRECISION, comm, ierr)
    call note('MPI_Alltoall', ierr, there)

    numbers = me + [1, 2, 3, 4, 5]
    sums = -1
    call MPI_Reduce(numbers, sums, 5, MPI_INTEGER, MPI_SUM, last, comm, ierr)
    call note('MPI_Reduce', ierr, sums)
    call MPI_Allreduce(numbers, sums, 5, MPI_INTEGER, MPI_MAX, comm, ierr)
    call note('MPI_Allreduce', ierr, sums)
    call MPI_Allreduce(numbers, sums, 5, MPI_INTEGER, MPI_MIN, comm LEFT_OUT)
    call say('MPI_Allreduce', sums)
    call MPI_Scan(numbers, sums, 5, MPI_INTEGER, MPI_SUM, comm, ierr)
    call note('MPI_Scan', ierr, sums)
    sums = -1
    call MPI_Exscan(numbers, sums, 5, MPI_INTEGER, MPI_SUM, comm, ierr)
    if (me == 0) sums = 0  ! undefined there
    call note('MPI_Exscan', ierr, sums)
    there = -1
    call MPI_Reduce_scatter_block(all, there, 3, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
    call note('MPI_Reduce_scatter_block', ierr, there(1:3))
    there = -1
    call MPI_Reduce_scatter(all, there, [(3, i = 1, n)], MPI_DOUBLE_PRECISION, MPI_PROD, comm, ierr)
    call note('MPI_Reduce_scatter', ierr, there(1:3))
  end subroutine

  ! Rank r has r + 1 elements, with a hole of one between them.
  subroutine unequal_counts
    integer :: counts(0:ranks - 1), at(0:ranks - 1), places, here(ranks), ones(0:ranks - 1)
    integer, allocatable :: all(:), mine(:), theirs(:)
    DATATYPE_T :: types(0:ranks - 1)
    do i = 0, ranks - 1
      counts(i) = i + 1
      at(i) = i * (i + 1) / 2 + i
    end do
    places = at(ranks - 1) + ranks
    allocate (all(places), mine(ranks * (rank + 1)), theirs(places))
    here = 7 * rank + [(i, i = 1, ranks)]
    all = -1
    call MPI_Gatherv(here, rank + 1, MPI_INTEGER, all, counts, at, MPI_INTEGER, 1, world, ierr)
    call note('MPI_Gatherv', ierr, all)
    all = [(100 * rank + i, i = 1, places)]
    here = -1
    call MPI_Scatterv(all, counts, at, MPI_INTEGER, here, rank + 1, MPI_INTEGER, 1, world, ierr)
    call note('MPI_Scatterv', ierr, here)
    all = -1
    call MPI_Allgatherv(here, rank + 1, MPI_INTEGER, all, counts, at, MPI_INTEGER, world, ierr)
    call note('MPI_Allgatherv', ierr, all)

    ! To rank r go r + 1 elements; rank + 1 come from each.
    theirs = [(100 * rank + i, i = 1, places)]
    mine = -1
    ones = rank + 1
    call MPI_Alltoallv(theirs, counts, at, MPI_INTEGER, mine, ones, [(i * (rank + 1), i = 0, ranks - 1)], MPI_INTEGER, world, ierr)
    call note('MPI_Alltoallv', ierr, mine)
    mine = -1
    types = MPI_INTEGER
    call MPI_Alltoallw(theirs, counts, 4 * at, types, mine, ones, [(4 * i * (rank + 1), i = 0, ranks - 1)], types, world, ierr)
    call note('MPI_Alltoallw', ierr, mine)
    here = -1
    call MPI_Reduce_scatter([(i * (rank + 1), i = 1, ranks * (ranks + 1) / 2)], here, counts, MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Reduce_scatter', ierr, here)
  end subroutine

  subroutine in_place
    integer :: numbers(2 * ranks), two(2), root
    DATATYPE_T :: types(ranks)
    do root = 0, 1
      numbers = 10 * rank + [(i, i = 1, 2 * ranks)]
      if (rank == root) then
        call MPI_Reduce(MPI_IN_PLACE, numbers, 2 * ranks, MPI_INTEGER, MPI_SUM, root, world, ierr)
      else
        call MPI_Reduce(numbers, two, 2 * ranks, MPI_INTEGER, MPI_SUM, root, world, ierr)
      end if
      call note('MPI_Reduce in place', ierr, numbers)
      two = [rank, -rank]
      numbers = -1
      numbers(2 * root + 1:2 * root + 2) = two
      if (rank == root) then
        call MPI_Gather(MPI_IN_PLACE, 0, MPI_INTEGER, numbers, 2, MPI_INTEGER, root, world, ierr)
      else
        call MPI_Gather(two, 2, MPI_INTEGER, numbers, 2, MPI_INTEGER, root, world, ierr)
      end if
      call note('MPI_Gather in place', ierr, numbers)
      if (rank == root) then
        call MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INTEGER, numbers, [(2, i = 1, ranks)], [(2 * i, i = 0, ranks - 1)], MPI_INTEGER, root, world, ierr)
        call note('MPI_Gatherv in place', ierr, numbers)
        call MPI_Scatter(numbers, 2, MPI_INTEGER, MPI_IN_PLACE, 2, MPI_INTEGER, root, world, ierr)
        call note('MPI_Scatter in place', ierr, numbers)
        call MPI_Scatterv(numbers, [(2, i = 1, ranks)], [(2 * i, i = 0, ranks - 1)], MPI_INTEGER, MPI_IN_PLACE, 2, MPI_INTEGER, root, world, ierr)
        call note('MPI_Scatterv in place', ierr, numbers)
      else
        call MPI_Gatherv(two, 2, MPI_INTEGER, numbers, [2], [0], MPI_INTEGER, root, world, ierr)
        call note('MPI_Gatherv in place', ierr, numbers)
        call MPI_Scatter(numbers, 2, MPI_INTEGER, two, 2, MPI_INTEGER, root, world, ierr)
        call note('MPI_Scatter in place', ierr, two)
        call MPI_Scatterv(numbers, [2], [0], MPI_INTEGER, two, 2, MPI_INTEGER, root, world, ierr)
        call note('MPI_Scatterv in place', ierr, two)
      end if
    end do
    numbers = 10 * rank + [(i, i = 1, 2 * ranks)]
    call MPI_Allreduce(MPI_IN_PLACE, numbers, 2 * ranks, MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Allreduce in place', ierr, numbers)
    call MPI_Allreduce(MPI_IN_PLACE, numbers, 2 * ranks, MPI_INTEGER, MPI_SUM, world LEFT_OUT)
    call say('MPI_Allreduce in place', numbers)
    call MPI_Scan(MPI_IN_PLACE, numbers, 2, MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Scan in place', ierr, numbers)
    call MPI_Exscan(MPI_IN_PLACE, numbers, 2, MPI_INTEGER, MPI_SUM, world, ierr)
    if (rank == 0) numbers(1:2) = 0
    call note('MPI_Exscan in place', ierr, numbers)
    numbers = 10 * rank + [(i, i = 1, 2 * ranks)]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, 2, MPI_INTEGER, world, ierr)
    call note('MPI_Allgather in place', ierr, numbers)
    numbers = 10 * rank + [(i, i = 1, 2 * ranks)]
    call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, [(2, i = 1, ranks)], [(2 * i, i = 0, ranks - 1)], MPI_INTEGER, world, ierr)
    call note('MPI_Allgatherv in place', ierr, numbers)
    call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, numbers, 2, MPI_INTEGER, world, ierr)
    call note('MPI_Alltoall in place', ierr, numbers)
    call MPI_Alltoallv(MPI_IN_PLACE, [0], [0], MPI_DATATYPE_NULL, numbers, [(2, i = 1, ranks)], [(2 * i, i = 0, ranks - 1)], MPI_INTEGER, world, ierr)
    call note('MPI_Alltoallv in place', ierr, numbers)
    types = MPI_INTEGER
    call MPI_Alltoallw(MPI_IN_PLACE, [0], [0], types, numbers, [(2, i = 1, ranks)], [(8 * i, i = 0, ranks - 1)], types, world, ierr)
    call note('MPI_Alltoallw in place', ierr, numbers)
    call MPI_Reduce_scatter_block(MPI_IN_PLACE, numbers, 2, MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Reduce_scatter_block in place', ierr, numbers(1:2))
    numbers = 10 * rank + [(i, i = 1, 2 * ranks)]
    call MPI_Reduce_scatter(MPI_IN_PLACE, numbers, [(2, i = 1, ranks)], MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Reduce_scatter in place', ierr, numbers(1:2))
  end subroutine

  subroutine reductions
    OP_T :: ours
    logical :: flag, flags(2)
    complex :: z, product
    double precision :: pair(2), largest(2)
    integer :: a(3), b(3)
    flag = rank == 1
    flags = .true.
    call MPI_Allreduce(flag, flags(1), 1, MPI_LOGICAL, MPI_LOR, world, ierr)
    call note('MPI_LOR', ierr, [is(flags(1))])
    call MPI_Allreduce(flag, flags(2), 1, MPI_LOGICAL, MPI_LAND, world, ierr)
    call note('MPI_LAND', ierr, [is(flags(2))])
    z = cmplx(1, rank)
    call MPI_Allreduce(z, product, 1, MPI_COMPLEX, MPI_PROD, world, ierr)
    call note('MPI_PROD', ierr, [int(real(product)), int(aimag(product))])
    pair = [dble(mod(rank + 1, ranks)), dble(rank)]
    call MPI_Allreduce(pair, largest, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, world, ierr)
    call note('MPI_MAXLOC', ierr, largest)
    call MPI_Op_create(sum_of_squares, .true., ours, ierr)
    call note('MPI_Op_create', ierr)
    a = rank + [1, 2, 3]
    call MPI_Allreduce(a, b, 3, MPI_INTEGER, ours, world, ierr)
    call note('MPI_Allreduce ours', ierr, b)
    call MPI_Reduce_local(a, b, 3, MPI_INTEGER, ours, ierr)
    call note('MPI_Reduce_local', ierr, b)
    call MPI_Op_free(ours, ierr)
    call note('MPI_Op_free', ierr, [merge(1, 0, ours == MPI_OP_NULL)])
  end subroutine

#if defined(BINDING_F08)
  subroutine sum_of_squares(in, inout, length, datatype)
    type(c_ptr), value :: in, inout
    integer :: length
    DATATYPE_T :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) error stop 'datatype'
    call c_f_pointer(in, a, [length])
    call c_f_pointer(inout, b, [length])
#else
  subroutine sum_of_squares(a, b, length, datatype)
    integer :: length, datatype, a(length), b(length)
    if (datatype /= MPI_INTEGER) error stop 'datatype'
#endif
    b = iand(a * a + b * b, 65535)
  end subroutine

  ! Derived datatypes; absolute addresses.
  subroutine types_and_places
    DATATYPE_T :: column, absolute, pair
    integer :: matrix(4, 3), row(3)
    integer, volatile :: near, far
    integer(MPI_ADDRESS_KIND) :: places(2)
    matrix = reshape([(100 * rank + i, i = 1, 12)], [4, 3])
    call MPI_Type_vector(3, 1, 4, MPI_INTEGER, column, ierr)
    call MPI_Type_commit(column, ierr)
    call MPI_Bcast(matrix(2, 1), 1, column, 1, world, ierr)
    call note('MPI_Bcast of a row', ierr, reshape(matrix, [12]))
    row = -1
    call MPI_Scatter(matrix, 1, MPI_INTEGER, row(2), 1, MPI_INTEGER, 2, world, ierr)
    call note('MPI_Scatter', ierr, row)
    call MPI_Type_free(column, ierr)

    near = rank + 1
    far = 10 * (rank + 1)
    call MPI_Get_address(near, places(1), ierr)
    call MPI_Get_address(far, places(2), ierr)
    call MPI_Type_create_hindexed(2, [1, 1], places, MPI_INTEGER, absolute, ierr)
    call MPI_Type_commit(absolute, ierr)
    call MPI_Bcast(MPI_BOTTOM, 1, absolute, 2, world, ierr)
    call note('MPI_Bcast of MPI_BOTTOM', ierr, [near, far])
    near = rank + 1
    row = -1
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierr)
    call MPI_Type_commit(pair, ierr)
    call MPI_Gather(MPI_BOTTOM, 1, absolute, matrix, 1, pair, 0, world, ierr)
    call note('MPI_Gather of MPI_BOTTOM', ierr, reshape(matrix, [12]))
    call MPI_Scatter(matrix, 1, pair, MPI_BOTTOM, 1, absolute, 0, world, ierr)
    call note('MPI_Scatter to MPI_BOTTOM', ierr, [near, far])
    call MPI_Type_free(absolute, ierr)
    call MPI_Type_free(pair, ierr)
    ierr = UNSET
  end subroutine

  ! Buffers that are scalars, elements, allocatables, pointers, substrings; sections with gaps, which the compiler copies or describes.
  subroutine sections
    integer, target :: cube(2, 3, 4)
    integer, pointer :: view(:)
    character(12) :: text
    integer :: one
    cube = reshape([(100 * rank + i, i = 1, 24)], [2, 3, 4])
    call MPI_Bcast(cube(:, :, 2), 6, MPI_INTEGER, 1, world, ierr)
    call note('MPI_Bcast of a plane', ierr, reshape(cube, [24]))
    view => cube(1, 1, :)
    call MPI_Bcast(cube(1, 3, 4), 1, MPI_INTEGER, 2, world, ierr)
    call note('MPI_Bcast of an element', ierr, [reshape(cube, [24]), view])
    one = rank
    call MPI_Bcast(one, 1, MPI_INTEGER, 2, world, ierr)
    call note('MPI_Bcast of a scalar', ierr, [one])
    text = 'abcdefghijkl'
    if (rank == 1) text = 'ABCDEFGHIJKL'
    call MPI_Bcast(text(4:6), 3, MPI_CHARACTER, 1, world, ierr)
    call note('MPI_Bcast of a substring', ierr)
    call say('text', text)
    ! With gaps: every binding of these blocking calls may copy in and out.
    call MPI_Allreduce(cube(1, :, 1), cube(2, :, 4), 3, MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Allreduce of sections', ierr, reshape(cube, [24]))
  end subroutine

  subroutine nothing
    integer :: empty(0), numbers(2)
    numbers = rank
    call MPI_Bcast(empty, 0, MPI_INTEGER, 0, world, ierr)
    call note('MPI_Bcast of nothing', ierr)
    call MPI_Allreduce(numbers, numbers(2), 0, MPI_INTEGER, MPI_SUM, world, ierr)
    call note('MPI_Allreduce of nothing', ierr, numbers)
    call MPI_Gatherv(empty, 0, MPI_INTEGER, numbers, [(0, i = 1, ranks)], [(0, i = 1, ranks)], MPI_INTEGER, 0, world, ierr)
    call note('MPI_Gatherv of nothing', ierr, numbers)
  end subroutine
end program
