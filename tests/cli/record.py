"""ddl record around plain commands: exit codes, streams, the run directory, signals. No MPI."""
import json
import os
import re
import signal
import stat
import subprocess
import time
from pathlib import Path

from job import DDL, LIBRARY, check, main, record, run, start, wait_until


def exit_codes(folder):
    for name, command, code in [("zero", ["true"], 0), ("seven", ["sh", "-c", "exit 7"], 7), ("killed", ["sh", "-c", "kill -KILL $$"], 137),
                                ("absent", ["/nonexistent/program"], 125), ("no_program", ["/etc/passwd"], 125)]:
        done = record(f"{name}.ddl", command)
        check(done.returncode == code, f"{command}: exit code {done.returncode}, expected {code}: {done.stderr}")
        check(done.stderr.count("\n") <= 2, f"more than two lines: {done.stderr}")
        check(Path(f"{name}.ddl").exists() == (code != 125), f"{name}: nothing is left behind by a job that was not started")
    for command in (["true"], ["absent"]):
        check(run([DDL, "record", "-o", "/proc/x.ddl", "--", *command]).returncode == 125, "a directory that cannot be made")


def streams_are_the_jobs(folder):
    done = subprocess.run([DDL, "record", "-o", "streams.ddl", "--", "sh", "-c", "cat; echo oops >&2; printf '\\000\\377'"], input=b"in\n", capture_output=True)
    check(done.stdout == b"in\n\0\xff", f"stdout: {done.stdout}")
    check(done.stderr.startswith(b"oops\nddl: "), f"stderr: {done.stderr}")


def run_directory(folder):
    env = {"OMPI_MCA_x": "1", "SLURM_JOB_ID": "4711", "SLURM_JWT": "eyJhbG", "WANDB_API_KEY": "hush-hush", "OMPI_SECRET": "hush-hush"}
    old_umask = os.umask(0)
    record("dir.ddl", ["sh", "-c", "exit 3", "--password=hush-hush"], **env)
    os.umask(old_umask)
    check(stat.S_IMODE(os.stat("dir.ddl").st_mode) == 0o700, "the run directory is private")
    check(stat.S_IMODE(os.stat("dir.ddl/job.json").st_mode) == 0o600, "job.json is private")
    text = Path("dir.ddl/job.json").read_text()
    job = json.loads(text)
    check("hush-hush" not in text and "eyJhbG" not in text, f"secrets in job.json: {text}")
    check(job["exit_code"] == 3 and job["signal"] is None and job["job_id"] == "4711" and job["env"]["OMPI_MCA_x"] == "1", text)
    check(job["started_realtime_ns"] < job["ended_realtime_ns"], text)
    check(sorted(p.name for p in Path("dir.ddl").iterdir()) == ["job.json"], "nothing else lies in it")

    done = run([DDL, "record", "--horovod-timeline", "-o", "timed.ddl", "--", "sh", "-c", 'echo "$HOROVOD_CACHE_CAPACITY $HOROVOD_TIMELINE"'])
    check(done.stdout == f"0 {os.path.abspath('timed.ddl/horovod_timeline.json')}\n", done.stdout)
    done = run([DDL, "record", "--horovod-timeline", "-o", "twice.ddl", "--", "true"], HOROVOD_TIMELINE="mine.json")
    check(done.returncode == 2 and "HOROVOD_TIMELINE is set" in done.stderr, done.stderr)
    check(record("dir.ddl", ["true"]).returncode == 2, "a run is never overwritten")
    check(json.loads(Path("dir.ddl/job.json").read_text()) == job, "... not even touched")
    os.mkdir("empty.ddl", 0o755)
    check(record("empty.ddl", ["true"]).returncode == 0, "an empty directory is taken over")
    check(stat.S_IMODE(os.stat("empty.ddl").st_mode) == 0o700, "... and made private")
    os.mkdir("mine.ddl")
    check(record("mine.ddl", ["/nonexistent/program"]).returncode == 125, "not started")
    check(not list(Path("mine.ddl").iterdir()), "a directory that was there before stays, empty")
    os.mkdir("elsewhere")
    os.symlink("elsewhere", "link.ddl")
    check(record("link.ddl", ["true"]).returncode == 2, "a symlink is not followed")
    check(not list(Path("elsewhere").iterdir()), "... nothing is written behind it")


def a_job_that_talks_by_gloo(folder):
    Path("ddp.py").write_text('print("init_process_group(\'gloo\')")\n')
    for name, command in (("script", ["python3", "ddp.py"]), ("word", ["sh", "-c", "true", "--backend=gloo"])):
        done = record(f"gloo-{name}.ddl", command, check_rc=0)
        check("this job communicates through Gloo (" in done.stderr and "ddl_annotate.py" in done.stderr and done.stderr.count("\n") == 2, done.stderr)
        for verb in ("report", "doctor"):
            said = run([DDL, verb, f"gloo-{name}.ddl"], check_rc=3).stderr
            check("holds no spools: this job communicates through Gloo (" in said and "ddl import kineto" in said, f"{verb}: {said}")
    done = record("no-gloo.ddl", ["sh", "-c", "true", "train.py"], check_rc=0)
    check("Gloo" not in done.stderr and json.loads(Path("no-gloo.ddl/job.json").read_text())["gloo"] is None, done.stderr)
    # Marked steps are recorded; what is missing is still said.
    Path("marked.py").write_text("import ddl_annotate as ddl\nfor k in range(3):\n    with ddl.step(k): 'gloo'\n")
    record("marked.ddl", ["python3", "marked.py"], check_rc=0, PYTHONPATH=DDL.parents[1] / "share" / "ddl" / "python")
    said = run([DDL, "doctor", "marked.ddl"], check_rc=0).stdout
    check("ok       steps        3 steps" in said and said.count("this job communicates through Gloo (marked.py)") == 2, said)


