#!/usr/bin/env python3
"""`train --runtime background`: the losses of the direct mode bit for bit; calls and bytes by purpose, by its own count, that of --log-calls and the recorder's;
each rank's own times; and a rank that hangs."""
import csv
import signal
import time

import job

SMALL = ["--width", 16, "--batch", 8, "--bucket-mb", 0]
TENSORS = 8
COORDINATION = ("MPI_Gather", "MPI_Gatherv", "MPI_Bcast", "MPI_Allreduce")


def losses(ranks, *options):
    done = job.mpirun(ranks, [job.TRAIN, *SMALL, "--steps", 10, *options], check_rc=0)
    return [line for line in done.stdout.splitlines() if not line.startswith("train ")]


def steps_of(path):
    with open(path) as file:
        return [{name: int(value) for name, value in row.items()} for row in csv.DictReader(line for line in file if not line.startswith("#"))]


def totals_of(path):
    """(purpose, call) -> (calls, bytes)"""
    rows = [line.split() for line in path.read_text().splitlines() if line.startswith("#")]
    return {(row[1], row[2]): (int(row[4]), int(row[6])) for row in rows}


def same_losses(_folder):
    """Two summands have one sum. More are added in an order that MPI chooses by the size of the message: the same one where nothing is fused."""
    direct = losses(2, "--no-overlap")
    job.check(len(direct) == 11, f"direct mode printed {direct}")
    for options in (["--fusion-mb", 64], ["--cache", "no"], ["--fusion-mb", 0.001, "--no-overlap", "--cycle-ms", 0]):
        job.check(losses(2, "--runtime", "background", *options) == direct, f"other losses than in direct mode: {options}")
    job.check(losses(3, "--runtime", "background", "--fusion-mb", 0) == losses(3, "--no-overlap"), "other losses of three ranks")


def counts(folder):
    """Nothing is fused: a data call for each tensor and step. Each of them is known to three books."""
    for cache in ("yes", "no"):
        run, log, calls = folder / f"{cache}.ddl", folder / f"steps-{cache}", folder / f"calls-{cache}"
        steps = 6
        done = job.record(run, job.mpirun(2, [job.TRAIN, *SMALL, "--steps", steps, "--runtime", "background", "--fusion-mb", 0, "--cache", cache,
                                              "--log-steps", log, "--log-calls", calls]), check_rc=0)
        parameters = int(done.stdout.split(" parameters ")[1].split()[0])
        recorded = {(row["rank"], row["op"]): (row["calls"], row["bytes"])
                    for row in job.store(run).execute("select rank, op, sum(calls) calls, sum(bytes) bytes from v_call group by rank, op")}
        for rank in (0, 1):
            totals = totals_of(folder / f"{log.name}.{rank}")
            own = dict(line.split() for line in (folder / f"{calls.name}.{rank}").read_text().splitlines())
            where = f"--cache {cache}, rank {rank}: {totals}"
            job.check(totals["data", "MPI_Allreduce"] == (steps * TENSORS, 4 * steps * (parameters + 2)), f"gradients: {where}")
            job.check(totals["data", "MPI_Bcast"] == (1, 4 * parameters) and totals["set-up", "MPI_Allreduce"] == (1, 4), f"weights: {where}")
            for op in COORDINATION:
                booked = [count for (_, call), count in totals.items() if call == op]
                total = (sum(n for n, _ in booked), sum(size for _, size in booked))
                job.check(total[0] == int(own[op]) and total == recorded[rank, op],
                          f"{op}: {total}, --log-calls {own[op]}, recorded {recorded[rank, op]}; {where}")
            rounds = totals["coordination", "MPI_Gather"][0]
            job.check(totals["coordination", "MPI_Gather"][1] == 4 * rounds and totals["coordination", "MPI_Gatherv"][0] == rounds
                      and totals["coordination", "MPI_Bcast"][0] == 2 * rounds, f"requests and responses: {where}")
            if cache == "yes":  # eight tensors: one word
                cycles, size = totals["coordination", "MPI_Allreduce"]
                job.check(cycles > steps and size == 8 * cycles, f"bits: {where}")
                job.check(1 <= rounds <= TENSORS, f"the long way is for what is not cached: {where}")
            else:
                job.check(("coordination", "MPI_Allreduce") not in totals and rounds > steps, f"no bits, messages in each cycle: {where}")
            job.check("MPI_Init" not in own and own["MPI_Init_thread"] == own["MPI_Finalize"] == "1", f"begin and end: {own}")


def times(folder):
    """Nobody leaves `synchronize` before everybody has handed over, and what a slow rank takes is its own."""
    log = folder / "times"
    job.mpirun(2, [job.TRAIN, *SMALL, "--steps", 6, "--runtime", "background", "--slow-rank", "1:15", "--log-steps", log], check_rc=0)
    fast, slow = (steps_of(folder / f"times.{rank}") for rank in (0, 1))
    job.check([row["step"] for row in fast] == [row["step"] for row in slow] == list(range(6)), "steps are missing")
    for a, b in zip(fast, slow):
        for row in (a, b):
            job.check(row["begin_ns"] < row["handed_over_ns"] < row["end_ns"] and 0 < row["cpu_ns"], f"not in order: {row}")
            job.check(0 <= row["end_ns"] - row["begin_ns"] - row["input_ns"] - row["compute_ns"] - row["blocked_ns"], f"parts exceed the step: {row}")
        job.check(min(a["end_ns"], b["end_ns"]) > max(a["handed_over_ns"], b["handed_over_ns"]), f"left before all had come: {a} {b}")
        job.check(a["slept_ns"] == 0 and b["compute_ns"] >= b["slept_ns"] >= 15e6, f"who slept: {a} {b}")
    job.mpirun(2, [job.TRAIN, *SMALL, "--steps", 3, "--runtime", "background", "--slow-rank", "1:15", "--slow-spin", "--log-steps", log], check_rc=0)
    slow = steps_of(folder / "times.1")
    job.check(len(slow) == 3 and all(row["slept_ns"] == 0 and row["compute_ns"] >= 15e6 for row in slow), f"a rank that spins: {slow}")


def hang(folder):
    """Rank 1 never hands over in step 2: both have finished two steps, the background threads go on agreeing on nothing, and end when killed."""
    log, calls = folder / "hang", folder / "hang-calls"
    launched = job.start(job.mpirun(2, [job.TRAIN, *SMALL, "--runtime", "background", "--hang-rank", "1:2", "--log-steps", log, "--log-calls", calls]),
                         **job.QUICK)

    def allreduces():
        try:
            return int(dict(line.split() for line in (folder / "hang-calls.0").read_text().splitlines())["MPI_Allreduce"])
        except (OSError, KeyError, ValueError):
            return 0

    job.check(job.wait_until(lambda: all((folder / f"hang.{r}").exists() and len(steps_of(folder / f"hang.{r}")) == 2 for r in (0, 1))),
              "the job did not get to step 2")
    before = allreduces()
    job.check(job.wait_until(lambda: allreduces() > before + 5), "the background threads stand still")
    job.check(launched.poll() is None, "the job ended by itself")
    job.check(all(len(steps_of(folder / f"hang.{r}")) == 2 for r in (0, 1)), "a step went on without rank 1")
    launched.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    try:
        launched.communicate(timeout=20)
    except job.subprocess.TimeoutExpired:
        job.stop_group(launched)
        launched.communicate()
        job.check(False, f"the job did not end within {time.monotonic() - begin:.0f} s of SIGTERM")
    job.check(launched.returncode != 0, "a killed job ended well")


job.main(same_losses, counts, times, hang)
