! Neighbourhood collectives, blocking and not, on a ring (Cartesian, periodic), a line (edges without a neighbour), a graph and a distributed
! graph of unequal degrees.
! conformance: ranks=3
#include "conformance.inc"

program neighbourhood
  USE_MPI
  use transcript
  implicit none
  INCLUDE_MPI

  integer :: rank, ranks, ierr, i, j
  COMM_T :: ring, line, graph, distributed
  REQUEST_T :: request

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call begin_transcript
  ierr = UNSET

  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring, ierr)
  call note('MPI_Cart_create ring', ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.false.], .false., line, ierr)
  call note('MPI_Cart_create line', ierr)
  ! Everybody with rank 0, rank 0 with everybody.
  call MPI_Graph_create(MPI_COMM_WORLD, ranks, [(ranks - 2 + i, i = 1, ranks)], [[(i, i = 1, ranks - 1)], [(0, i = 1, ranks - 1)]], .false., graph, &
                        ierr)
  call note('MPI_Graph_create', ierr)
  ! From rank r to r + 1, ..., last: no cycle, weights. Rank 0 tells all edges: with several tellers the order of neighbours is anybody's guess.
  call MPI_Dist_graph_create(MPI_COMM_WORLD, merge(ranks, 0, rank == 0), [(i, i = 0, ranks - 1)], [(ranks - 1 - i, i = 0, ranks - 1)], &
                             [((j, j = i + 1, ranks - 1), i = 0, ranks - 1)], [((10 * j, j = i + 1, ranks - 1), i = 0, ranks - 1)], &
                             MPI_INFO_NULL, .false., distributed, ierr)
  call note('MPI_Dist_graph_create', ierr)

  call exchange('ring', ring, 2, 2)
  call exchange('line', line, 2, 2)
  call exchange('graph', graph, merge(ranks - 1, 1, rank == 0), merge(ranks - 1, 1, rank == 0))
  call exchange('distributed', distributed, rank, ranks - 1 - rank)

  call MPI_Comm_free(ring, ierr)
  call MPI_Comm_free(line, ierr)
  call MPI_Comm_free(graph, ierr)
  call MPI_Comm_free(distributed, ierr)
  call write_calls
  call MPI_Finalize(ierr)

contains

  ! 2 elements to and from each neighbour; in the w kind integers and double precision mixed.
  subroutine exchange(name, comm, sources, destinations)
    character(*), intent(in) :: name
    COMM_T, intent(in) :: comm
    integer, intent(in) :: sources, destinations
    integer, asynchronous :: mine(2), out(2 * destinations), in(2 * sources), sent(destinations), got(sources), to(destinations), from(sources)
    integer(MPI_ADDRESS_KIND), asynchronous :: to_bytes(destinations), from_bytes(sources)
    DATATYPE_T :: to_types(destinations), from_types(sources)
    mine = 10 * rank + [1, 2]
    out = 100 * rank + [(i, i = 1, 2 * destinations)]
    sent = 2
    got = 2
    to = [(2 * i, i = 0, destinations - 1)]
    from = [(2 * i, i = 0, sources - 1)]
    to_bytes = 4 * to
    from_bytes = 4 * from
    to_types = MPI_INTEGER
    from_types = MPI_INTEGER

    in = -1
    call MPI_Neighbor_allgather(mine, 2, MPI_INTEGER, in, 2, MPI_INTEGER, comm, ierr)
    call note('MPI_Neighbor_allgather ' // name, ierr, in)
    in = -1
    call MPI_Neighbor_allgatherv(mine, 2, MPI_INTEGER, in, got, from, MPI_INTEGER, comm, ierr)
    call note('MPI_Neighbor_allgatherv ' // name, ierr, in)
    in = -1
    call MPI_Neighbor_alltoall(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, comm, ierr)
    call note('MPI_Neighbor_alltoall ' // name, ierr, in)
    in = -1
    call MPI_Neighbor_alltoallv(out, sent, to, MPI_INTEGER, in, got, from, MPI_INTEGER, comm, ierr)
    call note('MPI_Neighbor_alltoallv ' // name, ierr, in)
    in = -1
    call MPI_Neighbor_alltoallw(out, sent, to_bytes, to_types, in, got, from_bytes, from_types, comm, ierr)
    call note('MPI_Neighbor_alltoallw ' // name, ierr, in)
    in = -1
    call MPI_Neighbor_alltoall(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, comm LEFT_OUT)
    call say('MPI_Neighbor_alltoall ' // name, in)
    ierr = UNSET

    in = -1
    call MPI_Ineighbor_allgather(mine, 2, MPI_INTEGER, in, 2, MPI_INTEGER, comm, request, ierr)
    call finish('MPI_Ineighbor_allgather ' // name, in)
    call MPI_Ineighbor_allgatherv(mine, 2, MPI_INTEGER, in, got, from, MPI_INTEGER, comm, request, ierr)
    call finish('MPI_Ineighbor_allgatherv ' // name, in)
    call MPI_Ineighbor_alltoall(out, 2, MPI_INTEGER, in, 2, MPI_INTEGER, comm, request, ierr)
    call finish('MPI_Ineighbor_alltoall ' // name, in)
    call MPI_Ineighbor_alltoallv(out, sent, to, MPI_INTEGER, in, got, from, MPI_INTEGER, comm, request, ierr)
    call finish('MPI_Ineighbor_alltoallv ' // name, in)
    call MPI_Ineighbor_alltoallw(out, sent, to_bytes, to_types, in, got, from_bytes, from_types, comm, request, ierr)
    call finish('MPI_Ineighbor_alltoallw ' // name, in)
  end subroutine

  subroutine finish(call, in)
    character(*), intent(in) :: call
    integer, intent(inout), asynchronous :: in(:)
    STATUS(s)
    call note(call, ierr)
    call clear(s)
    call MPI_Wait(request, s, ierr)
    call note_status('MPI_Wait', ierr, s, MPI_INTEGER)
    call say(call, in)
    in = -1
  end subroutine

#include "note_status.inc"
end program
