#!/usr/bin/env python3
"""tests/gpu/validate.py against the mocks, so that its own mistakes do not cost the time of a machine with a GPU: its probes are built with nvcc, and the checks that the
mocks can answer must be confirmed. No check may fail by itself.

usage: dry_run.py DOUBLES_DIR      exit code 77 without nvcc
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIRMED = """cuInit calls us once, before a context, from any program
CUPTI itself: codes, clock, nodes of graphs, sizes of records
CUPTI's own cost
which stream waits for which, within a context and across two
managed memory
50,000 kernels a second
captured graphs by node
copies: bytes, pinned or pageable
nothing dropped
what a launch costs under us
a killed process keeps what was flushed
ways to leave
Python: ways to leave
Python: fork before cuInit
another tool's CUDA_INJECTION64_PATH
headline of a job on two streams, from its kernels
ddl-top live on that job
what each collector costs a training step
NCCL: one process with one GPU
NCCL: its profiler's version, phases of kernels
NCCL: ncclBcast is one call""".splitlines()

if not (Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc").exists():
    print("skipped: no nvcc")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    library = Path(os.environ.get("DDL_BUILD", Path(__file__).resolve().parents[2] / "build" / "release")) / "lib" / "libddl.so"
    # The virtual clock is the mock's before libc's only where that is preloaded: the probes are not linked to it.
    paths = ":".join(filter(None, (sys.argv[1], os.environ.get("LD_LIBRARY_PATH"))))
    page, real = Path(folder) / "page.md", Path(__file__).resolve().parents[2] / "docs" / "gpu-validation.md"
    before = real.read_text()
    page.write_text(before)
    done = subprocess.run([sys.executable, Path(__file__).with_name("validate.py"), "-o", f"{folder}/out", "--page", page], capture_output=True, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": paths, "DDL_NVCC_FLAGS": "-cudart shared", "DDL_STEP_ENV": f"FAKE_CUDA_CLOCK=virtual DDL_CLOCK=monotonic LD_PRELOAD={library}:{sys.argv[1]}/libcuda.so.1"})
    print(done.stdout, done.stderr)
    written = page.read_text().startswith(before.rstrip().split("## Runs on GPUs")[0]) and page.read_text().count("| what | verdict | measured |") == before.count("| what | verdict | measured |") + 1
    if not written or real.read_text() != before:
        print("the table is not on the page that was named, or what mocks said went to the repository's")
        sys.exit(1)
    verdicts = {what: verdict for what, verdict in re.findall(r"^\| (.*?) \| (\*\*\w+\*\*|confirmed|not run) \|", (Path(folder) / "out" / "table.md").read_text(), re.M)}
wrong = {what: verdicts.get(what) for what in CONFIRMED if verdicts.get(what) != "confirmed"}
failed = [what for what, verdict in verdicts.items() if verdict == "**failed**"]
print(f"not confirmed: {wrong}; failed by themselves: {failed}")
sys.exit(bool(wrong or failed))
