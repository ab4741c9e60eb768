#!/usr/bin/env python3
"""ddl export perfetto, read by the format's public description (perfetto.proto) and compared with what SQL says of the store: every step, range, call, request,
kernel and copy is there once, with its times to the nanosecond; waiting and transfer are those of v_collective; arrows join the members of a collective and
nobody else; what is missing can be seen."""
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import nccl_job
from hostile_store import HOSTILE, poison

try:
    import google.protobuf  # noqa: F401
    import perfetto_trace
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-protobuf)")
    sys.exit(77)
if not shutil.which("protoc"):
    print("skipped: no protoc (apt-get install protobuf-compiler)")
    sys.exit(77)

BUILD = Path(os.environ["DDL_BUILD"]).resolve()
SAMPLES = Path(__file__).resolve().parents[3] / ".." / "shared" / "traces"  # extra: needs ../shared, skipped without it
# Every public trace takes minutes: those are for -L soak. What the small ones are made of is the same.
MOST_BYTES = float(os.environ.get("DDL_TEST_TRACE_BYTES", 800_000))
MESSAGES = perfetto_trace.load_messages()
RANGES = ("phase", "layer", "operator")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
MOST_MISSING = 256  # that get a track each
GPU = {1: "kernel", 2: "memcpy", 3: "memset", 4: "sync", 5: "overhead", 6: "graph", 7: "nccl_timer"}


def ddl(*arguments, **more):
    return subprocess.run([BUILD / "bin" / "ddl", *map(str, arguments)], check=True, stdout=subprocess.PIPE, **more).stdout


def export(run, *options):
    return perfetto_trace.Trace(ddl("export", "perfetto", run, *options), MESSAGES)


def open_store(run):
    ddl("report", run, "--one-line")
    return sqlite3.connect(f"file:{run}/run.sqlite?mode=ro", uri=True)


def same(found, expected, what):
    found, expected = Counter(found), Counter(expected)
    assert found == expected, f"{what}: missing {list((expected - found).items())[:3]}, not expected {list((found - expected).items())[:3]}"


class Expected:
    """What the trace must hold, by the tables. `chosen`: SQL condition on processes p; `window`: (first, last) of --steps."""

    def __init__(self, db, chosen="1", window=None):
        self.db, self.window = db, window
        self.processes = {row[0]: row[1:] for row in db.execute(f"SELECT id, rank, start_ns, end_ns, ended FROM process p WHERE {chosen}")}
        self.times = {}  # of the window, by process
        if window:
            for process, begin, end in db.execute(
                    "SELECT s.process, min(s.start_ns), max(s.start_ns + coalesce(s.duration_ns, p.end_ns - s.start_ns)) FROM step s JOIN process p ON p.id = s.process"
                    " WHERE s.step BETWEEN ? AND ? GROUP BY s.process", window):
                self.times[process] = (begin, end)
        self.origin = min([0] + [row[0] for table in ("process", "event", "gpu_event", "range_event", "step") for row in db.execute(
            f"SELECT min(start_ns) FROM {table}") if row[0] is not None])

    def is_in(self, process, step, time):
        if process not in self.processes:
            return False
        if not self.window:
            return True
        if step is not None:
            return self.window[0] <= step <= self.window[1]
        begin, end = self.times.get(process, (0, 0))
        return begin <= time < end

    def rows(self, sql):
        """Rows (process, step, start, ...) without step, of the window; times from the trace's zero."""
        for process, step, start, *rest in self.db.execute(sql):
            if self.is_in(process, step, start):
                yield (process, start - self.origin, *rest)


