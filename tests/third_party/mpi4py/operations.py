"""One of each: the MPI operations that mpi4py offers and ddl records, with traps (3 ranks).

Wildcards, messages shorter than their buffer, derived datatypes, MPI_PROC_NULL, zero counts, MPI_IN_PLACE, cancelled and freed requests,
inactive persistent requests, collectives between two groups, windows, files, a variadic MPI_Pcontrol without its argument. Results are checked, so that a wrapper that garbles a call fails here.
run_job.py knows the counts of some operations; change both together.

With the argument "single" MPI is initialized without threads: Open MPI has some kinds of windows only then.
"""
import os
import sys

import mpi4py
import numpy as np

os.environ["OMPI_MCA_osc"] = "sm,pt2pt"  # its default needs copies between processes, which containers forbid
mpi4py.rc.threads = sys.argv[1:] != ["single"]
from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD


def give_up(*error):
    sys.__excepthook__(*error)
    world.Abort(1)  # or the others wait for us


sys.excepthook = give_up
rank, size = world.Get_rank(), world.Get_size()
assert size == 3, "run me on 3 ranks"
right, left = (rank + 1) % size, (rank - 1) % size
total = sum(range(size))


def numbers(n=10, value=None):
    return np.full(n, rank if value is None else value, dtype="d")


def same(array, value):
    assert (array == value).all(), (array, value)


def blocking_collectives(comm):
    one, all_of = numbers(10), numbers(30, -1)
    for _ in range(3):
        result = numbers(10, -1)
        comm.Allreduce(one, result)
        same(result, total)
    comm.Allreduce(MPI.IN_PLACE, result)
    comm.Barrier()
    comm.Bcast(numbers(10, 7), root=2)
    comm.Reduce(one, result, op=MPI.MAX, root=1)
    comm.Gather(one, all_of if rank == 0 else None, root=0)
    comm.Gather(MPI.IN_PLACE if rank == 0 else one, all_of if rank == 0 else None, root=0)
    comm.Gatherv(numbers(rank + 1), [numbers(6), (1, 2, 3), None, MPI.DOUBLE] if rank == 2 else None, root=2)
    comm.Gatherv(MPI.IN_PLACE if rank == 1 else numbers(rank + 1), [numbers(6), (1, 2, 3), None, MPI.DOUBLE] if rank == 1 else None, root=1)
    comm.Scatter(all_of if rank == 1 else None, one, root=1)
    comm.Scatterv([numbers(6), (1, 2, 3), None, MPI.DOUBLE] if rank == 2 else None, numbers(rank + 1), root=2)
    comm.Allgather(numbers(10), all_of)
    same(all_of[10:20], 1)
    comm.Allgather(MPI.IN_PLACE, all_of)
    comm.Allgatherv(numbers(rank + 1), [numbers(6), (1, 2, 3), None, MPI.DOUBLE])
    comm.Allgatherv(MPI.IN_PLACE, [numbers(6), (1, 2, 3), None, MPI.DOUBLE])
    comm.Alltoall(all_of, numbers(30))
    comm.Alltoall(MPI.IN_PLACE, all_of)
    counts = (rank + 1,) * size
    comm.Alltoallv([numbers(3 * (rank + 1)), counts, None, MPI.DOUBLE], [numbers(6), (1, 2, 3), None, MPI.DOUBLE])
    comm.Alltoallv(MPI.IN_PLACE, [numbers(6), (2, 2, 2), None, MPI.DOUBLE])
    types, places = [MPI.DOUBLE, MPI.INT, MPI.CHAR], (0, 64, 128)
    into = [types[rank]] * size
    comm.Alltoallw([bytearray(192), (2, 2, 2), places, types], [bytearray(192), (2, 2, 2), places, into])
    comm.Reduce_scatter(numbers(6), numbers(rank + 1), recvcounts=(1, 2, 3))
    comm.Reduce_scatter_block(numbers(30), numbers(10))
    comm.Scan(one, result)
    comm.Exscan(one, result, op=MPI.SUM)
    comm.Allreduce([np.zeros(4, "i4"), MPI.INT], [np.zeros(4, "i4"), MPI.INT])
    assert comm.allreduce(rank) == total  # pickled: other operations underneath
    assert comm.bcast({"from": rank}, root=0) == {"from": 0}
    assert comm.allgather(rank) == [0, 1, 2]


