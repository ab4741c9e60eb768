#!/usr/bin/env python3
"""The real PyTorch: an unmodified CNN and a small transformer, DDP over Gloo, 2 and 4 ranks, under torchrun and mpirun. Extra: skipped where Debian's python3-torch is not installed.

    check.py            one job of each model and launcher, a slow rank
    check.py all        all of the cases below, several minutes; or those that are named
    check.py trace      a trace of torch.profiler's, by the torch in the Debian 13 at $DDL_TRIXIE (debootstrap --include=python3-torch trixie)

The same with torch 2.6: DDL_TRIXIE=FOLDER tests/support/in_trixie tests/third_party/pytorch/check.py all

Losses are the same bit for bit with and without; steps and bytes are what the script counted; layers are its modules' paths; a slow rank is the first finding.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import job

HERE = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
STEPS = 30
TRIXIE = os.environ.get("DDL_TRIXIE", "")
ALL = len(sys.argv) > 1

if subprocess.run([PYTHON, "-c", "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"], capture_output=True).returncode:
    print("skipped: /usr/bin/python3 has no torch with Gloo: apt-get install python3-torch")
    sys.exit(77)
PORT = 20000 + os.getpid() % 10000  # of one at a time
os.environ.update(OMP_NUM_THREADS="1", USE_LIBUV="0", MASTER_PORT=str(PORT))
VERSION = subprocess.run([PYTHON, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
IS_OLD = VERSION.startswith("1.")


def launched(launcher, ranks, *options, script="train.py", python=(PYTHON,), port=PORT + 1, torchrun=()):
    if launcher == "mpirun":
        return job.mpirun(ranks, ["--oversubscribe", *python, HERE / script, *options])
    if IS_OLD:  # -r and -t: torch 1.13 cannot parse its own default under Python 3.11
        return [*python, "-m", "torch.distributed.run", "-r", "1", "-t", "1", *(torchrun or ("--master_port", port)), "--nproc_per_node", ranks, HERE / script, *options]
    return [*python, HERE / "torchrun.py", *(torchrun or ("--standalone",)), "--local-addr", "127.0.0.1", "--nproc_per_node", ranks, HERE / script, *options]


def losses(text):
    found = [line[line.index("losses"):] for line in text.splitlines() if "losses" in line]
    return found[0].split() if len(found) == 1 else None


def recorded(folder, name, launcher, ranks, *options, record=(), script="train.py"):
    run, truth = folder / f"{name}.ddl", folder / f"{name}.truth"
    done = job.run([job.DDL, "record", *record, "-o", run, "--", *launched(launcher, ranks, "--steps", STEPS, "--truth", truth, *options, script=script)], check_rc=0)
    truths = [json.loads((folder / f"{name}.truth.{rank}").read_text()) for rank in range(ranks)]
    return done, truths, job.store(run)


def nothing_changes(folder):
    layers = {"cnn": {"stem", "stem.conv", "body", "body.0", "body.0.conv", "body.1.norm"}, "transformer": {"encoder", "encoder.layers.0", "encoder.layers.1.self_attn"}}
    jobs = [("cnn", "torchrun", 2), ("transformer", "mpirun", 4)]
    if ALL:
        jobs = [(model, launcher, ranks) for model in layers for launcher in ("torchrun", "mpirun") for ranks in (2, 4)]
    for model, launcher, ranks in jobs:
        what = f"torch {VERSION}, {model}, {launcher}, {ranks} ranks"
        accumulate = 2 if (model, ranks) == ("cnn", 2) else 1
        options = ["--model", model, "--accumulate", accumulate, "--bucket-mb", 0.02]
        plain = job.run(launched(launcher, ranks, "--steps", STEPS, *options), check_rc=0)
        done, truths, db = recorded(folder, f"{model}{launcher}{ranks}", launcher, ranks, *options)
        same = losses(plain.stdout)
        job.check(same is not None and len(same) == 1 + STEPS * accumulate and losses(done.stdout) == same, f"{what}: other losses: {plain.stdout} {done.stdout}")
        steps = [tuple(row) for row in db.execute("select rank, count(*), min(step), max(step) from v_step group by rank order by rank")]
        job.check(steps == [(rank, STEPS, 0, STEPS - 1) for rank in range(ranks)], f"{what}: steps {steps}")
        processes = db.execute("select count(*) from process").fetchone()[0]
        job.check(processes == ranks, f"{what}: {processes} processes recorded, {ranks} trained")
        # DDP says itself which buckets it made, and made anew after the first backward.
        first, later = truths[0]["sizes"][""], truths[0]["sizes"].get("rebuilt_", truths[0]["sizes"][""])
        expected = sorted(first + later * (STEPS - 1))
        for rank in range(ranks):
            reduced = sorted(row[0] for row in db.execute("select payload_bytes from v_collective where op = 'gloo::allreduce' and source = 'gloo' and rank = ?", (rank,)))
            job.check(reduced == expected, f"{what}, rank {rank}: {len(reduced)} reductions of {sum(reduced)} bytes, by DDP {len(expected)} of {sum(expected)}")
        job.check(sum(later) == truths[0]["bytes"], f"{what}: buckets of {sum(later)} bytes, parameters of {truths[0]['bytes']}")
        split = db.execute("select count(*), sum(wait_ns is not null) from v_collective where op = 'gloo::allreduce'").fetchone()
        job.check(split[0] > 0 and split[0] == split[1], f"{what}: {tuple(split)} reductions, split")
        samples = db.execute("select sum(value) from value where name = 'samples'").fetchone()[0]
        job.check(samples == 8 * STEPS * accumulate * ranks, f"{what}: {samples} samples")
        named = {row[0] for row in db.execute("select distinct layer from v_layer where phase = 'forward'")}
        job.check(layers[model] <= named, f"{what}: layers {sorted(named)}")
        losts = [tuple(row) for row in db.execute("select kind, count from loss")]
        job.check(not losts, f"{what}: {losts}")
        print(f"{what}: same {len(same) - 1} losses, {STEPS} steps, {split[0]} reductions in {len(later)} buckets of {truths[0]['bytes']} bytes a step, {len(named)} layers", flush=True)


def slow_rank(folder):
    for ranks, slow in [(2, 1)] + [(4, 2)] * ALL:
        _, _, db = recorded(folder, f"slow{ranks}", "mpirun", ranks, "--slow-rank", slow)
        found = [(row["id"], row["rank"]) for row in db.execute("select id, rank from finding order by position")]
        waits = dict(db.execute("select rank, avg(wait_ns) / 1e6 from v_step where step > 2 group by rank").fetchall())
        print(f"torch {VERSION}, {ranks} ranks, rank {slow} 30 ms late: {found}; waiting, ms/step: { {rank: round(ms, 1) for rank, ms in waits.items()} }")
        job.check(found[:1] == [("straggler", slow)], f"{ranks} ranks: {found}")
        job.check(all(ms > 25 for rank, ms in waits.items() if rank != slow), f"{ranks} ranks: waits {waits}")


def faults(folder):
    """What the script does to itself is the first finding, and what it costs is told."""
    cases = [("loader_stall", 2, 1, ["--slow-loader", 1]), ("loader_stall", 4, 2, ["--slow-loader", 2]),
             ("checkpoint_stall", 2, 0, ["--save", folder / "model.pt", "--save-s", 2]), ("checkpoint_stall", 4, 0, ["--save", folder / "model.pt", "--save-s", 2]),
             ("garbage_collection", 2, None, ["--collect", 1_200_000]), ("garbage_collection", 4, None, ["--collect", 1_200_000])]
    for kind, ranks, guilty, options in cases:
        _, truths, db = recorded(folder, f"{kind}{ranks}", "mpirun", ranks, *options)
        found = [(row["id"], row["rank"], row["saving_ns"]) for row in db.execute("select id, rank, saving_ns from finding order by position")]
        steps = [row[0] for row in db.execute("select distinct step from steady_step order by 1")]
        truth = None
        if kind == "checkpoint_stall":
            saved = [step for step in (10, 20) if step in steps]  # what is written after step 9 is told with step 10
            truth = 2000 * len(saved) / len(steps)
        if kind == "garbage_collection":
            times = [ms for t in truths for ms in t["collected"]]
            job.check(len(times) == STEPS // 2, f"{kind}: {len(times)} collections")
            truth = 1000 * sum(times) / STEPS
        if kind == "loader_stall":
            truth = 30
        saving = (found[0][2] or 0) / 1e6
        print(f"torch {VERSION}, {ranks} ranks, {kind}: {[f[:2] for f in found]}, saves {saving:.1f} ms/step, injected {truth:.1f}; {db.execute('select sentence from finding order by position').fetchone()[0]}", flush=True)
        job.check(found[0][0] == kind and (guilty is None or found[0][1] == guilty), f"{kind}, {ranks} ranks: {found}")
        job.check(0.6 * truth < saving < 1.4 * truth, f"{kind}, {ranks} ranks: saves {saving} ms/step, injected {truth}")


def missing_rank(folder):
    """The record of one rank is lost: the slow one is named as before, or, if it is that one's, nobody is, and what the others say is a bound of the truth."""
    slow = 2
    _, _, db = recorded(folder, "whole", "mpirun", 4, "--slow-rank", slow)
    shares = "select sum(wait_ns) * 1.0 / sum(duration_ns), sum(xfer_ns) * 1.0 / sum(duration_ns) from steady_part where rank not in (?)"
    pids = dict(db.execute("select rank, pid from process").fetchall())
    for lost in (0, slow):
        wait, transfer = db.execute(shares, (lost,)).fetchone()
        run = folder / f"without{lost}.ddl"
        shutil.copytree(folder / "whole.ddl", run, ignore=shutil.ignore_patterns("run.sqlite", f"*.{pids[lost]}.*"))
        job.report(run)
        part = job.store(run)
        at_least, at_most = part.execute(shares, (lost,)).fetchone()
        named = [tuple(row) for row in part.execute("select id, rank from finding where saving_ns is not null order by position")]
        print(f"without rank {lost}: waiting {at_least:.3f} of {wait:.3f}, transfer {at_most:.3f} of {transfer:.3f}, {named}")
        job.check(at_least <= wait + 0.001 and at_most >= transfer - 0.001, f"without rank {lost}: no bounds")
        job.check(named[:1] == [("straggler", slow)] if lost != slow else not any(name == "straggler" for name, _ in named), f"without rank {lost}: {named}")


