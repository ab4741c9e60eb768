#!/usr/bin/env python3
"""tuned.env0 by the real sbatch, slurm.sh in a real job script: what srun's tasks have in their environment."""
import job
import slurm
import virtual_hosts

virtual_hosts.enter()

SAMPLE = job.BUILD / "tests" / "programs" / "emit_sample"
MESSAGE = "a 'b' \"c\" $HOME `id` \\ \x1b[31m\nsecond line;#"
ALGO = "allreduce:tree,ring;broadcast:ring"
# One line per task: what it has. --export-file replaces the submitter's environment, PATH too.
TASK = "srun -l /usr/bin/python3 -c 'import os; print(repr((os.environ.get(\"NCCL_ALGO\"), os.environ.get(\"MESSAGE\"), \"HOME\" in os.environ)))'"


def seen(cluster, folder, name, script, *options, **env):
    here = folder / name
    here.mkdir()
    (here / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    done = cluster.on("nodea", ["sbatch", "--parsable", "--nodes=2", "--ntasks=4", "--output=job.out", f"--chdir={here}", *options, here / "job.sh"], **env)
    job.check(done.returncode == 0, f"{name}: sbatch: {done.stderr} {cluster.logs()}")
    job_id = done.stdout.strip()
    cluster.outputs[job_id] = here / "job.out"
    cluster.wait(job_id)
    lines = (here / "job.out").read_text().splitlines()
    job.check(sorted(line.split(":")[0] for line in lines) == ["0", "1", "2", "3"], f"{name}: {lines}")
    return {line.split(": ", 1)[1] for line in lines}


def test_slurm(folder):
    directory = folder / "tuned"
    job.run([SAMPLE, "tuned", directory], check_rc=0)
    cluster = slurm.Cluster(virtual_hosts.Hosts(folder))
    tuned = {repr((ALGO, MESSAGE, True))}
    got = seen(cluster, folder, "script", f". {directory}/slurm.sh\n{TASK}", NCCL_ALGO="mine")
    job.check(got == tuned, f"slurm.sh: {got}")
    got = seen(cluster, folder, "file", TASK, f"--export-file={directory}/tuned.env0", NCCL_ALGO="mine")
    job.check(got == {repr((ALGO, MESSAGE, False))}, f"--export-file: {got}")


if __name__ == "__main__":
    job.main(test_slurm)
