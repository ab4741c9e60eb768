#!/usr/bin/env python3
"""What happens while a job or a verb runs: a rank is stopped for a while (2 s; 30 s with DDL_TEST_PAUSE_S=30), MPI_Abort while the run is being read, names of
files that are written turn into links to somebody else's."""
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import fault
import job

PAUSE_S = float(os.environ.get("DDL_TEST_PAUSE_S", "2"))


def rank_processes(mpirun_pid, name):
    """rank -> pid"""
    found = {}
    for pid, command in job.processes_of(mpirun_pid).items():
        try:
            variables = dict(v.split("=", 1) for v in open(f"/proc/{pid}/environ").read().split("\0") if "=" in v)
        except OSError:
            continue
        if name in command and "OMPI_COMM_WORLD_RANK" in variables:
            found[int(variables["OMPI_COMM_WORLD_RANK"])] = pid
    return found


def stopped_rank(folder):
    """The job goes on as if nothing had been, and the record says for how long."""
    command = job.mpirun(2, [job.TRAIN, "--model", "mlp", "--width", 16, "--batch", 2, "--steps", 500])
    plain = job.run(command)
    command += ["--slow-rank", "1:5"]  # the same losses, and it lasts until it is stopped
    run = folder / "stopped.ddl"
    process = job.start([job.DDL, "record", "--stall", "off", "-o", run, "--", *command], **fault.EVERYTHING)
    job.wait_until(lambda: len(list(run.glob("*.spool"))) == 2 or process.poll() is not None)
    time.sleep(1)  # MPI_Init is behind them
    pid = rank_processes(process.pid, "train").get(1)
    if not job.check(pid is not None, "stopped: no rank 1"):
        job.stop_group(process)
        return
    os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    os.kill(pid, signal.SIGCONT)
    out, errors = process.communicate(timeout=120)
    job.check(process.returncode == plain.returncode == 0, f"stopped: {plain.returncode} without, {process.returncode} with: {errors}")
    losses = [[line for line in text.splitlines() if "loss" in line and "ms" not in line] for text in (plain.stdout, out)]
    job.check(losses[0] == losses[1], f"stopped: output {losses}")
    db = job.store(run)
    # Waiting where rank 1 was stopped between its calls, as it mostly is; transfer where it had entered.
    longest, waited = db.execute("select duration_ns, wait_ns from v_collective where rank = 0 order by duration_ns desc limit 1").fetchone()
    job.check(0.9e9 * PAUSE_S < longest < 1e9 * (PAUSE_S + 20), f"stopped: the longest collective of rank 0 took {longest} ns, rank 1 stood for {PAUSE_S} s")
    print(f"stopped for {PAUSE_S} s: a collective of rank 0 took {longest / 1e9:.3f} s, of which it waited {waited / 1e9:.3f} s")


def abort_while_read(folder):
    """Reports are made without a break while the job begins, communicates and aborts: each of them is one, or says why not."""
    run = folder / "aborted.ddl"
    codes, done = [], threading.Event()

    def read():
        while not done.is_set():
            report = job.run([job.DDL, "report", run])
            codes.append(report.returncode)
            job.check(report.returncode in (0, 3), f"read meanwhile: {report.returncode} {report.stderr}")
            (run / "run.sqlite").unlink(missing_ok=True)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        plain = job.run(job.mpirun(2, [fault.ENDING, "mpi_abort", 1]), CALL_LOG=folder / "plain", **job.QUICK)
        for _ in range(3):
            shutil.rmtree(run, ignore_errors=True)
            traced = job.run(job.mpirun(2, [fault.ENDING, "mpi_abort", 1]), LD_PRELOAD=job.LIBRARY, DDL_OUT=run, CALL_LOG=folder / "log", **fault.EVERYTHING,
                             **job.QUICK)
            job.check(traced.returncode == plain.returncode, f"abort: {plain.returncode} without, {traced.returncode} with")
    finally:
        done.set()
        reader.join()
    fault.reported("abort", run, r"rank 1 called MPI_Abort\(42\) at")
    print(f"abort: {len(codes)} reports meanwhile, {codes.count(0)} of them whole")


SWAPPER = """
import os, sys, time
folder, victim = sys.argv[1:3]
end = time.monotonic() + 30
while time.monotonic() < end and not os.path.exists(folder + '/stop'):
    for name in os.listdir(folder):
        if name.startswith('.job.json.') or '.tmp.' in name or name.endswith('.spool.new'):
            try:
                os.symlink(victim, folder + '/swap')
                os.rename(folder + '/swap', folder + '/' + name)
                print(name, flush=True)
            except OSError:
                pass
"""


def swapped_names(folder):
    """Somebody else's process turns each file that is being made into a link to a file that is not theirs, as fast as it can."""
    place = folder / "swap.ddl"
    job.run(job.mpirun(2, [fault.ENDING, "finalize"]), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=place)
    victim = folder / "victim"
    victim.write_text("not yours")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(place), str(victim)], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(15):
            (place / "run.sqlite").unlink(missing_ok=True)
            done = job.run([job.DDL, "report", place])
            job.check(done.returncode in (0, 1, 3), f"swapped: {done.returncode} {done.stderr}")
            job.check(victim.read_text() == "not yours", "swapped: what lay behind the link was written to")
    finally:
        (place / "stop").touch()
        swaps = len(swapper.communicate()[0].splitlines())
    job.check(victim.read_text() == "not yours", "swapped: what lay behind the link was written to")
    for left in place.glob("run.sqlite*"):
        left.unlink()
    (place / "stop").unlink()
    job.report(place)
    print(f"swapped: {swaps} names turned into links")


job.main(stopped_rank, abort_while_read, swapped_names)
