#!/usr/bin/env python3
"""Bounded by design: many calls, threads, communicators, requests and steps leave exact counts, a spool below its cap, and memory that stops growing.

Label soak: DDL_TEST_SCALE=100 makes 100 M calls out of the million."""
import os

import fault
import job

MANY = fault.PROGRAMS / "many"
SCALE = int(os.environ.get("DDL_TEST_SCALE", "1"))
CAP = 1 << 20
# What a spool holds beside the events: header, descriptions, and per thread a ring (64 KiB) and the tables of its profile, of which each is replaced
# by one twice as large up to 2 MiB. docs/injected-code.md
REST = 64 * 1024 + 4 * 1024 * 1024


def many(folder, what, n, cap=CAP, growth_kib=256, says=(), rest=REST, **env):
    run, growth = folder / f"{what}.ddl", folder / f"{what}.growth"
    done = job.run([MANY, what, n], check_rc=0, timeout=3600, LD_PRELOAD=job.LIBRARY, DDL_OUT=run, DDL_CAP=cap, CALL_LOG=folder / f"{what}.log", GROWTH=growth, **job.ALONE, **env)
    job.check("ddl:" not in done.stderr, done.stderr)
    spool = next(run.glob("*.spool"))
    size, grown = spool.stat().st_size, int(growth.read_text())
    job.check(size <= cap + rest, f"{what}: the spool has {size} bytes, cap {cap}")
    job.check(grown <= growth_kib, f"{what}: memory grew by {grown} KiB in the second half")
    db = job.store(run)
    calls = dict(db.execute("select op, sum(calls) from v_call group by op").fetchall())
    for op, (count, _) in fault.read_log(folder / f"{what}.log.0").items():
        job.check(calls.get(op, 0) == count or count == 0, f"{what}, {op}: {calls.get(op)} recorded, {count} made")
    fault.reported(what, run, *says)
    print(f"{what}: {n}, spool {size / 1e6:.2f} MB, memory {grown:+d} KiB, {db.execute('select count(*) from event').fetchone()[0]} events")
    return db


def calls(folder):
    many(folder, "calls", 1000000 * SCALE)


def threads(folder):
    db = many(folder, "threads", 1000, growth_kib=1024)
    numbers = db.execute("select count(distinct thread) from thread").fetchone()[0]
    job.check(numbers <= 3, f"1000 threads that follow each other took {numbers} places")


def communicators(folder):
    db = many(folder, "communicators", 10000, growth_kib=4096, rest=12 << 20)
    job.check(db.execute("select count(*) from loss where kind = 'communicators'").fetchone()[0] == 0, "communicators were lost")


def communicators_at_once(folder):
    db = many(folder, "communicators_at_once", 20000, growth_kib=1 << 20, rest=12 << 20)  # MPI's own memory grows: 10,000 at a time, twice
    job.check(db.execute("select count(*) from loss where kind = 'communicators'").fetchone()[0] == 0, "communicators were lost")


def requests(folder):
    many(folder, "requests", 300000)


def steps(folder):
    """A long job with marked steps under a tiny cap: the steps that are kept are spread over the whole run."""
    db = many(folder, "steps", 200000)
    last = db.execute("select max(step) from event where step is not null").fetchone()[0]
    job.check(last is not None and last > 150000, f"the last step with events is {last}")


job.main(calls, threads, communicators, communicators_at_once, requests, steps)
