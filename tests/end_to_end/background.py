#!/usr/bin/env python3
"""Jobs whose MPI calls come from a background thread, as Horovod's do (`train --runtime background`): what ddl says of the training threads against what
they timed themselves, who was late, which steps there were, and what only coordinates; with "hang", what is said where one of them never comes."""
import csv
import json
import os
import sys
import time

import job

STEPS = 60
JOB = ["--runtime", "background", "--width", 384, "--batch", 96, "--bucket-mb", 0.25, "--steps", STEPS, "--print-every", 0]
SLOW_MS = 30
POINTS = 0.03
ROUNDS = int(os.environ.get("DDL_TEST_ROUNDS", "1"))  # of `slow_rank` and `clean`: by hand more


def own_times(log, rank):
    with open(f"{log}.{rank}") as file:
        return {int(row["step"]): {name: int(value) for name, value in row.items()}
                for row in csv.DictReader(line for line in file if not line.startswith("#"))}


def coordination_of(log, rank):
    """By call: calls and bytes. The one that compares what the ranks were told to do moves no tensor either."""
    sums = {}
    with open(f"{log}.{rank}") as file:
        for line in file:
            if line.startswith(("# coordination", "# set-up")):
                _, _, call, _, calls, _, size = line.split()
                before = sums.get(call, (0, 0))
                sums[call] = (before[0] + int(calls), before[1] + int(size))
    return sums


def recorded(folder, name, *options):
    log = folder / f"{name}.log"
    run = folder / f"{name}.ddl"
    job.record(run, job.mpirun(2, [job.TRAIN, *JOB, "--log-steps", log, *options]), check_rc=0)
    return log, run, job.store(run)


def partition(folder):
    """Computing and overlap of each rank to three points of what it timed; calls and bytes of coordination exactly. A thread that nobody gives a core
    when it is woken is blocked by its own clock, and ready by the kernel's, so the share of the time in which it was ready is allowed on top."""
    log, _, db = recorded(folder, "marked")
    job.check(db.execute("select count(*) from background_process where sampled").fetchone()[0] == 2, "not seen as background threads")
    for rank in (0, 1):
        times = own_times(log, rank)
        row = db.execute("select count(*) n, sum(duration_ns) whole, sum(compute_ns) computing, sum(comm_ns - exposed_ns) overlap from steady_part"
                         " where rank = ?", (rank,)).fetchone()
        ready = db.execute("select (max(ready_ns) - min(ready_ns)) * 1.0 / (max(at_ns) - min(at_ns)) from thread_sample s join process p on p.id = s.process"
                           " where p.rank = ?", (rank,)).fetchone()[0]
        steps = [row[0] for row in db.execute("select step from steady_part where rank = ?", (rank,))]
        job.check(row["n"] >= STEPS - 10, f"rank {rank}: only {row['n']} of {STEPS} steps are known")
        whole = sum(times[s]["end_ns"] - times[s]["begin_ns"] for s in steps)
        own = {"computing": 1 - sum(times[s]["blocked_ns"] for s in steps) / whole, "overlap": sum(times[s]["hidden_ns"] for s in steps) / whole}
        for part, truth in own.items():
            said = row[part] / row["whole"]
            told = f"rank {rank}: {part} {said:.3f}, by itself {truth:.3f}, ready {ready:.3f}"
            print(told)
            job.check(abs(said - truth) < POINTS + ready, told)
        counted = {name: (calls, size) for name, calls, size in db.execute(
            "select o.name, count(*), sum(e.bytes) from coordination c join event e on e.id = c.event join op o on o.id = e.op"
            " join process p on p.id = e.process where p.rank = ? group by o.name", (rank,))}
        job.check(counted == coordination_of(log, rank), f"rank {rank}: coordination is {counted}, its own count {coordination_of(log, rank)}")


def first_findings(db):
    """Without what is said of a machine with fewer cores than busy threads, or that does other things."""
    return [(row["id"], row["rank"], row["sentence"]) for row in db.execute("select id, rank, sentence from finding where id not in ('shared_cores', 'cpu_contention') order by rowid")]


def is_first(db, what):
    found = first_findings(db)
    job.check(found and found[0][:2] == ("straggler", 1), f"{what}: {found}")


def slow_rank(folder):
    """Asleep or computing, with marks and without, with and without the response cache."""
    for i in range(ROUNDS):
        for name, options in {"asleep": [], "spins": ["--slow-spin"], "unmarked": ["--no-marks"], "uncached": ["--cache", "no"],
                              "both": ["--no-marks", "--cache", "no", "--slow-spin"]}.items():
            _, _, db = recorded(folder, f"{name}{i}", "--slow-rank", f"1:{SLOW_MS}", *options)
            is_first(db, name)
            if "--no-marks" in options:
                steps = db.execute("select count(*) from step where process = 1").fetchone()[0]
                job.check(abs(steps - STEPS) <= 1, f"{name}: {steps} steps inferred, {STEPS} were run")


def clean(folder):
    """By hand only: on a machine that does other things a clean run is none."""
    quiet, runs = 0, 0
    for i in range(ROUNDS if ROUNDS > 1 else 0):
        for name, options in {"marked": [], "unmarked": ["--no-marks"], "uncached": ["--cache", "no"]}.items():
            found = first_findings(recorded(folder, f"clean_{name}{i}", *options)[2])
            runs += 1
            quiet += not found
            if found:
                print(f"clean, {name}: {found}")
    if runs:
        print(f"clean: nothing found in {quiet} of {runs} runs")
    job.check(quiet == runs, f"clean: nothing found in {quiet} of {runs} runs")