def check_slices(trace, expected):
    pid = trace.process_of
    same(((pid(s.track), s.start, s.duration, s.name) for s in trace.of("step")),
         expected.rows("SELECT s.process, s.step, s.start_ns, coalesce(s.duration_ns, p.end_ns - s.start_ns), 'step ' || s.step || iif(s.duration_ns IS NULL,"
                       " ' (never ended)', '') FROM step s JOIN process p ON p.id = s.process"), "steps")
    same(((pid(s.track), s.start, s.duration, s.category, s.name) for s in trace.of(*RANGES)),
         expected.rows("SELECT e.process, e.step, e.start_ns, e.duration_ns, r.kind, r.name FROM range_event e JOIN region r ON r.id = e.region"), "ranges")
    same(((pid(s.track), s.start, s.duration, s.category, s.name, s.arguments.get("comm"), s.arguments.get("seq"), s.arguments["bytes"], s.arguments.get("layer"))
          for s in trace.of("mpi", "nccl")),
         expected.rows("SELECT e.process, e.step, e.start_ns, e.duration_ns, iif(e.kind < 3, 'mpi', 'nccl'), o.name, c.label, e.seq, e.bytes, r.layer FROM event e"
                       " JOIN op o ON o.id = e.op JOIN region r ON r.id = e.region LEFT JOIN communicator c ON c.id = e.comm"), "calls and requests")
    same(((pid(s.track), s.start, s.duration, s.name, trace.tracks[s.track].name.removesuffix(" copies")) for s in trace.of("kernel", "communication_kernel", "memcpy", "memset")),
         expected.rows("SELECT g.process, g.step, g.start_ns, g.duration_ns, n.name, 'GPU ' || g.device || coalesce(' stream ' || g.stream, '') FROM gpu_event g"
                       " JOIN gpu_name n ON n.id = g.name WHERE g.kind <= 3"), "what GPUs did")
    same(((pid(s.track), s.start, s.duration, s.category, s.name) for s in trace.of("sync", "overhead", "graph", "nccl_timer")),
         expected.rows("SELECT g.process, g.step, g.start_ns, g.duration_ns, CASE g.kind WHEN 4 THEN 'sync' WHEN 5 THEN 'overhead' WHEN 6 THEN 'graph' ELSE"
                       " 'nccl_timer' END, n.name FROM gpu_event g JOIN gpu_name n ON n.id = g.name WHERE g.kind > 3"), "the rest of GPUs")
    same(((pid(s.track), s.start, s.name) for s in trace.of("open_call")),
         expected.rows("SELECT x.process, x.step, x.start_ns, o.name FROM open_call x JOIN op o ON o.id = x.op"), "calls that never returned")
    known = {"step", *RANGES, "mpi", "nccl", "wait", "transfer", "message_wait", "compute", "missing", "open_call", "communication_kernel", *GPU.values()}
    assert {s.category for s in trace.slices} <= known
    for s in trace.slices:
        if s.category not in RANGES and s.category not in ("wait", "transfer", "message_wait"):
            assert s.parent is None, f"{s.name} lies in {s.parent and s.parent.name}, on a track of things that stand for themselves"


def check_collectives(trace, expected):
    """Waiting and transfer are slices of their own, in that order, and fill the collective."""
    columns = "SELECT p.id, c.step, c.enter_ns, c.duration_ns, c.op, c.comm, c.seq, c.bytes, c.wait_ns, c.xfer_ns FROM v_collective c JOIN event e ON e.id = c.event JOIN process p ON p.id = e.process"
    rows = list(expected.rows(columns))
    found = []
    for s in trace.of("mpi", "nccl"):
        parts = [(c.category, c.start, c.duration) for c in s.children if c.category != "message_wait"]
        assert [c[0] for c in parts] in ([], ["wait"], ["transfer"], ["wait", "transfer"]), parts
        assert not parts or (parts[0][1] == s.start and sum(c[2] for c in parts) == s.duration), "parts do not fill the collective"
        if parts:
            assert all(s.arguments[{"wait": "wait_ns", "transfer": "xfer_ns"}[kind]] == duration for kind, _, duration in parts)
            spent = dict.fromkeys(("wait", "transfer"), 0) | {kind: duration for kind, _, duration in parts}
            found.append((trace.process_of(s.track), s.start, s.duration, s.name, s.arguments["comm"], s.arguments.get("seq"), s.arguments.get("collective_bytes"),
                          spent["wait"], spent["transfer"]))
    same(found, (row for row in rows if row[-1] is not None and row[2] > 0), "waiting and transfer")
    assert sum(s.duration for s in trace.of("wait")) == sum(row[-2] or 0 for row in rows) and sum(s.duration for s in trace.of("transfer")) == sum(row[-1] or 0 for row in rows)

    entries = defaultdict(list)
    for comm, seq, rank, enter in expected.db.execute("SELECT comm, seq, rank, enter_ns FROM v_collective WHERE seq IS NOT NULL"):
        entries[comm, seq].append((enter, rank))
    for s in trace.of("mpi", "nccl"):
        waited = s.arguments.get("wait_method") in ("max-start", "max-post") and s.arguments.get("wait_ns", 0) > 0
        assert waited == ("last_rank" in s.arguments), s
        if waited:
            members = entries[s.arguments["comm"], s.arguments["seq"]]
            assert s.arguments["last_rank"] in [rank for enter, rank in members if enter == max(members)[0]], s

    sizes = dict(expected.db.execute("SELECT label, size FROM communicator"))
    members, joined = defaultdict(list), defaultdict(list)
    for process, _, _, op, comm, seq, *_ in rows:
        if seq is not None and sizes[comm] > 1:
            members[comm, seq].append((process, comm, seq, op))
    for s in trace.slices:
        assert len(s.flows) <= 1
        for flow in s.flows:
            joined[flow].append((trace.process_of(s.track), s.arguments["comm"], s.arguments["seq"], s.name))
    same((frozenset(m) for m in joined.values()), (frozenset(m) for m in members.values()), "members of collectives")
    same((len(m) for m in joined.values()), (len(m) for m in members.values()), "members of collectives, each once")
    return len(rows)