def nonblocking_collectives(comm):
    one, many = numbers(10), numbers(30)
    requests = [
        comm.Ibarrier(),
        comm.Ibcast(numbers(10), root=1),
        comm.Iallreduce(one, numbers(10)),
        comm.Ireduce(one, numbers(10), root=2),
        comm.Igather(one, numbers(30) if rank == 0 else None, root=0),
        comm.Igatherv(numbers(rank + 1), [numbers(6), (1, 2, 3), None, MPI.DOUBLE] if rank == 0 else None, root=0),
        comm.Iscatter(many if rank == 2 else None, numbers(10), root=2),
        comm.Iscatterv([numbers(6), (1, 2, 3), None, MPI.DOUBLE] if rank == 1 else None, numbers(rank + 1), root=1),
        comm.Iallgather(one, numbers(30)),
        comm.Iallgatherv(numbers(rank + 1), [numbers(6), (1, 2, 3), None, MPI.DOUBLE]),
        comm.Ialltoall(many, numbers(30)),
        comm.Ialltoallv([numbers(3), (1, 1, 1), None, MPI.DOUBLE], [numbers(3), (1, 1, 1), None, MPI.DOUBLE]),
        comm.Ialltoallw([bytearray(24), (1, 1, 1), (0, 8, 16), [MPI.DOUBLE] * 3], [bytearray(24), (1, 1, 1), (0, 8, 16), [MPI.DOUBLE] * 3]),
        comm.Ireduce_scatter(numbers(6), numbers(rank + 1), recvcounts=(1, 2, 3)),
        comm.Ireduce_scatter_block(many, numbers(10)),
        comm.Iscan(one, numbers(10)),
        comm.Iexscan(one, numbers(10)),
    ]
    while not requests[2].Test():
        pass
    while not MPI.Request.Testall(requests[:4]):
        pass
    MPI.Request.Waitall(requests)


def messages(comm):
    comm.Send(numbers(10), dest=right, tag=5)
    buffer = numbers(100, -1)  # ten times larger than what comes
    status = MPI.Status()
    comm.Recv(buffer, source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
    assert (status.Get_source(), status.Get_tag(), status.Get_count(MPI.DOUBLE)) == (left, 5, 10)
    comm.Sendrecv(numbers(10), dest=right, recvbuf=numbers(10), source=left)
    comm.Sendrecv_replace(numbers(10), dest=left, source=right)
    comm.Send(numbers(10), dest=MPI.PROC_NULL)
    comm.Recv(buffer, source=MPI.PROC_NULL)
    comm.Sendrecv(numbers(10), dest=MPI.PROC_NULL, recvbuf=numbers(10), source=MPI.PROC_NULL)
    comm.Send(numbers(0), dest=right)
    comm.Recv(buffer, source=left)

    # Four modes, non-blocking, completed in all ways.
    space = MPI.Alloc_mem(4096 + MPI.BSEND_OVERHEAD)
    MPI.Attach_buffer(space)
    sends = [comm.Isend(numbers(10), right, 1), comm.Ibsend(numbers(10), right, 2), comm.Issend(numbers(10), right, 3)]
    comm.Bsend(numbers(10), right, 4)
    receives = [comm.Irecv(numbers(100), MPI.ANY_SOURCE, tag) for tag in (1, 2, 3, 4)]
    MPI.Request.Waitany(receives)
    MPI.Request.Waitsome(receives)
    MPI.Request.Testany(receives)
    MPI.Request.Testsome(receives)
    MPI.Request.Waitall(receives)
    MPI.Request.Waitall(sends)
    MPI.Detach_buffer()
    ready = comm.Irecv(numbers(10), left, 6), comm.Irecv(numbers(10), left, 7)
    comm.Barrier()
    comm.Rsend(numbers(10), right, 6)
    comm.Irsend(numbers(10), right, 7).Wait()
    MPI.Request.Waitall(ready)
    pending = comm.Irecv(numbers(10), left, 8)
    comm.Ssend(numbers(10), right, 8)
    pending.Wait()
    comm.Irecv(numbers(10), MPI.PROC_NULL).Wait()
    comm.Isend(numbers(10), MPI.PROC_NULL).Wait()
    never = comm.Irecv(numbers(10), left, 99)
    never.Cancel()
    never.Wait()
    comm.Isend(numbers(1), right, 9).Free()
    comm.Recv(buffer, left, 9)

    # Probes, matched receives.
    comm.Send(numbers(3), right, 10)
    comm.Probe(MPI.ANY_SOURCE, 10)
    while not comm.Iprobe(left, 10):
        pass
    assert not comm.Iprobe(left, 98)
    comm.Recv(buffer, left, 10)
    comm.Send(numbers(3), right, 11)
    comm.Mprobe(left, 11).Recv(buffer)
    comm.Send(numbers(4), right, 12)
    message = None
    while message is None:
        message = comm.Improbe(left, 12)
    message.Irecv(buffer).Wait()
    assert comm.sendrecv("pickled", dest=right, source=left) == "pickled"
    comm.isend([1, 2, 3], dest=right, tag=13)
    assert comm.recv(source=MPI.ANY_SOURCE, tag=13) == [1, 2, 3]

    # Derived datatypes: 4 blocks of 2 of every 3 doubles; a struct of 8 + 4 bytes.
    vector = MPI.DOUBLE.Create_vector(4, 2, 3).Commit()
    struct = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT]).Commit()
    for kind in vector, struct:
        pending = comm.Irecv([bytearray(256), 2, kind], left, 14)
        comm.Send([bytearray(256), 2, kind], right, 14)
        pending.Wait()
    comm.Bcast([bytearray(256), 2, vector])
    vector.Free()
    struct.Free()


