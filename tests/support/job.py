"""Runs jobs under ddl for the Python tests and opens what was recorded.

Paths come from the environment that CMake sets: DDL_BUILD (the build folder). Every test works in a folder of its own that is removed when it
passes. A test calls check(condition, message); main() prints what failed and exits 1, or 77 to skip with a reason: also where a case could not be judged.
"""
import atexit
import concurrent.futures
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("DDL_BUILD", Path(__file__).resolve().parents[2] / "build" / "release"))
DDL = BUILD / "bin" / "ddl"
TRAIN = BUILD / "bin" / "train"
LIBRARY = BUILD / "lib" / "libddl.so"

# Two cores, maybe root, maybe a container: what Open MPI needs to be told to start at all, and to keep quiet about shared memory copies.
MPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_pml": "ob1",  # what it chooses without a fabric, after 0.2 s of looking for one at every start
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "HWLOC_PLUGINS_PATH": "/none",  # ranks and mpirun would look for X displays and OpenCL devices: a seventh of what a start takes
    "HWLOC_COMPONENTS": "-linux:pci",  # ... and read every PCI device's configuration, which takes a virtual machine a third of a start
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
# For jobs in which a rank fails: mpirun sends the others SIGKILL right behind SIGTERM, and not a second or two later.
QUICK = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}
# For jobs of one process that are started again and again: no daemon of Open MPI beside each, which takes longer than the job.
ALONE = {"OMPI_MCA_ess_singleton_isolated": "1"}
# For sleepy_job: its pauses, of seconds, take no time (tests/autotuner/sleepy_job.c).
VIRTUAL_CLOCK = {"SLEEPY_CLOCK": "virtual", "DDL_CLOCK": "monotonic"}
# For programs that wait long by a clock: theirs goes so many times as fast (clock_shim.c).
def fast_clock(times):
    return {"LD_PRELOAD": BUILD / "tests" / "programs" / "libclock_shim.so", "CLOCK_SHIM": f"0:0:{(times - 1) * 1e6}:{time.clock_gettime_ns(time.CLOCK_MONOTONIC)}"}


# To be preloaded into jobs of MPICH: their ranks let go of the processor while they wait, as Open MPI's do (yielding_shim.c).
YIELDING = BUILD / "tests" / "programs" / "libyielding_shim.so"
DDL_VARIABLES = [name for name in os.environ if name.startswith("DDL_")]

failures = []
unjudged = []
sessions = []


class Skip(Exception):
    pass


class Unjudged(Exception):
    """The case fails without us, here: nothing follows for the library."""


def check(condition, message):
    if not condition:
        failures.append(message)
        print("FAILED:", message, flush=True)
    return condition


def judged(function, argument):
    """Its result; None of a case that is Unjudged, which is said and costs the others nothing."""
    try:
        return function(argument)
    except Unjudged as reason:
        unjudged.append(str(reason))
        print("NOT JUDGED:", reason, flush=True)


def mpi_sessions():
    """A new folder for the sessions of Open MPI's jobs. They share one under /tmp otherwise, and the job that ends removes it where it finds it empty:
    another one that starts at that moment fails in MPI_Init with "No such file or directory"."""
    if not sessions:
        sessions.append(tempfile.mkdtemp(prefix="ddl-mpi-"))
        atexit.register(shutil.rmtree, sessions[0], ignore_errors=True)
    return tempfile.mkdtemp(dir=sessions[0])


def environment(**extra):
    env = {k: v for k, v in os.environ.items() if k not in DDL_VARIABLES}
    env.update(MPI_ENV)
    env["OMPI_MCA_orte_tmpdir_base"] = mpi_sessions()
    env.update({k: str(v) for k, v in extra.items()})
    return env


def run(command, timeout=120, check_rc=None, cwd=None, **env):
    """Runs to the end. The result has returncode, stdout, stderr as text."""
    done = subprocess.run([str(c) for c in command], env=environment(**env), capture_output=True, text=True, timeout=timeout,
                          errors="surrogateescape", cwd=cwd)
    if check_rc is not None and done.returncode != check_rc:
        check(False, f"{' '.join(map(str, command))}: exit code {done.returncode}, expected {check_rc}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done


def mpirun(ranks, command, **kwargs):
    return ["mpirun", "-np", ranks, *command] if not kwargs else run(["mpirun", "-np", ranks, *command], **kwargs)


def record(run_dir, command, **kwargs):
    return run([DDL, "record", "-o", run_dir, "--", *command], **kwargs)


def report(run_dir, *arguments, check_rc=0, **kwargs):
    return run([DDL, "report", run_dir, *arguments], check_rc=check_rc, **kwargs)


def store(run_dir):
    """The run's database, which `ddl report` makes or brings up to date."""
    report(run_dir, check_rc=None)
    return reported_store(run_dir)


def reported_store(run_dir):
    """The same as the last report left it."""
    connection = sqlite3.connect(f"file:{Path(run_dir) / 'run.sqlite'}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def start(command, **env):
    """In a group of its own, which ends with the test at the latest."""
    process = subprocess.Popen([str(c) for c in command], env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    atexit.register(end_group, process)
    return process


def end_group(process):
    """mpirun ends its ranks when it is asked to end, and leaves them behind when it is killed."""
    if process.poll() is not None:
        return
    stop_group(process, signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        stop_group(process)


def stop_group(process, sig=signal.SIGKILL):
    try:
        os.killpg(process.pid, sig)
    except ProcessLookupError:
        pass


def wait_until(condition, seconds=30.0):
    """Looks again every 20 ms; what takes long to be looked at (a verb, squeue) takes a fifth of the time at most, or the job that it looks at would wait for
    a processor."""
    end = time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        if condition():
            return True
        time.sleep(min(max(0.02, 4 * (time.monotonic() - begin)), 0.5))
    return False


def three_at_once(function, items):
    """Its results, in order: most of a small job is mpirun's and MPI_Init's coming and going."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda item: judged(function, item), items))


def processes_of(parent_pid):
    """pid -> command line of all descendants of a process."""
    children, found = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
        except (OSError, IndexError):
            continue
    todo = [parent_pid]
    while todo:
        for child in children.get(todo.pop(), []):
            todo.append(child)
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                pass
    return found


def main(*tests):
    folder = Path(tempfile.mkdtemp(prefix="ddl-test-"))
    os.chdir(folder)
    try:
        for test in tests:
            begin, before = time.monotonic(), len(failures)
            judged(test, folder)
            print(f"{test.__name__}: {'ok' if len(failures) == before else 'FAILED'} in {time.monotonic() - begin:.1f} s", flush=True)
    except Skip as reason:
        print("skipped:", reason)
        shutil.rmtree(folder, ignore_errors=True)
        sys.exit(77)
    if failures:
        print(f"{len(failures)} failed; what was recorded is in {folder}")
        sys.exit(1)
    shutil.rmtree(folder, ignore_errors=True)
    if unjudged:
        print(f"skipped: passed, but for cases that fail without the library too: {'; '.join(unjudged)}")
        sys.exit(77)
