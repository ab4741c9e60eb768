#!/usr/bin/env python3
"""ddl tune beside Horovod's own autotuner, from a poor start (250 ms, 64 KiB), on the real Horovod (tools/setup horovod): what each takes and chooses, and
what a step takes with it by the job's own word, in interleaved rounds with every point that may be the best. By hand, for docs/performance.md.

    tune.py [TUNINGS [ROUNDS [SEED]]]    of ddl tune, the first one with SEED; default 1, 7 and 1

On a machine that does nothing else: beside builds a step of the best points takes two to four times as long as alone, in one trial but not in the next.
"""
import csv
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

import job
from emitted import gains, manifests_gain

HERE = Path(__file__).resolve().parent
HOROVOD = HERE.parents[2] / "build" / "horovod" / "lib"
TUNINGS = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 1
ROUNDS = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 7
FIRST = int(sys.argv.pop(1)) if len(sys.argv) > 1 else 1
CYCLE, FUSION = "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD"
START = {CYCLE: "250", FUSION: "65536"}
DEFAULTS = {CYCLE: "1", FUSION: str(128 << 20)}  # of Horovod 0.28.1
FUSIONS = [str(1 << power) for power in (16, 18, 20, 22, 24, 26, 27)]
SPACE = ["--tunable", f"{CYCLE}=250,100,50,25,10,5,2.5,1", "--tunable", f"{FUSION}={','.join(FUSIONS)}"]
ALL_GRADIENTS = 4 * (4 * (256 * 256 + 256) + 256 * 10 + 10)  # bytes, of trained.py --width 256: a buffer that holds them all does nothing more when it grows
HOLDS_ALL = next(fusion for fusion in FUSIONS if int(fusion) >= ALL_GRADIENTS)
MAY_BE_BEST = [{CYCLE: cycle, FUSION: fusion} for cycle in ("1", "2.5") for fusion in FUSIONS if int(fusion) <= int(HOLDS_ALL)]  # a longer cycle only makes steps longer

if not HOROVOD.exists():
    print(f"skipped: no Horovod in {HOROVOD}; tools/setup horovod builds it")
    sys.exit(77)
os.environ.update(PYTHONPATH=f"{HOROVOD}", OMP_NUM_THREADS="1")


def alike(knobs):
    """The point that stands for all those that do the same."""
    return knobs[CYCLE], HOLDS_ALL if int(knobs[FUSION]) >= ALL_GRADIENTS else knobs[FUSION]


def command(steps, *options):
    return job.mpirun(2, ["--oversubscribe", "/usr/bin/python3", HERE / "trained.py", "--steps", steps, "--width", 256, "--batch", 64, *options])


def step_ms(folder, steps, **knobs):
    """Of the slower rank, by its own clock: the median, of all steps but the first ten."""
    out = folder / "step.times"
    job.run(command(steps, "--out", out), check_rc=0, **knobs)
    ranks = [json.loads((folder / f"{out.name}.{rank}").read_text())[10:] for rank in (0, 1)]
    return statistics.median(max(steps[i]["whole_ns"] for steps in ranks) / 1e6 for i in range(len(ranks[0])))


def by_ddl(folder, seed):
    begin = time.monotonic()
    out = folder / f"tuned{seed}"
    job.run([job.DDL, "tune", "-o", out, "--budget", "200s", "--seed", seed, "--tunable", "algorithm=default", *SPACE, "--", *command(30, "--marks")], timeout=420, check_rc=0)
    took_s = time.monotonic() - begin
    said = json.loads((out / "manifest.json").read_text())
    chosen = {choice["name"]: choice["value"] for choice in said["choices"] if choice["name"] in START}
    emitted = dict(re.findall(r"^(?:export )?(HOROVOD_\w+)=['\"]?([0-9.]+)", (out / "horovod.env").read_text(), re.MULTILINE))
    job.check(all(emitted.get(name, START[name]) == chosen[name] for name in START), f"horovod.env: {emitted}, manifest: {chosen}")
    job.check(set(gains(out).values()) == {manifests_gain(out)}, f"gains that the files tell: {gains(out)}; the manifest's: {manifests_gain(out)}")
    verified = job.run([job.DDL, "tune", "--verify", out, "--rounds", 3, "--", *command(30, "--marks")], timeout=300, check_rc=0).stdout
    lo, hi = (1 + float(bound) / 100 for bound in re.search(r"gain .*? \[([+-][0-9.]+)%, ([+-][0-9.]+)%\]", verified).groups())
    gain = said["gain"] or {"ratio": 1, "lo": 1, "hi": 1}
    job.check(gain["lo"] > 1 and lo > 1 and gain["lo"] <= hi and lo <= gain["hi"], f"seed {seed}: tuned {gain}, verified [{lo:.2f}, {hi:.2f}]")
    print(f"ddl tune, seed {seed}: {chosen}, {gain['ratio']:.2f} [{gain['lo']:.2f}, {gain['hi']:.2f}], verified [{lo:.2f}, {hi:.2f}], {took_s:.1f} s", flush=True)
    return chosen


def by_horovod(folder):
    """It begins at its own defaults: what is set by the environment it does not tune."""
    log = folder / "autotune.csv"
    begin = time.monotonic()
    job.run(command(3000), timeout=600, check_rc=0, HOROVOD_AUTOTUNE=1, HOROVOD_AUTOTUNE_LOG=log)
    took_s = time.monotonic() - begin
    rows = list(csv.reader(log.read_text().splitlines()))
    header = next(row for row in rows if any("cycle" in name for name in row))
    cycle, fusion, score = (next(i for i, name in enumerate(header) if word in name) for word in ("cycle", "fusion", "score"))
    samples = [row for row in rows if row is not header and len(row) == len(header)]
    best = max(samples, key=lambda row: float(row[score]))
    chosen = {CYCLE: best[cycle], FUSION: str(int(float(best[fusion]) * (1 << 20)))}
    print(f"Horovod's autotuner: {chosen}, {len(samples)} samples, {took_s:.0f} s for 3000 steps\n  {header}", flush=True)
    return chosen


def side_by_side(folder):
    ways = {"start": START, "Horovod's defaults": DEFAULTS, **{f"ddl tune, seed {seed}": by_ddl(folder, seed) for seed in range(FIRST, FIRST + TUNINGS)},
            "Horovod's autotuner": by_horovod(folder)}
    points = {alike(knobs): knobs for knobs in [*ways.values(), *MAY_BE_BEST]}
    times = {point: [] for point in points}
    for _ in range(ROUNDS):
        for point, knobs in points.items():
            times[point].append(step_ms(folder, 60 if point == alike(START) else 1500, **knobs))
    typical = {point: statistics.median(ms) for point, ms in times.items()}
    best = min(typical.values())
    for point, ms in sorted(typical.items(), key=lambda item: item[1]):
        names = ", ".join(name for name, knobs in ways.items() if alike(knobs) == point)
        print(f"{'/'.join(point)}: {ms:.2f} ms a step ({min(times[point]):.2f} to {max(times[point]):.2f}), {100 * (ms / best - 1):.1f} % above the best  {names}")


job.main(side_by_side)
