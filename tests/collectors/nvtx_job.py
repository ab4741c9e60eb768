#!/usr/bin/env python3
"""A program with the real headers of NVTX under ddl record, under a bare LD_PRELOAD, and with another tool in our place."""
import os
import sys
from pathlib import Path

import job

PROGRAM = Path(sys.argv[1])
REGIONS = {  # path -> times it was closed
    "step": 2,
    "step/phase:vorwärts": 2,
    "step/phase:vorwärts/layer:fc1": 2,
    "step/phase:vorwärts/layer:fc1/operator:aten::linear": 2,
    "step/phase:vorwärts/layer:fc2": 2,
    "phase:backward/layer:fc1": 2,
    "phase:prefetch": 2,
}


def regions(db):
    paths = {0: ""}
    for row in db.execute("SELECT * FROM region WHERE id > 0 ORDER BY id"):
        own = row["kind"] + (":" + row["name"] if row["name"] else "")
        paths[row["id"]] = "/".join(part for part in (paths[row["parent"]], own) if part)
    return {paths[row["region"]]: row["calls"] for row in db.execute("SELECT region, sum(calls) AS calls FROM range_profile GROUP BY region")}


def check_run(run):
    db = job.store(run)
    job.check(regions(db) == REGIONS, f"{run}: regions are {regions(db)}")
    numbers = sorted((r["layer"] or "", r["kind"], r["seq"], r["op_id"]) for r in
                     db.execute("SELECT r.layer, r.kind, e.seq, e.op_id FROM range_event e JOIN region r ON r.id = e.region WHERE e.op_id IS NOT NULL"))
    job.check(numbers == [("fc1", "layer", 7, 101)] * 2 + [("fc1", "operator", 7, 40)] * 2, f"{run}: seq and op_id are {numbers}")
    values = [(r["name"], r["value"], r["step"]) for r in db.execute("SELECT name, value, step FROM value ORDER BY time_ns")]
    job.check(values == [("loss", 0.5, 0), ("loss", 0.25, 1), ("images", 640, None), ("lr", 0.125, None)], f"{run}: values are {values}")
    layers = {(r["layer"], r["phase"]): r["calls"] for r in db.execute("SELECT * FROM v_layer")}
    job.check(layers == {("fc1", "vorwärts"): 2, ("fc2", "vorwärts"): 2, ("fc1", "backward"): 2}, f"{run}: v_layer is {layers}")
    steps = [r["step"] for r in db.execute("SELECT step FROM step ORDER BY start_ns")]
    job.check(steps == [0, 1], f"{run}: steps are {steps}")
    threads = {r["name"] for r in db.execute("SELECT name FROM thread")}
    job.check("autograd" in threads, f"{run}: threads are {threads}")
    losses = {r["kind"]: r["count"] for r in db.execute("SELECT kind, count FROM loss")}
    job.check(losses == {"unbalanced_ranges": 2}, f"{run}: lost {losses}")


def recorded(folder):
    done = job.record(folder / "a.ddl", [PROGRAM], check_rc=0)
    job.check(done.stdout == "-1 -1\n", f"pops returned {done.stdout!r}")
    check_run(folder / "a.ddl")


def preloaded(folder):
    """The constructor sets the environment for NVTX."""
    job.run([PROGRAM], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "b.ddl")
    check_run(folder / "b.ddl")


def injected(folder):
    """Named to NVTX and not preloaded at all."""
    job.run([PROGRAM], check_rc=0, NVTX_INJECTION64_PATH=job.LIBRARY, DDL_OUT=folder / "c.ddl")
    check_run(folder / "c.ddl")


def not_wanted(folder):
    for name, settings in {"none": {"DDL_COLLECTORS": "mpi"}, "disabled": {"DDL_DISABLE": "1"}}.items():
        done = job.run([PROGRAM], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / name, **settings)
        job.check(done.stdout == "-2 -2\n" and done.stderr == "", f"{name}: {done.stdout!r} {done.stderr!r}")
        job.check(not (folder / name).exists(), f"{name}: something was recorded")


def another_tool_was_first(folder):
    other = folder / "other.so"
    other.write_text("")
    program = job.BUILD / "tests" / "programs" / "fixed_address"  # has annotations
    done = job.record(folder / "d.ddl", [program], check_rc=0, NVTX_INJECTION64_PATH=other)
    lines = [line for line in done.stderr.splitlines() if "nvtx" in line]
    job.check(len(lines) == 1 and str(other) in lines[0], f"said {done.stderr!r}")
    said = job.run([job.DDL, "doctor", folder / "d.ddl"]).stdout
    job.check(f"{other} was there first" in said, f"doctor says {said}")


job.main(recorded, preloaded, injected, not_wanted, another_tool_was_first)
