#!/usr/bin/env python3
"""A report of a job that is still running: a snapshot in which nobody is called dead or missing; later it is read again by itself."""
import job


def snapshot(folder):
    run, logs = folder / "running.ddl", [folder / f"calls.{rank}" for rank in range(2)]
    process = job.start([job.DDL, "record", "-o", run, "--", "mpirun", "-np", "2", job.TRAIN, "--width", "64", "--steps", "100000", "--print-every", "0",
                         "--slow-rank", "1:3", "--log-calls", folder / "calls"])
    job.check(job.wait_until(lambda: all(log.exists() and b"MPI_Wait" in log.read_bytes() for log in logs)), "the job did not get going")
    steps = []
    for look in range(2):
        job.report(run)
        db = job.store(run)
        findings = [r["id"] for r in db.execute("select id from finding")]
        job.check(not {"missing_rank", "killed_rank"} & set(findings), f"look {look}: findings of a healthy job: {findings}")
        steps.append(db.execute("select count(*) from v_step where rank = 0").fetchone()[0])
        job.wait_until(lambda: False, 1)
    job.check(steps[1] > steps[0] > 0, f"steps seen at the two looks: {steps}")
    job.stop_group(process)
    process.wait(timeout=30)


job.main(snapshot)
