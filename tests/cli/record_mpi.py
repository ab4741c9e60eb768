"""ddl record around mpirun: what a user sees, settings that reach every program, other people's preloads."""
import json
import os
from pathlib import Path

from job import DDL, TRAIN, Skip, check, main, record, report, run


def two_commands(folder):
    if not TRAIN.exists():
        raise Skip("train is not built")
    job = ["mpirun", "-np", "2", TRAIN, "--steps", "12", "--slow-rank", "1:150", "--print-every", "1"]
    bare = run(job, check_rc=0)
    done = record("job.ddl", job, check_rc=0)
    check(done.stdout == bare.stdout, "the job prints the same with and without recording")
    lines = [line for line in done.stderr.splitlines() if line.startswith("ddl: ")]
    check(len(lines) == 1 and lines[0].startswith("ddl: recorded 2 ranks to job.ddl ("), f"one line of ours: {done.stderr}")
    check(lines and lines[0].endswith("ddl report job.ddl"), "... which says what to type next")
    text = report("job.ddl").stdout
    check(" rank 1 (" in text, f"the slowed rank is found:\n{text}")  # a busy machine may have worse findings
    check(text.startswith("train   2 ranks on 1 host   12 steps in "), text[:100])
    check(max(len(line) for line in report("job.ddl", COLUMNS="80").stdout.splitlines()) <= 80, "fits 80 columns")
    data = json.loads(report("job.ddl", "--json").stdout)
    check(any(finding["rank"] == 1 for finding in data["findings"]) and data["run"]["exit_code"] == 0, str(data["run"]))


def failing_job(folder):
    done = record("abort.ddl", ["mpirun", "-np", "2", "sh", "-c", "exit 9"])
    check(done.returncode == 9, f"exit code {done.returncode}")


def settings_reach_every_program(folder):
    show = ["sh", "-c", "echo $DDL_OUT"]
    done = record("two.ddl", ["mpirun", "-np", "1", *show, ":", "-np", "1", *show], check_rc=0)
    check(done.stdout.split() == [str(Path("two.ddl").resolve())] * 2, done.stdout)


def preload_of_the_user(folder):
    other = next((p for p in ["/usr/lib/x86_64-linux-gnu/libdl.so.2", "/lib64/libdl.so.2"] if Path(p).exists()), None)
    if other is None:
        raise Skip("no library to preload besides")
    done = record("theirs.ddl", ["mpirun", "-x", f"LD_PRELOAD={other}", "-np", "1", "sh", "-c", "echo $LD_PRELOAD"], check_rc=0)
    check(done.stdout.strip().endswith(f"libddl.so:{other}"), done.stdout)


def environment_list_of_open_mpi(folder):
    done = record("list.ddl", ["mpirun", "--mca", "mca_base_env_list", "A=5", "-np", "1", "sh", "-c", "echo $A $DDL_OUT"], check_rc=0)
    check(done.stdout.split() == ["5", str(Path("list.ddl").resolve())], done.stdout + done.stderr)


if __name__ == "__main__":
    main(two_commands, failing_job, settings_reach_every_program, preload_of_the_user, environment_list_of_open_mpi)