def pipelines(folder):
    """Stages that send and receive over Gloo: what the script counted and timed itself, and the slow stage is the first finding."""
    cases = [("plain", 3, []), ("batched", 2, ["--batched"]), ("slow", 3, ["--slow-rank", 1]), ("slow batched", 3, ["--batched", "--slow-rank", 2]), ("late", 3, ["--barrier", "--late-rank", 1]),
             ("two of them", 4, ["--replicas", 2, "--slow-rank", 1, "--slow-ms", 60]), ("two with barriers", 4, ["--replicas", 2, "--slow-rank", 2, "--slow-ms", 60, "--barrier"])]
    for name, ranks, options in cases:
        plain = job.run(launched("mpirun", ranks, "--steps", STEPS, *options, script="pipeline.py"), check_rc=0)
        done, truths, db = recorded(folder, name, "mpirun", ranks, *options, script="pipeline.py")
        job.check(losses(plain.stdout) is not None and losses(done.stdout) == losses(plain.stdout), f"{name}: other losses: {plain.stdout} {done.stdout}")
        told = [tuple(row) for row in db.execute("select source, count(*), sum(bytes), sum(why is not null) from v_message group by source order by source")]
        job.check(told == [(rank, t["sent"], t["bytes"], 0) for rank, t in enumerate(truths)], f"{name}: messages {told}")
        own = [median(t["in_messages"]) for t in truths]
        call = dict(db.execute("select rank, sum(time_ns) / 1e6 / ? from v_call where op in ('gloo::send', 'gloo::recv', 'gloo::wait', 'gloo::isend', 'gloo::irecv') group by rank", (STEPS,)).fetchall())
        mean = [sum(t["in_messages"]) / STEPS for t in truths]
        least = 0.7 if "--batched" in options else 0.9  # the script times the making of a batch, too
        job.check(all(least * m - 0.6 < call[rank] < m * 1.02 + 0.1 for rank, m in enumerate(mean)), f"{name}: ms in messages a step {call}, by the script {mean}")
        found = [(row["id"], row["rank"], (row["saving_ns"] or 0) / 1e6) for row in db.execute("select id, rank, saving_ns from finding order by position")]
        print(f"torch {VERSION}, {name}: {told}; ms a step in messages {call}, by the script {own}; {found}", flush=True)
        if "--barrier" in options:
            barriers = [sum(t["in_barriers"]) for t in truths]
            heard = dict(db.execute("select rank, sum(duration_ns) / 1e6 from v_collective where op = 'gloo::monitored_barrier' group by rank").fetchall())
            job.check(all(0.9 * ms - 2 < heard[rank] < ms * 1.02 + 2 for rank, ms in enumerate(barriers)), f"{name}: ms in barriers {heard}, by the script {barriers}")
        [guilty] = [options[options.index(word) + 1] for word in ("--slow-rank", "--late-rank") if word in options] or [None]
        slow_ms = options[options.index("--slow-ms") + 1] if "--slow-ms" in options else 20
        if guilty is not None:
            job.check(found and found[0][1] == guilty and 0.6 * slow_ms < found[0][2] < 1.4 * slow_ms, f"{name}: {found}")