def it_has_no_threads(folder):
    """One that a library made would take SIGCHLD, for which record waits."""
    done = record("threads.ddl", ["sh", "-c", "ls /proc/$PPID/task | wc -l"], check_rc=0)
    check(done.stdout.split() == ["1"], f"ddl record has {done.stdout.strip()} threads")


def default_name(folder):
    os.mkdir("names")
    done = subprocess.run([DDL, "record", "sh", "-c", "true"], cwd="names", capture_output=True, text=True)
    names = [p.name for p in Path("names").iterdir()]
    check(done.returncode == 0 and len(names) == 1 and re.fullmatch(r"sh-\d{8}-\d{6}\.ddl", names[0]), f"{names} {done.stderr}")


def environment_of_the_job(folder):
    done = run([DDL, "record", "-o", "env.ddl", "--steps", "3:5", "--cap", "2", "--", "sh", "-c", "echo $LD_PRELOAD; echo $DDL_OUT; echo $DDL_STEPS $DDL_CAP ${DDL_CLOCK-unset}"],
               LD_PRELOAD="/lib/x86_64-linux-gnu/libSegFault.so" if Path("/lib/x86_64-linux-gnu/libSegFault.so").exists() else "")
    lines = done.stdout.splitlines()
    check(lines[0].split(":")[0] == str(LIBRARY.resolve()), f"our library comes first: {lines}")
    check(lines[1] == str(Path("env.ddl").resolve()), f"{lines}")
    check(lines[2] == "3:5 2097152 unset", f"{lines}")
    done = run([DDL, "record", "-o", "other.ddl", "--", "true"], DDL_LIBRARY="/nonexistent.so")
    check(done.returncode == 125 and "hint" in done.stderr, f"DDL_LIBRARY that is not there: {done.stderr}")


COUNT_SIGNALS = "import signal,sys,time\nn=[0]\ndef h(s,f): n[0]+=1\nfor s in (2,15,10): signal.signal(s,h)\nprint('ready',flush=True)\nt=time.time()\nwhile time.time()<t+1.0: time.sleep(0.05)\nprint(n[0]); sys.exit(5)"


def signals_are_passed_on(folder):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        process = start([DDL, "record", "-o", f"signal{number}.ddl", "--", "/usr/bin/python3", "-c", COUNT_SIGNALS])
        process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        check(out.strip() == "1", f"signal {number}: the job got it {out.strip()} times")
        check(process.returncode == 5, f"signal {number}: exit code {process.returncode}: {err}")
        told = json.loads(Path(f"signal{number}.ddl/job.json").read_text())["told_to_end"]
        check(told == (None if number == signal.SIGUSR1 else number), f"signal {number}: told to end: {told}")


def ctrl_c_reaches_the_job_once(folder):
    try:
        pid, terminal = os.forkpty()
    except OSError as error:
        print(f"ctrl_c_reaches_the_job_once: skipped: no pseudo-terminal here ({error})")
        return
    if pid == 0:
        os.execv(DDL, [str(DDL), "record", "-o", "ctrl-c.ddl", "--", "/usr/bin/python3", "-c", COUNT_SIGNALS])
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    try:
        while chunk := os.read(terminal, 1000):
            seen += chunk
    except OSError:
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    # The terminal's echo of ^C may come anywhere; what the job counted stands at the end of its last line.
    count = re.search(rb"(\d+)\r\nddl: ", seen)
    check(count and count[1] == b"1", f"the job got Ctrl-C not once: {seen}")
    check(code == 5, f"exit code {code}")
    check(json.loads(Path("ctrl-c.ddl/job.json").read_text())["exit_code"] == 5, "job.json is complete")


def a_killed_recorder_leaves_the_job_alone(folder):
    process = start([DDL, "record", "-o", "orphan.ddl", "--", "sh", "-c", "echo up; sleep 0.5; touch finished"])
    process.stdout.readline()
    process.kill()
    process.wait()
    check(wait_until(lambda: Path("finished").exists(), 10), "the job went on")
    check(json.loads(Path("orphan.ddl/job.json").read_text())["exit_code"] is None, "job.json says that the end was not seen")


if __name__ == "__main__":
    main(exit_codes, streams_are_the_jobs, run_directory, a_job_that_talks_by_gloo, it_has_no_threads, default_name, environment_of_the_job, signals_are_passed_on, ctrl_c_reaches_the_job_once,
         a_killed_recorder_leaves_the_job_alone)
