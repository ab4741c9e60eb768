"""ddl import that is interrupted: it ends by the signal and leaves nothing behind. No MPI."""
import os
import signal
import subprocess
from pathlib import Path

from job import DDL, check, main, run, wait_until

EVENTS = '{"ph": "X", "name": "range", "pid": 0, "tid": 1, "ts": 7, "dur": 5},\n' * 50000  # beyond the first report of progress


def signals_leave_nothing(folder):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A shell's <(...): a pipe without a name; those with one are refused.
        importing = subprocess.Popen([DDL, "import", "chrome", "/dev/stdin", "-o", "job.ddl"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # nohup ignores it, for children too
        try:
            with importing.stdin as trace:
                trace.write("[\n" + EVENTS)
                check(wait_until(lambda: list(Path("job.ddl").glob("run.sqlite.tmp.*"))), "a draft of the store lies in the run directory")
                importing.send_signal(number)
                for _ in range(100):  # as long as somebody takes it
                    trace.write(EVENTS)
        except BrokenPipeError:
            pass
        error = importing.stderr.read()
        importing.wait()
        check(importing.returncode == -number, f"ended with {importing.returncode}, not by signal {number}: {error}")
        check(not Path("job.ddl").exists(), f"signal {number}: {list(Path('job.ddl').glob('*'))} was left behind")


def own_directory_stays(folder):
    os.mkdir("mine.ddl")
    Path("cut.json").write_text('{"traceEvents": [{')
    check(run([DDL, "import", "chrome", "cut.json", "-o", "mine.ddl"]).returncode == 3, "a trace that was cut")
    check(Path("mine.ddl").is_dir() and not list(Path("mine.ddl").iterdir()), "a directory that was there before stays, empty")
    check(run([DDL, "import", "chrome", "cut.json", "-o", "new.ddl"]).returncode == 3 and not Path("new.ddl").exists(), "one of ours goes")
    check(run([DDL, "import", "chrome", "cut.json", "-o", "/proc/x.ddl"]).returncode == 1, "a directory that cannot be made is our error")


if __name__ == "__main__":
    main(signals_leave_nothing, own_directory_stays)
