#!/usr/bin/env python3
"""The program `network`: bytes and operations against the layer tables, counted below it by a probe; with the word bubble, the bubble of its pipelines."""
import csv
import re
import sys
from pathlib import Path

import job

NETWORK = job.BUILD / "bin" / "network"
PROBE = job.BUILD / "tests" / "programs" / "libnetwork_probe.so"
SOURCE = Path(__file__).resolve().parents[2]
TABLES = SOURCE / "workloads" / "network" / "tables"
HEADER = "layer,params,fwd_macs_per_sample,act_out_elems_per_sample\n"
STAGE = re.compile(r"stage (\d+) from (.+) to (.+): (\d+) parameters, each step (\d+) bytes of gradients in (\d+) buckets, (\d+) flops, "
                   r"(\d+) bytes to other stages$")


def layers(network):
    with open(TABLES / f"layers_{network}.csv") as file:
        return [(r["layer"], int(r["params"]), int(r["fwd_macs_per_sample"]), int(r["act_out_elems_per_sample"])) for r in csv.DictReader(file)]


def network(folder, ranks, *options, check_rc=0, **env):
    """What the job printed of its stages, and what the probe counted of each rank."""
    done = job.mpirun(ranks, [NETWORK, *options], check_rc=check_rc, LD_PRELOAD=PROBE, NETWORK_PROBE=folder / "count", **env)
    stages = [m.groups() for m in map(STAGE.match, done.stdout.splitlines()) if m]
    counts = []
    for rank in range(ranks if done.returncode == 0 else 0):
        lines = (folder / f"count.{rank}").read_text().splitlines()
        counts.append({name: int(value) for name, value in map(str.split, lines)})
    return done, stages, counts


def gradient_bytes(folder):
    """Four bytes for each parameter, from every rank in every step, however they are reduced."""
    for name in ("resnet50", "googlenet", "lenet5"):
        parameters = sum(row[1] for row in layers(name))
        _, stages, counts = network(folder, 2, "--table", name, "--scale", 0, "--steps", 1)
        job.check([int(s[3]) for s in stages] == [parameters], f"{name}: {stages}")
        job.check(all(c["posted"] == 4 * parameters and c["reduced"] == c["sent"] == 0 for c in counts), f"{name}: {counts}")
    parameters = sum(row[1] for row in layers("googlenet"))
    common = ["--table", "googlenet", "--scale", 0, "--steps", 3]
    _, stages, counts = network(folder, 2, *common, "--no-overlap", "--bucket-mb", 0)
    job.check(all(c["reduced"] == 12 * parameters and c["posted"] == 0 for c in counts), f"--no-overlap: {counts}")
    job.check(int(stages[0][5]) == sum(row[1] > 0 for row in layers("googlenet")), f"a bucket per layer: {stages}")
    # A ring of two ranks sends 2 (p - 1) / p n = n bytes from each.
    _, _, counts = network(folder, 2, *common, "--allreduce", "ring")
    job.check(all(c["reduced"] == c["posted"] == 0 for c in counts), f"--allreduce ring: {counts}")
    job.check(sum(c["sent"] for c in counts) == 2 * 12 * parameters, f"--allreduce ring: {counts}")


def operations(folder):
    """sgemm does the table's multiply-adds, scaled, three times over: forward, and twice in backward."""
    for name, scale, batch, micro_batches in (("resnet50", 0.001, 32, 1), ("gpt2_small", 1e-5, 6, 3), ("bert_base_uncased", 1e-4, 4, 2)):
        samples = batch // micro_batches
        expected = sum(2 * 3 * micro_batches * int(macs * samples * scale + 0.5) for _, _, macs, _ in layers(name))
        _, stages, counts = network(folder, 1, "--table", name, "--scale", scale, "--batch", batch, "--micro-batches", micro_batches,
                                    "--steps", 2)
        job.check(int(stages[0][6]) == expected, f"{name}: {stages[0][6]} flops printed, {expected} expected")
        job.check(counts[0]["flops"] == 2 * expected, f"{name}: {counts[0]['flops']} flops counted, {2 * expected} expected")


def lost_sums_are_found(folder):
    done, _, _ = network(folder, 2, "--table", "resnet50", "--scale", 0, "--steps", 1, check_rc=1, LOSE_SUMS=1)
    job.check("network: error: the sum of gradient 0 is 1.000000, expected 2.000000" in done.stderr, done.stderr[-500:])


def listed(_):
    lines = job.run([NETWORK, "--list"], check_rc=0).stdout.splitlines()[1:]
    with open(SOURCE / "tests" / "published" / "layer_totals.csv") as file:
        totals = {row["model"]: row["params_computed"] for row in csv.DictReader(file)}
    job.check({line.split()[0]: line.split()[2] for line in lines} == totals, f"--list: {lines}")


def recorded(folder):
    """What ddl records of it: its gradients in MPI calls, its layers, its samples and operations."""
    run = folder / "run"
    job.record(run, job.mpirun(2, [NETWORK, "--table", "resnet50", "--scale", "1e-4", "--steps", 6, "--batch", 8]), check_rc=0)
    db = job.store(run)
    rows = layers("resnet50")
    parameters = sum(row[1] for row in rows)
    sent = db.execute("SELECT rank, sum(bytes) AS bytes FROM v_call WHERE op = 'MPI_Iallreduce' GROUP BY rank").fetchall()
    job.check([tuple(row) for row in sent] == [(0, 24 * parameters), (1, 24 * parameters)], f"recorded bytes: {[tuple(r) for r in sent]}")
    seen = {row["layer"] for row in db.execute("SELECT DISTINCT layer FROM v_layer WHERE phase = 'forward'")}
    job.check(seen == {row[0] for row in rows}, f"layers: {len(seen)} of {len(rows)}")
    flops = sum(2 * 3 * int(macs * 8 * 1e-4 + 0.5) for _, _, macs, _ in rows)
    values = db.execute("SELECT DISTINCT name, value FROM value ORDER BY name").fetchall()
    job.check([tuple(v) for v in values] == [("batch", 8.0), ("model_flops", float(flops)), ("samples", 8.0)], f"{[tuple(v) for v in values]}")