def persistent(comm):
    receive = comm.Recv_init(numbers(100), MPI.ANY_SOURCE, 20)
    sends = [comm.Send_init(numbers(10), right, 20), comm.Ssend_init(numbers(10), right, 20), comm.Rsend_init(numbers(10), right, 20)]
    space = MPI.Alloc_mem(4096 + MPI.BSEND_OVERHEAD)
    MPI.Attach_buffer(space)
    sends.append(comm.Bsend_init(numbers(10), right, 20))
    for send in sends:
        for _ in range(2):
            receive.Start()
            comm.Barrier()  # the receive is posted: ready sends are correct
            send.Start()
            MPI.Request.Waitall([receive, *sends])  # most of them inactive
    both = [receive, sends[0]]
    MPI.Prequest.Startall(both)
    MPI.Request.Waitall(both)
    sends[1].Wait()  # inactive: returns at once
    MPI.Detach_buffer()
    nobody = comm.Send_init(numbers(10), MPI.PROC_NULL, 20)
    nobody.Start()
    nobody.Wait()
    for request in [receive, nobody, *sends]:
        request.Free()


def between_groups(comm):
    """Rank 0 alone in one group, 1 and 2 in the other; MPI_ROOT is 2 of the world, and beside it rank 1 says MPI_PROC_NULL."""
    root = [0, MPI.PROC_NULL, MPI.ROOT][rank]  # seen from the group of rank 0 it is ...
    root = 1 if rank == 0 else root            # ... rank 1 of the other group
    others = comm.Get_remote_size()
    comm.Barrier()
    comm.Bcast(numbers(10) if root != MPI.PROC_NULL else None, root=root)
    comm.Gather(numbers(10) if rank == 0 else None, numbers(10) if root == MPI.ROOT else None, root=root)
    comm.Scatter(numbers(10) if root == MPI.ROOT else None, numbers(10) if rank == 0 else None, root=root)
    comm.Reduce(numbers(10) if rank == 0 else None, numbers(10) if root == MPI.ROOT else None, root=root)
    comm.Allreduce(numbers(10), numbers(10))
    comm.Allgather(numbers(10), numbers(10 * others))
    comm.Alltoall(numbers(10 * others), numbers(10 * others))
    comm.Alltoallv([numbers(3 * others), (3,) * others, None, MPI.DOUBLE], [numbers(3 * others), (3,) * others, None, MPI.DOUBLE])


