! Communicators: every way to make one, named, compared, used and freed; topologies; those who get none; errors of a communicator's own handler.
! conformance: ranks=3
#include "conformance.inc"

program communicators
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, i
  COMM_T :: world

  call begin_transcript
  call MPI_Init(ierr)
  world = MPI_COMM_WORLD
  call MPI_Comm_rank(world, rank, ierr)
  call MPI_Comm_size(world, ranks, ierr)
  ierr = UNSET

  call duplicates
  call splits
  call groups
  call topologies
  call names
  call MPI_Barrier(world, ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! Who is in it, how it compares with MPI_COMM_WORLD, and that it works.
  subroutine use(made, comm)
    character(*), intent(in) :: made
    COMM_T :: comm
    integer :: me, members, sum, likeness
    if (comm == MPI_COMM_NULL) then
      call say(made // ' is MPI_COMM_NULL', [1])
      return
    end if
    call MPI_Comm_rank(comm, me, ierr)
    call MPI_Comm_size(comm, members, ierr)
    call MPI_Comm_compare(comm, world, likeness, ierr)
    call MPI_Allreduce(rank + 1, sum, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
    call note(made, ierr, [me, members, sum, merge(1, 0, likeness == MPI_CONGRUENT), merge(1, 0, likeness == MPI_SIMILAR)])
  end subroutine

  subroutine release(comm)
    COMM_T, intent(inout) :: comm
    if (comm == MPI_COMM_NULL) return
    call MPI_Comm_free(comm, ierr)
    call note('MPI_Comm_free', ierr, [merge(1, 0, comm == MPI_COMM_NULL)])
  end subroutine

  subroutine duplicates
    COMM_T, asynchronous :: made
    COMM_T :: again
    REQUEST_T :: request
    INFO_T :: info
    call MPI_Comm_dup(world, made, ierr)
    call note('MPI_Comm_dup', ierr)
    call use('MPI_Comm_dup', made)
    call MPI_Comm_dup(made, again LEFT_OUT)
    call use('MPI_Comm_dup of a duplicate', again)
    call release(made)
    call use('MPI_Comm_dup whose parent is freed', again)
    call MPI_Comm_disconnect(again, ierr)
    call note('MPI_Comm_disconnect', ierr, [merge(1, 0, again == MPI_COMM_NULL)])
    call MPI_Info_create(info, ierr)
    call MPI_Info_set(info, 'mpi_assert_no_any_tag', 'true', ierr)
    call MPI_Comm_dup_with_info(world, info, made, ierr)
    call note('MPI_Comm_dup_with_info', ierr)
    call use('MPI_Comm_dup_with_info', made)
    call MPI_Info_free(info, ierr)
    call release(made)
    call MPI_Comm_idup(world, made, request, ierr)
    call note('MPI_Comm_idup', ierr, [merge(1, 0, request == MPI_REQUEST_NULL)])
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call note('MPI_Wait', ierr)
    call use('MPI_Comm_idup', made)
    call release(made)
    call MPI_Comm_dup(MPI_COMM_SELF, made, ierr)
    call note('MPI_Comm_dup of MPI_COMM_SELF', ierr)
    call use('MPI_Comm_dup of MPI_COMM_SELF', made)
    call release(made)
  end subroutine

  subroutine splits
    COMM_T :: half, part
    ! The last rank stays out; the others in reverse order.
    call MPI_Comm_split(world, merge(MPI_UNDEFINED, 0, rank == ranks - 1), -rank, half, ierr)
    call note('MPI_Comm_split', ierr)
    call use('MPI_Comm_split', half)
    if (half /= MPI_COMM_NULL) then
      call MPI_Comm_split(half, rank, 0, part, ierr)
      call note('MPI_Comm_split of a split', ierr)
      call use('MPI_Comm_split of a split', part)
      call release(part)
    end if
    call release(half)
    call MPI_Comm_split(world, mod(rank, 2), 0, half LEFT_OUT)
    call use('MPI_Comm_split', half)
    call release(half)
    call MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, part, ierr)
    call note('MPI_Comm_split_type', ierr)
    call use('MPI_Comm_split_type', part)
    call release(part)
    call MPI_Comm_split_type(world, MPI_UNDEFINED, rank, MPI_INFO_NULL, part, ierr)
    call note('MPI_Comm_split_type', ierr)
    call use('MPI_Comm_split_type', part)
  end subroutine

  subroutine groups
    GROUP_T :: all, some
    COMM_T :: made
    call MPI_Comm_group(world, all, ierr)
    call MPI_Group_incl(all, ranks - 1, [(i, i = ranks - 1, 1, -1)], some, ierr)  ! all but rank 0, in reverse order
    call MPI_Comm_create(world, some, made, ierr)
    call note('MPI_Comm_create', ierr)
    call use('MPI_Comm_create', made)
    call release(made)
    if (rank > 0) then
      call MPI_Comm_create_group(world, some, 7, made, ierr)
      call note('MPI_Comm_create_group', ierr)
      call use('MPI_Comm_create_group', made)
      call release(made)
    end if
    call MPI_Comm_create(world, MPI_GROUP_EMPTY, made, ierr)
    call note('MPI_Comm_create of nobody', ierr)
    call use('MPI_Comm_create of nobody', made)
    call MPI_Group_free(all, ierr)
    call MPI_Group_free(some, ierr)
    ierr = UNSET
  end subroutine

  subroutine topologies
    COMM_T :: grid, row, graph
    integer :: dims(2), coordinates(2), from, to, kind, sources, destinations
    integer :: in(ranks), out(ranks), in_weights(ranks), out_weights(ranks)
    logical :: periods(2), weighted
    call MPI_Cart_create(world, 2, [1, ranks - 1], [.false., .true.], .false., grid, ierr)
    call note('MPI_Cart_create', ierr)
    call use('MPI_Cart_create', grid)
    if (grid /= MPI_COMM_NULL) then
      call MPI_Cart_get(grid, 2, dims, periods, coordinates, ierr)
      call note('MPI_Cart_get', ierr, [dims, is(periods(1)), is(periods(2)), coordinates])
      call MPI_Cart_shift(grid, 1, 1, from, to, ierr)
      call note('MPI_Cart_shift', ierr, [from, to])
      call MPI_Topo_test(grid, kind, ierr)
      call note('MPI_Topo_test', ierr, [merge(1, 0, kind == MPI_CART)])
      call MPI_Cart_sub(grid, [.true., .false.], row, ierr)
      call note('MPI_Cart_sub', ierr)
      call use('MPI_Cart_sub', row)
      call release(row)
      call MPI_Cart_sub(grid, [.false., .true.], row, ierr)
      call note('MPI_Cart_sub', ierr)
      call use('MPI_Cart_sub', row)
      call release(row)
    end if
    call release(grid)
    ! A chain.
    call MPI_Graph_create(world, 3, [1, 3, 4], [1, 0, 2, 1], .false., graph, ierr)
    call note('MPI_Graph_create', ierr)
    call use('MPI_Graph_create', graph)
    if (graph /= MPI_COMM_NULL) then
      call MPI_Graph_neighbors_count(graph, rank, from, ierr)
      call note('MPI_Graph_neighbors_count', ierr, [from])
    end if
    call release(graph)
    call MPI_Dist_graph_create(world, 1, [rank], [1], [mod(rank + 1, ranks)], [5], MPI_INFO_NULL, .false., graph, ierr)
    call note('MPI_Dist_graph_create', ierr)
    call use('MPI_Dist_graph_create', graph)
    call MPI_Dist_graph_neighbors_count(graph, sources, destinations, weighted, ierr)
    call note('MPI_Dist_graph_neighbors_count', ierr, [sources, destinations, is(weighted)])
    call MPI_Dist_graph_neighbors(graph, 1, in, in_weights, 1, out, out_weights, ierr)
    call note('MPI_Dist_graph_neighbors', ierr, [in(1), in_weights(1), out(1), out_weights(1)])
    call release(graph)
    call MPI_Dist_graph_create(world, 1, [rank], [1], [mod(rank + 1, ranks)], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierr)
    call note('MPI_Dist_graph_create unweighted', ierr)
    call use('MPI_Dist_graph_create unweighted', graph)
    call release(graph)
    call MPI_Dist_graph_create_adjacent(world, 1, [mod(rank + ranks - 1, ranks)], [2], 1, [mod(rank + 1, ranks)], [3], MPI_INFO_NULL, .false., &
                                        graph, ierr)
    call note('MPI_Dist_graph_create_adjacent', ierr)
    call use('MPI_Dist_graph_create_adjacent', graph)
    call release(graph)
    call MPI_Dist_graph_create_adjacent(world, 1, [mod(rank + ranks - 1, ranks)], MPI_UNWEIGHTED, 1, [mod(rank + 1, ranks)], MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., graph, ierr)
    call note('MPI_Dist_graph_create_adjacent unweighted', ierr)
    call use('MPI_Dist_graph_create_adjacent unweighted', graph)
    call release(graph)
  end subroutine

  subroutine names
    COMM_T :: comm
    character(MPI_MAX_OBJECT_NAME) :: name
    integer :: length
    call MPI_Comm_dup(world, comm, ierr)
    call MPI_Comm_set_name(comm, 'halo exchange', ierr)
    call note('MPI_Comm_set_name', ierr)
    name = 'untouched'
    call MPI_Comm_get_name(comm, name, length, ierr)
    call note('MPI_Comm_get_name', ierr, [length])
    call say('name', trim(name))
    call MPI_Comm_set_name(comm, '  with blanks   ' LEFT_OUT)
    call MPI_Comm_get_name(comm, name, length, ierr)
    call note('MPI_Comm_get_name', ierr, [length])
    call say('name', trim(name))
    call MPI_Comm_set_name(comm, '', ierr)
    call note('MPI_Comm_set_name to nothing', ierr)
    call MPI_Comm_get_name(comm, name, length, ierr)
    call note('MPI_Comm_get_name', ierr, [length])
    call release(comm)
    call MPI_Comm_get_name(world, name, length, ierr)
    call note('MPI_Comm_get_name', ierr, [length])
    call say('name', trim(name))
  end subroutine
end program