def loading_and_checkpoints(folder):
    _, truths, db = recorded(folder, "saves", "mpirun", 2, "--save", folder / "model.pt", "--workers", 2)
    saved = [tuple(row) for row in db.execute("select p.rank, count(*), sum(value) from value v join process p on p.id = v.process where name = 'checkpoint_bytes' group by 1")]
    job.check(saved == [(0, 3, truths[0]["saved"])], f"checkpoints {saved}, the script wrote {truths[0]['saved']}")
    job.check(db.execute("select count(*) from process").fetchone()[0] == 2, "a loader's workers were recorded")
    plain = job.run(launched("mpirun", 2, "--steps", STEPS, "--workers", 2), check_rc=0)
    again = job.run([job.DDL, "record", "--no-python", "-o", folder / "bare.ddl", "--", *launched("mpirun", 2, "--steps", STEPS, "--workers", 2)], check_rc=0)
    job.check(losses(again.stdout) == losses(plain.stdout), "other losses with --no-python")
    bare = job.store(folder / "bare.ddl")
    job.check(bare.execute("select count(*) from v_layer where layer is not null and layer not like '%::%'").fetchone()[0] == 0, "layers, with --no-python")


def layer_times(folder):
    """Against record_function of torch.profiler around the same modules, call by call, in the median: where cores are shared the kernel takes one away between the two readings of the clock now and then.
    Without samples of the training thread: a system call at a range's end is where it does so most."""
    for model in ("cnn", "transformer"):
        _, truths, db = recorded(folder, f"profile{model}", "mpirun", 2, "--model", model, "--profile", record=["--collectors", "mpi,gloo"])
        apart, sums = [], []
        for rank in (0, 1):
            ours = {}
            for layer, ns in db.execute("select q.name, e.duration_ns from range_event e join region q on q.id = e.region join process p on p.id = e.process"
                                        " where p.rank = ? and q.kind = 'layer' order by e.start_ns", (rank,)):
                ours.setdefault(layer, []).append(ns)
            for layer, spans in truths[rank]["spans"].items():
                if len(ours.get(layer, [])) != len(spans) or median(spans) < 1_000_000:
                    continue
                far = abs(median(our / span for our, span in zip(ours[layer], spans)) - 1)
                apart.append((far, f"rank {rank}, {layer}: {median(ours[layer]) / 1e6:.3f} ms, by the profiler {median(spans) / 1e6:.3f} ms"))
                sums.append(abs(sum(ours[layer]) / sum(spans) - 1))
        apart.sort()
        if job.check(len(apart) >= 4, f"{model}: only {len(apart)} layers were long enough to compare"):
            print(f"torch {VERSION}, {model}: {len(apart)} layers of 1 ms and more: a call at most {100 * apart[-1][0]:.2f} % from the profiler ({apart[-1][1]}),"
                  f" all calls at most {100 * max(sums):.2f} %, in the median {100 * median(sums):.2f} %", flush=True)
        for far, text in apart:
            job.check(far < 0.05, f"{model}: {text}")


