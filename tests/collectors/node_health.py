#!/usr/bin/env python3
"""One process of a node samples its network interfaces, and its GPUs where it uses one.

usage: node_health.py GPU_JOB DOUBLES_DIR
"""
import sys
from pathlib import Path

import job

GPU_JOB, MOCKS = sys.argv[1:]
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
    job.run([GPU_JOB, 4000], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "b.ddl", LD_LIBRARY_PATH=MOCKS, FAKE_CUDA_CLOCK="virtual", DDL_CLOCK="monotonic")
    db = job.store(folder / "b.ddl")
    found = {(r["device"], r["name"]): (r["mean"], r["throttled"]) for r in db.execute("SELECT * FROM v_node WHERE device LIKE 'gpu%'")}
    job.check(found.get(("gpu 00000000:5E:00.0", "throttle_reasons")) == (72, 1) and found.get(("gpu 00000000:3B:00.0", "throttle_reasons")) == (1, 0)
              and found.get(("gpu 00000000:3B:00.0", "power_watts")) == (612.5, None) and ("gpu 00000000:5E:00.0", "power_watts") not in found,
              f"GPUs are {found}")


def links(folder):
    """The peak of copies is that of the link which they take, in one direction."""
    for fabric, known in (("pair", {"HtoD": ("NVLink 2.0 x2", 50e9), "DtoH": ("NVLink 2.0 x2", 50e9), "PtoP": ("NVLink 2.0 x4", 100e9)}),
                          ("switch", {"HtoD": (None, None), "DtoH": (None, None), "PtoP": ("NVLink 4.0 x6", 150e9)}),
                          ("none", {"HtoD": (None, None), "DtoH": (None, None), "PtoP": (None, None)})):
        run_dir = folder / f"{fabric}.ddl"
        job.run([GPU_JOB, 4000], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=run_dir, LD_LIBRARY_PATH=MOCKS, FAKE_CUDA_CLOCK="virtual", DDL_CLOCK="monotonic",
                FAKE_NVML_FABRIC=fabric, FAKE_NVML_CUDA_BUS=1)
        found = {r["kind"]: (r["link"], r["peak_bytes_per_second"]) for r in job.store(run_dir).execute("SELECT * FROM v_link WHERE device = 0")}
        job.check(found == known, f"{fabric}: {found}, not {known}")
        if fabric == "pair":  # 100 ns of 1000 bytes to the other GPU, 20 us of 200000 bytes from the host
            rows = {r["kind"]: r["peak_ratio"] for r in job.store(run_dir).execute("SELECT * FROM v_link")}
            job.check(abs(rows["PtoP"] - 0.1) < 1e-9 and abs(rows["HtoD"] - 0.2) < 1e-9 and abs(rows["DtoH"] - 0.1) < 1e-9, f"of the peak: {rows}")
            printed = job.report(run_dir, "links").stdout
            line = next(line for line in printed.splitlines() if line.endswith("PtoP"))
            job.check("100GB/s" in line and "NVLink 2.0 x4" in line and "10.0%" in line, f"links: {printed}")


def doctor(_):
    said = job.run([job.DDL, "doctor"], LD_LIBRARY_PATH=MOCKS).stdout
    job.check(any(line.split()[:3] == ["ok", "NVML", f"{MOCKS}/libnvidia-ml.so.1:"] for line in said.splitlines()), f"doctor says {said}")


def not_wanted(folder):
    job.run([job.TRAIN, "--steps", 1], check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / "c.ddl", DDL_COLLECTORS="mpi")
    job.check(job.store(folder / "c.ddl").execute("SELECT count(*) FROM node_sample").fetchone()[0] == 0, "samples without the collector")


job.main(network, gpus, links, doctor, not_wanted)