def check_message_waits(trace, expected):
    waits = defaultdict(int)
    for call, wait in expected.db.execute("SELECT receive_call, late_sender_wait_ns FROM message UNION ALL SELECT send_call, late_receiver_wait_ns FROM message"):
        waits[call] = max(waits[call], wait or 0)
    rows = []
    for call, wait in waits.items():
        if call is not None and wait > 0:
            rows += [row for row in expected.rows(f"SELECT process, step, start_ns, min(duration_ns, {wait}) FROM event WHERE id = {call}")]
    same(((trace.process_of(s.track), s.start, s.duration) for s in trace.of("message_wait")), rows, "waits for messages")


def check_compute(trace, expected):
    """Between calls, in steps whose events were kept: as much as v_step says, and the polls that found nothing, which are not events."""
    found = defaultdict(int)
    for s in trace.of("compute"):
        found[trace.process_of(s.track)] += s.duration
    wanted = {}
    for process in expected.processes:
        if expected.db.execute("SELECT 1 FROM gpu_event WHERE process = ? AND kind = 1", (process,)).fetchone():
            continue
        steps = [(step, ns) for step, ns in expected.db.execute(
            "SELECT a.step, a.compute_ns + coalesce(s.mpi_ns - (SELECT sum(min(e.start_ns + e.duration_ns, s.start_ns + s.duration_ns) - max(e.start_ns, s.start_ns))"
            " FROM event e WHERE e.process = s.process AND e.thread = s.thread AND e.kind = 1 AND e.start_ns < s.start_ns + s.duration_ns AND e.start_ns + e.duration_ns"
            " > s.start_ns), 0) FROM step_part a JOIN step s USING (process, step) WHERE a.process = ? AND a.comm_ns IS NOT NULL", (process,))
                 if not expected.window or expected.window[0] <= step <= expected.window[1]]
        has_steps = expected.db.execute("SELECT 1 FROM step WHERE process = ?", (process,)).fetchone()
        if not has_steps and not expected.window:
            steps = expected.db.execute("SELECT 0, compute_ns FROM rank_part WHERE process = ? AND comm_ns IS NOT NULL", (process,)).fetchall()
        if sum(ns for _, ns in steps) > 0:
            wanted[process] = sum(ns for _, ns in steps)
    assert found == wanted, f"computing: {dict(found)}, not {wanted}"