def compilations(folder):
    """Batches of another shape in steps 10 and 20: the compilations that the compiler itself counts, no more than without ddl, of its durations, and the finding."""
    if IS_OLD:
        return
    options = ["--compile", "--bucket-mb", 25]
    plain = job.run(launched("mpirun", 2, "--steps", STEPS, "--truth", folder / "plain", *options), check_rc=0)
    alone = json.loads((folder / "plain.0").read_text())["compilations"]
    done, truths, db = recorded(folder, "compiles", "mpirun", 2, *options)
    job.check(losses(plain.stdout) == losses(done.stdout), "torch.compile: other losses")
    ranges = db.execute("select e.step, e.duration_ns from range_event e join region q on q.id = e.region join process p on p.id = e.process"
                        " where q.name = 'compilation' and p.rank = 0 order by e.start_ns").fetchall()
    steps, seconds = sorted({row[0] for row in ranges}), sum(row[1] for row in ranges) / 1e9
    theirs = truths[0]["compilations"]
    found = [(row["id"], row["sentence"]) for row in db.execute("select id, sentence from finding order by position")]
    print(f"torch {VERSION}, torch.compile: {len(ranges)} compilations of {seconds:.2f} s in steps {steps}, by the compiler {len(theirs)} of {sum(theirs):.2f} s; {found[:2]}", flush=True)
    job.check(len(theirs) == len(alone), f"{len(theirs)} compilations, {len(alone)} without ddl")
    # The last one of the compiler's is a frame that it gives up before it calls anybody.
    job.check(0 <= len(theirs) - len(ranges) <= 1 and steps == [0, 10, 20], f"{len(ranges)} compilations in steps {steps}, by the compiler {len(theirs)}")
    job.check(0.9 < seconds / sum(theirs) < 1.1, f"{seconds} s, by the compiler {sum(theirs)} s")
    job.check(found[0][0] == "recompilation" and "in 2 of " in found[0][1], f"{found}")


