"""ddl goodput on a job that is killed and restarted twice, in recordings of their own and in one: lost steps are those of the script's own log, and the
parts add up to the wall time."""
import json
import os
import sys
from collections import Counter
from pathlib import Path

from job import BUILD, DDL, check, main, record, run

SCRIPT = """
import os, signal, sys, time
import ddl_annotate as ddl
die_at, last = int(sys.argv[1]), 30
begin = int(open("checkpoint").read()) if os.path.exists("checkpoint") else 0
with open("log", "a", buffering=1) as log:
    for step in range(begin, last):
        with ddl.step(step):
            time.sleep(0.02)
            if step % 5 == 4:
                with ddl.phase("checkpoint"):
                    time.sleep(0.04)
                    with open("checkpoint", "w") as file:
                        file.write(str(step + 1))
        log.write(f"{step}\\n")
        if step == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def start_in(folder):
    folder.mkdir()
    os.chdir(folder)


def restarts(folder):
    Path("train.py").write_text(SCRIPT)
    for number, die_at in enumerate((12, 23, -1)):
        done = record(f"try{number}.ddl", [sys.executable, "train.py", die_at], PYTHONPATH=f"{BUILD}/share/ddl/python")
        check(done.returncode == (0 if die_at < 0 else 137), done.stderr)
    steps = [int(line) for line in Path("log").read_text().split()]
    lost = sum(count - 1 for count in Counter(steps).values())
    check(lost == 3 + 4, f"the script's own log: {lost}")
    runs = [f"try{number}.ddl" for number in range(3)]
    answer = json.loads(run([DDL, "goodput", *reversed(runs), "--price", "3.6", "--json"], check_rc=0).stdout)
    check(answer["run"]["lost_steps"] == lost and answer["run"]["steps"] == len(steps), f"{answer['run']}")
    check([r["lost_steps"] for r in answer["runs"]] == [3, 4, 0] and answer["runs"][0]["lost_by"] == "numbers", f"{answer['runs']}")
    check("SIGKILL" in answer["runs"][0]["ended_by"] and answer["runs"][2]["ended_by"] == "finished", f"{answer['runs']}")
    jobs = [json.loads(Path(r, "job.json").read_text()) for r in runs]
    wall_ns = jobs[2]["ended_realtime_ns"] - jobs[0]["started_realtime_ns"]
    parts = {row["id"]: row for row in answer["goodput"]}
    told_ns = sum(row["time_ns"] for row in parts.values())
    check(abs(told_ns - wall_ns) < 1e6 and abs(told_ns - answer["run"]["wall_ns"]) < 100, f"{told_ns} of {wall_ns} ns")
    check(abs(sum(row["ratio"] for row in parts.values()) - 1) < 1e-6, f"{parts}")
    down_ns = sum(b["started_realtime_ns"] - a["ended_realtime_ns"] for a, b in zip(jobs, jobs[1:]))
    check(abs(parts["down"]["time_ns"] - down_ns) < 1e6, f"{parts['down']}: {down_ns}")
    check(6 * 0.04e9 <= parts["checkpoints"]["time_ns"] < 6 * 0.2e9, f"{parts['checkpoints']}")
    check(lost * 0.02e9 <= parts["lost"]["time_ns"] < lost * 0.15e9, f"{parts['lost']}")
    check(abs(parts["productive"]["price"] - 3.6 * parts["productive"]["rank_hours"]) < 1e-12, f"{parts['productive']}")
    text = run([DDL, "goodput", *runs], check_rc=0).stdout
    check("7 steps lost of 37" in text and "productive steps" in text and "price" not in text, text)
    print(text)
    for name in runs:
        alone = {row["id"]: row for row in json.loads(run([DDL, "goodput", name, "--json"], check_rc=0).stdout)["goodput"]}
        check(alone["down"]["rank_hours"] == 0, f"nothing lies between the runs of one: {alone['down']}")
    same = run([DDL, "goodput", runs[0], runs[0]])
    check(same.returncode == 2 and "at the same time" in same.stderr, same.stderr)
    check(run([DDL, "goodput", runs[0], "--price", "x"]).returncode == 2, "a price is a number")


def in_one_recording(folder):
    start_in(folder / "one")
    Path("train.py").write_text(SCRIPT)
    starts = "; ".join(f"{sys.executable} train.py {die_at}" for die_at in (12, 23, -1))
    done = record("job.ddl", ["sh", "-c", starts], PYTHONPATH=f"{BUILD}/share/ddl/python")
    check(done.returncode == 0, done.stderr)
    steps = [int(line) for line in Path("log").read_text().split()]
    answer = json.loads(run([DDL, "goodput", "job.ddl", "--json"], check_rc=0).stdout)
    runs = answer["runs"]
    check([r["run"] for r in runs] == ["job.ddl #1", "job.ddl #2", "job.ddl #3"] and all(r["ranks"] == 1 for r in runs), f"{runs}")
    check([r["lost_steps"] for r in runs] == [3, 4, 0] and answer["run"]["steps"] == len(steps), f"{runs}")
    check("ended abnormally" in runs[0]["ended_by"] and runs[2]["ended_by"] == "finished", f"{runs}")
    job = json.loads(Path("job.ddl", "job.json").read_text())
    wall_ns = job["ended_realtime_ns"] - job["started_realtime_ns"]
    check(abs(sum(row["time_ns"] for row in answer["goodput"]) - wall_ns) < 1e6, f"{answer['goodput']}: {wall_ns} ns")
    text = run([DDL, "goodput", "job.ddl"], check_rc=0).stdout
    check("job.ddl: #1 to #3 follow one another in time and count as restarts of one job" in text, text)


def side_by_side(folder):
    start_in(folder / "both")
    Path("train.py").write_text(SCRIPT)
    for job in "ab":
        Path(job).mkdir()
    both = " & ".join(f"(cd {job}; {sys.executable} ../train.py -1)" for job in "ab")
    done = record("both.ddl", ["sh", "-c", f"{both} & wait"], PYTHONPATH=f"{BUILD}/share/ddl/python")
    check(done.returncode == 0, done.stderr)
    answer = json.loads(run([DDL, "goodput", "both.ddl", "--json"], check_rc=0).stdout)
    check(len(answer["runs"]) == 1 and answer["runs"][0]["ranks"] == 2 and answer["runs"][0]["lost_steps"] == 0, f"{answer['runs']}")
    text = run([DDL, "goodput", "both.ddl"], check_rc=0).stdout
    check("both.ddl: 2 processes without a rank that overlap in time count as ranks of one run" in text, text)


if __name__ == "__main__":
    main(restarts, in_one_recording, side_by_side)