def timeline(folder):
    """A timeline that the job writes beside is joined: every reduction has the names of its tensors, with their bytes, and who had them ready last."""
    log, run = folder / "timeline.log", folder / "timeline.ddl"
    # Rank 0 sends no requests to itself, so that only the timeline tells of it.
    job.run([job.DDL, "record", "--horovod-timeline", "-o", run, "--", *job.mpirun(2, [job.TRAIN, *JOB, "--log-steps", log, "--slow-rank", f"0:{SLOW_MS}"])], check_rc=0)
    job.report(run)
    db = job.store(run)
    told, bytes_told, tensors = db.execute("select count(*), sum(bytes), sum(tensors) from horovod_operation where op = 'ALLREDUCE'").fetchone()
    with open(f"{log}.0") as file:
        moved = [line.split() for line in file if line.startswith("# data MPI_Allreduce")]
    job.check([(told, bytes_told)] == [(int(words[4]), int(words[6])) for words in moved], f"timeline: {told} operations of {bytes_told} bytes, the trainer counts {moved}")
    job.check(told < tensors, f"timeline: nothing was fused: {told} operations of {tensors} tensors")
    joined = db.execute("select count(*), sum(c.payload_bytes = h.bytes), sum(c.layer = h.name), sum(c.rank = 0 and c.enter_ns >= h.start_ns - 1000000 and c.leave_ns <= h.end_ns + 1000000) from horovod_operation h"
                        " join event e on e.comm = h.comm and e.seq = h.seq join v_collective c on c.event = e.id").fetchone()
    job.check(tuple(joined) == (2 * told,) * 3 + (told,), f"timeline: of {2 * told} calls {tuple(joined)} are joined, have its bytes, its name, and on rank 0 its time")
    last = db.execute("select p.rank, sum(n.late) from negotiation n join process p on p.id = n.process where n.step is not null group by p.rank order by 2 desc").fetchone()
    job.check(last is not None and last[0] == 0, f"timeline: ready last: {last}")
    found = first_findings(db)
    job.check(found and found[0][:2] == ("straggler", 0), f"timeline: {found}")
    db.close()
    written = run / "horovod_timeline.json"
    text = written.read_text()
    written.write_text(text[: len(text) // 2] + '{"ph": torn')
    db = job.store(run)
    half = db.execute("select sum(seq is not null) from horovod_operation").fetchone()[0]
    losses = [tuple(row) for row in db.execute("select kind, count from loss")]
    job.check(0 < half < told and losses == [("horovod_timeline", 1)], f"torn timeline: {half} of {told} operations joined, {losses}")


def hidden_samples(folder):
    """Whoever leaves the samples out is told that the verdict rests on them."""
    run = folder / "blind.ddl"
    job.run([job.DDL, "record", "-o", run, "--collectors", "mpi,nvtx", "--", *job.mpirun(2, [job.TRAIN, *JOB])], check_rc=0)
    db = job.store(run)
    job.check([row[0] for row in first_findings(db)] == ["unseen_training"], f"without samples: {first_findings(db)}")
    verdict = db.execute("select value from meta where key = 'verdict'").fetchone()[0]
    job.check(verdict == "withheld", f"without samples: {verdict}")
    advice = db.execute("select try from finding where id = 'unseen_training'").fetchone()[0]
    job.check("collector 'threads'" in advice, f"without samples: {advice}")


def hang(folder):
    """Rank 1's training thread never comes, while the background threads go on: ddl-top, the stall watch and the report say so."""
    for name, options in {"hung": [], "hung_uncached": ["--cache", "no"]}.items():
        run = folder / f"{name}.ddl"
        process = job.start([job.DDL, "record", "--stall", "4s", "-o", run, "--", *job.mpirun(2, [job.TRAIN, *JOB, "--hang-rank", "1:20", *options])])
        shown = {}

        def stands():
            looked = job.run([job.DDL, "top", run, "--json", "-n", 1])
            if looked.returncode != 0 or not looked.stdout:
                return False
            shown.update(json.loads(looked.stdout))
            if shown["stall"] is not None:  # where it sleeps is asked once a second: a look sees the last moments only
                return "asleep in" in shown["headline"]["sentence"]
            return shown["headline"]["alarm"]

        job.check(job.wait_until(stands, 40), f"{name}: ddl-top does not see it: {shown.get('headline')}")
        sentence = shown["headline"]["sentence"]
        job.check(sentence.startswith("no data was moved"), f"{name}: {sentence}")
        if shown["stall"] is not None:  # requests that came before this look are not known to it
            job.check(shown["stall"]["missing"] == [1] and "rank 1 is asleep in pause" in sentence, f"{name}: {shown['stall']} {sentence}")
        job.check([row["computing_ratio"] is None or row["computing_ratio"] < 0.2 for row in shown["ranks"]] == [True, True], f"{name}: computing {shown['ranks']}")
        stalls = run / "stalls.jsonl"
        written = lambda: stalls.exists() and "\n" in stalls.read_text()  # it is there before its first line is
        told = job.wait_until(written, 30) and json.loads(stalls.read_text().splitlines()[0])["sentence"]
        job.check(told and "no data was moved" in told and "rank 1 is asleep in pause" in told, f"{name}: the stall watch says {told}")
        time.sleep(4)  # the report also asks that it be 20 times what lay between two reductions, which ddl-top may not have seen
        job.stop_group(process)
        process.wait(timeout=30)
        job.report(run)
        found = [tuple(row) for row in job.store(run).execute("select id, rank, sentence from finding order by position")]
        job.check(found and found[0][:2] == ("missing_rank", 1) and found[0][2].startswith("no data was moved since")
                  and found[0][2].endswith("the training thread of rank 1 is asleep in pause, that of rank 0 waits for it"), f"{name}: {found}")


if sys.argv[1:] == ["hang"]:
    job.main(hang)
else:
    job.main(partition, slow_rank, clean, timeline, hidden_samples)