def sharded_checkpoints(folder):
    if IS_OLD:
        return
    _, truths, db = recorded(folder, "sharded", "mpirun", 2, "--save", folder / "sharded", "--sharded")
    told = [tuple(row) for row in db.execute("select p.rank, count(*), sum(value) from value v join process p on p.id = v.process where name = 'checkpoint_bytes' group by 1")]
    ranges = [tuple(row) for row in db.execute("select p.rank, count(*) from range_event e join region q on q.id = e.region join process p on p.id = e.process where q.name = 'checkpoint' group by 1 order by 1")]
    print(f"torch {VERSION}, torch.distributed.checkpoint: ranges {ranges}, bytes {told}, in files {truths[0]['saved']}", flush=True)
    job.check(ranges == [(0, 3), (1, 3)] and told == [(0, 3, truths[0]["saved"])], f"ranges {ranges}, bytes {told}, in files {truths[0]['saved']}")


LIMIT = 8  # s: longer than any import on a busy machine


def stalled(how, port, folder, *arguments, limit=LIMIT, ranks=4, guilty=1, launcher="mpirun", action="abort"):
    run = folder / f"stall-{how}-{launcher}.ddl"
    begin = time.monotonic()
    done = subprocess.run([str(word) for word in (job.DDL, "record", "-o", run, "--stall", limit, "--on-stall", action, "--",
                           *launched(launcher, ranks, how, guilty, *arguments, script="stall_job.py", port=port))],
                          env=job.environment(MASTER_PORT=port, **job.QUICK), cwd=folder, capture_output=True, text=True, timeout=300)
    said = [line for line in done.stderr.splitlines() if line.startswith("ddl: ")]
    print(f"torch {VERSION}, {launcher}, {how}: {time.monotonic() - begin:.0f} s", *said, sep="\n    ", flush=True)
    return done, said, run


def hangs(folder):
    """The right rank is named within 10 s of the limit, and the stacks show why."""
    inner = {"loader": "__getitem__ (", "lock": "hold_the_lock (", "never": "never_enters ("}
    cases = [(how, "mpirun") for how in ("loader", "workers", "lock", "never", "stopped")] + [("loader", "torchrun"), ("stopped", "torchrun")]

    def one(numbered):
        number, (how, launcher) = numbered
        return how, stalled(how, PORT + 2 + number, folder, launcher=launcher)

    with ThreadPoolExecutor(2) as pool:
        for how, (done, said, run) in pool.map(one, enumerate(cases)):
            db = job.store(run)
            stalls = db.execute("select * from stall").fetchall()
            if not job.check(len(stalls) == 1 and stalls[0]["kind"] == "stall", f"{how}: {said}"):
                continue
            late = (stalls[0]["told_ns"] - stalls[0]["since_ns"]) / 1e9 - LIMIT
            job.check(0 <= late < 10, f"{how}: told {late} s after the limit")
            ranks = {row["rank"]: row for row in db.execute("select * from stall_rank")}
            job.check([rank for rank, row in ranks.items() if row["role"] == "missing"] == [1], f"{how}: {said}")
            job.check(any("rank 1 never entered gloo::allreduce number " in line for line in said), f"{how}: {said}")
            job.check(ranks[1]["state"] == {"never": "runs", "stopped": "stopped"}.get(how, "sleeps"), f"{how}: {ranks[1]['state']}")
            stacks = {}
            for rank, thread, frames in db.execute("select rank, thread, frames from stall_stack where language = 'python' order by rank, position"):
                stacks.setdefault(rank, {})[thread] = frames
            if how in inner:
                job.check(stacks.get(1, {}).get("main", "").startswith(inner[how]), f"{how}: {stacks.get(1)}")
            if how == "workers":
                job.check(any(name.startswith("worker ") and frames.startswith("__getitem__ (") for name, frames in stacks.get(1, {}).items()), f"{how}: {stacks.get(1)}")
            job.check(len({stacks.get(rank, {}).get("main") for rank in (0, 2, 3)}) == 1 and "stall_job.py" in stacks[0]["main"], f"{how}: {stacks}")
            groups = [line for line in said if line.startswith("ddl:   rank")]
            job.check(len(groups) == 2 and groups[0].startswith("ddl:   ranks 0, 2-3"), f"{how}: {groups}")


def no_false_alarms(folder):
    """One rank evaluates for three times the limit while the others wait: it is told that it makes progress. Each is slow now and then: nothing is told."""
    done, said, run = stalled("evaluates", PORT, folder, 3 * LIMIT, action="touch alarm")
    job.check(done.returncode == 0 and not (folder / "alarm").exists(), f"{said}")
    job.check([row[0] for row in job.store(run).execute("select kind from stall")] == ["waiting"] and any("rank 1 still makes progress" in line for line in said), f"{said}")
    done, said, run = stalled("turns", PORT, folder, LIMIT / 2, action="touch alarm")
    job.check(done.returncode == 0 and not (folder / "alarm").exists() and job.store(run).execute("select count(*) from stall").fetchone()[0] == 0, f"{said}")


