#!/usr/bin/env python3
"""Calls so short and many that recording them would cost more than the budget: events are thinned out, the profile stays exact, and what the
ranks keep, they keep in common."""
import job

PROGRAM = job.BUILD / "tests" / "programs" / "tiny_calls"
MANY, TOO_MANY, WORLD = 400000, 2000000, 4000


def record(name, many, *options):
    done = job.run([job.DDL, "record", *options, "-o", name, "--", "mpirun", "-np", "2", PROGRAM, many, WORLD], check_rc=0)
    return job.store(name), done


def calls(db):
    return {(r["rank"], r["op"], r["comm"]): r["calls"] for r in db.execute("SELECT rank, op, comm, calls FROM v_call")}


def thinned_out_within_the_budget(folder):
    db, _ = record("budget.ddl", TOO_MANY)
    counted = calls(db)
    for rank in (0, 1):
        job.check(counted[rank, "MPI_Allreduce", "MPI_COMM_SELF"] == (rank + 1) * TOO_MANY, f"the profile is exact: {counted}")
        job.check(counted[rank, "MPI_Allreduce", "MPI_COMM_WORLD"] == WORLD, f"the profile is exact: {counted}")
    levels = [r[0] for r in db.execute("SELECT keep_level FROM process ORDER BY rank")]
    job.check(min(levels) > 0, f"both ranks thin out: {levels}")
    kept = {}
    for rank, seq in db.execute("SELECT rank, seq FROM v_collective WHERE comm = 'MPI_COMM_WORLD' AND op = 'MPI_Allreduce'"):
        kept.setdefault(rank, set()).add(seq)
    coarse, fine = (0, 1) if levels[0] > levels[1] else (1, 0)
    job.check(kept[coarse] and kept[coarse] <= kept[fine], f"what the coarser rank kept, the other kept too: {levels} {len(kept[0])} {len(kept[1])}")
    split = db.execute("SELECT count(*) FROM v_collective WHERE comm = 'MPI_COMM_WORLD' AND op = 'MPI_Allreduce' AND wait_ns IS NOT NULL").fetchone()[0]
    job.check(split == 2 * len(kept[coarse]), f"waiting is known of what both kept: {split}")
    lost = db.execute("SELECT count(*) FROM loss WHERE kind = 'not_kept'").fetchone()[0]
    job.check(lost == 2, "and what was left out is said")
    overhead = [r[0] for r in db.execute("SELECT overhead_ns * 1.0 / (end_ns - start_ns) FROM process")]
    job.check(all(0 < o < 1 for o in overhead), f"a share of the time: {overhead}")
    job.check(", overhead " in job.report("budget.ddl").stdout, "the report says it")


def everything_if_told_so(folder):
    db, _ = record("all.ddl", MANY, "--budget", "off")
    levels = [r[0] for r in db.execute("SELECT keep_level FROM process ORDER BY rank")]
    job.check(levels == [0, 0], f"{levels}")
    events = db.execute("SELECT count(*) FROM event e JOIN communicator c ON c.id = e.comm WHERE c.label = 'MPI_COMM_SELF'").fetchone()[0]
    job.check(events == 3 * MANY, f"every event: {events}")
    estimated = db.execute("SELECT count(*) FROM v_call WHERE time_estimated != 0").fetchone()[0]
    job.check(estimated == 0, "every call is timed")


if __name__ == "__main__":
    job.main(thinned_out_within_the_budget, everything_if_told_so)