def refused(folder):
    """Said once for the whole job, and nothing reaches stdout."""
    (folder / "broken.csv").write_text("layer,parameters\nl0,1\n")
    (folder / "huge.csv").write_text(HEADER + "l,2147483647,1,1\n" * 50)
    for code, words, options in (
            (2, "no-such': expected a file .csv or one of alexnet, bert", ["--table", "no-such"]),
            (1, "broken.csv:1: no column 'params'", ["--table", folder / "broken.csv"]),
            (1, "huge: gradients of the ranks on this node take", ["--table", folder / "huge.csv"]),
            (2, "--stages 3: expected a divisor of the 2 rank(s)", ["--table", "resnet50", "--stages", 3]),
            (2, "--dims", ["--table", "resnet50", "--allreduce", "multi_ring", "--dims", "3x1"])):
        done = job.mpirun(2, [NETWORK, *options], check_rc=code, **job.QUICK)
        errors = [line for line in done.stderr.splitlines() if line.startswith("network: error:")]
        job.check(len(errors) == 1 and words in errors[0] and not done.stdout, f"{options}: {errors} {done.stdout[:200]}")


def stages_send(folder):
    """Bytes between stages: the activations of each boundary, for each micro-batch and way, with both schedules; and each stage's gradients."""
    rows = layers("googlenet")
    for ranks, stages, micro_batches in ((2, 2, 4), (4, 2, 2), (3, 3, 1)):
        sent = []
        for schedule in ("gpipe", "1f1b"):
            _, printed, counts = network(folder, ranks, "--table", "googlenet", "--scale", 0, "--steps", 2, "--batch", 4, "--stages", stages,
                                         "--micro-batches", micro_batches, "--schedule", schedule)
            job.check(len(printed) == stages, f"{stages} stages: {printed}")
            ends = [next(i for i, row in enumerate(rows) if row[0] == stage[2]) for stage in printed]
            starts = [0] + [end + 1 for end in ends]
            for rank, count in enumerate(counts):
                own = rank % stages
                links = ([ends[own - 1]] if own > 0 else []) + ([ends[own]] if own + 1 < stages else [])
                expected = 2 * 4 * sum(4 * rows[i][3] for i in links)  # two steps, batch of 4, 4 bytes
                job.check(count["sent"] == expected == 2 * int(printed[own][7]), f"{schedule} {stages}: rank {rank} sent {count['sent']}, not {expected}")
                gradients = 2 * 4 * sum(row[1] for row in rows[starts[own]:ends[own] + 1])
                job.check(count["posted"] == (gradients if ranks > stages else 0), f"{schedule}: rank {rank} posted {count['posted']}")
            job.check(sum(int(stage[3]) for stage in printed) == sum(row[1] for row in rows), "the stages' parameters are not the network's")
            sent.append([count["sent"] for count in counts])
        job.check(sent[0] == sent[1], f"GPipe sent {sent[0]}, 1F1B {sent[1]}")


def bubble(folder):
    """
    specification.md B1: equal stages leave (K - 1) / (M + K - 1) of a step idle. Stages sleep instead of computing; a busy machine wakes them
    late now and then, which lengthens a step and may shorten the next one, so the shorter half of the steps counts.
    """
    even = folder / "even.csv"
    even.write_text(HEADER + "".join(f"l{i},1000,1000,32\n" for i in range(8)))
    for stages, micro_batches, schedule in ((4, 8, "gpipe"), (4, 8, "1f1b"), (2, 3, "1f1b")):
        run = folder / f"{schedule}{stages}"
        job.record(run, job.mpirun(4, [NETWORK, "--table", even, "--batch", micro_batches, "--stages", stages, "--micro-batches", micro_batches,
                                       "--schedule", schedule, "--fixed-ms", 20, "--steps", 5]), check_rc=0)
        db = job.store(run)
        seen = [tuple(row) for row in db.execute("SELECT rank, pipeline, stage, stages, micro_batches, chunks FROM v_pipeline ORDER BY rank")]
        job.check(seen == [(r, r - r % stages, r % stages, stages, micro_batches, 1) for r in range(4)], f"{schedule}: pipelines {seen}")
        steps = db.execute("SELECT sum(duration_ns) AS all_ns, sum(bubble_ns) AS bubble_ns FROM v_step WHERE step > 0 GROUP BY step"
                           " ORDER BY all_ns").fetchall()
        least = steps[:2]
        measured = sum(row["bubble_ns"] or 0 for row in least) / sum(row["all_ns"] for row in least)
        model = (stages - 1) / (micro_batches + stages - 1)
        print(f"{schedule} K={stages} M={micro_batches}: measured {measured:.4f}, model {model:.4f}")
        job.check(len(steps) == 4 and abs(measured - model) < 0.02, f"{schedule}: bubble {measured:.4f}, model {model:.4f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["bubble"]:  # alone on the machine
        job.main(bubble)
    else:
        job.main(gradient_bytes, operations, lost_sums_are_found, listed, recorded, refused, stages_send)
