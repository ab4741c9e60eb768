#!/usr/bin/env python3
"""ddl tune on the trainer, four ranks on two hosts joined by a long cable (2 ms, 1 Gbit/s): the default sends every gradient alone, of few samples.
The tuned configuration must be better on fresh interleaved trials and in force, and the report must explain by waiting and transfer why batch, bucket
and algorithm were chosen. Over that cable an allreduce costs its round trips: Open MPI's own choice for some 26 KB takes twice as many as recursive
doubling.

Takes eight minutes, so it is not part of CI (label soak): DDL_BUILD=$PWD/build/release PYTHONPATH=tests/support python3 tests/autotuner/tune_link.py
"""
import json
import os

import job
import virtual_hosts

virtual_hosts.enter()


def tunes(folder):
    print(f"load average {os.getloadavg()[0]:.1f}")
    hosts = virtual_hosts.Hosts(folder)
    relay = virtual_hosts.lengthen_the_cable(2000, 1000)
    launch = ["mpirun", "-np", 4, "--host", "nodea:2,nodeb:2", "--mca", "mpi_yield_when_idle", 1]
    train = [job.TRAIN, "--no-overlap", "--width", 8, "--steps", 16, "--print-every", 0, "--batch", "{batch}", "--bucket-mb", "{bucket_mb}"]
    tuned = folder / "tuned"
    done = hosts.run("nodea", [job.DDL, "tune", "-o", tuned, "--budget", "240s", "--tunable", "batch=4,8,16,32", "--tunable", "bucket_mb=0,0.0625,0.25",
                               "--", *launch, *train], check_rc=0, timeout=600)
    print(done.stderr[-6000:])
    print(done.stdout)
    manifest = json.loads((tuned / "manifest.json").read_text())
    report = json.loads((tuned / "report.json").read_text())
    if not job.check(manifest["gain"] is not None and manifest["gain"]["lo"] > 1, f"no gain: {report['run']}"):
        return
    changed = {choice["name"] for choice in manifest["choices"] if choice["value"] != choice["default"]}
    job.check(changed == {"algorithm", "batch", "bucket_mb"}, f"changed: {changed}")
    rows = {row["configuration"]: row for row in report["split"]}
    exposed = {name: (row["wait_ns"] + row["transfer_ns"]) / row["samples"] for name, row in rows.items()}
    for name, value in exposed.items():
        print(f"{name}: {value / 1e3:.0f} us of waiting and transfer a sample")
    without = [name for name in rows if name.startswith("tuned, but ")]
    job.check(len(without) == len(changed), f"rows: {list(rows)}")
    job.check(exposed["tuned"] < exposed["default"], "waiting and transfer of a sample did not become less")
    verified = hosts.run("nodea", [job.DDL, "tune", "--verify", tuned, "--rounds", 6], timeout=600)
    print(verified.stdout)
    job.check(verified.returncode == 0, f"--verify: {verified.returncode}\n{verified.stderr[-2000:]}")
    relay.kill()


job.main(tunes)
