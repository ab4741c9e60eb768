#!/usr/bin/env python3
"""ddl tune finds where ranks belong: by mpirun's --map-by and rankfiles, by srun's --distribution, and plans of rings over two hosts. The program prints a
speed that is twice as high where neighbours in rank order share a host, so that the truth does not depend on the machine. Takes a minute: by hand (label
soak), DDL_BUILD=$PWD/build/release PYTHONPATH=tests/support python3 tests/autotuner/tune_places.py"""
import json

import job
import slurm
import virtual_hosts

virtual_hosts.enter()

SLEEPY = job.BUILD / "tests/programs/sleepy_job"
# Rank 1 is the second of its host beside rank 0, and the first of the other host apart from it.
SCRIPT = """#!/bin/sh
ms=20
[ "${{OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}" = 1 ] && [ "${{OMPI_COMM_WORLD_LOCAL_RANK:-$SLURM_LOCALID}}" = 1 ] && ms=10
exec {sleepy} --unmarked 1 --steps 3 --ms $ms
"""
# The median over all rounds of all ranks would be that of the three others: rank 1 speaks alone.
METRIC = ["--metric", "speed: ([0-9.]+)", "--trials", 16, "--tunable", "algorithm=default"]
MPIRUN = ["mpirun", "-np", 4, "--host", "nodea:2,nodeb:2", "--mca", "mpi_yield_when_idle", 1]


def script(folder):
    path = folder / "places.sh"
    path.write_text(SCRIPT.format(sleepy=SLEEPY).replace("exec", '[ "${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}" = 1 ] || exec > /dev/null\nexec', 1))
    path.chmod(0o755)
    return path


def chosen(tuned, name, value):
    manifest = json.loads((tuned / "manifest.json").read_text())
    choices = {choice["name"]: choice["value"] for choice in manifest["choices"]}
    job.check(choices.get(name) == value and manifest["gain"] and abs(manifest["gain"]["ratio"] - 2) < 0.01, f"{choices} {manifest['gain']} {manifest['kept']}")
    words = " ".join(manifest["tuned_command"])
    job.check(value in words, f"the tuned command does not say {value}: {words}")
    return words


def by_mpirun(folder):
    hosts = virtual_hosts.Hosts(folder)
    program = script(folder)
    hosts.run("nodea", [job.DDL, "tune", "-o", folder / "mapped", *METRIC, "--tunable", "map_by=node,slot", "--", *MPIRUN, "--map-by", "{map_by}", program], check_rc=0)
    chosen(folder / "mapped", "map_by", "slot")
    near, far = folder / "near", folder / "far"
    near.write_text("".join(f"rank {rank}={'nodea' if rank < 2 else 'nodeb'} slot={rank % 2}\n" for rank in range(4)))
    far.write_text("".join(f"rank {rank}={'nodea' if rank % 2 == 0 else 'nodeb'} slot={rank // 2}\n" for rank in range(4)))
    hosts.run("nodea", [job.DDL, "tune", "-o", folder / "ranked", *METRIC, "--tunable", f"rankfile={far},{near}", "--", *MPIRUN, "--rankfile", "{rankfile}", program],
              check_rc=0)
    chosen(folder / "ranked", "rankfile", str(near))


def plans_of_rings(folder):
    """Every plan runs, and the emitted command has the one that was best or the default."""
    hosts = virtual_hosts.Hosts(folder)
    tuned = folder / "rings"
    done = hosts.run("nodea", [job.DDL, "tune", "-o", tuned, "--trials", 18, "--tunable", "dims=4,2x2", "--", *MPIRUN, job.TRAIN, "--steps", 6, "--width", 16,
                               "--print-every", 0, "--allreduce", "multi_ring", "--dims", "{dims}"], check_rc=0)
    job.check("dims=2x2" in done.stderr and "exit code" not in done.stderr, done.stderr)
    manifest = json.loads((tuned / "manifest.json").read_text())
    value = next(choice["value"] for choice in manifest["choices"] if choice["name"] == "dims")
    job.check(manifest["tuned_command"][-1] == value, f"{value}: {manifest['tuned_command']}")


def by_srun(folder):
    cluster = slurm.Cluster(virtual_hosts.Hosts(folder))

    @slurm.unless_mpi_crashes
    def distributed(here):
        words = " ".join(virtual_hosts.quoted(str(word)) for word in [job.DDL, "tune", "-o", "tuned", *METRIC, "--tunable", "distribution=cyclic,block"])
        job_id = cluster.submit(here, f"{words} -- srun --mpi=pmix --distribution={{distribution}} {script(here)} 2>&1")
        cluster.wait(job_id)
        told = chosen(here / "tuned", "distribution", "block")
        job.check("--distribution=block" in (here / "tuned" / "slurm.sh").read_text(), f"slurm.sh does not have {told}")

    distributed(folder)


job.main(by_mpirun, plans_of_rings, by_srun)
