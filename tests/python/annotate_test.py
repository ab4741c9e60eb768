#!/usr/bin/env python3
"""python/ddl_annotate.py: what a preloaded library hears of a program that marks itself, what `ddl record` makes of it, and that nothing is left of it without either."""
import os
import subprocess
import sys
from pathlib import Path

import job

MODULE = job.BUILD / "share" / "ddl" / "python"
PROBE = Path(os.environ.get("PROBE", job.BUILD / "tests" / "workloads" / "librange_probe.so"))

PROGRAM = '''
import threading
import ddl_annotate as ddl

@ddl.layer("encoder")
def encode(x):
    """Doubles."""
    return 2 * x

@ddl.phase
def backward(x, *, scale=1):
    return scale * x

forward = ddl.phase("forward")
for k in range(2):
    with ddl.step(k):
        with forward:
            assert encode(21) == 42
        assert backward(3, scale=2) == 6
        ddl.value("samples", 8)
        ddl.value("loss", "0.5")
        ddl.value("nothing", None)
        ddl.value("nothing", object())
try:
    with ddl.step(2), ddl.phase("forward"), ddl.layer("fc\\u00e9\\ud800"):
        raise KeyError("leaves three ranges")
except KeyError:
    pass
for number in (None, "x", -1, 1 << 64, float("nan"), float("inf")):
    with ddl.step(number):
        with ddl.layer("outside"):
            pass
assert encode.__name__ == "encode" and encode.__doc__ == "Doubles."
for refused in ("async def f(): pass", "def f(): yield"):
    names = {}
    exec(refused, names)
    try:
        ddl.layer("never")(names["f"])
        raise SystemExit(refused + " was taken")
    except TypeError as error:
        assert "f is a coroutine or a generator" in str(error), error
print("recorded" if ddl.RECORDED else "not recorded")
'''

STEP = """step {}
  phase forward
    layer encoder
  phase backward
  value samples 8
  value loss 0.5
"""
HEARD = STEP.format(0) + STEP.format(1) + "step 2\n  phase forward\n    layer fc\u00e9?\n" + 6 * "layer outside\n"


def python(program, **env):
    return subprocess.run([sys.executable, "-c", program], env={**job.environment(PYTHONPATH=MODULE), **env}, capture_output=True, text=True, timeout=60)


def a_library_hears_it_all(folder):
    heard = folder / "heard"
    done = python(PROGRAM, LD_PRELOAD=str(PROBE), PROBE_OUT=str(heard))
    job.check((done.returncode, done.stdout) == (0, "recorded\n"), f"{done.stdout}{done.stderr}")
    text = heard.read_text(encoding="utf-8", errors="surrogateescape") if heard.exists() else ""
    job.check(text == HEARD, f"heard:\n{text}\nexpected:\n{HEARD}")


def nobody_hears_it(_folder):
    done = python(PROGRAM)
    job.check((done.returncode, done.stdout) == (0, "not recorded\n"), f"{done.stdout}{done.stderr}")
    same = python("import ddl_annotate as ddl\ndef f(): pass\nassert ddl.layer(f) is f and ddl.phase('x')(f) is f and ddl.step(1) is ddl.step(2)")
    job.check(same.returncode == 0, f"a decorated function is not itself: {same.stderr}")


def a_recording_has_it(folder):
    run = folder / "python.ddl"
    job.record(run, [sys.executable, "-c", PROGRAM], check_rc=0, PYTHONPATH=MODULE)
    db = job.store(run)
    steps = [row[0] for row in db.execute("select step from v_step order by step")]
    job.check(steps == [0, 1, 2], f"steps {steps}")
    names = {row[0] for row in db.execute("select layer from v_layer where layer is not null")}
    job.check({"encoder", "outside"} <= names, f"layers {names}")
    samples = db.execute("select count(*), sum(value) from value where name = 'samples'").fetchone()
    job.check(tuple(samples) == (2, 16.0), f"samples {tuple(samples)}")


TUNED = '''
import os
import ddl_annotate as ddl
seen = []
for k in range(6):
    ddl.tune(k)
    seen.append((ddl.tuned("cycle", 1), ddl.tuned("ratio", 0.5), ddl.tuned("name", "ring"), ddl.tuned("on", True), ddl.tuned("nothing", 7)))
    with ddl.step(k):
        pass
for number in (None, "x", -1, 1 << 64, float("nan")):
    ddl.tune(number)
print(seen)
'''


def values_come_from_the_schedule(folder):
    """Of the type of what is there without; what is nothing of that type is not taken. Without a schedule from the environment, else as it was."""
    def block(number, steps, values):
        (folder / f"values.{number}").write_text(f"ddl-tune 1 tuner\nblock {number}\nsteps {steps}\nfillers 1 60\n{values}end\n")

    block(0, "0 2", "cycle=5\nratio=0.25\nname=tree\non=no\n")
    block(1, "2 4", "cycle=x\nratio=1e-3\n")
    block(2, "4 -", "cycle=9\n")
    run = folder / "tuned.ddl"
    done = job.record(run, [sys.executable, "-c", TUNED], check_rc=0, PYTHONPATH=MODULE, DDL_TUNE_FILE=folder / "values", nothing="8")
    expected = 2 * [(5, 0.25, "tree", False, 8)] + 2 * [(1, 0.001, "ring", True, 8)] + 2 * [(9, 0.5, "ring", True, 8)]
    job.check(done.stdout == f"{expected}\n", f"{done.stdout}{done.stderr}")
    blocks = [row[0] for row in job.store(run).execute("select value from value where name = 'ddl_tune_block' order by time_ns")]
    job.check(blocks == [0, 0, 1, 1, 2, 2], f"blocks told: {blocks}")
    alone = python(TUNED, cycle="3", ratio="0.75", name="flat", on="off")
    job.check(alone.stdout == f"{6 * [(3, 0.75, 'flat', False, 7)]}\n", f"by the environment: {alone.stdout}{alone.stderr}")


job.main(a_library_hears_it_all, nobody_hears_it, a_recording_has_it, values_come_from_the_schedule)
