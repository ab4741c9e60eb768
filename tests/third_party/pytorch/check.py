#!/usr/bin/env python3
"""The real PyTorch: an unmodified CNN and a small transformer, DDP over Gloo, 2 and 4 ranks, under torchrun and mpirun. Extra: skipped where Debian's python3-torch is not installed.

    check.py            one job of each model and launcher, a slow rank
    check.py all        more ranks, loading, checkpoints, times of layers, ranks that the script starts itself
    check.py trace      a trace of torch.profiler's, by the torch in the Debian 13 at $DDL_TRIXIE (debootstrap --include=python3-torch trixie)

Losses are the same bit for bit with and without; steps and bytes are what the script counted; layers are its modules' paths; a slow rank is the first finding.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import job

HERE = Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
STEPS = 30
TRIXIE = os.environ.get("DDL_TRIXIE", "")
ALL = sys.argv[1:] == ["all"]

if subprocess.run([PYTHON, "-c", "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"], capture_output=True).returncode:
    print("skipped: /usr/bin/python3 has no torch with Gloo: apt-get install python3-torch")
    sys.exit(77)
os.environ.update(OMP_NUM_THREADS="1")


def launched(launcher, ranks, *options):
    if launcher == "mpirun":
        return job.mpirun(ranks, ["--oversubscribe", PYTHON, HERE / "train.py", *options])
    # -r and -t: torch 1.13 cannot parse its own default under Python 3.11
    return [PYTHON, "-m", "torch.distributed.run", "-r", "1", "-t", "1", "--master_port", 29520, "--nproc_per_node", ranks, HERE / "train.py", *options]


def losses(text):
    found = [line[line.index("losses"):] for line in text.splitlines() if "losses" in line]
    return found[0].split() if len(found) == 1 else None


def recorded(folder, name, launcher, ranks, *options, record=()):
    run, truth = folder / f"{name}.ddl", folder / f"{name}.truth"
    done = job.run([job.DDL, "record", *record, "-o", run, "--", *launched(launcher, ranks, "--steps", STEPS, "--truth", truth, *options)], check_rc=0)
    truths = [json.loads((folder / f"{name}.truth.{rank}").read_text()) for rank in range(ranks)]
    return done, truths, job.store(run)


def nothing_changes(folder):
    layers = {"cnn": {"stem", "stem.conv", "body", "body.0", "body.0.conv", "body.1.norm"}, "transformer": {"encoder", "encoder.layers.0", "encoder.layers.1.self_attn"}}
    jobs = [("cnn", "torchrun", 2), ("transformer", "mpirun", 4)] + [("cnn", "mpirun", 4), ("transformer", "torchrun", 2)] * ALL
    for model, launcher, ranks in jobs:
        what = f"{model}, {launcher}, {ranks} ranks"
        accumulate = 2 if (model, ranks) == ("cnn", 2) else 1
        options = ["--model", model, "--accumulate", accumulate]
        plain = job.run(launched(launcher, ranks, "--steps", STEPS, *options), check_rc=0)
        done, truths, db = recorded(folder, f"{model}{launcher}{ranks}", launcher, ranks, *options)
        same = losses(plain.stdout)
        job.check(same is not None and len(same) == 1 + STEPS * accumulate and losses(done.stdout) == same, f"{what}: other losses: {plain.stdout} {done.stdout}")
        steps = [tuple(row) for row in db.execute("select rank, count(*), min(step), max(step) from v_step group by rank order by rank")]
        job.check(steps == [(rank, STEPS, 0, STEPS - 1) for rank in range(ranks)], f"{what}: steps {steps}")
        processes = db.execute("select count(*) from process").fetchone()[0]
        job.check(processes == ranks, f"{what}: {processes} processes recorded, {ranks} trained")
        reduced = dict(db.execute("select rank, sum(payload_bytes) from v_collective where op = 'gloo::allreduce' and source = 'gloo' group by rank").fetchall())
        job.check(reduced == {rank: STEPS * truths[rank]["bytes"] for rank in range(ranks)}, f"{what}: reduced {reduced}, parameters have {truths[0]['bytes']} bytes")
        split = db.execute("select count(*), sum(wait_ns is not null) from v_collective where op = 'gloo::allreduce'").fetchone()
        job.check(split[0] > 0 and split[0] == split[1], f"{what}: {tuple(split)} reductions, split")
        samples = db.execute("select sum(value) from value where name = 'samples'").fetchone()[0]
        job.check(samples == 8 * STEPS * accumulate * ranks, f"{what}: {samples} samples")
        named = {row[0] for row in db.execute("select distinct layer from v_layer where phase = 'forward'")}
        job.check(layers[model] <= named, f"{what}: layers {sorted(named)}")
        losts = [tuple(row) for row in db.execute("select kind, count from loss")]
        job.check(not losts, f"{what}: {losts}")
        print(f"{what}: same losses, {STEPS} steps, {split[0]} reductions of {truths[0]['bytes']} bytes a step, {len(named)} layers")


def slow_rank(folder):
    for ranks, slow in [(2, 1)] + [(4, 2)] * ALL:
        _, _, db = recorded(folder, f"slow{ranks}", "mpirun", ranks, "--slow-rank", slow)
        found = [(row["id"], row["rank"]) for row in db.execute("select id, rank from finding order by position")]
        print(f"{ranks} ranks, one 30 ms late: {found}")
        job.check(found[:1] == [("straggler", slow)], f"{ranks} ranks: {found}")


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
    """Against hooks of the script's own. Without samples of the training thread: where cores are shared a system call at a range's end is where the kernel takes the core away, before
    the script has read its clock."""
    _, truths, db = recorded(folder, "profile", "mpirun", 2, "--profile", record=["--collectors", "mpi,gloo"])
    checked = 0
    for rank in (0, 1):
        ours = dict(db.execute("select layer, sum(total_ns) from (select q.name as layer, g.time_ns as total_ns from range_profile g join region q on q.id = g.region"
                               " join process p on p.id = g.process where p.rank = ?) group by layer", (rank,)).fetchall())
        for layer, span in truths[rank]["spans"].items():
            if layer in ours and span > STEPS * 2_000_000:
                checked += 1
                job.check(abs(ours[layer] / span - 1) < 0.05, f"rank {rank}, {layer}: {ours[layer] / 1e6:.2f} ms, by the script {span / 1e6:.2f} ms")
    print(f"{checked} layers within 5 %")
    job.check(checked >= 2, f"only {checked} layers were long enough to compare")


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
    job.main(nothing_changes, slow_rank, *[missing_rank, loading_and_checkpoints, layer_times, without_launcher] * ALL)
