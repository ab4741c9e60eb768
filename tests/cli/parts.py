"""An analysis in parts on one machine: by hand, by --on local:N, with a part that is killed. No MPI."""
import os
import shutil
import subprocess
import time
from pathlib import Path

from job import BUILD, DDL, check, environment, main, run
from store_dump import store_dump

RUN = Path("big.ddl")
STORE = RUN / "run.sqlite"


def check_merged(expected, how):
    check(store_dump(STORE) == expected, f"{how}: the store is another one")
    check(not (RUN / "parts").exists(), f"{how}: parts are left")
    STORE.unlink()


def parts_of(process):
    """pid -> command line of the processes that it runs now."""
    found = {}
    try:
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            found[int(child)] = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        pass
    return found


def killed(number, of):
    """Analyzes in parts and kills one of them; False: it was too quick for that."""
    process = subprocess.Popen([DDL, "analyze", RUN, "--on", f"local:{of}"], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    hit = False
    while not hit and process.poll() is None:
        for pid, words in parts_of(process).items():
            if f"{number}/{of}" in words:
                os.kill(pid, 9)
                hit = True
        time.sleep(0.001)
    error = process.stderr.read()
    process.wait()
    if not hit or process.returncode == 0:
        return False
    check(process.returncode == 1 and f"1 of {of} parts failed: part {number}, which ended silently" in error, f"a part was killed: {process.returncode}, {error}")
    return True


def in_parts(folder):
    run([BUILD / "bin" / "bench_sized_run", RUN, 64], check_rc=0)
    run([DDL, "analyze", RUN], check_rc=0)
    expected = store_dump(STORE)
    STORE.unlink()

    shown = run([DDL, "analyze", RUN, "--on", "local:7", "--metric", "step_time"], check_rc=0)
    check(float(shown.stdout) > 1e7, f"--on prints the metrics: {shown.stdout}")
    check_merged(expected, "local:7")

    check("ddl merge big.ddl" in run([DDL, "analyze", RUN, "--prepare"], check_rc=0).stdout, "--prepare says what comes next")
    for number in (2, 1):
        run([DDL, "analyze", RUN, "--part", f"{number}/2"], check_rc=0)
    check("ddl report big.ddl" in run([DDL, "merge", RUN], check_rc=0).stdout, "merge says what comes next")
    check_merged(expected, "by hand")

    if not any(killed(2, 3) for _ in range(10)):
        check(False, "no part could be killed in ten attempts")
    there = {path.name: path.stat().st_ino for path in (RUN / "parts").glob("part-*.sqlite")}
    check(sorted(there) == ["part-1-of-3.sqlite", "part-3-of-3.sqlite"], f"what the others made is kept: {sorted(there)}")
    (RUN / "parts" / "merge.txt").write_text("somebody else's")
    run([DDL, "analyze", RUN, "--on", "local:3"], check_rc=0)
    check([path.name for path in (RUN / "parts").iterdir()] == ["merge.txt"], "only what is ours is removed")
    shutil.rmtree(RUN / "parts")
    check_merged(expected, "after a part was killed")


def refused(folder):
    for options, code, words in (
        (["--on", "local:3", "--prepare"], 2, "exclude each other"), (["--part", "1/2", "--metric", "step_time"], 2, "exclude each other"),
        (["--part", "3/2"], 2, "K/N, such as 3/8"), (["--on", "cloud:3"], 2, "local:N or slurm:N"), (["--on", "local:0"], 2, "local:N or slurm:N"),
        (["--part", "1/2"], 3, "there is no such file"),
    ):
        done = run([DDL, "analyze", RUN, *options])
        check(done.returncode == code and words in done.stderr, f"{options}: {done.returncode}, {done.stderr}")
    done = run([DDL, "analyze", RUN, "--on", "slurm:2"], PATH="/nowhere")
    check(done.returncode == 125 and "--on local:N" in done.stderr, f"without Slurm: {done.returncode}, {done.stderr}")
    done = run([DDL, "merge", RUN])
    check(done.returncode == 3 and "has no parts" in done.stderr, f"nothing to merge: {done.returncode}, {done.stderr}")


if __name__ == "__main__":
    main(in_parts, refused)
