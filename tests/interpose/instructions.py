#!/usr/bin/env python3
"""Counts with callgrind the instructions that libddl.so spends per MPI call, and fails when a call costs more than its limit.

    instructions.py LIBDDL HOT_CALLS

Instructions repeat where seconds do not, but for what the clock decides: a duration unlike the thread's last ones takes up to 15 more, and a busy machine makes
durations unlike each other. So calls are counted in blocks, and the least block of up to five runs counts. A cost that comes less often than once a block is not seen
here (bench/run.py calls sees it). A limit is what was measured when it was set, and about 5 %; who needs more raises it here and says why in the commit.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CALLS, BLOCKS = 50, 20
RUNS = 5

# Instructions per run of a kind (those of three names: three calls), in libddl.so alone.
LIMITS = {
    "recorded": {"allreduce": 137, "barrier": 120, "test_null": 124, "test_active": 125, "isend_irecv_waitall": 546, "isend_recv_wait": 476},
    "profiled": {"allreduce": 144, "barrier": 122, "test_null": 124, "test_active": 125, "isend_irecv_waitall": 565, "isend_recv_wait": 491},
    "disabled": {"allreduce": 35, "barrier": 29, "test_null": 35, "test_active": 35, "isend_irecv_waitall": 106, "isend_recv_wait": 106},
}
SETTINGS = {
    "recorded": {"DDL_BUDGET": "off"},
    "profiled": {"DDL_BUDGET": "off", "DDL_STEPS": "4000000000"},
    "disabled": {"DDL_DISABLE": "1"},
}


def instructions_of(path, library):
    """(trigger, instructions that were executed in `library`) of one of callgrind's files."""
    trigger, names, inside, after_calls, total = "", {}, False, False, 0
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("desc: Trigger:"):
            trigger = line.split(":")[-1].strip()
        elif match := re.match(r"(c?)ob=\((\d+)\)\s*(.*)", line):
            callee, number, name = match.groups()
            names.setdefault(number, name)
            if not callee:
                inside = os.path.basename(names[number]) == os.path.basename(library)
        elif line.startswith("calls="):
            after_calls = True  # the next line is the callee's cost
        elif re.match(r"[+*\-\d]", line):
            if inside and not after_calls:
                total += int(line.split()[1])
            after_calls = False
    return trigger, total


def measure(library, program, settings, folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DDL_")}
    # Where ranks yield, Open MPI calls our sched_yield (6 instructions) as often as the time of a test allows: that is no call's cost.
    environment.update(settings, LD_PRELOAD=library, DDL_OUT=str(folder / "run.ddl"), OMPI_MCA_mpi_yield_when_idle="0")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, str(CALLS), str(BLOCKS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    counts = {}
    for path in folder.glob("out.*"):
        kind, count = instructions_of(path, library)
        counts[kind] = min(count / CALLS, counts.get(kind, float("inf")))
    return counts


def main():
    library, program = sys.argv[1:3]
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed (tools/setup test)")
        return 77
    too_many = 0
    for mode, limits in LIMITS.items():
        counts = {}
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory(prefix="ddl-instructions-") as folder:
                run = measure(library, program, SETTINGS[mode], pathlib.Path(folder))
            counts = {kind: min(count, counts.get(kind, count)) for kind, count in run.items()}
            if all(counts[kind] <= limit for kind, limit in limits.items()):
                break
        for kind, limit in limits.items():
            count = counts[kind]  # a kind that callgrind did not report is an error, not a pass
            verdict = "ok" if 0 < count <= limit else "TOO MANY" if count > limit else "NOTHING COUNTED"
            too_many += verdict != "ok"
            print(f"{mode:9} {kind:20} {count:7.1f} of {limit:5} {verdict}")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main())