def restarts(folder):
    """A job that is killed twice: lost steps are those that the script's own log has again, and the parts add up."""
    work = folder / "restarts"
    work.mkdir()
    runs = []
    begun = time.time()
    for kill_after in (17, 31, 0):
        runs.append(folder / f"try{len(runs)}.ddl")
        done = job.run([job.DDL, "record", "-o", runs[-1], "--", *job.mpirun(2, ["--oversubscribe", PYTHON, HERE / "restarts.py", work, kill_after])], **job.QUICK)
        job.check((done.returncode == 0) == (kill_after == 0), f"attempt {len(runs)}: exit code {done.returncode}: {done.stderr[-500:]}")
    wall = time.time() - begun
    log = [json.loads(line) for line in (work / "log").read_text().splitlines()]
    attempts = [[row["step"] for row in log if row["begins_with"] == first] for first in sorted({row["begins_with"] for row in log})]
    lost = [sum(step in later for step in steps) for steps, later in zip(attempts, attempts[1:])] + [0]
    said = json.loads(job.run([job.DDL, "goodput", *runs, "--json", "--price", "2.49"], check_rc=0).stdout)
    ours = [run["lost_steps"] for run in said["runs"]]
    total = sum(part["time_ns"] for part in said["goodput"])
    print(f"torch {VERSION}, restarts: lost {ours}, by the log {lost}; steps {sum(run['steps'] for run in said['runs'])}, by the log {len(log)}; parts {total / 1e9:.3f} s of {said['run']['wall_ns'] / 1e9:.3f}, by the clock {wall:.3f}", flush=True)
    job.check(ours == lost and sum(run["steps"] for run in said["runs"]) == len(log), f"lost {ours}, by the log {lost}")
    job.check(abs(total - said["run"]["wall_ns"]) < 1e-6 * said["run"]["wall_ns"] and abs(sum(part["ratio"] for part in said["goodput"]) - 1) < 1e-3, f"parts {total} of {said['run']['wall_ns']}")
    job.check(wall - 3 < said["run"]["wall_ns"] / 1e9 <= wall + 0.1, f"wall time {said['run']['wall_ns'] / 1e9} of {wall}")


def attempts(folder):
    """A rank of torchrun's is killed once, and torchrun starts all anew: two attempts of one recording, each of two ranks with the steps and the split waiting of its own.
    Where attempts meet at one port their numbers tell them apart, else their ports."""
    for meet, options in (("the agent's port", ["--master_addr", "127.0.0.1", "--master_port", PORT + 1]), ("a port each", ["--standalone"])):
        work, run = folder / f"attempts{len(options)}", folder / f"attempts{len(options)}.ddl"
        work.mkdir()
        job.run([job.DDL, "record", "-o", run, "--", *launched("torchrun", 2, work, 17, script="restarts.py", torchrun=["--max_restarts", 1, *options])], check_rc=0)
        log = [json.loads(line) for line in (work / "log").read_text().splitlines()]
        begins = sorted({row["begins_with"] for row in log})
        own = [(world, rank, sum(row["begins_with"] == begin for row in log)) for world, begin in enumerate(begins) for rank in (0, 1)]
        db = job.store(run)
        rows = lambda sql: [tuple(row) for row in db.execute(sql)]
        steps = rows("select p.world, p.rank, (select count(*) from step s where s.process = p.id and s.duration_ns is not null) from process p order by 1, 2")
        split = rows("select p.world, count(*), sum(c.wait_ns is not null) from v_collective c join event e on e.id = c.event join process p on p.id = e.process"
                     " where c.op = 'gloo::allreduce' group by 1 order by 1")
        print(f"torch {VERSION}, attempts that meet at {meet}: steps {steps}, by the log {own}; reductions and split ones {split}", flush=True)
        job.check(len(begins) == 2 and steps == own, f"{meet}: steps {steps}, by the log {own}")
        job.check([row[0] for row in split] == [0, 1] and all(count == known for _, count, known in split), f"{meet}: reductions by attempt, and split ones: {split}")


