#!/usr/bin/env python3
"""The epilogue that is shipped, as root on a folder in which a user has put everything that could harm: it ends within its limit, and what strace sees it open
outside of that folder are programs and libraries. tests/end_to_end/slurm_jobs.py runs it under a Slurm."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import job

EPILOG = Path(__file__).parents[2] / "tools" / "slurm" / "epilog.sh"
LIMIT = 20
NOBODY = 65534
# What programs read wherever they run: themselves, libraries, locales, the kernel's tables.
ALLOWED = re.compile(r"^(/(usr|lib|lib64|bin|sbin|etc|proc|sys)(/|$)|/dev/null$|/dev/tty$|/$)")


def traced(folder, log):
    """Runs the epilogue of job 4711; how long it took, and (path, flags) of what was opened, made or renamed."""
    environment = {"PATH": os.environ["PATH"], "DDL": str(job.DDL), "SLURM_JOB_ID": "4711", "SLURM_JOB_WORK_DIR": str(folder), "SLURM_JOB_UID": str(NOBODY),
                   "SLURM_JOB_GID": str(NOBODY), "DDL_EPILOG_SECONDS": str(LIMIT)}
    begin = time.monotonic()
    subprocess.run(["strace", "-f", "-qq", "-y", "-s", "4096", "-e", "trace=open,openat,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,link,"
                    "linkat,symlink,symlinkat,truncate", "-o", log, EPILOG], env=environment, check=True, timeout=LIMIT + 20)
    return time.monotonic() - begin, log.read_text(errors="replace").splitlines()


def hostile(folder):
    """As a user may leave it. `outside` is root's, and must be neither read nor written."""
    outside = folder.parent / "outside"
    outside.mkdir(mode=0o700)
    (outside / "job.json").write_text('{"job_id": "4711", "command": ["stolen"]}')
    (outside / "precious.txt").write_text("precious")

    def run(name):
        (folder / name).mkdir()
        return folder / name

    os.mkfifo(run("fifo.ddl") / "job.json")
    (run("link.ddl") / "job.json").symlink_to(outside / "job.json")
    (folder / "linked.ddl").symlink_to(outside)
    os.mkfifo(run("ddl-4711.ddl") / "a.spool")
    os.mkfifo(folder / "ddl-4711.ddl" / "run.sqlite")
    (folder / "ddl-4711.ddl" / "report.txt").symlink_to(outside / "precious.txt")
    (run("ddl-4711.1.ddl") / "report.txt").mkdir()
    (folder / "ddl-4711.1.ddl" / "run.sqlite").symlink_to(outside / "precious.txt")
    socket.socket(socket.AF_UNIX).bind(str(run("ddl-4711.2.ddl") / "job.json"))
    with open(run("huge.ddl") / "job.json", "wb") as file:
        file.truncate(1 << 40)
    with open(run("ddl-4711.3.ddl") / "x.spool", "wb") as file:
        file.truncate(1 << 40)
    for name in ("$(touch pwned).ddl", "-rf.ddl", "a b\n.ddl", "`touch pwned`;touch pwned.ddl"):
        (run(name) / "job.json").write_text('{"job_id": "4711", "command": ["$(touch pwned)"]}')
    for number in range(40):
        (run(f"many{number}.ddl") / "job.json").write_text('{"job_id": "4711"}')
    for place in (folder, *folder.rglob("*")):
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)


def main(_):
    if os.getuid() != 0 or not shutil.which("strace") or not shutil.which("setpriv"):
        raise job.Skip("needs root, strace and setpriv")
    place = Path(tempfile.mkdtemp(prefix="ddl-epilogue-"))
    try:
        place.chmod(0o755)
        folder = place / "work"
        folder.mkdir()
        hostile(folder)
        try:
            seconds, calls = traced(folder, place / "strace")
        except subprocess.CalledProcessError as error:
            raise job.Skip(f"strace cannot trace here: {error}") from error
        job.check(seconds < LIMIT, f"the epilogue took {seconds:.1f} s: it was ended by its limit")
        job.check(not list(folder.rglob("pwned")), "a name was run as a command")
        job.check((place / "outside" / "precious.txt").read_text() == "precious", "a file outside was written")
        job.check("stolen" not in "".join(p.read_text(errors="replace") for p in folder.rglob("report.txt") if p.is_file()), "a file outside was read")
        reports = [path for path in folder.glob("*/report.txt") if path.is_file() and not path.is_symlink()]
        job.check(0 < len(reports) <= 16, f"{len(reports)} reports")
        job.check("run.sqlite is a FIFO" in (folder / "ddl-4711.ddl" / "report.txt").read_text() or
                  "run.sqlite: a FIFO, not a file" in (folder / "ddl-4711.ddl" / "report.txt").read_text(), "the FIFO is not named")
        job.check("more than" in (folder / "ddl-4711.3.ddl" / "report.txt").read_text(), "a spool of a TiB is read")
        own = (str(folder), str(job.BUILD.parents[1]), str(EPILOG.parents[2]))
        touched = set()
        for call in calls:
            for path in re.findall(r'"((?:[^"\\]|\\.)*)"', call):
                if path.startswith("/") and " = -1 " not in call and not path.startswith(own) and not ALLOWED.match(path):
                    touched.add(f"{path}: {call[:200]}")
            written = re.search(r'(O_WRONLY|O_RDWR|O_CREAT|rename|unlink|mkdir|link|truncate)', call)
            if written and " = -1 " not in call:
                paths = [path for path in re.findall(r'"((?:[^"\\]|\\.)*)"', call) if path.startswith("/") and path not in ("/dev/null", "/dev/tty")]
                touched.update(f"written: {call[:200]}" for path in paths if not path.startswith(str(folder)))
        job.check(not touched, "outside of the folder:\n" + "\n".join(sorted(touched)[:20]))
        print(f"the epilogue took {seconds:.1f} s, {len(calls)} calls, {len(reports)} reports")
    finally:
        shutil.rmtree(place)


job.main(main)
