#!/usr/bin/env python3
"""Full and read-only file systems, and a host with an impossible name: in a mount and UTS namespace of its own; skipped where that is not allowed."""
import ctypes
import os
import socket
import sqlite3
import subprocess

import fault
import job
from seal import seal

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000


def mounted(folder, name, options):
    place = folder / name
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    return place


def room_for_nothing(folder):
    """Not even an inode is left."""
    place = mounted(folder, "nothing", "nr_inodes=1")
    fault.preloaded(folder, "nothing", job.mpirun(2, [fault.ENDING, "finalize"]), says="No space left on device", DDL_OUT=place / "run.ddl")
    done = job.run([job.DDL, "record", "-o", place / "run.ddl", "--", "true"])
    job.check(done.returncode == 125 and "No space left" in done.stderr, f"ddl record: {done.returncode} {done.stderr!r}")


def room_for_a_header(folder):
    """A few pages: no thread finds room for its tables. Nothing can be said about the job's calls, and that is said. (Of two ranks the first might take
    the pages of the other's header.)"""
    place = mounted(folder, "header", "size=16k")
    traced, run, logs = fault.preloaded(folder, "header", job.mpirun(1, [fault.ENDING, "finalize"]), DDL_OUT=place / "run.ddl")
    fault.reported("header", place / "run.ddl", "the disk was full", "threads for which no room was left")


def full_in_the_middle(folder):
    place = mounted(folder, "middle", "size=900k")
    run, log = place / "run.ddl", folder / "middle.log"
    plain = job.run(job.mpirun(2, [fault.PROGRAMS / "ground"]))
    traced = job.record(run, job.mpirun(2, [fault.PROGRAMS / "ground"]), CALL_LOG=log)
    fault.same("full", plain, traced)
    job.check("database or disk is full" in traced.stderr and "recorded 2 ranks" in traced.stderr, f"full: ddl record says {traced.stderr!r}")
    fault.reported("full", run, "the disk was full")
    copy = folder / "copy.ddl"  # `ddl report` reads it where it lies; the tables are looked at in a copy
    subprocess.run(["cp", "-r", run, copy], check=True)
    db = job.store(copy)
    fault.complete("full", db, {rank: fault.read_log(folder / f"middle.log.{rank}") for rank in range(2)}, events_too=False)
    job.check(db.execute("select value from meta where key = 'exit_code'").fetchone()[0] == "0", "full: the exit code could not be written")


def read_only(folder):
    place = mounted(folder, "read_only", "ro")
    fault.preloaded(folder, "ro", job.mpirun(2, [fault.ENDING, "finalize"]), says="Read-only file system", DDL_OUT=place / "run.ddl")
    # A run that was recorded elsewhere and put into a read-only archive.
    run = folder / "archive.ddl"
    job.run(job.mpirun(2, [fault.ENDING, "finalize"]), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=run)
    subprocess.run(["mount", "--bind", run, run], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", run], check=True)
    for _ in range(2):
        fault.reported("archive", run, "2 ranks on 1 host", "nothing missing")
    job.check(not (run / "run.sqlite").exists(), "archive: written to")
    subprocess.run(["umount", run], check=True)
    # The same with what another version of ddl left there.
    fault.reported("archive", run, "nothing missing")
    with sqlite3.connect(run / "run.sqlite") as db:
        db.execute("UPDATE meta SET value = 'another' WHERE key = 'analysis.version'")
    db.close()
    seal(run / "run.sqlite")
    left = (run / "run.sqlite").read_bytes()
    subprocess.run(["mount", "--bind", run, run], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", run], check=True)
    fault.reported("old archive", run, "2 ranks on 1 host", "nothing missing")
    job.check((run / "run.sqlite").read_bytes() == left, "old archive: written to")
    subprocess.run(["umount", run], check=True)


def odd_host_name(folder):
    for name in (b"a b'\"\n\xff", b"x" * 64, b"../../up"):
        socket.sethostname(name)
        what = f"host{len(name)}"
        traced, run, logs = fault.preloaded(folder, what, [fault.PROGRAMS / "daemon", folder / "own"])  # Open MPI refuses the longest name
        fault.reported(what, run, "nothing missing")
        job.check(len(list(run.glob("*.spool"))) == 1, f"{name}: {list(run.iterdir())}")


libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0:
    print(f"skipped: no namespaces: {os.strerror(ctypes.get_errno())}")
    raise SystemExit(77)
subprocess.run(["mount", "--make-rprivate", "/"], check=True)
job.main(room_for_nothing, room_for_a_header, full_in_the_middle, read_only, odd_host_name)