def obstacles(folder):
    """Where hooks cannot be, the job runs as without us, and the report says so."""
    isolated = folder / "isolated.py"
    isolated.write_text("import runpy, sys\nsys.path.append('/usr/lib/python3/dist-packages')\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n")
    replaces = folder / "replaces.py"
    replaces.write_text("import runpy, sys\nsys.meta_path[:] = [f for f in sys.meta_path if f.__module__.startswith('_frozen')]\n"
                        "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n")
    venv = folder / "venv"
    venv.mkdir()
    (venv / "bin").mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = true\n")
    (venv / "bin" / "python3").symlink_to(os.path.realpath(PYTHON))
    embedded = folder / "embedded"
    cases = [("-I", [PYTHON, "-I"], False), ("-I -S", [PYTHON, "-I", "-S", isolated], False), ("sys.meta_path replaced", [PYTHON, replaces], False),
             ("a virtual environment", [venv / "bin" / "python3"], True), ("--no-python", [PYTHON], False)]
    if built(folder, embedded):
        cases.append(("a frozen program", [embedded, isolated], False))
    for what, python, hooked in cases:
        run = folder / f"{what.replace(' ', '_')}.ddl"
        command = launched("mpirun", 2, "--steps", 8, python=python)
        plain = job.run(command, check_rc=0)
        done = job.run([job.DDL, "record", "-o", run, *["--no-python"] * (what == "--no-python"), "--", *command], check_rc=0)
        job.check(losses(plain.stdout) is not None and losses(plain.stdout) == losses(done.stdout), f"{what}: other losses: {plain.stdout} {done.stdout}{done.stderr}")
        report, doctor = job.report(run).stdout, job.run([job.DDL, "doctor", run]).stdout
        layers = job.store(run).execute("select count(*) from region where kind = 'layer'").fetchone()[0]
        said = re.search(r"torch not hooked in \d+ process(es)?", report)
        print(f"torch {VERSION}, {what}: same losses, {layers} layers, {said[0] if said else 'hooked'}", flush=True)
        job.check((layers > 0) == hooked and bool(said) != hooked and ("torch" in doctor), f"{what}: {layers} layers, report {report[:300]}, doctor {doctor}")
    broken = folder / "broken" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libtorch_cpu.so: cannot open shared object file')\n")
    command = [PYTHON, "-c", f"import sys; sys.path.insert(0, {str(broken.parent)!r})\nimport torch"]
    plain, done = job.run(command), job.run([job.DDL, "record", "-o", folder / "broken.ddl", "--", *command])
    job.check(plain.returncode == done.returncode == 1 and done.stderr.startswith(plain.stderr), f"a broken torch: {plain} {done}")
    print(f"torch {VERSION}, a broken torch: {done.stderr.splitlines()[-1]}")


EMBEDDED = """
#include <Python.h>
int main(int argc, char** argv) {  /* as a frozen program starts its interpreter: no environment, no site */
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 0;
  config.parse_argv = 1;
  PyConfig_SetBytesArgv(&config, argc, argv);
  PyConfig_SetBytesString(&config, &config.program_name, "/usr/bin/python3");
  Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return Py_RunMain();
}
"""


