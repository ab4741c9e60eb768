#!/usr/bin/env python3
"""ddl analyze --on slurm:N on a two-node Slurm: the store of an analysis in one process, one part killed, the same command once more."""
import os
import subprocess
import time
from pathlib import Path

import job
import slurm
import virtual_hosts
from store_dump import store_dump

virtual_hosts.enter()

RUN = Path("big.ddl")
STORE = RUN / "run.sqlite"
RANKS = 1024
cluster = None


def start_cluster(folder):
    global cluster
    cluster = slurm.Cluster(virtual_hosts.Hosts(folder))


def queue():
    return cluster.on("nodea", ["squeue", "-h", "-o", "%F"]).stdout.split()


def pid_of(words):
    """Of a process of ddl whose command line ends so."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (line := (entry / "cmdline").read_bytes().decode().split("\0"))[0].endswith("/ddl") and words in line:
                return int(entry.name)
        except OSError:
            pass
    return None


def in_one(folder):
    global expected
    job.run([job.BUILD / "bin" / "bench_sized_run", RUN, RANKS], check_rc=0)
    job.run([job.DDL, "analyze", RUN], check_rc=0)
    expected = store_dump(STORE)
    STORE.unlink()


def on_slurm(folder):
    done = cluster.on("nodea", [job.DDL, "analyze", RUN, "--on", "slurm:4"], check_rc=0)
    job.check("4 parts are Slurm job " in done.stderr, f"what was submitted: {done.stderr}")
    job.check(store_dump(STORE) == expected, "the store is another one")
    job.check(not (RUN / "parts").exists() and not queue(), "something is left")
    STORE.unlink()


def kill_part(words):
    """Kills the part; False: all parts were there before it was seen."""
    agent = subprocess.Popen([cluster.hosts.agent, "nodea", f"cd {os.getcwd()} && exec env SLURM_CONF={slurm.PLACE}/slurm.conf {job.DDL} analyze {RUN} --on slurm:4"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    hit = False
    while not hit and agent.poll() is None:
        if pid := pid_of(words):
            os.kill(pid, 9)
            hit = True
        time.sleep(0.002)
    error = agent.stderr.read()
    agent.wait()
    if not hit or agent.returncode == 0:
        STORE.unlink(missing_ok=True)
        return False
    job.check(agent.returncode == 1 and "1 of 4 parts failed: part 3" in error, f"a part was killed: {agent.returncode}, {error}")
    return True


def killed(folder):
    if not job.check(any(kill_part("3/4") for _ in range(10)), "no part could be killed in ten attempts"):
        return
    job.check(not queue(), f"the merge behind it is gone: {queue()}")
    parts = sorted(path.name for path in (RUN / "parts").glob("part-*.sqlite"))
    job.check(parts == [f"part-{k}-of-4.sqlite" for k in (1, 2, 4)], f"the others are kept: {parts}")
    done = cluster.on("nodea", [job.DDL, "analyze", RUN, "--on", "slurm:4"], check_rc=0)
    job.check("1 part is Slurm job " in done.stderr, f"only what is missing is submitted: {done.stderr}")
    job.check(store_dump(STORE) == expected and not (RUN / "parts").exists(), "after a part was killed: the store is another one, or something is left")
    STORE.unlink()


def interrupted(folder):
    """SIGTERM while the jobs wait: they go with us."""
    for name in virtual_hosts.NAMES:
        cluster.on(name, ["scontrol", "update", f"NodeName={name}", "State=DRAIN", "Reason=test"])
    agent = subprocess.Popen([cluster.hosts.agent, "nodea", f"cd {os.getcwd()} && exec env SLURM_CONF={slurm.PLACE}/slurm.conf {job.DDL} analyze {RUN} --on slurm:2"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    job.check(job.wait_until(lambda: len(set(queue())) == 2), f"two jobs wait: {queue()}")
    os.kill(pid_of("slurm:2"), 15)
    error = agent.stderr.read()
    agent.wait()
    job.check(agent.returncode != 0 and "interrupted" in error, f"ended with {agent.returncode}: {error}")
    job.check(job.wait_until(lambda: not queue()), f"they are cancelled: {queue()}")
    for name in virtual_hosts.NAMES:
        cluster.on(name, ["scontrol", "update", f"NodeName={name}", "State=RESUME"])
    done = cluster.on("nodea", ["env", "SBATCH_PARTITION=nobody", job.DDL, "analyze", RUN, "--on", "slurm:2"])
    job.check(done.returncode == 125 and "sbatch refused the job" in done.stderr and "SBATCH_PARTITION" in done.stderr, f"refused: {done.stderr}")


if __name__ == "__main__":
    job.main(start_cluster, in_one, on_slurm, killed, interrupted)
