#!/usr/bin/env python3
"""ddl collect: what it prints, given to a shell with an ssh and a kubectl that reach folders of this machine, brings a
run together that tells the same as the whole one; whatever its folders are called. Invalid hosts are refused."""
import json
import os
import shutil
import subprocess
from pathlib import Path

import job

DEMO = job.BUILD / "share" / "ddl" / "demo" / "train.ddl"
# The host's folder is where commands run there; kubectl's has a "--" in front of the command.
SSH = 'cd "$HOSTS/$1" || exit 255\nshift\nexec sh -c "$*"\n'
KUBECTL = (
    '[ "$1 $2 $3" = "exec --namespace=ml --container=keep" ] || exit 2\nshift 3\ncd "$HOSTS/$1" || exit 1\n'
    '[ "$2" = -- ] || exit 2\nshift 2\nexec "$@"\n'
)
AWKWARD = "it's $(touch x)\";.ddl"


def scattered(folder):
    """The shipped run, its four ranks on three hosts in a folder with an awkward name."""
    for i, spool in enumerate(sorted(DEMO.glob("*.spool"))):
        there = folder / "hosts" / f"n{i % 3}" / AWKWARD
        there.mkdir(parents=True, exist_ok=True)
        shutil.copy2(spool, there)
        shutil.copy2(DEMO / "job.json", there)
    tools = folder / "tools"
    tools.mkdir()
    for name, text in (("ssh", SSH), ("kubectl", KUBECTL)):
        (tools / name).write_text("#!/bin/sh\n" + text)
        (tools / name).chmod(0o755)
    (tools / "ddl").symlink_to(job.DDL)
    return {"HOSTS": folder / "hosts", "PATH": f"{tools}:{os.environ['PATH']}"}


def brings_it_together(folder):
    where = scattered(folder)
    shutil.copytree(DEMO, "whole.ddl", ignore=shutil.ignore_patterns("run.sqlite*"))
    whole = json.loads(job.report("whole.ddl", "--json").stdout)
    for by, options in (("ssh", []), ("kubectl", ["--namespace", "ml", "--container", "keep"]), ("rsync", [])):
        if not shutil.which(by, path=str(where["PATH"])):
            print(f"not tried: {by}, which is not installed")
            continue
        run = Path(f"{by} {AWKWARD}")
        told = job.run(
            [job.DDL, "collect", run, "--from", "n0,n1,n2", "--by", by, "--at", AWKWARD, *options], check_rc=0
        )
        job.check(not run.exists(), f"{by}: something was done already")
        done = subprocess.run(
            ["sh", "-e"], input=told.stdout, env=job.environment(**where), capture_output=True, text=True, timeout=60
        )
        job.check(done.returncode == 0 and "rank 2" in done.stdout, f"{by}: {done.stdout}{done.stderr}\n{told.stdout}")
        gathered = json.loads(job.report(run, "--json").stdout)
        for part in ("findings", "ranks", "collectives"):
            job.check(gathered[part] == whole[part], f"{by}: {part} differ from those of the whole run")
        job.check(
            {path.name for path in run.glob("*.spool")} == {path.name for path in DEMO.glob("*.spool")}, f"{by}: files"
        )
        job.check((run / "job.json").read_bytes() == (DEMO / "job.json").read_bytes(), f"{by}: job.json")
        again = job.run([job.DDL, "collect", run, "--from", "n1", "--by", by, *options], check_rc=0).stdout
        job.check("mkdir" not in again and "job.json" not in again, f"{by}: what is there is made again: {again}")
    job.check(not list(Path(".").rglob("x")), "a name was taken for a command")


def refuses(folder):
    for words in (
        ["a.ddl"],
        ["--from", "n1"],
        ["a.ddl", "--from", "-oProxyCommand=x"],
        ["a.ddl", "--from", "n1;reboot"],
        ["a.ddl", "--from", ","],
        ["a.ddl", "--from", "n1", "--by", "carrier"],
        ["a.ddl", "--from", "n1", "--container", "c"],
        ["a.ddl", "--from", "n1", "--by", "kubectl", "--namespace", "a b"],
    ):
        done = job.run([job.DDL, "collect", *words])
        job.check(done.returncode == 2 and done.stdout == "", f"{words}: {done.returncode} {done.stdout}{done.stderr}")


job.main(brings_it_together, refuses)
