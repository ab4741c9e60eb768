"""ddl export prometheus beside a running job of `train`: the file is there while the job runs, says so, says when it has ended, and goes when the
watching is ended by a signal."""
import os
import re
import signal
import time
from pathlib import Path

from job import DDL, TRAIN, check, main, run, start, stop_group, wait_until


def value(page, name, labels=""):
    found = re.search(rf"^{name}\{{[^}}]*{labels}[^}}]*\}} (\S+)$", page, re.M)
    return float(found[1]) if found else None


def settled(page):
    """Without what lasts until a rank's last sign of life: ranks that are told to end may still be at it when the file is written."""
    return re.sub(r"^ddl_(productive_time|recording_overhead)_ratio.*\n", "", page, flags=re.M)


def a_running_job(folder):
    prom = folder / "prom"
    prom.mkdir()
    file = prom / "ddl-live.prom"
    watching = start([DDL, "export", "prometheus", "live.ddl", "--textfile", prom, "--watch", "30s"])  # before the job has begun
    job = start([DDL, "record", "-o", "live.ddl", "--", "mpirun", "-np", "2", TRAIN, "--steps", "100000", "--width", "64", "--print-every", "0", "--slow-rank", "1:20"])
    try:
        check(wait_until(file.exists), "the file appears once the job has begun")
        seen = {}

        def once():
            done = run([DDL, "export", "prometheus", "live.ddl"])
            seen["page"] = done.stdout
            return value(done.stdout, "ddl_step_number") and value(done.stdout, "ddl_lateness_max_seconds")  # the first step is 0

        check(wait_until(once), f"a look at the running job: {seen['page']}")
        page = seen["page"]
        check(value(page, "ddl_running") == 1 and value(page, "ddl_stalled") == 0, f"it runs: {page}")
        check(value(page, "ddl_ranks") == 2 and value(page, "ddl_step_number") > 0, f"ranks and steps: {page}")
        check(not Path("live.ddl/run.sqlite").exists(), "a look at a running job leaves nothing in its directory")
        watching.send_signal(signal.SIGTERM)
        check(watching.wait(30) == -signal.SIGTERM, f"ended by the signal: {watching.returncode}")
        check(not file.exists(), "nobody keeps it up to date any more")

        last = start([DDL, "export", "prometheus", "live.ddl", "--textfile", prom, "--watch", "1m"])
        check(wait_until(lambda: file.exists() and value(file.read_text(), "ddl_running") == 1), "the next one writes it again")
        began = time.monotonic()
        ranks = [int(spool.name.split(".")[-3]) for spool in Path("live.ddl").glob("*.spool")]  # HOST.PID.START.spool
        for pid in ranks:  # before their launcher: else they may end one more step when it has gone
            os.kill(pid, signal.SIGTERM)
        error = last.communicate(timeout=60)[1]
        check(last.returncode == 0 and not error, f"it ends with the job: {last.returncode} {error}")
        check(time.monotonic() - began < 50, "and did not sit out its interval")
        whole = run([DDL, "export", "prometheus", "live.ddl"]).stdout
        check(value(whole, "ddl_running") == 0 and settled(file.read_text()) == settled(whole), f"the last file is of the whole run: {file.read_text()}, not {whole}")
        check(sorted(path.name for path in prom.iterdir()) == [file.name], f"nothing else is left: {list(prom.iterdir())}")
    finally:
        stop_group(job)
        stop_group(watching)


if __name__ == "__main__":
    main(a_running_job)