def built(folder, program):
    """A program with an interpreter of its own inside, where Python's headers are installed."""
    (folder / "embedded.c").write_text(EMBEDDED)
    try:
        version = job.run([PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).stdout.strip()
        flags = job.run([f"/usr/bin/python{version}-config", "--includes", "--ldflags", "--embed"], check_rc=0).stdout.split()
        return job.run(["cc", folder / "embedded.c", *flags, "-o", program]).returncode == 0
    except OSError:
        print("not tried: a frozen program (no headers of Python, or no compiler)")
        return False


def cost(folder):
    """What hooks cost, as calls times what one costs: on the whole loop below the budget of 1 %."""
    done = job.run([job.DDL, "record", "-o", folder / "cost.ddl", "--budget", "off", "--", PYTHON, HERE / "cost.py"], check_rc=0)
    print(done.stdout.strip())
    us = [float(number) for number in re.findall(r"(-?[\d.]+) us", done.stdout)]
    named_us, looked_us, step_us, batch_us = us[0], us[1], us[3], us[4]
    job.check(named_us < 10 and looked_us < 5 and step_us < 60 and batch_us < 40, f"dearer than ever: {done.stdout}")
    for model in ("cnn", "transformer"):
        _, truths, db = recorded(folder, f"cost{model}", "mpirun", 2, "--model", model, "--count-calls")
        for rank in (0, 1):
            named = db.execute("select sum(g.calls) from range_profile g join region q on q.id = g.region join process p on p.id = g.process where p.rank = ? and q.kind = 'layer'", (rank,)).fetchone()[0]
            all_calls, loop_us = truths[rank]["module_calls"], truths[rank]["seconds"] * 1e6
            parts = [named * named_us, (all_calls - named) * looked_us, STEPS * step_us, STEPS * batch_us]
            if rank == 0:
                print(f"torch {VERSION}, {model}: {all_calls} module calls, {named} named, {STEPS} steps in {loop_us / 1e6:.2f} s: named {100 * parts[0] / loop_us:.3f} %, looked at {100 * parts[1] / loop_us:.3f} %,"
                      f" steps {100 * parts[2] / loop_us:.3f} %, batches {100 * parts[3] / loop_us:.3f} %, together {100 * sum(parts) / loop_us:.3f} % of the loop", flush=True)
            job.check(sum(parts) < 0.01 * loop_us, f"{model}: {100 * sum(parts) / loop_us} % of the loop")


def without_launcher(folder):
    for how, ranks, port in (("spawn", 2, 29541), ("fork", 4, 29543)):
        run = folder / f"{how}.ddl"
        job.run([job.DDL, "record", "-o", run, "--", PYTHON, HERE / "spawned.py", how, ranks, port], check_rc=0)
        db = job.store(run)
        steps = [tuple(row) for row in db.execute("select rank, count(*) from v_step group by rank order by rank")]
        job.check(steps == [(rank, 20) for rank in range(ranks)], f"{how}: steps {steps}")
        groups = {row[0]: (row[1], row[2], row[3]) for row in db.execute("select comm, count(distinct rank), sum(op = 'gloo::allgather'), sum(payload_bytes) from v_collective"
                                                                         " where op in ('gloo::reduce', 'gloo::allgather') and payload_bytes > 16 group by comm")}
        expected = {"default_pg": (ranks, 0, 20 * ranks * 200)}
        if ranks == 4:
            expected.update({f"group {number}": (2, 40, 40 * 40) for number in (1, 2)})
        job.check(groups == expected, f"{how}: {groups}, expected {expected}")


def traced(folder):
    """What a torch that has Kineto writes of DDP over Gloo."""
    out = Path(TRIXIE) / "tmp" / "ddl-kineto"
    out.mkdir(exist_ok=True)
    (out / "train.py").write_text((HERE / "train.py").read_text())
    ranks = [subprocess.Popen(["chroot", TRIXIE, "env", "USE_LIBUV=0", "OMP_NUM_THREADS=1", f"RANK={rank}", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29531",
                               "python3", "/tmp/ddl-kineto/train.py", "--steps", "60", "--kineto", "/tmp/ddl-kineto", "--slow-rank", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
             for rank in (0, 1)]
    said = [rank.communicate(timeout=300)[0].decode() for rank in ranks]
    if not job.check(all(rank.returncode == 0 for rank in ranks), f"{said}"):
        return
    job.run([job.DDL, "import", "kineto", "--one-clock", out / "rank0.json", out / "rank1.json", "-o", folder / "trace.ddl"], check_rc=0)
    db = job.store(folder / "trace.ddl")
    reductions = db.execute("select count(*), sum(payload_bytes <> 88680), sum(wait_ns is not null), min(comm), max(comm_size) from v_collective where op = 'gloo::allreduce'").fetchone()
    job.check(tuple(reductions) == (120, 0, 120, "default_pg", 2), f"reductions {tuple(reductions)}")
    shaped = db.execute("select count(payload_bytes) from v_collective where op = 'gloo::allreduce'").fetchone()[0]
    job.check(shaped >= 118, f"{shaped} reductions with bytes")  # the profiler leaves the shapes of the one out that runs when it stops
    members = [row[0] for row in db.execute("select m.rank from communicator_member m join communicator c on c.id = m.communicator where c.label = 'default_pg' order by 1")]
    job.check(members == [0, 1], f"members {members}")
    job.check(db.execute("select count(*) from v_layer where layer like 'gloo%' and inferred = 0").fetchone()[0] == 0, "a collective is a layer")
    found = [(row["id"], row["rank"]) for row in db.execute("select id, rank from finding order by position")]
    job.check(found[:1] == [("straggler", 1)], f"findings {found}")
    print(job.report(folder / "trace.ddl").stdout.splitlines()[1])


if sys.argv[1:] == ["trace"]:
    if not (Path(TRIXIE) / "usr/lib/python3/dist-packages/torch").exists():
        print("skipped: no torch in the Debian at $DDL_TRIXIE")
        sys.exit(77)
    job.main(traced)
else:
    every = [nothing_changes, slow_rank, faults, missing_rank, pipelines, loading_and_checkpoints, layer_times, compilations, sharded_checkpoints, without_launcher, hangs, no_false_alarms, restarts, attempts, obstacles, cost]
    named = every if sys.argv[1:] == ["all"] else [case for case in every if case.__name__ in sys.argv[1:]] if ALL else [nothing_changes, slow_rank]
    job.main(*named)
