"""ddl record --stall: who does not come is named while the job hangs, and the stacks show why; no alarm in a job that gets on. The truth is the job's own fault."""
import concurrent.futures
import subprocess
import sys
import time
from pathlib import Path

from job import BUILD, DDL, QUICK, Skip, check, environment, main, report, store

JOB = Path(__file__).with_name("stall_job.py")
PYTHON = next((p for p in (sys.executable, "/usr/bin/python3") if subprocess.run([p, "-c", "import mpi4py"], capture_output=True).returncode == 0), None)
PATHS = f"{BUILD}/share/ddl/python"


def stalled(how, *options):
    begin = time.monotonic()
    job = ["mpirun", "-np", "3", PYTHON, str(JOB), how]
    if how == "second":  # of two mpirun
        job = ["bash", "-c", f"mpirun -np 2 {PYTHON} {JOB} well; exec mpirun -np 3 {PYTHON} {JOB} loader"]
    done = subprocess.run([str(DDL), "record", "-o", f"{how}.ddl", "--stall", "1.5", *options, "--", *job],
                          env=environment(PYTHONPATH=PATHS, **QUICK), capture_output=True, text=True, timeout=120)
    return how, done, time.monotonic() - begin


def judge_stall(how, done, seconds):
    said = done.stderr
    check(done.returncode != 0, f"{how}: aborted, exit code {done.returncode}: {said}")
    check(said.count("no rank has finished a call or a step for ") == 1, f"{how}: {said}")
    rows = store(f"{how}.ddl")
    stall = rows.execute("SELECT * FROM stall").fetchall()
    if not check(len(stall) == 1 and stall[0]["kind"] == "stall" and stall[0]["action"] == "abort", f"{how}: {[tuple(s) for s in stall]}"):
        return
    check(1.5e9 <= stall[0]["told_ns"] - stall[0]["since_ns"] < 11.5e9, f"{how}: told after {(stall[0]['told_ns'] - stall[0]['since_ns']) / 1e9} s")
    ranks = {r["rank"]: r for r in rows.execute("SELECT * FROM stall_rank")}
    check(sorted(ranks) == [0, 1, 2], f"{how}: ranks {sorted(ranks)}")
    if how == "stopped":
        check(ranks[1]["state"] == "stopped" and "rank 1 is stopped by a signal" in said, f"{how}: {said}")
        check(ranks[1]["python_why"] is not None, "a stopped process is left alone")
    else:
        check("rank 1 never entered MPI_Allreduce number 5" in said, f"{how}: {said}")
        check(ranks[1]["role"] == "missing" and ranks[0]["role"] == ranks[2]["role"] == "waiting", f"{how}: {[tuple(r) for r in ranks.values()]}")
        check(ranks[1]["state"] == ("runs" if how == "never" else "sleeps"), f"{how}: {ranks[1]['state']}")
    stacks = {r: f or "" for r, f in rows.execute("SELECT rank, frames FROM stall_stack WHERE language = 'python' AND position = 0")}
    inner = {"loader": "next_batch (", "second": "next_batch (", "lock": "gradients (", "never": "gradients ("}.get(how)
    if inner:
        check(stacks.get(1, "").startswith(inner), f"{how}: stack of rank 1: {stacks.get(1)}")
        check("stall_job.py:" in stacks.get(1, "") and stacks[1].split("stall_job.py:")[0].count("<") == 0, f"{how}: {stacks.get(1)}")
    check(stacks.get(0) == stacks.get(2) and stacks.get(0, "").startswith("<module> ("), f"{how}: ranks 0 and 2: {stacks}")
    shown = report(f"{how}.ddl", "stacks").stdout
    check("0, 2" in shown and "stall_job.py" in shown, shown)
    groups = [line for line in said.splitlines() if line.startswith("ddl:   rank")]
    check(len(groups) == 2 and groups[0].startswith("ddl:   ranks 0, 2") and groups[1].startswith("ddl:   rank 1"), f"{how}: {groups}")
    print(f"{how}: {seconds:.1f} s\n{said}")


def judge_progress(how, done, seconds):
    check(how == "all_compute" or "no rank has finished" not in done.stderr, f"{how}: a false alarm: {done.stderr}")
    check(done.returncode == 0, done.stderr)
    if how == "all_compute":
        check("all compute, so --on-stall is not done" in done.stderr and not Path("compute_alarm").exists(), done.stderr)
        return
    if how == "takes_turns":
        check("never" not in done.stderr and done.stderr.count("\n") == 1, f"a false alarm: {done.stderr}")
        return
    check("rank 1 still makes progress" in done.stderr, f"it is said for whom the others wait: {done.stderr}")
    check(not Path("alarm").exists(), "--on-stall is for stalls")
    rows = store("evaluates.ddl").execute("SELECT kind, call FROM stall").fetchall()
    check([tuple(r) for r in rows] == [("waiting", "MPI_Allreduce number 5 on MPI_COMM_WORLD")], f"{[tuple(r) for r in rows]}")


def jobs_that_stall_and_jobs_that_do_not(folder):
    if PYTHON is None:
        raise Skip("python3-mpi4py is not installed")
    cases = [("evaluates", judge_progress, ["--on-stall", "touch alarm"]), ("takes_turns", judge_progress, []), ("all_compute", judge_progress, ["--on-stall", "touch compute_alarm"])]
    cases += [(how, judge_stall, ["--on-stall", "abort"]) for how in ("loader", "lock", "stopped", "never", "second")]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for (_, judge, _), result in zip(cases, pool.map(lambda c: stalled(c[0], *c[2]), cases)):
            judge(*result)


def options(folder):
    for bad in (["--stall", "0"], ["--stall", "x"], ["--stall", "5d"], ["--stall", "off", "--on-stall", "abort"]):
        done = subprocess.run([str(DDL), "record", *bad, "--", "true"], capture_output=True, text=True)
        check(done.returncode == 2, f"{bad}: {done.returncode} {done.stderr}")


if __name__ == "__main__":
    main(jobs_that_stall_and_jobs_that_do_not, options)
