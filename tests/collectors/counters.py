#!/usr/bin/env python3
"""Counters of steps and layers: exact against a mock of PAPI, with reasons where nobody has them, and over the real PAPI if it is installed.

usage: counters.py PROGRAM DOUBLES_DIR
"""
import sys

import job

PROGRAM, MOCKS = sys.argv[1:]
NAMES = "PAPI_TOT_INS,PAPI_TOT_CYC,test::EVENT,PAPI_L3_TCM,page-faults,nonsense"


def record(run, names, *arguments, **env):
    done = job.run([job.DDL, "record", "-o", run, "--counters", names, "--", PROGRAM, *arguments], check_rc=0, **env)
    return done, job.store(run)


def sources(db):
    return {r["name"]: (r["source"], r["why"]) for r in db.execute("SELECT name, source, why FROM counter ORDER BY number")}


def values(db, counter):
    return {(r["kind"], r["layer"]): (r["calls"], r["value"]) for r in db.execute("SELECT * FROM v_counter WHERE counter = ?", (counter,))}


def known_numbers(folder):
    done, db = record(folder / "a.ddl", NAMES, "double", LD_LIBRARY_PATH=MOCKS)
    job.check(done.stdout == "sets 1\n", f"sets of ended threads are left: {done.stdout!r}")
    job.check(sources(db) == {"PAPI_TOT_INS": ("papi", None), "PAPI_TOT_CYC": ("papi", None),
                              "test::EVENT": (None, "PAPI: Event exists, but cannot be counted due to counter resource limitations"),
                              "PAPI_L3_TCM": (None, "PAPI: Event does not exist"), "page-faults": ("getrusage", None),
                              "nonsense": (None, "PAPI: Event does not exist")}, f"sources are {sources(db)}")
    expected = {("step", None): (3, 3330), ("layer", "outer"): (3, 330), ("layer", "inner"): (3, 30), ("layer", "helper"): (3, 21)}
    job.check(values(db, "PAPI_TOT_INS") == expected, f"instructions are {values(db, 'PAPI_TOT_INS')}")
    job.check(values(db, "PAPI_TOT_CYC")[("layer", "outer")] == (3, 18), f"cycles are {values(db, 'PAPI_TOT_CYC')}")
    faults = values(db, "page-faults")[("layer", "inner")]
    job.check(faults[0] == 3 and 3000 <= faults[1] <= 3300, f"page faults of 3000 pages: {faults}")
    job.check(values(db, "nonsense") == {(None, None): (None, None)}, f"nonsense is {values(db, 'nonsense')}")
    steps = [(r["step"], r["value"]) for r in db.execute("SELECT step, value FROM v_step_counter WHERE counter = 'PAPI_TOT_CYC' ORDER BY step")]
    job.check(steps == [(0, 5), (1, 6), (2, 7)], f"cycles of steps are {steps}")
    inner = [r["value"] for r in db.execute("SELECT e.value FROM counter_event e JOIN region r ON r.id = e.region WHERE r.name = 'inner' AND e.counter = 0")]
    job.check(inner == [10, 10, 10], f"instructions of the inner layer are {inner}")
    said = job.report(folder / "a.ddl", "counters").stdout
    job.check("3330" in said and "PAPI: Event does not exist" in said, f"the report says {said}")
    losses = [tuple(r) for r in db.execute("SELECT kind, count FROM loss")]
    job.check(losses == [], f"lost {losses}")


def nothing_can_be_started(folder):
    _, db = record(folder / "b.ddl", "PAPI_TOT_INS,page-faults", "double", LD_LIBRARY_PATH=MOCKS, FAKE_PAPI_START=0)
    job.check(sources(db) == {"PAPI_TOT_INS": (None, "PAPI does not start: Permission level does not permit operation"), "page-faults": ("getrusage", None)},
              f"sources are {sources(db)}")
    _, db = record(folder / "c.ddl", "PAPI_TOT_INS", "double", LD_LIBRARY_PATH=MOCKS, FAKE_PAPI_VERSION="0x09000000")
    job.check(sources(db) == {"PAPI_TOT_INS": (None, "libpapi of an unknown version")}, f"sources are {sources(db)}")


def real_or_none(folder):
    """Whatever this machine has: a number or a reason, and the job the same."""
    done, db = record(folder / "d.ddl", "PAPI_TOT_INS,perf::PAGE-FAULTS,task-clock")
    job.check(done.stdout == "", f"output {done.stdout!r}")
    found = sources(db)
    print("here:", found)
    job.check((found["PAPI_TOT_INS"][0] is None) == bool(found["PAPI_TOT_INS"][1]), f"PAPI_TOT_INS: {found['PAPI_TOT_INS']}")
    faults = values(db, "perf::PAGE-FAULTS")[("layer", "inner")]
    job.check(faults[0] == 3 and 3000 <= faults[1] <= 3300, f"page faults of 3000 pages by {found['perf::PAGE-FAULTS']}: {faults}")
    clock = db.execute("SELECT f.value, p.time_ns FROM counter_profile f JOIN region r ON r.id = f.region JOIN range_profile p ON p.region = r.id"
                       " WHERE r.name = 'inner' AND f.counter = 2").fetchone()
    job.check(0 < clock["value"] <= 2 * clock["time_ns"] + 1_000_000, f"processor time {clock['value']} of {clock['time_ns']} ns")


def only_when_asked(folder):
    job.record(folder / "e.ddl", [PROGRAM], check_rc=0)
    job.check(sources(job.store(folder / "e.ddl")) == {}, "counters without --counters")
    done = job.run([job.DDL, "record", "-o", folder / "f.ddl", "--counters", "page-faults", "--collectors", "mpi", "--", PROGRAM], check_rc=0)
    job.check(sources(job.store(folder / "f.ddl")) == {}, f"counters without the collector: {done.stderr}")
    job.run([job.DDL, "record", "--counters", ",".join("abcdefghijk"), "--", "true"], check_rc=2)


job.main(known_numbers, nothing_can_be_started, real_or_none, only_when_asked)