def check_counters(trace, expected):
    found = trace.counters()
    wanted = defaultdict(list)
    for process, time, duration, name, value in expected.rows(
            "SELECT e.process, e.step, e.start_ns, e.duration_ns, c.name, e.value FROM counter_event e JOIN region r ON r.id = e.region JOIN counter c ON"
            " c.process = e.process AND c.number = e.counter WHERE r.kind = 'step' ORDER BY e.start_ns"):
        wanted[process, f"{name} per step"] += [(time, value), (time + duration, 0)]
    for process, time, name, value in expected.rows("SELECT process, step, time_ns, name, value FROM value WHERE value IS NOT NULL ORDER BY time_ns"):
        wanted[process, name].append((time, value))
    for process, time, name, value in expected.rows("SELECT process, NULL, time_ns, device || ' ' || name, value FROM node_sample ORDER BY time_ns"):
        wanted[process, name].append((time, value))
    assert found == dict(wanted), f"counters: {found.keys() ^ wanted.keys()}, {[k for k in wanted if found.get(k) != wanted[k]][:3]}"
    same(((trace.process_of(i.track), i.start, i.name) for i in trace.instants if i.category == "mark"),
         expected.rows("SELECT process, step, time_ns, name FROM value WHERE value IS NULL"), "marks")
    return len(found)


def check_missing(trace, expected, chosen_ranks=None):
    instants = [(trace.process_of(i.track), i.name, i.arguments.get("count"), i.arguments.get("note")) for i in trace.instants if i.category == "missing"]
    by_rank = {rank: process for process, (rank, *_) in expected.processes.items()}
    wanted = [(by_rank.get(rank), kind, count, note) for rank, kind, count, note in expected.db.execute("SELECT rank, kind, count, note FROM loss")
              if rank is None or rank in by_rank]
    for process, (_, _, _, ended) in expected.processes.items():
        if ended == "lost":
            wanted.append((process, "lost: killed, crashed, left by _exit, or still running", None, None))
        elif ended == "aborted":
            wanted.append((process, "aborted: MPI_Abort", None, None))
    same(instants, wanted, "losses")
    size = expected.db.execute("SELECT coalesce(max(world_size), 0) FROM process").fetchone()[0]
    recorded = {rank for (rank,) in expected.db.execute("SELECT rank FROM process")}
    missing = [rank for rank in range(size) if rank not in recorded and (chosen_ranks is None or rank in chosen_ranks)]
    absent = {f"rank {rank} (nothing recorded)" for rank in missing[:MOST_MISSING]}
    if len(missing) > MOST_MISSING:
        absent.add(f"{len(missing) - MOST_MISSING} more ranks (nothing recorded)")
    names = [p.process_name for p in trace.processes.values()]
    ranks = [int(name.split()[1]) for name in names if name.startswith("rank ")]
    assert ranks == sorted(ranks), "ranks in their order"
    assert absent == {name for name in names if "nothing recorded" in name}, names
    assert len(names) == len(expected.processes) + len(absent)
    for process, (rank, _, _, ended) in expected.processes.items():
        name = next(p.process_name for p in trace.processes.values() if p.pid == process)
        host = expected.db.execute("SELECT h.name FROM process p JOIN host h ON h.id = p.host WHERE p.id = ?", (process,)).fetchone()[0]
        assert rank is None or name.startswith(f"rank {rank} on {host}"), name
        assert (f"({ended})" in name) == (ended in ("lost", "aborted")), name
    return len(instants)


def check_run(run, options=(), chosen="1", window=None, chosen_ranks=None):
    db = open_store(run)
    trace = export(run, *options)
    expected = Expected(db, chosen, window)
    check_slices(trace, expected)
    collectives = check_collectives(trace, expected)
    check_message_waits(trace, expected)
    check_compute(trace, expected)
    counters = check_counters(trace, expected)
    missing = check_missing(trace, expected, chosen_ranks)
    epoch = db.execute("SELECT value FROM meta WHERE key = 'epoch_realtime_ns'").fetchone()
    if epoch:
        assert trace.clocks[perfetto_trace.REALTIME] - trace.clocks[perfetto_trace.BOOTTIME] == int(epoch[0]) + expected.origin
    print(f"{run.name} {' '.join(options)}: {len(trace.slices)} slices on {len(trace.tracks)} tracks, {collectives} collectives, {counters} counters, {missing} losses")
    return trace


