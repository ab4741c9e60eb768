#!/usr/bin/env python3
"""ddl-top on live jobs of `train`, in tmux: the slow rank is named within seconds, a killed job shows as ended, a hung one says who is missing."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import job
from json_schema import violations

TOP = job.BUILD / "bin" / "ddl-top"
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ddl-top.schema.json"


def check_json(line):
    schema = json.loads(SCHEMA.read_text())
    value = json.loads(line)
    problems = list(violations(schema, value, schema))
    job.check(not problems, f"--json against its schema: {problems[:5]}")
    broken = dict(value, schema=2)
    job.check(list(violations(schema, broken, schema)), "the check of the schema accepts anything")
    return value


def look(run, *arguments):
    return job.run([TOP, run, *arguments], check_rc=0).stdout


class Screen:
    """A terminal of its own with a program in it."""

    def __init__(self, folder, command, width=80, height=24):
        if not shutil.which("tmux"):
            raise job.Skip("tmux is not installed")
        self.tmux = ["tmux", "-S", str(folder / "tmux.socket"), "-f", "/dev/null"]
        env = job.environment(LC_ALL="C.UTF-8", TERM="xterm-256color", XDG_CONFIG_HOME=folder / "config")
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(width), "-y", str(height), " ".join(map(str, command)) + "; sleep 60"], env=env, check=True)

    def text(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    def send(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def resize(self, width, height):
        subprocess.run([*self.tmux, "resize-window", "-x", str(width), "-y", str(height)], check=True)

    def wait_for(self, pattern, seconds=30):
        """The text once the pattern is there; checks that it comes."""
        shown = ""

        def there():
            nonlocal shown
            shown = self.text()
            return re.search(pattern, shown)

        job.check(job.wait_until(there, seconds), f"no /{pattern}/ on the screen within {seconds} s:\n{shown}")
        return shown

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True)


def train(run, *options):
    return job.start([job.DDL, "record", "-o", run, "--", "mpirun", "-np", 4, job.TRAIN, "--steps", 100000, "--width", 64, "--print-every", 0, *options])


def slow_rank_and_kill(folder):
    run = folder / "slow.ddl"
    process = train(run, "--slow-rank", "2:30")
    screen = None
    try:
        job.check(job.wait_until(lambda: list(run.glob("*.spool")), 30), "the job did not start")
        screen = Screen(folder, [TOP, f"{run}/"])
        shown = screen.wait_for(r"rank 2 .*enters last")
        first = [line for line in shown.splitlines() if re.match(r"^[> ][! ] +\d+ ", line)][0]
        job.check(re.match(r"^>! +2 ", first), f"the slow rank is not first:\n{shown}")
        print(shown)

        value = check_json(look(run, "--json", "-n", 1).strip())
        job.check(value["headline"]["rank"] == 2, f"--json: {value['headline']}")

        screen.send("Enter")
        screen.wait_for(r"Why rank 2\?")
        screen.send("Escape")
        screen.send("/")
        screen.send("rank=1", "Enter")
        screen.wait_for("1 of 4 ranks")
        screen.send("Escape")
        screen.resize(40, 10)
        screen.wait_for(r"rank 2 last")
        screen.resize(160, 50)
        screen.wait_for("History")
        screen.resize(80, 24)

        job.stop_group(process, signal.SIGKILL)
        process.wait(timeout=30)
        screen.wait_for("ended", 60)
        screen.send("m")
        screen.wait_for("marked step")
        job.check("mark 1" in (folder / "slow.ddl.notes").read_text(), "no mark beside the run")
        screen.send("/")
        screen.wait_for("filter: ")
        screen.send("C-c")  # quits while something is being typed
        job.check(job.wait_until(lambda: "ddl-top" not in screen.text(), 10), f"Ctrl-C in a prompt does not quit:\n{screen.text()}")
    finally:
        job.stop_group(process)
        if screen:
            screen.close()


def hung(folder):
    run = folder / "hung.ddl"
    process = train(run, "--hang-rank", "1:12", "--no-overlap")
    try:
        def is_hung():
            if not list(run.glob("*.spool")):
                return False
            shown = job.run([TOP, run, "-b", "-n", 1, "--ascii"])
            return shown.returncode == 0 and "hung" in shown.stdout.splitlines()[0]

        job.check(job.wait_until(is_hung, 60), "ddl-top does not see that the job hangs")
        shown = look(run, "-b", "-n", 1, "--ascii", "--size", "100x24")
        print(shown)
        job.check(re.search(r"rank 1 never entered MPI_Allreduce number \d+ on MPI_COMM_WORLD: ranks 0, 2, 3 sit in it", shown), "who is missing is not said")
        job.check(re.search(r"^>! +1 .*in no call", shown, re.M), "the missing rank is not first, in no call")
        job.check(len(re.findall(r"in MPI_Allreduce", shown)) == 3, "the others are not shown in their call")
        value = check_json(look(run, "--json", "-n", 1).strip())
        job.check(value["stall"]["missing"] == [1] and value["feed"]["state"] == "hung", f"--json: {value['stall']} {value['feed']}")
    finally:
        job.stop_group(process)
        process.wait(timeout=30)


def another_host(folder):
    """The worst network disk: of the job's files only what was written with pwrite is there."""
    run, seen = folder / "shared.ddl", folder / "seen.ddl"
    seen.mkdir(mode=0o700)
    preload = f"{job.BUILD / 'lib' / 'libddl.so'}:{job.BUILD / 'tests' / 'programs' / 'libshared_disk_shim.so'}"
    process = job.start(["mpirun", "-np", 4, job.TRAIN, "--steps", 100000, "--width", 64, "--print-every", 0, "--slow-rank", "2:30"],
                        LD_PRELOAD=preload, DDL_OUT=run, SHARED_DISK=seen)
    last, ranks = {}, []

    def names_rank():
        nonlocal last
        done = job.run([TOP, seen, "--json", "-n", 1])
        last = json.loads(done.stdout) if done.returncode == 0 else {}
        # On a busy machine the other ranks are late as well, for a while.
        return last and last["headline"]["rank"] == 2 and last["window"]["steps"] >= 20 and last["ranks"][2]["late_ns"] > 20e6

    try:
        job.check(job.wait_until(names_rank, 40), f"the slow rank is not named, or not 20 ms late: {last}")
        job.check(len(last["ranks"]) == 4 and last["cost"]["lost_events"] == 0 and last["step"]["waiting_known"], f"{last}")
        for spool in seen.glob("*.spool"):
            job.check(not any(spool.read_bytes()), f"{spool}: more than zeros: the test shows nothing")
        lives = list(seen.glob("*.live"))
        job.check(len(lives) == 4 and all(live.stat().st_size < 1 << 20 for live in lives), f"{[live.stat().st_size for live in lives]}")

        ranks = [pid for pid, line in job.processes_of(process.pid).items() if line.startswith(str(job.TRAIN))]
        job.check(len(ranks) == 4, f"{len(ranks)} ranks")
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(4)
        value = check_json(look(seen, "--json", "-n", 1).strip())
        job.check(value["feed"]["state"] == "stale" and value["feed"]["silent_ns"] > 3e9, f"{value['feed']}")
        job.check(all(rank["silent_ns"] > 3e9 for rank in value["ranks"]), f"{value['ranks']}")
    finally:
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)
        job.stop_group(process)
        process.wait(timeout=30)
    # A killed process is there until the kernel has taken it apart: mpirun's end says nothing about its ranks.
    job.check(job.wait_until(lambda: "ended" in look(seen, "-b", "-n", 1, "--ascii").splitlines()[0], 10),
              f"a killed job is not shown as ended:\n{look(seen, '-b', '-n', 1, '--ascii')}")
    job.report(run)  # what is beside the spools does not concern the store


