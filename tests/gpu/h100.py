#!/usr/bin/env python3
"""What a GPU left behind (tests/gpu/h100, an H100 of 2026-11-26): a recording of ddp.py, two ranks of the real PyTorch 2.11 over NCCL 2.28.9, with what the script itself counted, and the flight
recorder's dumps of the same script, whose rank 1 does not come to step 5. Real records of CUPTI come a second late and stream by stream.
"""
import json
import re
import sqlite3
import statistics
import subprocess
from pathlib import Path

import job
from gpu_intervals import length, union
from job import check

HERE = Path(__file__).resolve().parent / "h100"


def of_steps(db, steps):
    """From the kernels, a second time, by rank and step in ns: duration, computing, communication, communication that nothing hides."""
    for rank, begin, end in db.execute("SELECT rank, start_ns, start_ns + duration_ns FROM v_step WHERE step BETWEEN ? AND ?", steps).fetchall():
        rows = db.execute("SELECT max(start_ns, ?), min(start_ns + duration_ns, ?), name LIKE '%nccl%' FROM v_gpu WHERE kind = 'kernel' AND rank = ? AND start_ns < ? AND start_ns + duration_ns > ?",
                          (begin, end, rank, end, begin)).fetchall()
        compute, comm = (union((a, b) for a, b, nccl in rows if nccl == which) for which in (0, 1))
        yield end - begin, length(compute), length(comm), length(union(compute + comm)) - length(compute)


def test_ddl_top_says_what_the_kernels_say(folder):
    subprocess.run(["tar", "-xJf", HERE / "ddp.ddl.tar.xz"], check=True, cwd=folder)
    run = Path(folder) / "recorded.ddl"
    db = job.store(run)
    for how in ((), ("--replay",)):
        look = json.loads(job.run([job.DDL, "top", *how, run, "--json", "-n", 1], check_rc=0).stdout)
        window, step = look["window"], look["step"]
        duration, compute, comm, bare = map(sum, zip(*of_steps(db, (window["first_step"], window["last_step"]))))
        ratio, exposed = compute / comm, bare / duration
        check(window["steps"] >= 15 and window["last_step"] == 39, f"{how}: {window}")
        check(step["by_device"] and step["waiting_known"] and not step["devices_unknown"], f"{how}: {step}")
        check(abs(step["gpu_ccr_raw"] / ratio - 1) < 1e-3 and abs(step["exposed_ratio"] / exposed - 1) < 1e-3, f"{how}: {step['gpu_ccr_raw']}, {step['exposed_ratio']}, from the kernels {ratio}, {exposed}")


def test_the_script_counted_the_same(folder):
    db = sqlite3.connect(Path(folder) / "recorded.ddl" / "run.sqlite")
    truth = json.loads((HERE / "ddp.truth.json").read_text())
    expected = sorted(truth["buckets"][""] + truth["buckets"]["rebuilt_"] * 39)
    for rank in (0, 1):
        bytes_ = sorted(row[0] for row in db.execute("SELECT payload_bytes FROM v_collective WHERE op = 'ncclAllReduce' AND rank = ? AND payload_bytes >= 1024", (rank,)))
        check(bytes_ == expected, f"rank {rank}: {len(bytes_)} all-reduces of {sum(bytes_)} bytes, by DDP {len(expected)} of {sum(expected)}")
    split = db.execute("SELECT count(*), count(wait_ns) FROM v_collective").fetchone()
    check(split[0] == split[1] > 0, f"{split} collectives, split")
    check(not db.execute("SELECT kind FROM loss").fetchall(), "nothing is missing: queries of events wait for nothing")


def test_findings_mean_the_gpus(folder):
    """The thread of a rank is busy all the time, launching and waiting; what its network computes is what the kernels take."""
    db = sqlite3.connect(Path(folder) / "recorded.ddl" / "run.sqlite")
    evidence = db.execute("SELECT evidence FROM finding WHERE id = 'batch_too_small'").fetchone()[0]
    told = float(re.search(r"computing ([\d.]+) us;", evidence)[1])
    steps = db.execute("SELECT min(step), max(step) FROM steady_number").fetchone()
    found = statistics.mean(compute for _, compute, _, _ in of_steps(db, steps)) / 1000
    check(abs(told / found - 1) < 0.01, f"computing {told} us, from the kernels {found}")


def test_threads_do_not_tell_what_gpus_do(folder):
    db = sqlite3.connect(Path(folder) / "recorded.ddl" / "run.sqlite")
    values = dict(db.execute("SELECT id, value FROM metric"))
    threads = [values[name] for name in ("parallel_efficiency", "load_balance", "compute_time", "f_wait", "f_xfer", "exposed_comm")]
    check(threads == [None] * 6 and 0 < values["gpu_parallel_efficiency"] < 0.05, f"{threads}, {values['gpu_parallel_efficiency']}")


def test_critical_paths_follow_one_another(folder):
    """The script reads its loss in each step, so that paths neither overlap nor leave gaps: they take what the steps take, and little of that is the host's, which waits."""
    db = sqlite3.connect(Path(folder) / "recorded.ddl" / "run.sqlite")
    for rank in (0, 1):
        path, host = db.execute("SELECT sum(time_ns), sum(iif(kind = 'host', time_ns, 0)) FROM v_critical_path JOIN steady_number USING (step) WHERE rank = ?", (rank,)).fetchone()
        steps = db.execute("SELECT sum(duration_ns) FROM v_step JOIN steady_number USING (step) WHERE rank = ?", (rank,)).fetchone()[0]
        check(abs(path / steps - 1) < 0.01 and host / path < 0.25, f"rank {rank}: paths of {path / 1e6:.1f} ms, {host / 1e6:.1f} of them the host's; steps of {steps / 1e6:.1f} ms")


def test_who_did_not_come(folder):
    job.run([job.DDL, "import", "flight-recorder", HERE / "dumps", "-o", Path(folder) / "hang.ddl"], check_rc=0)
    found = [tuple(row) for row in job.store(Path(folder) / "hang.ddl").execute("SELECT id, rank, sentence FROM finding ORDER BY position")]
    check([row[:2] for row in found] == [("missing_rank", 1)] and "all_reduce number 35" in found[0][2], f"{found}")


if __name__ == "__main__":
    job.main(test_ddl_top_says_what_the_kernels_say, test_the_script_counted_the_same, test_findings_mean_the_gpus, test_threads_do_not_tell_what_gpus_do, test_critical_paths_follow_one_another, test_who_did_not_come)