def neighbours():
    ring = world.Create_cart([3], [True])
    tree = world.Create_dist_graph_adjacent([left], [right])
    star = world.Create_graph([2, 3, 4], [1, 2, 0, 0])
    for comm, n in (ring, 2), (tree, 1), (star, 2 if rank == 0 else 1):
        counts = (10,) * n
        places, types = [80 * i for i in range(n)], [MPI.DOUBLE] * n
        one, many, into = numbers(10), numbers(10 * n), numbers(10 * n)
        blocks = [many, counts, None, MPI.DOUBLE]
        comm.Neighbor_allgather(one, into)
        comm.Neighbor_allgatherv(one, [into, counts, None, MPI.DOUBLE])
        comm.Neighbor_alltoall(many, into)
        comm.Neighbor_alltoallv(blocks, [into, counts, None, MPI.DOUBLE])
        comm.Neighbor_alltoallw([many, counts, places, types], [into, counts, places, types])
        comm.Ineighbor_allgather(one, into).Wait()
        comm.Ineighbor_allgatherv(one, [into, counts, None, MPI.DOUBLE]).Wait()
        comm.Ineighbor_alltoall(many, into).Wait()
        comm.Ineighbor_alltoallv(blocks, [into, counts, None, MPI.DOUBLE]).Wait()
        comm.Ineighbor_alltoallw([many, counts, places, types], [into, counts, places, types]).Wait()
        comm.Free()


def windows():
    memory = numbers(100)
    made = [MPI.Win.Allocate(800, 8, comm=world)]
    made[0].Set_name("allocated")
    if not mpi4py.rc.threads:
        made.append(MPI.Win.Create(memory, 8, comm=world))
    for window in made:
        window.Fence()
        window.Put(numbers(10), right)
        window.Put(numbers(10), MPI.PROC_NULL)
        window.Fence()
        window.Get(numbers(7), left)
        window.Accumulate(numbers(5), right, 20, op=MPI.SUM)
        window.Fence()
        window.Lock(right)
        window.Get_accumulate(numbers(4), numbers(4), right, 30, op=MPI.SUM)
        window.Fetch_and_op(numbers(1), numbers(1), right, 40)
        window.Compare_and_swap(np.zeros(1, "i8"), np.zeros(1, "i8"), np.zeros(1, "i8"), right, 41)
        window.Flush(right)
        window.Flush_local(right)
        window.Unlock(right)
        window.Lock_all()
        requests = [window.Rput(numbers(3), right, 50), window.Rget(numbers(2), right, 60), window.Raccumulate(numbers(6), right, 70),
                    window.Rget_accumulate(numbers(2), numbers(2), right, 80)]
        MPI.Request.Waitall(requests)
        window.Flush_all()
        window.Flush_local_all()
        window.Sync()
        window.Unlock_all()
        group = world.Get_group()
        window.Post(group.Incl([left]))
        window.Start(group.Incl([right]))
        window.Put(numbers(10), right)
        window.Complete()
        window.Wait()
        window.Post(group.Incl([left]))
        window.Start(group.Incl([right]))
        window.Complete()
        while not window.Test():
            pass
        window.Free()
    if not mpi4py.rc.threads:
        window = MPI.Win.Create_dynamic(comm=world)
        window.Attach(memory)
        window.Detach(memory)
        window.Free()
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    window = MPI.Win.Allocate_shared(80, 8, comm=node)
    window.Fence()
    window.Free()
    node.Free()


def rewind(file):
    world.Barrier()  # nobody moves the pointer any more
    file.Seek_shared(0)
    world.Barrier()


