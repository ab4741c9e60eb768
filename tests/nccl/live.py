#!/usr/bin/env python3
"""ddl-top on a running job of GPUs: train --device cuda against mocks of CUDA, CUPTI and NCCL. While it runs its ranks and its collectives are told by what the devices did; of one
that was killed nobody claims that its GPUs idled in the end; of one that has ended the spools, of which only the ends are read, say what the store says."""
import json
import signal

import job
import nccl_job

TOP = job.BUILD / "bin" / "ddl-top"
TRAIN = ["mpirun", "-np", 2, job.TRAIN, "--batch", 4, "--bucket-mb", 0.01, "--model", "mlp", "--width", 48, "--print-every", 0, "--device", "cuda", "--reduce", "nccl"]


def look(*arguments):
    return json.loads(job.run([TOP, *arguments, "--json", "-n", "1"], check_rc=0).stdout)


def by_devices(run):
    if not list(run.glob("*.spool")):
        return None
    done = job.run([TOP, run, "--json", "-n", "1"])
    told = json.loads(done.stdout) if done.returncode == 0 else None
    return told if told and told["step"]["by_device"] and told["window"]["steps"] == 30 and told["step"]["waiting_known"] else None


def while_it_runs(folder):
    run = folder / "live.ddl"
    process = job.start([job.DDL, "record", "-o", run, "--", *TRAIN, "--steps", 100000], **nccl_job.environment(DDL_CLOCK="monotonic"))
    try:
        found = {}
        there = job.wait_until(lambda: found.update(by_devices(run) or {}) or found, 60)
        job.check(there, "the job was not shown by its devices within 60 s")
        if not there:
            return
        job.check(found["feed"]["state"] == "live" and not found["run"]["gpus"], f"{found['feed']} {found['run']}")
        job.check(found["step"]["devices_unknown"] == [] and found["step"]["gpu_ccr_raw"], f"{found['step']}")
        rows = {(row["op"], row["ranks"]) for row in found["collectives"]}
        job.check(rows == {("ncclAllReduce", 2)}, f"collectives {found['collectives']}")
        job.check(all(row["wait_ns"] is not None and row["transfer_ns"] > 0 for row in found["collectives"]), f"collectives {found['collectives']}")
        job.check([row["axis"] for row in found["axes"]] == ["all ranks"], f"axes {found['axes']}")
        job.check(all(row["late_ns"] is not None and row["compute_ns"] > 0 for row in found["ranks"]), f"ranks {found['ranks']}")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    killed = look(run)
    job.check(killed["step"]["by_device"] and all(row["compute_ns"] is None or row["compute_ns"] > 0 for row in killed["ranks"]), f"killed: {killed['step']} {killed['ranks']}")


def when_it_has_ended(folder):
    run = folder / "ended.ddl"
    job.run([job.DDL, "record", "-o", run, "--", *TRAIN, "--steps", 400], check_rc=0, **nccl_job.environment(DDL_CLOCK="monotonic"))
    live, replay = look(run), look("--replay", run)
    job.check(live["window"] == replay["window"], f"windows {live['window']}, {replay['window']}")
    for table in ("ranks", "collectives", "axes", "blame"):
        for here, there in zip(live[table], replay[table], strict=True):
            for name, value in there.items():
                if isinstance(value, (int, float)) and name not in ("call_ns", "silent_ns", "lost_events") and not isinstance(value, bool):
                    same = here[name] is not None and abs(here[name] - value) <= max(2, 1e-6 * abs(value))
                    job.check(same, f"{table}: {name}: live {here[name]}, replay {value}; {live['step']}, {replay['step']}")


if __name__ == "__main__":
    job.main(while_it_runs, when_it_has_ended)
