#!/usr/bin/env python3
"""ddl tune on the trainer, four ranks on two hosts joined by a slow cable (200 Mbit/s): the default sends every gradient alone, with little computing
between. The tuned configuration must be better on fresh interleaved trials, in force where it names algorithms, and explained by the report.

Takes six minutes, so it is not part of CI (label soak): DDL_BUILD=build/release PYTHONPATH=tests/support python3 tests/autotuner/tune_link.py
"""
import json

import job
import virtual_hosts

virtual_hosts.enter()


def tunes(folder):
    hosts = virtual_hosts.Hosts(folder)
    virtual_hosts.slow_the_cable("200mbit")
    launch = ["mpirun", "-np", 4, "--host", "nodea:2,nodeb:2"]
    train = [job.TRAIN, "--no-overlap", "--width", 128, "--steps", 12, "--print-every", 0, "--batch", "{batch}", "--bucket-mb", "{bucket_mb}"]
    tuned = folder / "tuned"
    done = hosts.run("nodea", [job.DDL, "tune", "-o", tuned, "--budget", "150s", "--tunable", "batch=8,16,32,64", "--tunable", "bucket_mb=0,0.0625,0.25,1,4",
                               "--", *launch, *train], check_rc=0, timeout=600)
    print(done.stdout)
    manifest = json.loads((tuned / "manifest.json").read_text())
    report = json.loads((tuned / "report.json").read_text())
    if not job.check(manifest["gain"] is not None and manifest["gain"]["lo"] > 1, f"no gain: {report['run']}\n{done.stderr[-3000:]}"):
        return
    default, best = report["split"]
    exposed = [row["wait_ns"] + row["transfer_ns"] for row in (default, best)]
    per_sample = [time / row["samples"] for time, row in zip(exposed, (default, best))]
    job.check(per_sample[1] < per_sample[0], f"waiting and transfer of a sample did not become less: {per_sample} ns")
    verified = hosts.run("nodea", [job.DDL, "tune", "--verify", tuned, "--rounds", 6], check_rc=0, timeout=600)
    print(verified.stdout)


job.main(tunes)
