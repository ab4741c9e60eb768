#!/usr/bin/env python3
"""All the ways in which a rank can end: the job behaves as without us, all that returned before is in the record, and the report says what happened."""
import fault
import job

# Way to end (programs/ending.c), who: -1 all, how the ranks of the record ended, what the report says.
ENDINGS = [
    ("finalize", -1, {0: "finalized", 1: "finalized"}, ["nothing missing"]),
    ("forks", -1, {0: "finalized", 1: "finalized"}, ["nothing missing"]),
    ("return", -1, {0: "exited", 1: "exited"}, ["ranks 0, 1 exited without MPI_Finalize"]),
    ("return", 1, {0: "lost", 1: "exited"}, ["rank 1 exited with code 0, without MPI_Finalize, at"]),
    ("exit", 1, {0: "lost", 1: "exited"}, ["rank 1 exited with code 3, without MPI_Finalize, at"]),
    ("_exit", 1, {0: "lost", 1: "lost"}, [r"rank 1 stopped without MPI_Finalize \(exit code 3\) at .*, and the others were ended"]),
    ("quick_exit", 1, {0: "lost", 1: "lost"}, [r"rank 1 stopped without MPI_Finalize \(exit code 3\)"]),
    ("thread_exit", 1, {0: "lost", 1: "lost"}, [r"rank 1 stopped without MPI_Finalize \(exit code 3\)"]),
    ("abort", 1, {0: "lost", 1: "lost"}, [r"rank 1 crashed \(SIGABRT\) at", "rank 1 never entered MPI_Allreduce number 81"]),
    ("segv", 1, {0: "lost", 1: "lost"}, [r"rank 1 crashed \(SIGSEGV\) at", "rank 0 sits in MPI_Allreduce"]),
    ("bus", 1, {0: "lost", 1: "lost"}, [r"rank 1 crashed \(SIGBUS\) at", "rank 0 sits in MPI_Allreduce"]),
    ("term", 1, {0: "lost", 1: "lost"}, [r"rank 1 was killed \(SIGTERM\) at"]),
    ("kill", 1, {0: "lost", 1: "lost"}, [r"rank 1 was killed \(SIGKILL\) at"]),
    ("mpi_abort", 1, {0: "lost", 1: "aborted"}, [r"rank 1 called MPI_Abort\(42\) at"]),
    ("init_again", 1, {0: "lost", 1: "lost"}, [r"rank 1 stopped without MPI_Finalize \(exit code 1\)", "MPI_Init"]),
    ("exec", 1, {0: "lost", 1: "lost"}, ["rank 1 stopped without MPI_Finalize", "ended without MPI_Finalize"]),
]


def every_ending(folder):
    def one(ending):
        way, who, ended, says = ending
        what = f"{way}{'' if who < 0 else who}"
        command = job.mpirun(2, [fault.ENDING, way, who, *(["/bin/echo", "I am echo now"] if way == "exec" else [])])
        if who < 0:  # all ranks leave alike: mpirun is not to kill the one that is last to go
            command[1:1] = ["--mca", "orte_allowed_exit_without_sync", "1"]
        traced, run, logs = fault.both(folder, what, command)
        job.check(set(logs) == {0, 1}, f"{what}: logs of {set(logs)}")
        fault.reported(what, run, *says)
        db = job.reported_store(run)
        job.check({r["rank"]: r["ended"] for r in db.execute("select rank, ended from v_rank")} == ended, f"{what}: ended otherwise than {ended}")
        codes = dict(db.execute("select rank, value from process_fact f join process p on p.id = f.process where key = 'exit_code'").fetchall())
        exited = {rank: "3" if way == "exit" else "0" for rank, how in ended.items() if how in ("finalized", "exited")}
        job.check(way == "return" or codes == exited, f"{what}: exit codes {codes}, expected {exited}")
        fault.complete(what, db, logs, in_mid_call={0} if who == 1 else ())
        job.check(db.execute("select count(*) from region where kind <> 'inferred'").fetchone()[0] == 1, f"{what}: ranges of a child are in the record")

    job.three_at_once(one, ENDINGS)


def one_process(folder):
    """Without mpirun, the signal is seen directly."""
    for way, says in (("segv", r"rank 0 crashed \(SIGSEGV\)"), ("kill", r"rank 0 was killed \(SIGKILL\)"), ("_exit", r"rank 0 stopped without MPI_Finalize \(exit code 3\)")):
        traced, run, logs = fault.both(folder, f"single_{way}", [fault.ENDING, way])
        fault.reported(way, run, says)
        fault.complete(way, job.reported_store(run), logs)


def in_mpi_init(folder):
    traced, run, logs = fault.both(folder, "init", job.mpirun(3, [fault.PROGRAMS / "in_init"]))
    fault.reported("in MPI_Init", run, "nobody left MPI_Init: ranks 0 and 2 sit in it, rank 1 never called it", "SIGALRM", "of 3 ranks left no spool: rank 1")
    # Nothing announces a rank to a process that was started by hand.
    traced, run, logs = fault.both(folder, "init_alone", [fault.PROGRAMS / "in_init"])
    fault.reported("in MPI_Init, alone", run, "1 process without a rank", "which had no rank, ended abnormally, in MPI_Init")


def became_another(folder):
    """exec before MPI_Init: two programs in one process, two spools, nothing is missing."""
    traced, run, logs = fault.both(folder, "exec_first", job.mpirun(2, [fault.PROGRAMS / "exec_first", fault.ENDING, "finalize"]))
    fault.reported("exec first", run, "nothing missing")
    db = job.reported_store(run)
    fault.complete("exec first", db, logs)
    ended = sorted((r["rank"] is None, r["ended"]) for r in db.execute("select rank, ended from v_rank"))
    job.check(ended == [(False, "finalized")] * 2 + [(True, "exec")] * 2, f"exec first: {ended}")


def started_twice(folder):
    """Restarted from a checkpoint of its own into the same directory: two worlds, and the report says so. (A process image restored by
    DMTCP or CRIU has no MPI connection of its own to go on with; nobody can test that here.)"""
    run = folder / "twice.ddl"
    for attempt in ("first", "second"):
        traced = job.run(job.mpirun(2, [fault.ENDING, "finalize"]), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=run, CALL_LOG=folder / attempt)
    fault.reported("twice", run, "The run holds 2 worlds")
    db = job.reported_store(run)
    for world, attempt in enumerate(("first", "second")):
        for rank in range(2):
            log = fault.read_log(folder / f"{attempt}.{rank}")
            seen = dict(db.execute("select op, sum(calls) from v_call where world = ? and rank = ? group by op", (world, rank)).fetchall())
            job.check(seen == {op: calls for op, (calls, _) in log.items()}, f"world {world}, rank {rank}: {seen}")


job.main(every_ending, one_process, in_mpi_init, became_another, started_twice)
