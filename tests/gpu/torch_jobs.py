"""Checks of validate.py on training jobs of two ranks: the real PyTorch over the real NCCL, both ranks on one GPU. The truth is what the script (ddp.py) measured itself."""
import json
import os
import statistics
import subprocess
import sys
import time

from support import DDL, DEADLINE, HERE, Missing, ddl, run, store

STEPS, LATE_MS = 40, 30
ENVIRONMENT = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
runs = {}


def job(folder, name, *options, recorded=True, fails=False, **env):
    """The truths of both ranks, and the store of what was recorded. Each name runs once."""
    if name not in runs:
        command = [sys.executable, HERE / "launch.py", 2, HERE / "ddp.py", "--steps", STEPS, "--truth", folder / f"{name}.truth", *options]
        if recorded:
            command = [DDL, "record", "-o", folder / f"{name}.ddl", "--", *command]
        port = 29600 + len(runs)
        runs[name] = ([], None)
        done = run(command, timeout=120 if fails else 60, **{**ENVIRONMENT, "MASTER_PORT": port, **env})
        (folder / f"{name}.log").write_text(done.stdout + done.stderr)
        if fails:
            runs[name] = (done.returncode, None)
        elif done.returncode == 0:
            runs[name] = ([json.loads((folder / f"{name}.truth.{rank}").read_text()) for rank in range(2)], store(folder / f"{name}.ddl") if recorded else None)
    truths, db = runs[name]
    if not truths:
        raise Missing(f"{name} did not run: {(folder / f'{name}.log').read_text().strip()[-200:]}")
    return truths, db


def kineto(folder, name, *options):
    """The store of torch.profiler's traces of such a job."""
    (folder / f"{name}.kineto").mkdir(exist_ok=True)
    truths, _ = job(folder, f"{name}-kineto", *options, "--kineto", folder / f"{name}.kineto", recorded=False)
    imported = folder / f"{name}-kineto.ddl"
    ddl("import", "kineto", *(folder / f"{name}.kineto" / f"rank{rank}.json" for rank in range(2)), "--one-clock", "-o", imported)
    return truths, store(imported)


def step_ms(truths):
    """The median step behind the warm-up, of the slower rank."""
    return max(statistics.median(truth["steps_ms"][10:]) for truth in truths)


def findings(db):
    return [(name, rank, saving and round(saving / 1e6, 1), confidence) for name, rank, saving, confidence in db.execute("SELECT id, rank, saving_ns, confidence FROM finding ORDER BY position")]


def shares(db):
    """Waiting and transfer of an all-reduce in ms, and the number of all-reduces, by rank."""
    return {rank: rest for rank, *rest in db.execute("SELECT rank, round(avg(wait_ns) / 1e6, 2), round(avg(xfer_ns) / 1e6, 2), count(*) FROM v_collective WHERE op LIKE '%ll%educe' GROUP BY rank")}


def unchanged(folder):
    """Losses bit for bit; steps, all-reduces and their bytes are those that DDP says."""
    plain, _ = job(folder, "plain", recorded=False)
    truths, db = job(folder, "recorded")
    same = [ours["losses"] == theirs["losses"] for ours, theirs in zip(truths, plain)]
    steps = db.execute("SELECT rank, count(*) FROM v_step GROUP BY rank ORDER BY rank").fetchall()
    buckets = truths[0]["buckets"]
    expected = sorted(buckets[""] + buckets.get("rebuilt_", buckets[""]) * (STEPS - 1))
    reduced = [sorted(row[0] for row in db.execute("SELECT payload_bytes FROM v_collective WHERE op = 'ncclAllReduce' AND rank = ? AND payload_bytes >= 1024", (rank,))) for rank in (0, 1)]
    split = db.execute("SELECT count(*), count(wait_ns), count(DISTINCT source), min(source) FROM v_collective WHERE op = 'ncclAllReduce'").fetchone()
    layers = {row[0] for row in db.execute("SELECT DISTINCT layer FROM v_layer WHERE phase = 'forward' AND layer IS NOT NULL")}
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    good = all(same) and steps == [(0, STEPS), (1, STEPS)] and all(r == expected for r in reduced) and split[0] == split[1] and {"stem", "body.0", "head"} <= layers and not lost
    return good, (f"same losses {same}; steps {steps}; all-reduces {[len(r) for r in reduced]} of {[sum(r) for r in reduced]} bytes, by DDP {len(expected)} of {sum(expected)}; split {split}; layers {len(layers)}; "
                  f"missing {lost or 'nothing'}; step {step_ms(plain):.2f} ms without us, {step_ms(truths):.2f} with; {findings(db)}")


def injected(folder, kind):
    """Rank 1 is late: it is the first finding, and its saving is what the script itself gains without the fault (both without us)."""
    faulty, clean = (job(folder, name, *options, recorded=False)[0] for name, options in ((f"{kind}-plain", (f"--late-{kind}", 1, "--ms", LATE_MS)), ("plain", ())))
    truth = step_ms(faulty) - step_ms(clean)
    _, db = job(folder, kind, f"--late-{kind}", 1, "--ms", LATE_MS)
    found = findings(db)
    good = found and found[0][1] == 1 and found[0][2] is not None and 0.7 * truth < found[0][2] < 1.3 * truth
    return good, (f"{LATE_MS} ms injected, costs {truth:.1f} ms a step by the script; {found[:3]}: "
                  f"{db.execute('SELECT sentence FROM finding ORDER BY position').fetchone()}; waiting, transfer, number of all-reduces {shares(db)}")