def replay(folder):
    run = folder / "done.ddl"
    job.record(run, ["mpirun", "-np", 2, job.TRAIN, "--steps", 20, "--width", 64, "--print-every", 0], check_rc=0)
    live = check_json(look(run, "--json", "-n", 1).strip())
    again = check_json(look(run, "--json", "-n", 1, "--replay").strip())
    job.check(live["window"] == again["window"], f"{live['window']} {again['window']}")
    for a, b in zip(live["ranks"], again["ranks"]):
        for key in ("compute_ns", "exposed_ns", "wait_ns"):
            # Two fits of one clock: parts in a million.
            job.check(abs(a[key] - b[key]) <= 1000 + 1e-4 * abs(a[key]), f"rank {a['rank']} {key}: {a[key]} live, {b[key]} in the replay")
    job.check(look(run, "--replay", "-b", "-n", 1, "--size", "80x24").count("\n") == 24, "a frame of 24 lines")


def bad_usage(_folder):
    usage = [["--size", "10x3"], ["--size", "80x24x"], ["--sort", "lat"], ["--filter", "late>"], ["-n", "0"], ["--delay", "0"], ["--color", "blue"]]
    for arguments, code in [*((u, 2) for u in usage), (["nowhere.ddl"], 3)]:
        done = job.run([TOP, *arguments])
        job.check(done.returncode == code and "error:" in done.stderr, f"{arguments}: {done.returncode}, not {code}: {done.stderr}")


def terminals(_folder):
    """One that cannot move its cursor is refused, before it is written to."""
    screen, side = pty.openpty()
    done = subprocess.run([TOP, "--demo"], stdin=side, stdout=side, stderr=subprocess.PIPE, text=True, env=job.environment(TERM="dumb"), timeout=30)
    job.check(done.returncode == 1 and "cannot draw on this terminal: TERM=dumb" in done.stderr, f"{done.returncode}: {done.stderr}")
    os.close(side)
    os.close(screen)


job.main(slow_rank_and_kill, hung, another_host, replay, bad_usage, terminals)
