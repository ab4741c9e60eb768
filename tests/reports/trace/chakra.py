#!/usr/bin/env python3
"""ddl export chakra: files are what protoc reads by Chakra's field numbers, with the computing, collectives, messages and kernels that the store has; carried out in the
order of their dependencies they take as long as the step did; and `ddl import chakra` makes a run of them again with the same numbers."""
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

try:
    import google.protobuf  # noqa: F401
    from google.protobuf.internal.decoder import _DecodeVarint32
    from google.protobuf.internal.encoder import _VarintBytes
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-protobuf)")
    sys.exit(77)
if not shutil.which("protoc"):
    print("skipped: no protoc (apt-get install protobuf-compiler)")
    sys.exit(77)

BUILD = Path(os.environ["DDL_BUILD"])
METADATA, COMPUTE, SEND, RECEIVE, COLLECTIVE = 1, 4, 5, 6, 7
TYPES = {"allreduce": 0, "reduce": 1, "allgather": 2, "gather": 3, "scatter": 4, "bcast": 5, "broadcast": 5, "alltoall": 6, "reducescatter": 7, "barrier": 9}


def ddl(*arguments):
    done = subprocess.run([BUILD / "bin" / "ddl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stderr


def load_messages():
    with tempfile.TemporaryDirectory(prefix="ddl-test-") as folder:
        subprocess.run(["protoc", f"-I{Path(__file__).parent}", f"--python_out={folder}", "chakra.proto"], check=True)
        sys.path.insert(0, folder)
        try:
            import chakra_pb2
        finally:
            sys.path.remove(folder)
    return chakra_pb2


class Node:
    def __init__(self, message):
        assert len(message.attr) == len({a.name for a in message.attr}), "an attribute is there twice"
        self.id, self.name, self.type, self.deps = message.id, message.name, message.type, list(message.data_deps)
        self.start, self.duration = message.start_time_micros, message.duration_micros
        self.attr = {a.name: getattr(a, a.WhichOneof("value")) for a in message.attr}
        self.on_host = self.attr["is_cpu_op"]

    @property
    def end(self):
        return self.start + self.duration


def read(path, messages):
    data, at, nodes = path.read_bytes(), 0, []
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        message = messages.Node() if nodes else messages.Head()
        assert message.MergeFromString(data[at:at + size]) == size
        again = type(message)()
        again.CopyFrom(message)
        again.DiscardUnknownFields()
        assert again == message, "fields that Chakra does not know"
        nodes.append(message)
        at += size
    assert at == len(data) and nodes[0].version
    groups = [n for n in nodes[1:] if n.type == METADATA]
    assert len(groups) == 1 and groups[0].id == len(nodes) - 2 and groups[0].inputs.values.startswith("['[{"), groups
    return [Node(n) for n in nodes[1:] if n.type != METADATA], json.loads(groups[0].inputs.values[2:-2])


def replay(nodes):
    """When each ends, if it begins as soon as all that it depends on have ended."""
    ends = {}
    for node in nodes:
        assert node.id not in ends, f"node {node.id} is there twice"
        assert all(dep in ends for dep in node.deps), f"node {node.id} ({node.name}) is before what it depends on: {node.deps}"
        ends[node.id] = max((ends[dep] for dep in node.deps), default=None) if node.deps else None
        ends[node.id] = (node.start if ends[node.id] is None else ends[node.id]) + node.duration
    return ends


def type_of(op):
    name = op.lower().replace("mpi_i", "").replace("mpi_", "").replace("nccl", "").replace("_", "")
    return TYPES.get(name, TYPES.get(name.rstrip("vw")))


def check(run, folder, messages, steps=None):
    """Against the store, of one window."""
    place = folder / f"{run.stem}.et"
    ddl("export", "chakra", run, "-o", place, *(["--steps", steps] if steps else []))
    db = sqlite3.connect(f"file:{run / 'run.sqlite'}?mode=ro", uri=True)
    groups = json.loads((place / "communicators.json").read_text())
    ranks = {}
    for process, rank, size in db.execute("SELECT id, rank, world_size FROM process WHERE rank IS NOT NULL AND world = (SELECT max(world) FROM steady_world)"
                                          " ORDER BY rank").fetchall():
        nodes, told = read(place / f"ddl.{rank}.et", messages)
        ranks[rank] = nodes
        assert {g["pg_name"]: g["ranks"] for g in told} == groups
        step = {n.attr["step"] for n in nodes if "step" in n.attr}
        assert len(step) == 1, step
        step = step.pop()
        begin, length = db.execute("SELECT start_ns, duration_ns FROM step WHERE process = ? AND step = ?", (process, step)).fetchone()
        gpus = [n for n in nodes if "stream" in n.attr]
        host = [n for n in nodes if n not in gpus and n.type == COMPUTE]
        assert all(n.on_host == bool(gpus) for n in host)
        # What one line of the host did: computing does not overlap, and ends with the step.
        for before, after in zip(host, host[1:]):
            assert before.end <= after.start, (before.id, after.id)
        ends = replay(nodes)
        first = min(n.start for n in nodes)
        if not gpus:
            assert max(n.end for n in nodes) - first in (length // 1000, length // 1000 + 1), (length, max(n.end for n in nodes))
            late = {n.id: ends[n.id] - n.end for n in nodes}
            assert all(abs(d) <= 0 for d in late.values()), {k: v for k, v in late.items() if v}
        # Collectives by operation, group and bytes.
        told = Counter((n.attr["comm_type"], n.attr["pg_name"], n.attr["comm_size"]) for n in nodes if n.type == COLLECTIVE)
        known = Counter((type_of(op), str(comm), size) for op, comm, size in db.execute(
            "SELECT o.name, e.comm, e.bytes FROM event e JOIN op o ON o.id = e.op WHERE e.process = ? AND e.step = ? AND e.seq IS NOT NULL AND e.kind IN (1, 2, 4)"
            " AND (e.kind <> 1 OR NOT o.nonblocking)", (process, step)) if type_of(op) is not None)
        assert told == known, (run, told, known)
        for pg in {n.attr["pg_name"] for n in nodes if n.type == COLLECTIVE}:
            assert groups[pg] == [r for r, in db.execute("SELECT rank FROM communicator_member WHERE communicator = ? ORDER BY comm_rank", (pg,))]
            assert rank in groups[pg]
        told = Counter((n.name, n.attr["stream"], n.end - n.start) for n in gpus)
        known = Counter((name, stream, (start + duration - zero) // 1000 - (start - zero) // 1000) for zero, name, stream, start, duration in db.execute(
            "SELECT (SELECT min(start_ns) FROM step WHERE step = ?2), n.name, g.stream, g.start_ns, g.duration_ns FROM gpu_event g JOIN gpu_name n ON n.id = g.name"
            " WHERE g.process = ?1 AND g.step = ?2 AND g.kind IN (1, 2, 3, 6)", (process, step)))
        assert told == known, (told - known, known - told)
    # Messages: each send has its receive.
    ends = [Counter((n.attr["comm_src"], n.attr["comm_dst"], n.attr["comm_tag"]) for nodes in ranks.values() for n in nodes if n.type == kind) for kind in (SEND, RECEIVE)]
    assert ends[0] == ends[1], ends
    for rank, nodes in ranks.items():
        assert all(n.attr["comm_src"] == rank for n in nodes if n.type == SEND) and all(n.attr["comm_dst"] == rank for n in nodes if n.type == RECEIVE)
    return ranks, place


def nccl_files(folder, messages):
    """Two ranks, five steps of a kernel and an allreduce of NCCL; rank 1 comes 20 us later."""
    files = []
    for rank in (0, 1):
        nodes = []
        for step in range(5):
            begin = 1000 * (step + 1)
            nodes.append(messages.Node(name="gemm", type=COMPUTE, start_time_micros=begin, duration_micros=300 + 20 * rank, attr=[
                messages.Attribute(name="stream", int64_val=7), messages.Attribute(name="step", int64_val=step)]))
            nodes.append(messages.Node(name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", type=COLLECTIVE, start_time_micros=begin + 300 + 20 * rank, duration_micros=120 - 20 * rank,
                                       data_deps=[2 * step], attr=[messages.Attribute(name=name, int64_val=value) for name, value in
                                                                   (("stream", 20), ("step", step), ("comm_type", 0), ("comm_size", 4096))]
                                       + [messages.Attribute(name="pg_name", string_val="0")]))
        data = b""
        for number, message in enumerate([messages.Head(version="0.0.4"), *nodes]):
            if number > 0:
                message.id = number - 1
            encoded = message.SerializeToString()
            data += _VarintBytes(len(encoded)) + encoded
        files.append(folder / f"other.{rank}.et")
        files[-1].write_bytes(data)
    return files


def round_trip(ranks, place, back):
    """The run that is made of the files, against the files."""
    files = sorted(place.glob("ddl.*.et"))
    ddl("import", "chakra", *files, "--one-clock", "-o", back)
    db = sqlite3.connect(f"file:{back / 'run.sqlite'}?mode=ro", uri=True)
    assert db.execute("SELECT count(*) FROM loss").fetchone() == (0,), db.execute("SELECT * FROM loss").fetchall()
    us = "(e.start_ns - (SELECT min(start_ns) FROM step)) / 1000, e.duration_ns / 1000"
    for rank, nodes in ranks.items():
        begin = min(n.start for nodes in ranks.values() for n in nodes)
        of_rank = "FROM event e JOIN op o ON o.id = e.op JOIN process p ON p.id = e.process"
        told = Counter((n.name, n.start - begin, n.duration, n.attr["comm_size"], n.attr.get("comm_tag")) for n in nodes if n.type in (SEND, RECEIVE, COLLECTIVE)
                       and "stream" not in n.attr)
        known = Counter(db.execute(f"SELECT o.name, {us}, e.bytes, e.tag {of_rank} WHERE p.rank = ? AND e.kind IN (1, 2)", (rank,)))
        assert told == known, (rank, told - known, known - told)
        told = Counter((n.name, n.attr["stream"], n.start - begin, n.duration) for n in nodes if "stream" in n.attr)
        known = Counter(db.execute("SELECT n.name, e.stream, " + us + " FROM gpu_event e JOIN gpu_name n ON n.id = e.name JOIN process p ON p.id = e.process WHERE"
                                   " p.rank = ?", (rank,)))
        assert told == known, (rank, told - known, known - told)
        length, = db.execute("SELECT duration_ns FROM step s JOIN process p ON p.id = s.process WHERE p.rank = ?", (rank,)).fetchone()
        assert length == 1000 * (max(n.end for n in nodes if "step" in n.attr) - min(n.start for n in nodes if "step" in n.attr))
    # All ranks of a collective are one instance, of the bytes that they sent.
    groups = json.loads((place / "communicators.json").read_text())
    told = Counter(f"group {n.attr['pg_name']}" for nodes in ranks.values() for n in nodes if n.type == COLLECTIVE)
    known = dict(db.execute("SELECT c.label, count(*) FROM event e JOIN communicator c ON c.id = e.comm WHERE e.seq IS NOT NULL GROUP BY c.id"))
    assert told == known, (told, known)
    for label, instances, members in db.execute("SELECT c.label, count(DISTINCT e.seq), count(*) FROM event e JOIN communicator c ON c.id = e.comm WHERE e.seq IS NOT NULL"
                                                " GROUP BY c.id"):
        assert members == instances * len(groups[label.removeprefix("group ")]), label


def main():
    messages = load_messages()
    with tempfile.TemporaryDirectory(prefix="ddl-test-") as name:
        folder = Path(name)
        subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder, "small", "mixed", "gpu"], check=True)
        kinds = Counter()
        for run in ("small", "mixed", "gpu"):
            ranks, place = check(folder / f"{run}.ddl", folder, messages)
            round_trip(ranks, place, folder / f"{run}.back.ddl")
            kinds += Counter(n.type for nodes in ranks.values() for n in nodes)
        # Kernels of NCCL: files as another program would write them, through a run and back.
        ddl("import", "chakra", *nccl_files(folder, messages), "--one-clock", "-o", folder / "nccl.ddl")
        ranks, place = check(folder / "nccl.ddl", folder, messages)
        told = Counter((n.name, n.attr["comm_type"], n.attr["comm_size"], n.duration) for nodes in ranks.values() for n in nodes if n.type == COLLECTIVE)
        assert told == {("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 4096, 120): 1, ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 4096, 100): 1}, told
        round_trip(ranks, place, folder / "nccl.back.ddl")
        assert all(kinds[kind] > 0 for kind in (COMPUTE, SEND, RECEIVE, COLLECTIVE)), kinds
        print(dict(kinds))


if __name__ == "__main__":
    main()
