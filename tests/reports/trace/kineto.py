#!/usr/bin/env python3
"""ddl export chrome-json: what a reader of Kineto's traces needs is there, and `ddl import kineto` makes a run of it with the same steps, layers, calls, collectives,
kernels, copies and metrics, times to the nanosecond. The runs: virtual MPI jobs, a virtual job on GPUs, one recorded against the mocks of CUDA and NCCL, and public
traces."""
import json
import os
import re
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import nccl_job
from hostile_store import poison

BUILD = Path(os.environ["DDL_BUILD"]).resolve()
SAMPLES = Path(__file__).resolve().parents[3] / ".." / "shared" / "traces"  # extra: needs ../shared, skipped without it
# Every public trace takes minutes: those are for -L soak. What the small ones are made of is the same.
MOST_BYTES = float(os.environ.get("DDL_TEST_TRACE_BYTES", 800_000))
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
# What only a recording knows: what it cost, what lies between MPI_Init and the first step, values that the program reported.
NOT_CARRIED = {"recording_overhead", "productive_time", "throughput"}


def ddl(*arguments, **more):
    return subprocess.run([BUILD / "bin" / "ddl", *map(str, arguments)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more).stdout


def export(run, folder, *options):
    ddl("export", "chrome-json", run, "-o", f"{folder}/", *options)
    return sorted(folder.iterdir())


def open_store(run):
    ddl("report", run, "--one-line")
    return sqlite3.connect(f"file:{run}/run.sqlite?mode=ro", uri=True)


def check_file(path):
    """Valid, ASCII, and with the fields that Kineto's readers ask for."""
    text = path.read_bytes()
    assert text.isascii() and b"<" not in text and not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", text), path
    trace = json.loads(text)
    assert trace["schemaVersion"] == 1 and trace["distributedInfo"]["rank"] < trace["distributedInfo"]["world_size"]
    devices = {d["id"] for d in trace["deviceProperties"]}
    launches, last = {}, {}
    for e in trace["traceEvents"]:
        assert e["ph"] in "XMsf" and isinstance(e["pid"], int) and isinstance(e["tid"], int) and e["name"]
        if e["ph"] == "X":
            assert e["dur"] >= 0 and e["cat"]
            if e["cat"] == "cuda_runtime":
                launches[e["args"]["correlation"]] = e["ts"]
            if e["cat"] in GPU:
                assert e["pid"] == e["args"]["device"] and e["pid"] in devices | {e["pid"]} and "correlation" in e["args"]
                assert "stream" not in e["args"] or e["tid"] == e["args"]["stream"]
            elif e["cat"] not in ("cuda_sync", "overhead"):
                assert e["pid"] >= 1024, "a process that looks like a device"
    begins = {e["id"] for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"] for e in trace["traceEvents"] if e["ph"] == "f"}
    assert ends <= begins <= launches.keys(), "arrows lead from a launch to what it launched"
    return trace


def rows(db, sql):
    return sorted((tuple(row) for row in db.execute(sql)), key=repr)


def origin(db):
    """Runs begin with their first event, which in the copy is another one: times are compared from the first step."""
    return db.execute("SELECT min(start_ns) FROM step").fetchone()[0] or 0


# name -> SELECT; {0} is the begin of the first step. Calls outside of steps may have made the recording begin earlier, never differ.
VIEWS = {
    "steps": "SELECT rank, step, start_ns - {0}, duration_ns FROM v_step WHERE duration_ns IS NOT NULL",
    "where steps go": "SELECT rank, step, compute_ns, comm_ns, exposed_ns, wait_ns, xfer_ns, input_ns FROM v_step WHERE duration_ns IS NOT NULL",
    "ranges": "SELECT p.rank, r.kind, r.name, r.phase, r.layer, e.step, e.start_ns - {0}, e.duration_ns FROM range_event e JOIN region r ON r.id = e.region JOIN process p"
              " ON p.id = e.process",
    "calls": "SELECT p.rank, e.kind, o.name, c.label, e.seq, e.step, r.layer, e.start_ns - {0}, e.duration_ns, e.bytes, e.peer, e.tag FROM event e JOIN op o ON o.id = e.op"
             " JOIN process p ON p.id = e.process JOIN region r ON r.id = e.region LEFT JOIN communicator c ON c.id = e.comm WHERE e.kind < 3",
    "collectives": "SELECT rank, step, layer, op, comm, comm_size, bytes, enter_ns - {0}, duration_ns, wait_ns, xfer_ns, wait_method, why, payload_bytes, source"
                   " FROM v_collective WHERE source <> 'profiler' AND op NOT LIKE 'MPI_Comm_%'",
    "messages": "SELECT source, destination, tag, bytes, step, send_ns - {0}, receive_ns - {0}, late_sender_wait_ns, late_receiver_wait_ns FROM v_message",
    "kernels": "SELECT rank, step, layer, phase, device, stream, name, class, start_ns - {0}, duration_ns, graph_node, launch_ns - {0}, launch_duration_ns FROM v_kernel",
    "copies": "SELECT rank, step, layer, kind, bytes, start_ns - {0}, duration_ns, device, stream, source, destination, launch_ns - {0} FROM v_memcpy",
    "waiting of hosts for GPUs": "SELECT rank, name, start_ns - {0}, duration_ns FROM v_gpu WHERE kind IN ('sync', 'overhead')",
    "which streams wait for which": "SELECT p.rank, w.context, w.stream, w.correlation, w.on_context, w.on_stream, w.on_correlation FROM stream_wait w JOIN process p"
                                    " ON p.id = w.process",
    "where steps of GPUs go": "SELECT rank, device, step, duration_ns, compute_ns, comm_ns, copy_ns, wait_ns, exposed_comm_ns, exposed_wait_ns, idle_ns, idle_input_ns, idle_host_ns,"
                              " idle_launch_ns, idle_kernel_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns FROM v_gpu_part WHERE step IS NOT NULL",
}


# Sums that the recorder made in ticks of the clock, and an import makes of ns: a sum of some calls may differ by some ns.
ROUNDED = {"where steps go"}


def near(a, b):
    return all(x == y or (x is not None and y is not None and abs(x - y) <= 4) for x, y in zip(a, b))


def compare(before, after, what, leave_out=()):
    first, second = open_store(before), open_store(after)
    counts = []
    for name, sql in VIEWS.items():
        if name in leave_out:
            continue
        a, b = rows(first, sql.format(origin(first))), rows(second, sql.format(origin(second)))
        in_a, in_b = set(a), set(b)
        lost, new = [r for r in a if r not in in_b], [r for r in b if r not in in_a]
        if name in ROUNDED and len(a) == len(b):
            far = [pair for pair in zip(a, b) if not near(*pair)]
            lost, new = [pair[0] for pair in far], [pair[1] for pair in far]
        assert len(a) == len(b) and not lost and not new, f"{what}: {name}: {len(a)} before, {len(b)} after; lost {lost[:2]}, new {new[:2]}"
        counts.append(f"{len(a)} {name}")
    print(f"{what}: {', '.join(c for c in counts if not c.startswith('0 '))}")
    return first, second


def metrics(db):
    return {row[0]: row[1] for row in db.execute("SELECT id, value FROM metric WHERE world = 0")}


def compare_metrics(first, second, what, differ=()):
    a, b = metrics(first), metrics(second)
    wrong = [f"{name} is {b.get(name)}, was {value}" for name, value in a.items()
             if name not in NOT_CARRIED and name not in differ and ((value is None) != (b.get(name) is None) or (value is not None and abs(value - b[name]) > 1e-6 * abs(value)))]
    assert not wrong, f"{what}: {'; '.join(wrong)}"
    print(f"{what}: {sum(value is not None and name not in NOT_CARRIED and name not in differ for name, value in a.items())} metrics are the same")


def round_trip(run, folder, what, leave_out=(), differ=()):
    files = export(run, folder / f"{what}.traces")
    for path in files:
        check_file(path)
    back = folder / f"{what}.back.ddl"
    ddl("import", "kineto", *files, "-o", back)
    first, second = compare(run, back, what, leave_out)
    compare_metrics(first, second, what, differ)
    return files


def check_window(run, folder):
    """Some steps of one rank: nothing of the others."""
    [path] = export(run, folder / "window", "--steps", "3:4", "--ranks", "2")
    trace = check_file(path)
    assert trace["distributedInfo"]["rank"] == 2
    steps = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X" and e["name"].startswith("ProfilerStep")]
    assert steps == ["ProfilerStep#3", "ProfilerStep#4"], steps
    db = open_store(run)
    calls = db.execute("SELECT count(*) FROM event e JOIN process p ON p.id = e.process WHERE p.rank = 2 AND e.step IN (3, 4) AND e.kind < 3").fetchone()[0]
    assert sum(e.get("cat") in ("mpi", "mpi_request") for e in trace["traceEvents"]) == calls > 0


def check_hostile(run, folder):
    """Names that break naive printers are JSON like any other, and lead out of no folder."""
    open_store(run).close()
    assert poison(run / "run.sqlite") > 40
    files = export(run, folder / f"hostile-{run.stem}")
    for path in files:
        assert re.fullmatch(r"[A-Za-z0-9._-]+", path.name) and "<script>" in json.dumps(check_file(path))
    ddl("import", "kineto", *files, "-o", folder / f"hostile-{run.stem}.ddl")


def main():
    with tempfile.TemporaryDirectory(prefix="ddl-test-") as name:
        folder = Path(name)
        subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder, "small", "mixed", "gpu", "hostile"], check=True)
        round_trip(folder / "small.ddl", folder, "small")
        # The trace does not say how far the clocks of two hosts are apart.
        window = {"gpu_orchestration_efficiency", "gpu_parallel_efficiency", "gpu_talp_parallel_efficiency"}
        round_trip(folder / "gpu.ddl", folder, "gpu", differ=window)
        lost = open_store(folder / "gpu.back.ddl").execute("SELECT id FROM metric WHERE why = 'CLOCK_UNTRUSTED'").fetchall()
        assert window <= {row[0] for row in lost}, lost
        round_trip(folder / "mixed.ddl", folder, "mixed", differ={"wait_share"})  # counts MPI_Comm_split too
        recorded = folder / "recorded.ddl"
        nccl_job.torchrun("gpu_job_nccl", folder, 2, recorded, ["12"], FAKE_CUDA_CLOCK="virtual", DDL_CLOCK="monotonic")
        round_trip(recorded, folder, "recorded")
        pair = folder / "pair.ddl"  # two GPUs, which wait for each other across their contexts
        done = subprocess.run([nccl_job.PROGRAMS / "gpu_pair", "12", "all"], capture_output=True, env=nccl_job.job.environment(
            **nccl_job.environment(LD_PRELOAD=nccl_job.job.LIBRARY, DDL_OUT=pair, FAKE_CUDA_CLOCK="virtual", DDL_CLOCK="monotonic")))
        assert done.returncode == 0, done
        back = folder / "pair.back.ddl"
        ddl("import", "kineto", *export(pair, folder / "pair.traces"), "-o", back)
        # A file is a rank: that the process has two ranks of NCCL it cannot carry, nor then their waiting.
        first, second = compare(pair, back, "pair", ("calls", "collectives", "where steps of GPUs go"))
        assert first.execute("SELECT count(*), sum(context <> on_context) FROM stream_wait").fetchone() == (60, 24)
        idle = "SELECT device, step, idle_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns FROM v_gpu_part WHERE step IS NOT NULL"
        assert rows(first, idle) == rows(second, idle) and rows(first, idle)[0][3:5] == (110000, 150000), rows(second, idle)
        check_window(folder / "small.ddl", folder)
        for run in (folder / "hostile.ddl", folder / "mixed.ddl", recorded):
            check_hostile(run, folder)
        if not SAMPLES.exists():
            print(f"skipped: an extra that needs public traces in {SAMPLES}")
        samples = sorted([*SAMPLES.glob("hta/**/*.json.gz"), *SAMPLES.glob("kineto_tb/**/*.json.gz")])
        for number, sample in enumerate(s for s in samples if s.stat().st_size <= MOST_BYTES):
            imported = folder / f"sample{number}.ddl"
            ddl("import", "kineto", sample, "-o", imported)
            # What threads did while Gloo reduced is read off operators, which an export of calls does not have.
            db = open_store(imported)
            is_gloo = db.execute("SELECT 1 FROM background_process").fetchone() is not None
            round_trip(imported, folder, imported.stem, *((("where steps go",), metrics(db)) if is_gloo else ()))


if __name__ == "__main__":
    main()
