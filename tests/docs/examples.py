#!/usr/bin/env python3
"""The job files of docs/examples: scripts run, with an srun that starts the task here; the pods of Kubernetes are taken
apart, and what their containers do with the files of ddl is done here. No cluster is needed, and none has been asked.
"""
import os
import re
import subprocess
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
DEMO = job.BUILD / "share" / "ddl" / "demo" / "train.ddl"
# DDL is where the container has /opt/ddl.
SRUN = '#!/bin/bash\nwhile [[ $1 = --* ]]; do shift; done\nexec "${@//\\/opt\\/ddl/$DDL}"\n'


def slurm_and_pyxis(folder):
    installed = folder / "installed"
    (installed / "lib" / "ddl").mkdir(parents=True)
    (installed / "lib" / "ddl" / "libddl.so").symlink_to(job.LIBRARY)
    (installed / "share").symlink_to(job.BUILD / "share")
    (installed / "bin").symlink_to(job.BUILD / "bin")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "srun").write_text(SRUN)
    (tools / "srun").chmod(0o755)
    program = f'cp -r {DEMO} "$DDL_OUT"; ls "$LD_PRELOAD"; echo "$PYTHONPATH"; echo "$1"'
    done = subprocess.run(
        [EXAMPLES / "slurm-pyxis.sh", "sh", "-c", program, "sh", "an argument"],
        capture_output=True,
        text=True,
        timeout=60,
        env=job.environment(
            DDL=installed, SLURM_JOB_ID=7, IMAGE="x", PATH=f"{tools}:{os.environ['PATH']}", PYTHONPATH="/mine"
        ),
    )
    lines = done.stdout.splitlines()
    job.check(done.returncode == 0 and len(lines) >= 4, f"{done.returncode}: {done.stdout}{done.stderr}")
    job.check(
        lines[:3]
        == [str(installed / "lib/ddl/libddl.so"), f"{installed}/share/ddl/python/ddl_hooks:/mine", "an argument"],
        f"the task has {lines}",
    )
    job.check("rank 2" in done.stdout, f"no report: {done.stdout}")
    job.check(Path("train-7.ddl").is_dir(), "the run is elsewhere")


def pods(folder):
    try:
        import yaml
    except ImportError:
        print("not tried: pods, which need python3-yaml")
        return
    for path in sorted(EXAMPLES.glob("*.yaml")):
        pytorch_job = yaml.safe_load(path.read_text())
        replicas = pytorch_job["spec"]["pytorchReplicaSpecs"]
        job.check(
            pytorch_job["kind"] == "PyTorchJob" and set(replicas) == {"Master", "Worker"}, f"{path.name}: {replicas}"
        )
        job.check(
            replicas["Master"]["template"] == replicas["Worker"]["template"], f"{path.name}: Master and Worker differ"
        )
        pod = replicas["Worker"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        here = folder / path.stem
        for name in ("ddl", "runs"):
            (here / name).mkdir(parents=True)

        def as_here(word, mounts):
            """A word of a container's command, with its mounts, and the folders of ddl's image, as they are here."""
            for mounted in sorted(mounts, reverse=True):
                word = re.sub(rf"(?<![\w/]){mounted}\b", str(here / mounts[mounted]), word)
            return word.replace("/usr/lib/ddl", str(job.BUILD / "lib")).replace(
                "/usr/share/ddl", str(job.BUILD / "share" / "ddl")
            )

        for container in pod["initContainers"] + pod["containers"]:
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            job.check(
                set(mounts.values()) <= volumes, f"{path.name}: {container['name']} mounts what is not there: {mounts}"
            )
            command = [as_here(word, mounts) for word in container["command"]]
            if container["name"] == "keep":
                (here / "runs" / "collected").touch()
            if container["name"] != "pytorch":
                done = job.run(command, timeout=20)
                job.check(done.returncode == 0, f"{path.name}: {container['name']}: {command}: {done.stderr}")
                continue
            # Behind the init container: what the variables name is there, and a program runs with them.
            variables = {row["name"]: as_here(row["value"], mounts) for row in container["env"]}
            job.check(Path(variables["LD_PRELOAD"]).is_file(), f"{path.name}: {variables}")
            job.check(
                variables["DDL_OUT"].startswith(str(here / "runs")),
                f"{path.name}: the run lies in no volume: {variables}",
            )
            job.check(
                Path(variables["PYTHONPATH"], "sitecustomize.py").is_file(), f"{path.name}: no hooks: {variables}"
            )
            done = job.run(["python3", "-c", "print(1)"], **variables)
            job.check(
                (done.returncode, done.stdout, done.stderr) == (0, "1\n", ""),
                f"{path.name}: {done.stdout}{done.stderr}",
            )
        print(f"{path.name}: {len(pod['containers'])} containers, {len(volumes)} volumes")


job.main(slurm_and_pyxis, pods)
