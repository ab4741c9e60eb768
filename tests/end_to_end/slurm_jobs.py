#!/usr/bin/env python3
"""Jobs of a two-node Slurm: mpirun and srun, recorded by `ddl record` and by LD_PRELOAD alone, cancelled, in an array; and the epilogue that is shipped."""
import json
import os
import pwd
import re
import shutil
import tempfile
from pathlib import Path

import job
import slurm
import virtual_hosts

virtual_hosts.enter()

TRAIN = f"{job.TRAIN} --no-overlap --width 64 --print-every 0"
PRELOAD = f"export LD_PRELOAD={job.LIBRARY}\n"
# Its ranks sleep: those of a trainer would wait for each other on both cores until it is cancelled.
ENDLESS = f"srun --mpi=pmix {job.BUILD / 'tests' / 'programs' / 'sleepy_job'} --ms 20 --steps 100000"
PREFIX = Path("/run/ddl")  # the shape of an installation
HISTORY = Path("/run/history/runs.sqlite")
cluster = None


def place(folder, name):
    here = folder / name
    here.mkdir()
    return here


def check_run(run, job_id, step_id, ranks=4):
    """All ranks, each on its node, and the ids of the job in the store and in the reports."""
    db = job.store(run)
    seen = [tuple(r) for r in db.execute("select rank, host, local_rank from v_rank order by rank")]
    expected = [(rank, virtual_hosts.NAMES[rank * 2 // ranks], rank % (ranks // 2)) for rank in range(ranks)]
    job.check(seen == expected, f"{run.name}: ranks {seen}, expected {expected}")
    nodes = [r[0] for r in db.execute("select f.value from process_fact f join v_rank r using (process) where key = 'env.SLURMD_NODENAME' order by rank")]
    job.check(nodes == [host for _, host, _ in expected], f"{run.name}: nodes {nodes}")
    ids = dict(db.execute("select key, value from meta where key like 'job_%id'").fetchall())
    job.check(ids == {"job_id": job_id, **({"job_step_id": step_id} if step_id else {})}, f"{run.name}: ids {ids}, expected {job_id}.{step_id}")
    told = json.loads(job.report(run, "--json").stdout)["run"]
    job.check((told["job_id"], told["job_step_id"]) == (job_id, step_id), f"{run.name}: --json says {told['job_id']}, {told['job_step_id']}")
    name = f"job {job_id}.{step_id}   " if step_id else f"job {job_id}   "
    text = job.report(run).stdout
    job.check(text.startswith(f"train   {name}{ranks} ranks on 2 hosts   "), f"{run.name}: {text[:80]}")


def start_cluster(folder):
    global cluster
    epilog = PREFIX / "share" / "ddl" / "slurm" / "epilog.sh"
    for source, installed in ((job.DDL, PREFIX / "bin" / "ddl"), (Path(__file__).parents[2] / "tools" / "slurm" / "epilog.sh", epilog)):
        installed.parent.mkdir(parents=True)
        shutil.copy(source, installed)
    # As an operator writes it: the epilogue that ships, with a history.
    site = PREFIX / "epilog-of-the-site.sh"
    site.write_text(f"#!/bin/sh\nDDL_HISTORY={HISTORY} exec {epilog}\n")
    site.chmod(0o755)
    HISTORY.parent.mkdir(mode=0o777)
    cluster = slurm.Cluster(virtual_hosts.Hosts(folder), epilog=site)


@slurm.unless_mpi_crashes
def recorded(folder):
    here = place(folder, "recorded")
    job_id = cluster.submit(here, f"{job.DDL} record -o mpirun.ddl -- mpirun {TRAIN} --steps 5\n{job.DDL} record -o srun.ddl -- srun --mpi=pmix {TRAIN} --steps 5")
    cluster.wait(job_id)
    check_run(here / "mpirun.ddl", job_id, None)
    check_run(here / "srun.ddl", job_id, "1")  # step 0 were mpirun's daemons
    for run in ("mpirun.ddl", "srun.ddl"):
        text = (here / run / "report.txt").read_text()
        job.check(f"Slurm job {job_id} on nodea,nodeb has ended. What it left:\ntrain   job {job_id}" in text, f"epilogue of {run}: {text[:300]}")
        job.check(re.search(rf"added \S*/{run}: train, 4 ranks on 2 hosts", text), f"the epilogue did not add {run}: {text[-300:]}")
    rows = [row for row in json.loads(job.run([job.DDL, "history", "list", "--json", "--database", HISTORY], check_rc=0).stdout)["runs"] if row["job_id"] == job_id]
    job.check(len(rows) == 2 and all((row["ranks"], row["hosts"], row["name"]) == (4, 2, "train") for row in rows), f"the history: {rows}")


@slurm.unless_mpi_crashes
def preloaded(folder):
    """mpirun's own ranks are in no step, those of the other node in that of its daemons: one directory all the same."""
    here = place(folder, "preloaded")
    job_id = cluster.submit(here, PRELOAD + f"srun --mpi=pmix {TRAIN} --steps 5\nmpirun {TRAIN} --steps 5\nsrun --ntasks=2 --mpi=pmix {TRAIN} --steps 5")
    cluster.wait(job_id)
    runs = sorted(path.name for path in here.glob("*.ddl"))
    job.check(runs == [f"ddl-{job_id}.0.ddl", f"ddl-{job_id}.2.ddl", f"ddl-{job_id}.ddl"], f"run directories {runs}")
    check_run(here / f"ddl-{job_id}.0.ddl", job_id, "0")
    check_run(here / f"ddl-{job_id}.ddl", job_id, None)
    check_run(here / f"ddl-{job_id}.2.ddl", job_id, "2", ranks=2)
    job.check(all((here / run / "report.txt").exists() for run in runs), "no report of the epilogue")


@slurm.unless_mpi_crashes
def array(folder):
    here = place(folder, "array")
    job_id = cluster.submit(here, PRELOAD + f"srun --mpi=pmix {TRAIN} --steps 5", "--array=7,9", "--nodes=1", "--ntasks=1")
    cluster.wait(job_id)
    tasks = {}
    for run in here.glob("*.ddl"):
        facts = dict(job.store(run).execute("select key, value from process_fact").fetchall())
        tasks[facts["env.SLURM_ARRAY_TASK_ID"]] = (facts["env.SLURM_ARRAY_JOB_ID"], run.name == f"ddl-{facts['job_id']}.0.ddl")
    job.check(tasks == {"7": (job_id, True), "9": (job_id, True)}, f"array tasks: {tasks}")


def are_training(folder):
    runs = list(folder.glob("*.ddl"))
    if not runs or len(list(runs[0].glob("*.spool"))) < 4:
        return False
    done = job.run([job.DDL, "query", "--no-header", runs[0], "select count(distinct process) from step"])
    return done.stdout.strip() == "4"


@slurm.unless_mpi_crashes
def cancelled(folder):
    """As at a time limit: SIGTERM to all, SIGKILL later."""
    for name, script, words in (("cancelled", PRELOAD + ENDLESS, []), ("cancelled_record", f"{job.DDL} record -- {ENDLESS}", ["The job failed: exit code 143 (SIGTERM)."])):
        here = place(folder, name)
        job_id = cluster.submit(here, script)
        job.check(job.wait_until(lambda: cluster.check_mpi(job_id) or are_training(here), 60), f"{name}: the job does not start: {cluster.logs()}")
        cluster.on("nodea", ["scancel", job_id])
        cluster.wait(job_id, "CANCELLED")
        reports = [path.read_text() for path in here.glob("*.ddl/report.txt")]
        job.check(len(reports) == 1, f"{name}: {len(reports)} reports")
        for part in (f"Slurm job {job_id} on nodea,nodeb has ended.", f"job {job_id}.0   4 ranks on 2 hosts", "ranks 0-3 ended without MPI_Finalize", *words):
            job.check(part in "".join(reports), f"{name}: the report does not say '{part}':\n{''.join(reports)[:500]}")


@slurm.unless_mpi_crashes
def of_somebody_else(folder):
    """The epilogue runs as root, and writes as the user."""
    nobody = pwd.getpwnam("nobody")
    if len(Path("/proc/self/uid_map").read_text().split()) != 3 or int(Path("/proc/self/uid_map").read_text().split()[2]) <= nobody.pw_uid:
        print("no other user in this user namespace: not tested")
        return
    here = Path(tempfile.mkdtemp(prefix="ddl-test-nobody-"))
    try:
        os.chown(here, nobody.pw_uid, nobody.pw_gid)
        job_id = cluster.submit(here, PRELOAD + f"srun --mpi=pmix {TRAIN} --steps 5", f"--uid={nobody.pw_uid}", f"--gid={nobody.pw_gid}")
        cluster.wait(job_id)
        owners = {path.name: path.stat().st_uid for path in here.glob("*.ddl/*") if path.suffix in (".txt", ".sqlite")}
        job.check(owners == {"report.txt": nobody.pw_uid, "run.sqlite": nobody.pw_uid}, f"owners of what the epilogue wrote: {owners}")
    finally:
        shutil.rmtree(here)


def nothing_to_report(folder):
    """A job without a recording, beside those of others: left alone, and no node was drained by all these epilogues."""
    here = place(folder, "nothing")
    (here / "other.ddl").mkdir()
    (here / "other.ddl" / "job.json").write_text('{"job_id": "1"}')
    (here / "fifo.ddl").mkdir()
    os.mkfifo(here / "fifo.ddl" / "job.json")  # holds whoever opens it; what else may lie there: epilogue.py
    cluster.wait(cluster.submit(here, "true"))
    job.check([path.name for path in (here / "other.ddl").iterdir()] == ["job.json"], "the epilogue wrote into somebody else's recording")
    states = cluster.on("nodea", ["sinfo", "-h", "-N", "-o", "%T"]).stdout.split()
    job.check(states == ["idle", "idle"], f"nodes are {states}")


job.main(start_cluster, recorded, preloaded, array, cancelled, of_somebody_else, nothing_to_report)
