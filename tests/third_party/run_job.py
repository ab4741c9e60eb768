#!/usr/bin/env python3
"""Records a job and compares v_call with an independent count: calls and bytes per rank, operation and communicator, exactly.

Also: in a run of which everything is kept, each collective instance has all members of its communicator, whoever made that communicator how.

    run_job.py JOB --ddl build/release/bin/ddl --count build/release/lib/count_pmpi.so --work DIR
    run_job.py hpcc --flavour mpich --program ./hpcc --count build/release/lib/count_pmpi_mpich.so ...   # one that you built yourself

The job runs once, under `ddl record`, with count_pmpi.so behind libddl.so: both see the same calls. Communicators are told by their members,
see count_pmpi.c; those with equal members are added up on both sides. Calls that complete requests have none: where the recorder says what
they waited for (decision 0006), their communicators are added up. Exit code 77: the job is not installed.
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


# One row per job. known: (rank, op, where) -> (calls, bytes), worked out by hand, so that the count is not believed blindly.
WEIGHTS = 4 * 173338  # of the model that train says it has (workloads/README.md)
MPI4PY = {
    # blocking_collectives twice (4 x 10 doubles + 4 ints), then 10 doubles on `parity` and on COMM_SELF, and on `group` without rank 1
    (1, "MPI_Allreduce", "0,1,2"): (10, 2 * (4 * 80 + 16)),
    (1, "MPI_Allreduce", "1"): (2, 80 + 80),
    (0, "MPI_Allreduce", "2,0"): (1, 80),
    (0, "MPI_Allreduce", "0,2"): (1, 80),
    (0, "MPI_Allreduce", "0"): (1, 80),
    (1, "MPI_Scatter", "0,1,2"): (2, 2 * 240),  # the root sends to three
    (0, "MPI_Scatter", "0,1,2"): (2, 0),
    (2, "MPI_Alltoallw", "0,1,2"): (2, 2 * 2 * (8 + 4 + 1)),
    (1, "MPI_Reduce_scatter", "0,1,2"): (2, 2 * 48),
    (0, "MPI_Recv_init", "0,1,2"): (1, 9 * 80),  # started 9 times, 10 of 100 doubles arrive
    (0, "MPI_Send_init", "0,1,2"): (2, 3 * 80),  # the one to MPI_PROC_NULL sends nothing
    (0, "MPI_Irecv", "0,1,2"): (12, 8 * 80 + 2 * 64 + 2 * 12),  # of which one from MPI_PROC_NULL and one cancelled
    (0, "MPI_Imrecv", "-"): (1, 32),
    # two groups, rank 2 is the root, who sends to rank 0 alone; rank 1 beside it takes no part
    (0, "MPI_Bcast", "inter:0"): (1, 80),
    (1, "MPI_Bcast", "inter:1,2"): (1, 0),
    (2, "MPI_Bcast", "inter:1,2"): (1, 80),
    (0, "MPI_Gather", "inter:0"): (1, 80),
    (2, "MPI_Gather", "inter:1,2"): (1, 0),
    (2, "MPI_Scatter", "inter:1,2"): (1, 80),
    (0, "MPI_Alltoall", "inter:0"): (1, 2 * 80),
    (1, "MPI_Alltoall", "inter:1,2"): (1, 80),
    # on a ring to two neighbours, on a directed one to one, on a star to two from its middle
    (0, "MPI_Neighbor_allgather", "0,1,2"): (3, (2 + 1 + 2) * 80),
    (1, "MPI_Neighbor_allgather", "0,1,2"): (3, (2 + 1 + 1) * 80),
    (2, "MPI_Ineighbor_alltoallw", "0,1,2"): (3, (2 + 1 + 1) * 80),
    (0, "MPI_File_write_at", "file:0,1,2"): (1, 80),
    (0, "MPI_File_read_at", "file:0,1,2"): (2, 2 * 80),  # the second asks for more than there is
    (1, "MPI_File_read_all_begin", "file:0,1,2"): (1, 0),
    (1, "MPI_File_read_all_end", "file:0,1,2"): (1, 80),
    (2, "MPI_File_iread", "file:0,1,2"): (1, 80),
}
ONE_WINDOW = {(0, "MPI_Put", "window:0,1,2"): (3, 2 * 80), (1, "MPI_Rget", "window:0,1,2"): (1, 16), (2, "MPI_Fetch_and_op", "window:0,1,2"): (1, 8)}
TWO_WINDOWS = {key: (2 * calls, 2 * nbytes) for key, (calls, nbytes) in ONE_WINDOW.items()}
JOBS = {
    "lammps": Job("lammps", 2, lambda: ["lmp", "-in", "in.melt"], ["lammps/in.melt"]),
    "hpcc": Job("hpcc", 2, lambda: ["hpcc"], ["hpcc/hpccinf.txt"]),
    "mpi4py": Job("python3-mpi4py", 3, lambda: [python_with_mpi4py(), "operations.py"], ["mpi4py/operations.py"], MPI4PY | ONE_WINDOW),
    "mpi4py_single": Job("python3-mpi4py", 3, lambda: [python_with_mpi4py(), "operations.py", "single"], ["mpi4py/operations.py"],
                         MPI4PY | TWO_WINDOWS),
    "train": Job("train", 2, lambda: ["train", "--model", "cnn", "--steps", "5"], [], {
        (1, "MPI_Iallreduce", "0,1"): (5 * 3, 5 * (WEIGHTS + 8)),  # a bucket each, and the losses
        (1, "MPI_Wait", "-"): (5 * 3, 0),
        (1, "MPI_Bcast", "0,1"): (1, WEIGHTS),
        (1, "MPI_Allreduce", "0,1"): (1, 4),
    }),
    "requests": Job("requests", 2, lambda: ["requests"], [], {
        (0, "MPI_Irecv", "0,1"): (67, 100 + 600 + 1000 + 600 + 800 + 500 + 1200 + 1400 + 1600),  # two of them get nothing
        (0, "MPI_Isend", "0,1"): (70, 7800 + 1200 + 1201 + 1202 + 1203),
        (0, "MPI_Recv_init", "0,1"): (1, 4 * 1000),
        (0, "MPI_Send_init", "0,1"): (1, 4 * 1000),
        (1, "MPI_Sendrecv", "0,1"): (2, 1101),
        (0, "MPI_Recv", "0,1"): (2, 1200 + 1201),
        (0, "MPI_Mrecv", "-"): (2, 1202 + 1203),
        (0, "MPI_Wait", "-"): (9, 0),
        (0, "MPI_Waitall", "-"): (7, 0),
        (0, "MPI_Allreduce", "0,1"): (1, 4),  # on the duplicate
    }),
    "ignored": Job("ignored", 3, lambda: ["ignored"], [], {
        (0, "MPI_Gather", "0,1,2"): (2, 2 * 80),
        (1, "MPI_Gather", "0,1,2"): (2, 2 * 80),  # one of them in place
        (0, "MPI_Scatterv", "0,1,2"): (1, 0),
        (1, "MPI_Scatterv", "0,1,2"): (1, 3 * 80),
        (1, "MPI_Alltoallw", "0,1,2"): (1, 3 * 80),
        (0, "MPI_Reduce", "inter:0"): (1, 80),
        (2, "MPI_Reduce", "inter:1,2"): (1, 0),
        (2, "MPI_Scatterv", "inter:1,2"): (1, 80),
        (2, "MPI_Bcast", "inter:1,2"): (1, 80),
    } | {(1, op, "inter:1,2"): (1, 0) for op in ("MPI_Bcast", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv", "MPI_Reduce")}),
}
# Beside the count: ranks of MPICH let go of the processor while they wait (tests/support/yielding_shim.c).
SHIMS = {"openmpi": (), "mpich": ("tests/programs/libyielding_shim.so",)}
LAUNCHERS = {"openmpi": "mpirun", "mpich": "mpirun.mpich"}


def prepare(job, work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in job.files:
        shutil.copy(HERE / name, work)


def run(command, work, preload):
    """Runs to the end or fails, output shown only then. A job that hangs takes its whole process group with it."""
    log = work / "job.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=work, env={**os.environ, "LD_PRELOAD": " ".join(map(str, preload)), "COUNT_PMPI_OUT": str(work / "count.txt")},
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = f"no end after {TIMEOUT_S} s"
    if code != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
        sys.exit(f"failed ({code}): {' '.join(map(str, command))}")


def read_count(path):
    """Truth: {(rank, op, where): (calls, bytes)}."""
    result = {}
    for line in path.read_text().splitlines():
        rank, op, where, calls, nbytes = line.split()
        result[int(rank), op, where] = (int(calls), int(nbytes))
    return result


def query(ddl, run_dir, sql):
    text = subprocess.run([ddl, "query", str(run_dir), sql, "--csv"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(csv.DictReader(io.StringIO(text)))


def query_members(ddl, run_dir):
    """(label of a communicator, rank) -> where, as the count says it."""
    sides = collections.defaultdict(list)
    for row in query(ddl, run_dir, "SELECT c.label, c.kind, m.side, coalesce(m.rank, '?') AS rank FROM communicator c "
                                   "JOIN communicator_member m ON m.communicator = c.id ORDER BY c.id, m.side, m.comm_rank"):
        sides[row["label"], row["kind"], row["side"]].append(row["rank"])
    return {(label, rank): ("" if kind in ("world", "intra") else kind + ":") + ",".join(ranks)
            for (label, kind, _), ranks in sides.items() for rank in ranks}


def query_calls(ddl, run_dir):
    members = query_members(ddl, run_dir)
    result = {}
    for row in query(ddl, run_dir, "SELECT v.rank, v.op, o.class, v.comm, v.calls, v.bytes FROM v_call v JOIN op o ON o.name = v.op"):
        where = members.get((row["comm"], row["rank"]), "members unknown")
        if not row["comm"] or row["class"] == "completion":
            where = "-"
        elif row["comm"] == "MPI_COMM_SELF":
            where = row["rank"]  # one row for all ranks', without members
        key = int(row["rank"]), row["op"], where
        calls, nbytes = result.get(key, (0, 0))
        result[key] = (calls + int(row["calls"]), nbytes + int(row["bytes"]))
    return result


def incomplete_instances(ddl, run_dir):
    """Collectives that have more or fewer ranks than members: two communicators under one id, or one under two."""
    rows = query(ddl, run_dir, "SELECT op, comm, seq, comm_size, group_concat(rank, ' ') AS ranks FROM v_collective "
                               "GROUP BY world, comm, op, seq HAVING count(*) <> comm_size")
    return [f"  {row['op']} number {row['seq']} on {row['comm']} of {row['comm_size']}: ranks {row['ranks']}" for row in rows]


def differences(name_a, a, name_b, b, keys):
    absent = ("absent", "absent")
    return [f"  rank {key[0]} {key[1]} on {key[2]}: {name_a} {a.get(key, absent)}, {name_b} {b.get(key, absent)}" for key in sorted(keys)
            if a.get(key) != b.get(key)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--ddl", required=True, type=pathlib.Path)
    parser.add_argument("--count", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--flavour", choices=LAUNCHERS, default="openmpi", help="whose mpirun")
    parser.add_argument("--program", help="this one instead of the installed one")
    options = parser.parse_args()
    job, work = JOBS[options.job], options.work.resolve()

    program = job.command()
    if options.program:
        program[0] = str(pathlib.Path(options.program).resolve())
    if None in program or not shutil.which(program[0]):
        print(f"skipped: {program[0]} was not built: no MPICH" if options.program else f"skipped: {job.package} is not installed (tools/setup test)")
        return SKIP
    if not shutil.which(LAUNCHERS[options.flavour]):
        print(f"skipped: {LAUNCHERS[options.flavour]} is not installed")
        return SKIP

    prepare(job, work)
    run([options.ddl.resolve(), "record", "-o", work / "run.ddl", "--", LAUNCHERS[options.flavour], "-np", str(job.ranks), *program], work,
        [options.count.resolve(), *(options.ddl.resolve().parents[1] / shim for shim in SHIMS[options.flavour])])
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
    print(f"{options.job}, {options.flavour}: {len(count)} triples of rank, operation and communicator agree, "
          f"{len({(rank, where) for rank, _, where in count} - {(rank, '-') for rank, _, _ in count})} of rank and communicator, "
          f"{sum(c for c, _ in count.values())} calls, {sum(b for _, b in count.values())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
