#!/usr/bin/env python3
"""Two hosts whose clocks disagree by seconds and drift: what the ingest finds out about them, against what they were set to."""
import job
import virtual_hosts
from virtual_hosts import Clock, Hosts

virtual_hosts.enter()

SHIFT_NS = 3_000_000_000
DRIFT_PPM = 50


def recorded(folder, name, program, *options):
    hosts = Hosts(folder, nodeb=Clock(monotonic_ns=SHIFT_NS, realtime_ns=-7 * SHIFT_NS, drift_ppm=DRIFT_PPM))
    run = folder / name
    hosts.run("nodea", [job.DDL, "record", "-o", run, "--clock", "monotonic", *options, "--", "mpirun", "-np", 4, "--host", "nodea:2,nodeb:2", *program],
              check_rc=0, LD_PRELOAD=virtual_hosts.CLOCK_SHIM)
    return hosts, job.store(run)


def check_clocks(hosts, store, method):
    """Both ends of the time in which ranks of both hosts communicate: is nodeb's clock there where it was set to?"""
    a, b = store.execute("select name, method, offset_ns, drift_ppm, sigma_ns from host order by name").fetchall()
    job.check((a["method"], a["sigma_ns"], b["method"]) == ("reference", 0, method), f"hosts: {tuple(a)}, {tuple(b)}")
    for t, in store.execute("select min(start_ns) from event where seq is not null union select max(start_ns) from event where seq is not null"):
        real_ns = t - a["offset_ns"]  # nodea's clock is the machine's
        shown_ns = real_ns + SHIFT_NS + (real_ns - hosts.origin_ns) * DRIFT_PPM * 1e-6
        found_ns = t * (1 + b["drift_ppm"] * 1e-6) - b["offset_ns"]
        job.check(abs(found_ns - shown_ns) <= 3 * b["sigma_ns"], f"at {t} ns nodeb's clock is placed {found_ns - shown_ns:.0f} ns off, sigma {b['sigma_ns']:.0f}")
        print(f"at {t * 1e-9:.3f} s: off by {(found_ns - shown_ns) * 1e-3:.1f} us, sigma {b['sigma_ns'] * 1e-3:.1f} us, drift {b['drift_ppm']:.1f} ppm")
    job.check(store.execute("select count(*) from loss where kind = 'clock'").fetchone()[0] == 0, "a clock is called lost")


PROGRAM = [job.TRAIN, "--no-overlap", "--width", 64, "--steps", 150, "--print-every", 0, "--slow-rank", "3:10"]


def from_collectives(folder):
    """One host is the last to enter every collective: that hides half of the answer, and sigma says so."""
    check_clocks(*recorded(folder, "collectives.ddl", PROGRAM), "collectives")


def from_messages(folder):
    hosts, store = recorded(folder, "messages.ddl", PROGRAM, "--clock-sync")
    check_clocks(hosts, store, "clock-sync")
    sigma_ns = store.execute("select max(sigma_ns) from host").fetchone()[0]
    job.check(sigma_ns < 1e6, f"messages take less than the 10 ms that one host is late: sigma {sigma_ns} ns")


job.main(from_collectives, from_messages)
