#!/usr/bin/env python3
"""Any MPI program, without and with the library: the same exit code and output, and calls and bytes of every rank, operation and communicator as an
independent count has them (count_pmpi.c). For programs that no test installs (docs/mpi-test-suites.md).

    compare.py [--ranks 2] [--files FOLDER] [--stdin FILE] [--name NAME] [--launcher 'mpirun ...'] -- PROGRAM [ARGUMENT...]

The program runs three times in a folder of its own, which begins as a copy of FOLDER: twice without, once under `ddl record` with count_pmpi.so. Lines that
differ without the library, or are about times, may differ with it in their numbers only; all others must be there, each as often. Prints a row of
a table, or what differs, with exit code 1.
"""
import argparse
import collections
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import run_job  # noqa: E402

BUILD = pathlib.Path(os.environ.get("DDL_BUILD", HERE.parents[1] / "build" / "release"))


TIMED = re.compile(r"\d\s*(s|ms|us|sec\w*|[MGk]?B/s|[MGmg]flops?\w*)\b|\b(time|rate|date|wall|cpu|bandwidth|used)\b|\d:\s*\d", re.IGNORECASE)


def skeleton(line):
    line = re.sub(r"[-+]?\d+(\.\d*)?([eEdD][-+]?\d+)?|[-+]?\.\d+([eEdD][-+]?\d+)?", "#", line)
    return re.sub(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b|\s+", "", line)


def run(command, files, stdin, timeout, **env):
    with tempfile.TemporaryDirectory(prefix="ddl-compare-") as folder:
        if files:
            shutil.copytree(files, folder, dirs_exist_ok=True)
        with open(stdin or os.devnull) as source:
            done = subprocess.run(command, cwd=folder, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                                  env={**os.environ, **{k: str(v) for k, v in env.items()}})
    return done.returncode, done.stdout.decode(errors="replace").splitlines(), done.stderr.decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--files", type=pathlib.Path, help="what the program reads")
    parser.add_argument("--stdin", help="its standard input")
    parser.add_argument("--name")
    parser.add_argument("--launcher", default="mpirun")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    name = options.name or pathlib.Path(options.command[0]).name
    job = [*shlex.split(options.launcher), "-np", str(options.ranks), *options.command]

    plain = [run(job, options.files, options.stdin, options.timeout) for _ in range(2)]
    with tempfile.TemporaryDirectory(prefix="ddl-compare-run-") as work:
        work = pathlib.Path(work)
        code, lines, errors = run([BUILD / "bin" / "ddl", "record", "-o", work / "run.ddl", "--", *job], options.files, options.stdin, options.timeout,
                                  LD_PRELOAD=BUILD / "lib" / "count_pmpi.so", COUNT_PMPI_OUT=work / "count.txt")
        wrong = []
        if code not in {one[0] for one in plain}:
            wrong.append(f"  exit codes {[one[0] for one in plain]} without, {code} with the library: {errors[-1500:]}")
        counts = [collections.Counter(one[1]) for one in plain]
        same = collections.Counter({line: n for line, n in (counts[0] & counts[1]).items() if not TIMED.search(line)})
        traced = collections.Counter(lines)
        wrong += [f"  missing with the library: {line}" for line in (same - traced)]
        varying = [collections.Counter(skeleton(line) for line in (c - same).elements()) for c in (*counts, traced)]
        if varying[2] not in varying[:2]:
            a, b = varying[0], varying[2]
            wrong += [f"  without: {line}" for line in (a - b)] + [f"  with: {line}" for line in (b - a)]
        triples = calls = nbytes = 0
        if (work / "count.txt").exists():
            count = run_job.read_count(work / "count.txt")
            recorded = run_job.query_calls(BUILD / "bin" / "ddl", work / "run.ddl")
            wrong += run_job.differences("recorded", recorded, "counted", count, recorded.keys() | count.keys())
            wrong += run_job.incomplete_instances(BUILD / "bin" / "ddl", work / "run.ddl")
            triples, calls, nbytes = len(count), sum(c for c, _ in count.values()), sum(b for _, b in count.values())
            operations = len({op for _, op, _ in count})
        else:
            wrong.append("  count_pmpi.so counted nothing: the program called no MPI_Finalize")
            operations = 0
    if wrong:
        print(f"{name}: DIFFERS", *wrong[:30], sep="\n")
        return 1
    print(f"| {name} | {options.ranks} | exit code {code}, {sum(same.values())} lines equal, {sum(varying[2].values())} but for their numbers | "
          f"{operations} operations, {triples} triples, {calls:,} calls, {nbytes:,} bytes |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
