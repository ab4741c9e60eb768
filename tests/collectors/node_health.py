#!/usr/bin/env python3
"""One process of a node samples its network interfaces, and its GPUs where it uses one.

usage: node_health.py GPU_JOB DOUBLES_DIR
"""
import sys
from pathlib import Path

import job

GPU_JOB, DOUBLES = sys.argv[1:]
VIRTUAL = ("veth", "docker", "br-", "virbr", "cali", "cni", "flannel", "vxlan", "tap", "tun", "lxc")


def counters():
    """(interface, name) -> value, of interfaces that are not down."""
    found = {}
    for interface in Path("/sys/class/net").iterdir():
        if interface.name.startswith(VIRTUAL) or interface.name == "lo" or (interface / "operstate").read_text().strip() == "down":
            continue
        for name in ("rx_bytes", "tx_bytes", "rx_errors", "tx_dropped"):
            found[interface.name, name] = int((interface / "statistics" / name).read_text())
    return found


def network(folder):
    before = counters()
    job.record(folder / "a.ddl", job.mpirun(2, [job.TRAIN, "--steps", 2]), check_rc=0)
    after = counters()
    db = job.store(folder / "a.ddl")
    takers = {r["local_rank"] for r in db.execute("SELECT r.local_rank FROM node_sample s JOIN v_rank r ON r.process = s.process")}
    job.check(takers == ({0} if before else set()), f"samples of local ranks {takers}")
    seen = {(r["device"], r["name"]): r for r in db.execute("SELECT * FROM v_node")}
    for key, value in before.items():
        row = seen.get(key)
        job.check(row and row["samples"] >= 2 and value <= row["least"] <= row["most"] <= after[key], f"{key}: {row and dict(row)}, not within {value} to {after[key]}")


def gpus(folder):
    job.run([GPU_JOB, 4000], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "b.ddl", LD_LIBRARY_PATH=DOUBLES, FAKE_CUDA_CLOCK="virtual", DDL_CLOCK="monotonic")
    db = job.store(folder / "b.ddl")
    found = {(r["device"], r["name"]): (r["mean"], r["throttled"]) for r in db.execute("SELECT * FROM v_node WHERE device LIKE 'gpu%'")}
    job.check(found.get(("gpu 00000000:5E:00.0", "throttle_reasons")) == (72, 1) and found.get(("gpu 00000000:3B:00.0", "throttle_reasons")) == (1, 0)
              and found.get(("gpu 00000000:3B:00.0", "power_watts")) == (612.5, None) and ("gpu 00000000:5E:00.0", "power_watts") not in found,
              f"GPUs are {found}")


def not_wanted(folder):
    job.run([job.TRAIN, "--steps", 1], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "c.ddl", DDL_COLLECTORS="mpi")
    job.check(job.store(folder / "c.ddl").execute("SELECT count(*) FROM node_sample").fetchone()[0] == 0, "samples without the collector")


job.main(network, gpus, not_wanted)
