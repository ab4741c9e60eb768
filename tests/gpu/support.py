"""What the checks on a GPU share: programs under libddl.so, their stores, the probes and the places of CUDA's libraries."""
import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
PACKED = Path(os.environ["DDL_PACKED"]).resolve() if "DDL_PACKED" in os.environ else None  # what validate.py --pack made: ddl as a user unpacks it, and the probes
BUILD = PACKED / "ddl" if PACKED else Path(os.environ.get("DDL_BUILD", ROOT / "build" / "release"))
LIBRARY, DDL = BUILD / "lib" / ("ddl/libddl.so" if PACKED else "libddl.so"), BUILD / "bin" / "ddl"
DEADLINE = time.monotonic() + 60 * float(os.environ.get("DDL_GPU_MINUTES", "9.5"))  # a machine with a GPU is lent for ten minutes


class Missing(Exception):
    pass


def with_cupti(first=""):
    """LD_LIBRARY_PATH of programs that need the toolkit: the machine's own, so that mocks come first, the toolkit's, and what PyTorch's wheels bring."""
    found = importlib.util.find_spec("nvidia")
    wheels = [lib for place in (found.submodule_search_locations if found else ()) for lib in sorted(Path(place).glob("*/lib"))]
    return ":".join(str(place) for place in (first, os.environ.get("LD_LIBRARY_PATH"), CUDA / "lib64", CUDA / "lib", CUDA / "extras/CUPTI/lib64", *wheels) if place)


def run(command, timeout=120, record=None, **env):
    """The finished process. With record: under libddl.so, into that directory."""
    of_ours = {"LD_LIBRARY_PATH": with_cupti()} if str(command[0]).endswith(".bin") else {}  # PyTorch finds its libraries itself
    variables = {**os.environ, **of_ours, **{k: str(v) for k, v in env.items()}}
    if record:
        variables |= {"LD_PRELOAD": str(LIBRARY), "CUDA_INJECTION64_PATH": str(LIBRARY), "NVTX_INJECTION64_PATH": str(LIBRARY),
                      "NCCL_PROFILER_PLUGIN": str(LIBRARY), "DDL_OUT": str(record), **{k: str(v) for k, v in env.items()}}
    return subprocess.run([str(c) for c in command], env=variables, capture_output=True, text=True, timeout=max(1, min(timeout, DEADLINE - time.monotonic())))


def ddl(*arguments):
    """What `ddl` prints."""
    done = run([DDL, *arguments])
    if done.returncode:
        raise Missing(f"ddl {arguments[0]} ends with {done.returncode}: {(done.stderr or done.stdout).strip()[:200]}")
    return done.stdout


def store(directory):
    if not Path(directory).exists():
        raise Missing(f"nothing was recorded in {directory}")
    done = run([DDL, "report", directory])
    if not (Path(directory) / "run.sqlite").exists():
        raise Missing(f"recorded, but ddl does not report it: {(done.stderr or done.stdout).strip()[:200]}")
    return sqlite3.connect(Path(directory) / "run.sqlite")


def report(directory):
    """What `ddl report --json` says."""
    return json.loads(ddl("report", directory, "--json"))


def numbers(text):
    return {k: float(v) for k, v in re.findall(r"^(\w+) ([\d.]+)$", text, re.M)}


def build(binary, source, *flags, architectures=("-arch=native",)):
    """A probe in the current folder, or where binary says; packed ones are only brought there."""
    binary = Path(binary).absolute()
    if PACKED:
        return Path(shutil.copy(PACKED / "probes" / binary.name, binary))
    done = run([CUDA / "bin" / "nvcc", "-std=c++17", "-O2", *architectures, f"-I{ROOT / 'include'}", HERE / source, "-o", binary, *flags,
                *os.environ.get("DDL_NVCC_FLAGS", "").split()], timeout=300)
    if done.returncode:
        raise Missing(f"nvcc: {done.stderr.strip()[:200]}")
    return binary