def files():
    name = os.path.abspath("operations.out")
    file = MPI.File.Open(world, name, MPI.MODE_RDWR | MPI.MODE_CREATE)
    mine = 80 * rank  # where this rank's ten numbers are
    out, into = numbers(10), numbers(10, -1)
    file.Preallocate(240)
    file.Set_size(240)
    file.Write_at(mine, out)
    file.Write_at_all(mine, out)
    file.Iwrite_at(mine, out).Wait()
    file.Iwrite_at_all(mine, out).Wait()
    file.Write_at_all_begin(mine, out)
    file.Write_at_all_end(out)
    file.Sync()
    world.Barrier()
    file.Read_at(mine, into)
    same(into, rank)
    file.Read_at_all(mine, into)
    file.Iread_at(mine, into).Wait()
    file.Iread_at_all(mine, into).Wait()
    file.Read_at(160, numbers(100))  # ten numbers are left there
    file.Read_at_all_begin(mine, into)
    file.Read_at_all_end(into)
    file.Set_view(mine, MPI.DOUBLE, MPI.DOUBLE)
    file.Write(out)
    file.Seek(0)
    file.Read(into)
    file.Seek(0)
    file.Write_all(out)
    file.Seek(0)
    file.Read_all(into)
    file.Seek(0)
    file.Iwrite(out).Wait()
    file.Seek(0)
    file.Iread(into).Wait()
    file.Seek(0)
    file.Iwrite_all(out).Wait()
    file.Seek(0)
    file.Iread_all(into).Wait()
    file.Seek(0)
    file.Write_all_begin(out)
    file.Write_all_end(out)
    file.Seek(0)
    file.Read_all_begin(into)
    file.Read_all_end(into)
    same(into, rank)
    file.Set_atomicity(False)
    file.Set_view(0, MPI.DOUBLE, MPI.DOUBLE)
    file.Write_shared(out)
    file.Iwrite_shared(out).Wait()
    rewind(file)
    file.Write_ordered(out)
    rewind(file)
    file.Read_ordered(into)
    same(into, rank)
    rewind(file)
    file.Write_ordered_begin(out)
    file.Write_ordered_end(out)
    rewind(file)
    file.Read_ordered_begin(into)
    file.Read_ordered_end(into)
    rewind(file)
    file.Read_shared(into)
    file.Iread_shared(into).Wait()
    file.Close()
    world.Barrier()
    if rank == 0:
        MPI.File.Delete(name)


def generalized():
    request = MPI.Grequest.Start(lambda status: None, lambda: None, lambda done: None)
    request.Complete()
    request.Wait()
    pending = world.Irecv(numbers(10), left, 30)
    world.Send(numbers(10), right, 30)
    while not pending.Get_status():
        pass
    pending.Wait()


def communicators():
    twin = world.Dup()
    twin.Set_name("twin")
    blocking_collectives(twin)
    nonblocking_collectives(twin)
    twin.Free()
    twin, request = world.Idup()
    request.Wait()
    twin.Barrier()
    twin.Free()
    parity = world.Split(rank % 2, key=-rank)
    parity.Allreduce(numbers(10), numbers(10))
    parity.Free()
    nobody = world.Split(MPI.UNDEFINED if rank == 0 else 0)
    if nobody:
        nobody.Bcast(numbers(10))
        nobody.Free()
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    node.Barrier()
    node.Disconnect()
    pair = world.Get_group().Incl([0, 2])
    created = world.Create(pair)
    if created:
        created.Barrier()
        created.Free()
    if rank != 1:
        group = world.Create_group(pair, tag=3)
        group.Allreduce(numbers(10), numbers(10))
        group.Free()
    ring = world.Create_cart([3], [True])
    row = ring.Sub([True])
    row.Barrier()
    source, dest = ring.Shift(0, 1)
    ring.Sendrecv(numbers(10), dest, recvbuf=numbers(10), source=source)
    row.Free()
    ring.Free()
    line = world.Create_graph([1, 3, 4], [1, 0, 2, 1])
    line.Barrier()
    line.Free()
    for graph in world.Create_dist_graph_adjacent([left], [right]), world.Create_dist_graph([rank], [1], [right]):
        graph.Barrier()
        graph.Free()
    halves = world.Split(rank > 0)
    across = halves.Create_intercomm(0, world, 1 if rank == 0 else 0, tag=4)
    if rank < 2:  # rank 0 here, rank 0 of the remote group there
        across.Sendrecv(numbers(10), 0, recvbuf=numbers(10), source=0)
    between_groups(across)
    merged = across.Merge(rank > 0)
    merged.Barrier()
    for comm in merged, across, halves:
        comm.Free()
    MPI.COMM_SELF.Allreduce(numbers(10), numbers(10))
    MPI.Pcontrol(1)


blocking_collectives(world)
nonblocking_collectives(world)
messages(world)
persistent(world)
generalized()
communicators()
neighbours()
windows()
files()
