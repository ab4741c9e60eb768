#!/usr/bin/env python3
"""Records an unmodified third-party job and compares v_call with an independent count, per rank and operation, exactly.

Also: in a run of which everything is kept, each collective instance has all members of its communicator, whoever made that communicator how.

    run_job.py JOB --ddl build/release/bin/ddl --count build/release/lib/count_pmpi.so --work DIR

The job runs once, under `ddl record`, with count_pmpi.so behind libddl.so: both see the same calls. Exit code 77: the job is not installed.
"""
import argparse
import collections
import csv
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SKIP = 77
TIMEOUT_S = 240

Job = collections.namedtuple("Job", "package ranks command files known", defaults=((), {}))


def python_with_mpi4py():
    """The system's interpreter has Debian's mpi4py; the one that runs this script may be another."""
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import mpi4py, numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


# One row per job. known: (rank, op) -> (calls, bytes), worked out by hand, so that the count is not believed blindly.
JOBS = {
    "lammps": Job("lammps", 2, lambda: ["lmp", "-in", "in.melt"], ["lammps/in.melt"]),
    "hpcc": Job("hpcc", 2, lambda: ["hpcc"], ["hpcc/hpccinf.txt"]),
    "mpi4py": Job("python3-mpi4py", 3, lambda: [python_with_mpi4py(), "operations.py"], ["mpi4py/operations.py"], {
        # blocking_collectives twice (4 x 10 doubles + 4 ints), then 10 doubles on `parity` and on COMM_SELF, and on `group` without rank 1
        (1, "MPI_Allreduce"): (12, 2 * (4 * 80 + 16) + 80 + 80),
        (0, "MPI_Allreduce"): (13, 2 * (4 * 80 + 16) + 80 + 80 + 80),
        (1, "MPI_Scatter"): (2, 2 * 240),  # the root sends to three
        (0, "MPI_Scatter"): (2, 0),
        (2, "MPI_Alltoallw"): (2, 2 * 2 * (8 + 4 + 1)),
        (1, "MPI_Reduce_scatter"): (2, 2 * 48),
        (0, "MPI_Recv_init"): (1, 9 * 80),  # started 9 times, 10 of 100 doubles arrive
        (0, "MPI_Send_init"): (2, 3 * 80),  # the one to MPI_PROC_NULL sends nothing
        (0, "MPI_Irecv"): (11, 7 * 80 + 2 * 64 + 2 * 12),  # of which one from MPI_PROC_NULL and one cancelled
        (0, "MPI_Imrecv"): (1, 32),
    }),
}


def prepare(job, work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in job.files:
        shutil.copy(HERE / name, work)


def run(command, work):
    """Runs to the end or fails, output shown only then. A job that hangs takes its whole process group with it."""
    log = work / "job.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=work, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = f"no end after {TIMEOUT_S} s"
    if code != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
        sys.exit(f"failed ({code}): {' '.join(map(str, command))}")


def read_count(path):
    """Truth: {(rank, op): (calls, bytes)}."""
    result = {}
    for line in path.read_text().splitlines():
        rank, op, calls, nbytes = line.split()
        result[int(rank), op] = (int(calls), int(nbytes))
    return result


def query(ddl, run_dir, sql):
    text = subprocess.run([ddl, "query", str(run_dir), sql, "--csv"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(csv.DictReader(io.StringIO(text)))


def query_calls(ddl, run_dir):
    rows = query(ddl, run_dir, "SELECT rank, op, sum(calls) AS calls, sum(bytes) AS bytes FROM v_call GROUP BY rank, op")
    return {(int(row["rank"]), row["op"]): (int(row["calls"]), int(row["bytes"])) for row in rows}


def incomplete_instances(ddl, run_dir):
    """Collectives that have more or fewer ranks than members: two communicators under one id, or one under two."""
    rows = query(ddl, run_dir, "SELECT op, comm, seq, comm_size, group_concat(rank, ' ') AS ranks FROM v_collective "
                               "GROUP BY world, comm, op, seq HAVING count(*) <> comm_size")
    return [f"  {row['op']} number {row['seq']} on {row['comm']} of {row['comm_size']}: ranks {row['ranks']}" for row in rows]


def differences(name_a, a, name_b, b, keys):
    absent = ("absent", "absent")
    return [f"  rank {key[0]} {key[1]}: {name_a} {a.get(key, absent)}, {name_b} {b.get(key, absent)}" for key in sorted(keys)
            if a.get(key) != b.get(key)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--ddl", required=True, type=pathlib.Path)
    parser.add_argument("--count", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    options = parser.parse_args()
    job, work = JOBS[options.job], options.work.resolve()

    program = job.command()
    if None in program or not shutil.which(program[0]):
        print(f"skipped: {job.package} is not installed (tools/setup test)")
        return SKIP

    prepare(job, work)
    run([options.ddl.resolve(), "record", "-o", work / "run.ddl", "--", "mpirun", "-np", str(job.ranks), "-x", f"LD_PRELOAD={options.count.resolve()}",
         "-x", f"COUNT_PMPI_OUT={work / 'count.txt'}", *program], work)
    if not (work / "count.txt").exists():
        sys.exit("count_pmpi.so counted nothing: was it preloaded?")
    count, recorded = read_count(work / "count.txt"), query_calls(options.ddl.resolve(), work / "run.ddl")

    wrong = differences("count", count, "by hand", job.known, job.known)
    if wrong:
        sys.exit("\n".join(["the count itself is wrong:", *wrong]))
    wrong = differences("v_call", recorded, "count", count, recorded.keys() | count.keys())
    if wrong:
        sys.exit("\n".join([f"{len(wrong)} of {len(recorded.keys() | count.keys())} differ, as (calls, bytes):", *wrong]))
    wrong = incomplete_instances(options.ddl.resolve(), work / "run.ddl")
    if wrong:
        sys.exit("\n".join(["collectives without exactly their members:", *wrong]))
    print(f"{options.job}: {len(count)} pairs of rank and operation agree, {sum(c for c, _ in count.values())} calls, "
          f"{sum(b for _, b in count.values())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