def traced(folder, kind):
    """The same job under torch.profiler, imported: the same first finding as our own recording's."""
    options = (f"--late-{kind}", 1, "--ms", LATE_MS)
    _, ours = job(folder, kind, *options)
    _, theirs = kineto(folder, kind, *options)
    left, right = findings(ours), findings(theirs)
    counts = [db.execute("SELECT rank, count(*) FROM v_collective WHERE op LIKE '%ll%educe' AND payload_bytes >= 1024 GROUP BY rank ORDER BY rank").fetchall() for db in (ours, theirs)]
    kernels = [db.execute("SELECT rank, count(*) FROM v_kernel WHERE class <> 'communication' AND step BETWEEN 10 AND 30 GROUP BY rank ORDER BY rank").fetchall() for db in (ours, theirs)]
    good = bool(left and right) and left[0][:2] == right[0][:2] and counts[0] == counts[1]
    return good, f"recorded {left[:2]}, imported {right[:2]}; all-reduces {counts}; kernels of steps 10 to 30 {kernels}; waiting, transfer {shares(ours)}, imported {shares(theirs)}"


def sharded(folder):
    """FSDP: as many all-gathers and reduce-scatters as torch.profiler sees kernels of."""
    _, db = job(folder, "fsdp", "--shard")
    truths, theirs = kineto(folder, "fsdp", "--shard")
    plain, _ = job(folder, "fsdp-plain", "--shard", recorded=False)
    counts = [{op: n for op, n in store.execute("SELECT op, count(*) FROM v_collective WHERE rank = 0 GROUP BY op")} for store in (db, theirs)]
    ours, profiled = ({kind: sum(n for op, n in c.items() if kind in op.lower().replace("_", "")) for kind in ("allgather", "reducescatter")} for c in counts)
    same = job(folder, "fsdp", "--shard")[0][0]["losses"] == plain[0]["losses"]
    split = db.execute("SELECT count(*), count(wait_ns) FROM v_collective").fetchone()
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    return same and ours == profiled and min(ours.values()) > 0 and not lost, f"same losses {same}; {counts[0]}, by torch.profiler {counts[1]}; split {split}; missing {lost or 'nothing'}; {findings(db)[:2]}"


def hang(folder):
    """Rank 1 does not come: PyTorch's flight recorder, version of this PyTorch, imported."""
    (folder / "dumps").mkdir(exist_ok=True)
    begin = time.monotonic()
    code, _ = job(folder, "hang", "--hang-at", 5, recorded=False, fails=True, TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1,
                  TORCH_NCCL_DEBUG_INFO_TEMP_FILE=folder / "dumps" / "rank", TORCH_FR_DUMP_TEMP_FILE=folder / "dumps" / "rank")
    dumps = sorted((folder / "dumps").iterdir())
    if not dumps:
        raise Missing(f"no dumps after {time.monotonic() - begin:.0f} s, exit {code}: {(folder / 'hang.log').read_text()[-200:]}")
    ddl("import", "flight-recorder", *dumps, "-o", folder / "hang.ddl")
    db = store(folder / "hang.ddl")
    sentences = db.execute("SELECT id, rank, sentence FROM finding ORDER BY position").fetchall()
    return bool(sentences) and sentences[0][1] == 1, f"{len(dumps)} dumps {[d.name for d in dumps]}: {sentences[:2]}"


def live(folder):
    """ddl-top beside the running job, looked at each second: who is late, and the shares, as the report of the whole job says."""
    command = [DDL, "record", "-o", folder / "live.ddl", "--", sys.executable, HERE / "launch.py", 2, HERE / "ddp.py", "--steps", 200, "--truth", folder / "live.truth", "--late-loader", 1]
    watched = subprocess.Popen([str(part) for part in command], env={**os.environ, **ENVIRONMENT, "MASTER_PORT": "29590"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        looks = []
        while watched.poll() is None and time.monotonic() < DEADLINE:
            done = run([DDL, "top", folder / "live.ddl", "--json", "-n", 4], timeout=30)
            looks += [json.loads(line) for line in done.stdout.splitlines()]
            time.sleep(0.2)
    finally:
        watched.kill()
    running = [look for look in looks if look["feed"]["state"] == "live" and look["window"]["steps"] >= 20]
    if not running:
        raise Missing(f"no look at the running job: {[(look['feed']['state'], look['window']) for look in looks][-3:]}")
    last, db = running[-1], store(folder / "live.ddl")
    ids = db.execute("SELECT id, rank FROM finding ORDER BY position").fetchall()
    exposed = json.loads(ddl("top", "--replay", folder / "live.ddl", "--json", "-n", 1))["step"]
    good = last["headline"]["rank"] == 1 and last["step"]["by_device"] and abs(last["step"]["exposed_ratio"] / exposed["exposed_ratio"] - 1) < 0.1 and ids[:1] == [("straggler", 1)]
    told = [(look["window"], look["step"]["exposed_ratio"], look["step"]["waiting_known"], look["headline"]["sentence"]) for look in running]
    return good, f"{len(looks)} looks, {len(running)} of the running job, first {told[0]}, last {told[-1]}; report {ids[:1]}, last steps by the store {exposed['exposed_ratio']}"


CHECKS = [("PyTorch DDP, two ranks: losses, steps, bytes of its buckets", unchanged),
          *((f"PyTorch DDP: rank 1 late by its {kind}", lambda folder, kind=kind: injected(folder, kind)) for kind in ("loader", "host", "device")),
          *((f"PyTorch DDP: the same of torch.profiler's traces, {kind}", lambda folder, kind=kind: traced(folder, kind)) for kind in ("loader", "device")),
          ("PyTorch DDP: ddl-top beside the running job", live), ("PyTorch FSDP, two ranks: all-gathers and reduce-scatters", sharded), ("PyTorch: flight recorder of a job that hangs", hang)]
