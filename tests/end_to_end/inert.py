#!/usr/bin/env python3
"""In processes that are not the job the library does nothing that can be seen."""
import job

COMMANDS = [
    ["/bin/true"],
    ["sh", "-c", "echo out; echo err >&2; exit 7"],
    ["bash", "-c", "x=$(echo sub | cat); (exit 3); echo $x $?"],
    ["git", "--version"],
    ["python3", "-c", "import os, subprocess; subprocess.run(['true']); print(os.environ.get('DDL_OUT')); os._exit(5)"],
    ["sh", "-c", "ulimit -n 4; ulimit -f 0; exec /bin/echo limits"],
]


def nothing_happens(folder):
    here = folder / "cwd"
    here.mkdir()
    out = here / "run.ddl"
    for command in COMMANDS:
        shell = ["sh", "-c", f'cd "{here}" && exec "$@"', "sh", *command]
        plain = job.run(shell, DDL_OUT=out)
        traced = job.run(shell, DDL_OUT=out, LD_PRELOAD=job.LIBRARY)
        for part in ("returncode", "stdout", "stderr"):
            job.check(getattr(plain, part) == getattr(traced, part),
                      f"{command}: {part} was {getattr(plain, part)!r}, is {getattr(traced, part)!r} with the library")
        job.check(list(here.iterdir()) == [], f"{command} left {[p.name for p in here.iterdir()]}")


def bad_places_do_not_hurt(folder):
    """A run directory that cannot be made: one line, the job runs on."""
    train = [job.TRAIN, "--steps", 2]
    plain = job.run(job.mpirun(2, train), check_rc=0)
    (folder / "file").write_text("")
    for place in (folder / "file", folder / "no" / "such" / "parent.ddl", "/proc/ddl.ddl"):
        traced = job.run(job.mpirun(2, train), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=place)
        job.check(traced.stdout == plain.stdout, f"{place}: the output changed")
        lines = [line for line in traced.stderr.splitlines() if line.startswith("ddl:")]
        job.check(len(lines) == 1, f"{place}: {len(lines)} lines on stderr: {lines}")


def file_size_limit(folder):
    """RLIMIT_FSIZE would send SIGXFSZ to whoever exceeds it: the spool stops growing before that (tests/core/recorder_test.cpp says what it keeps)."""
    program = job.BUILD / "tests" / "programs" / "fixed_address"
    for blocks in (0, 1, 40, 200, 400):
        done = job.run(["sh", "-c", f'ulimit -f {blocks}; exec "$0"', program], LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / f"limited{blocks}.ddl")
        job.check(done.returncode == 0 and done.stdout == "", f"ulimit -f {blocks}: exit code {done.returncode}, output {done.stdout!r}")


job.main(nothing_happens, bad_places_do_not_hurt, file_size_limit)