def check_hostile(run):
    """Names that break naive printers are texts like any other."""
    db = open_store(run)
    db.close()
    assert poison(run / "run.sqlite") > 40
    trace = export(run)
    texts = {s.name for s in trace.slices} | {t.name for t in trace.tracks.values()} | {str(v) for s in trace.slices for v in s.arguments.values()}
    shown = HOSTILE.replace("\x1b", "\ufffd")
    assert any(text.startswith(shown) for text in texts), "names are there, whole"
    assert not any(CONTROL.search(text) for text in texts), "a control character"
    table = ddl("export", "csv", run, "--table", "v_rank").decode("utf-8")
    assert "<script>" in table and not CONTROL.search(table.replace("\r\n", "")), "a control character in CSV"


def check_memory(run, events):
    """The trace is written as the store is read: memory does not grow with events."""
    open_store(run).close()
    # What a process forks from counts as its memory: from a small one.
    program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", program, BUILD / "bin" / "ddl", "export", "perfetto", run, "-o", run.with_suffix(".pftrace")],
                          check=True, stdout=subprocess.PIPE)
    mib = int(done.stdout) / 1024
    size = run.with_suffix(".pftrace").stat().st_size / (1 << 20)
    print(f"{run.name}: {events} events, {size:.0f} MiB written in {mib:.0f} MiB of memory")
    assert mib < 40 < size, f"{mib:.0f} MiB of memory for a trace of {size:.0f} MiB"


def check_errors(run, folder):
    def fails(code, words, *arguments):
        done = subprocess.run([BUILD / "bin" / "ddl", "export", "perfetto", *map(str, arguments)], capture_output=True)
        assert done.returncode == code and words in done.stderr.decode() and not done.stdout, (arguments, done)

    fails(3, "no step from 1000 to 1001 was recorded", run, "--steps", "1000:1001")
    fails(2, "--steps", run, "--steps", "5:3")
    fails(2, "--steps", run, "--steps", ":")
    fails(2, "--ranks", run, "--ranks", "1-")
    fails(2, "there is no rank 99", run, "--ranks", "0,99")
    fails(2, "no world 7", run, "--world", "7")
    fails(2, "perfetto takes no --table", run, "--table", "v_step")
    fails(3, "", folder / "none.ddl")
    broken = folder / "broken.ddl"
    broken.mkdir()
    (broken / "run.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    fails(3, "", broken, "-o", folder / "broken.pftrace")
    assert not list(folder.glob("broken.pftrace*"))


def main():
    with tempfile.TemporaryDirectory(prefix="ddl-test-") as name:
        folder = Path(name)
        jobs = ["small", "mixed", "hosts", "wreck", "thinned", "hostile", "empty", "gpu", "pipeline"]
        subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder, *jobs], check=True)
        for job in jobs:
            check_run(folder / f"{job}.ddl")
        check_run(folder / "mixed.ddl", ["--steps", "3:5"], window=(3, 5))
        check_run(folder / "mixed.ddl", ["--ranks", "1,3", "--steps", "4"], "p.rank IN (1, 3)", (4, 4), {1, 3})
        check_run(folder / "wreck.ddl", ["--ranks", "2-5"], "p.rank BETWEEN 2 AND 5", None, set(range(2, 6)))
        check_run(folder / "gpu.ddl", ["--steps", "2:3"], window=(2, 3))
        recorded = folder / "recorded.ddl"
        nccl_job.torchrun("gpu_job_nccl", folder, 2, recorded, ["12"], FAKE_CUDA_CLOCK="virtual", DDL_CLOCK="monotonic", DDL_COUNTERS="page-faults")
        counters = check_run(recorded).counters()
        assert len(counters[1, "page-faults per step"]) == 24, counters.keys()
        if not SAMPLES.exists():
            print(f"skipped: an extra that needs public traces in {SAMPLES}")
        for number, sample in enumerate(s for s in sorted(SAMPLES.glob("hta/**/*.json.gz")) if s.stat().st_size <= MOST_BYTES):
            imported = folder / f"sample{number}.ddl"
            ddl("import", "kineto", sample, "-o", imported, stderr=subprocess.DEVNULL)
            check_run(imported)
        check_errors(folder / "small.ddl", folder)
        subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder, "ranks32"], check=True)
        check_memory(folder / "ranks32.ddl", 128_000)
        for job in ("hostile", "gpu", "hosts"):
            check_hostile(folder / f"{job}.ddl")


if __name__ == "__main__":
    main()
