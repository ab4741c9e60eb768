#!/usr/bin/env python3
"""Runs that earlier versions recorded, and what those said of them: this version reads them, and every number and key
of `ddl report --json` is still there, the same.

    check.py                 all archives of this folder: VERSION-NAME.tar.gz holds NAME.ddl and NAME.json
    check.py record FOLDER   records such runs with this version, for its release, and packs them into FOLDER
    check.py write NAME...   what is said now becomes what was said: after a fix that the changelog tells

Keys and metrics may come, words may change; rows of other tables stay as many, in their order.
"""
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import job

HERE = Path(__file__).resolve().parent
TRAIN = ["--model", "mlp", "--width", "32", "--batch", "8", "--print-every", "0"]
RANK_1_IS_KILLED = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec timeout -s KILL 2 "$0" "$@"; fi; exec "$0" "$@"'
RUNS = {
    "slow": ([*job.mpirun(3, ["./train", *TRAIN, "--steps", "20", "--slow-rank", "1:5"])], 0),
    "killed": ([*job.mpirun(2, ["sh", "-c", RANK_1_IS_KILLED, "./train", *TRAIN, "--steps", "1000000", "--slow-rank", "0:200"])], None),
    "stepless": ([*job.mpirun(2, ["./sleepy_job", "--ms", "5", "--steps", "12"])], 0),
}


def said_of(run):
    return json.loads(job.run([job.DDL, "report", run, "--json"], check_rc=0).stdout)


def differences(before, now, at=""):
    if isinstance(before, dict):
        if not isinstance(now, dict):
            yield f"{at}: was an object"
            return
        for key, value in before.items():
            yield from [f"{at}.{key}: is gone"] if key not in now else differences(value, now[key], f"{at}.{key}")
    elif at == ".metrics":  # more may have come
        rows = {row["id"]: row for row in now}
        for row in before:
            yield from differences(row, rows.get(row["id"]), f"{at}.{row['id']}")
    elif isinstance(before, list):
        if not isinstance(now, list) or len(before) != len(now):
            yield f"{at}: had {len(before)} rows"
            return
        for number, (left, right) in enumerate(zip(before, now)):
            yield from differences(left, right, f"{at}[{number}]")
    elif isinstance(before, str):
        if not isinstance(now, str):
            yield f"{at}: was text"
    elif isinstance(before, float) and isinstance(now, (int, float)):
        if not math.isclose(before, now, rel_tol=1e-9):
            yield f"{at}: was {before}, is {now}"
    elif before != now:
        yield f"{at}: was {before}, is {now}"


def numbers_of(value):
    if isinstance(value, (dict, list)):
        return sum(map(numbers_of, value.values() if isinstance(value, dict) else value))
    return isinstance(value, (int, float))


def pack(folder, name, archive):
    same_bytes = "--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0"
    subprocess.run(f"tar -C {folder} {same_bytes} --exclude='run.sqlite*' -cf - {name}.ddl {name}.json | gzip -9n > {archive}",
                   shell=True, check=True)


def record(target):
    version = job.run([job.DDL, "--version"]).stdout.split()[1]
    for name, (command, code) in RUNS.items():
        for program in (job.TRAIN, job.BUILD / "tests" / "programs" / "sleepy_job"):
            shutil.copy(program, ".")
        done = job.record(f"{name}.ddl", command)
        job.check(code is None or done.returncode == code, f"{name}: {done.stdout}{done.stderr}")
        # None of these is there when the test reads.
        for path in (Path("train"), Path("sleepy_job"), *Path(f"{name}.ddl").glob("run.sqlite*")):
            path.unlink()
        Path(f"{name}.json").write_text(json.dumps(said_of(f"{name}.ddl"), indent=1))
        pack(Path.cwd(), name, target / f"{version}-{name}.tar.gz")


def read_all(folder):
    archives = sorted(HERE.glob("*.tar.gz"))
    job.check(len(archives) >= 3, f"{len(archives)} archives")
    for archive in archives:
        name = archive.name.removesuffix(".tar.gz").split("-", 1)[1]
        place = folder / archive.name
        place.mkdir()
        subprocess.run(["tar", "-xzf", archive, "-C", place], check=True)
        before, now = json.loads((place / f"{name}.json").read_text()), said_of(place / f"{name}.ddl")
        if sys.argv[1:2] == ["write"] and name in sys.argv[2:]:
            (place / f"{name}.json").write_text(json.dumps(now, indent=1))
            pack(place, name, archive)
            before = now
        found = list(differences(before, now))
        job.check(not found, f"{archive.name}: {len(found)} differences: {found[:20]}")
        print(f"{archive.name}: {numbers_of(before)} numbers as they were" if not found else "")


if sys.argv[1:2] == ["record"]:
    target = Path(sys.argv[2]).resolve()
    job.main(lambda folder: record(target))
else:
    job.main(read_all)
