#!/usr/bin/env python3
"""Collectives of NCCL with the mocks of CUDA, CUPTI and NCCL under mpirun, in virtual time: each is one row however many sources tell of it, with the
interval of its kernel, the waiting for the last rank, its share of a fused kernel, and the algorithm that the profiler tells."""
import job
import nccl_job

STEPS, RANKS = 3, 2
VIRTUAL = {"FAKE_CUDA_CLOCK": "virtual", "DDL_CLOCK": "monotonic"}


def record(folder, name, *arguments, **extra):
    run_dir, log = folder / f"{name}.ddl", folder / f"{name}.log"
    done = job.run([job.DDL, "record", "-o", run_dir, "--", "mpirun", "-np", RANKS, nccl_job.PROGRAMS / "nccl_gpu", STEPS, *arguments], check_rc=0,
                   **nccl_job.environment(FAKE_NCCL_LOG=log, **VIRTUAL, **extra))
    job.check(sorted(done.stdout.splitlines()) == [f"rank {r}: 1" for r in range(RANKS)], f"{name}: {done.stdout}")
    return job.store(run_dir), nccl_job.told(log, RANKS)


def shares(total, sizes):
    """`total` ns in proportion to sizes, as whole numbers that add up."""
    whole, ends = sum(sizes), [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    return [total * b // whole - total * a // whole for a, b in zip(ends, ends[1:])]


def check_kernels(db, told, what, plugin=True, skip=0):
    starts = [[row[5] for row in told[rank]] for rank in range(RANKS)]
    base = None
    for rank in range(RANKS):
        rows = db.execute("SELECT * FROM v_collective WHERE rank = ? AND op LIKE 'nccl%' AND seq < 1 << 32 ORDER BY seq", (rank,)).fetchall()
        want = told[rank][skip:]
        job.check(len(rows) == len(told[rank]), f"{what}: rank {rank} has {len(rows)} collectives, the mock did {len(told[rank])}")
        rows = rows[skip:]
        at = 0
        while at < len(want):
            kernel = want[at:at + want[at][7]]
            start, end = kernel[0][5:7]
            sizes = [row[4] for row in kernel]
            wait = max(starts[r][skip + at] for r in range(RANKS)) - start
            waits, durations = shares(wait, sizes), shares(end - start, sizes)
            for i, (row, told_row) in enumerate(zip(rows[at:], kernel)):
                name = f"{what}: rank {rank}: {row['op']} {row['seq']}"
                base = row["enter_ns"] - start if base is None else base
                job.check(row["op"] == "nccl" + told_row[1] and row["bytes"] == told_row[4], f"{name}: {row['bytes']} bytes, expected {told_row}")
                job.check(row["enter_ns"] - base == start + (end - start) * sum(sizes[:i]) // sum(sizes), f"{name}: starts at {row['enter_ns'] - base}, kernel at {start}")
                job.check(row["duration_ns"] == durations[i], f"{name}: {row['duration_ns']} ns, expected {durations[i]} of {end - start}")
                if told_row[1] != "Broadcast":
                    job.check(row["wait_method"] == "max-start" and row["wait_ns"] == waits[i], f"{name}: waits {row['wait_ns']}, expected {waits[i]}")
                else:  # only those who are not the root wait for it
                    late = max(0, starts[0][skip + at] - start) if rank != 0 else 0
                    job.check(row["wait_ns"] == shares(late, sizes)[i], f"{name}: waits {row['wait_ns']}")
                job.check(row["source"] == "kernel" and row["fused"] == len(kernel), f"{name}: source {row['source']}, fused {row['fused']}")
                job.check((row["algorithm"] is not None and row["channels"] == 2) == plugin, f"{name}: algorithm {row['algorithm']}")
                job.check(row["layer"] == ("dense" if told_row[7] == 1 else "embedding") and row["step"] == at // 4, f"{name}: {row['layer']} {row['step']}")
            at += len(kernel)


def by_cupti(folder):
    for version in (22704, 22809, 22903, 23102):
        db, told = record(folder, f"v{version}", FAKE_NCCL_VERSION=version)
        check_kernels(db, told, f"NCCL {version}")
        job.check("NCCL timed by CUPTI" in job.report(folder / f"v{version}.ddl").stdout, "the report does not say who timed NCCL")
        kernels = db.execute("SELECT count(*) FROM v_kernel WHERE name LIKE 'ncclDevKernel%' AND comm IS NOT NULL").fetchone()[0]
        job.check(kernels == RANKS * STEPS * 2, f"{kernels} kernels of NCCL")
    db, told = record(folder, "alone", NCCL_PROFILER_PLUGIN="none")
    check_kernels(db, told, "without the plugin", plugin=False)


def captured(folder):
    """A captured collective runs once per launch of its graph: one row each, the same numbers on all ranks."""
    db, _ = record(folder, "graph", "graph")
    for rank in range(RANKS):
        rows = db.execute("SELECT seq, step, layer, op, bytes FROM v_collective WHERE rank = ? AND layer = 'captured' ORDER BY seq", (rank,)).fetchall()
        want = [(1 + (k << 32), k, "captured", "ncclAllReduce", 2000) for k in range(STEPS)]
        job.check([tuple(r) for r in rows] == want, f"rank {rank}: captured {[tuple(r) for r in rows]}")
    partial = db.execute("SELECT count(*) FROM v_collective WHERE layer = 'captured' AND wait_ns IS NULL").fetchone()[0]
    job.check(partial == 0, f"{partial} captured collectives are not split")


def cupti_is_taken(folder):
    db, told = record(folder, "taken", FAKE_CUPTI_SUBSCRIBE=39)
    rows = db.execute("SELECT source, count(*) n FROM v_collective WHERE op LIKE 'nccl%' GROUP BY 1").fetchall()
    job.check([tuple(r) for r in rows] == [("profiler", sum(len(told[r]) for r in range(RANKS)))], f"CUPTI taken: {[tuple(r) for r in rows]}")


def phases(folder):
    """NCCL 2.31 tells the phases of kernels on symmetric memory, and the tag of a call: a second estimate of the waiting, the same as the first in virtual time. Not
    where CUPTI tells of kernels, and not of other kernels."""
    db, told = record(folder, "phases", FAKE_CUPTI_SUBSCRIBE=39, FAKE_NCCL_VERSION=23102, FAKE_NCCL_SYMMETRIC=1, FAKE_NCCL_TAG=77)
    facts = {r[0] for r in db.execute("SELECT value FROM process_fact WHERE key = 'nccl.source'")}
    job.check(facts == {"calls", "profiler v7"}, f"sources {facts}")
    for rank in range(RANKS):
        rows = db.execute("SELECT * FROM v_collective WHERE rank = ? AND op LIKE 'nccl%' ORDER BY seq", (rank,)).fetchall()
        job.check(len(rows) == len(told[rank]), f"phases: rank {rank} has {len(rows)} collectives, the mock did {len(told[rank])}")
        at = 0
        while at < len(rows):
            kernel = told[rank][at:at + told[rank][at][7]]
            start = kernel[0][5]
            wait = max(told[r][at][5] for r in range(RANKS)) - start
            for i, row in enumerate(rows[at:at + len(kernel)]):
                name = f"phases: rank {rank}: {row['op']} {row['seq']}"
                job.check(row["initial_sync_ns"] == (wait if i == 0 else 0), f"{name}: initial_sync {row['initial_sync_ns']} ns, expected {wait if i == 0 else 0}")
                job.check(row["final_sync_ns"] == 20, f"{name}: final_sync {row['final_sync_ns']} ns")
                job.check(row["user_tag"] == 77 and row["source"] == "profiler", f"{name}: tag {row['user_tag']}, {row['source']}")
            at += len(kernel)
    for name, extra in (("traced", {"FAKE_NCCL_SYMMETRIC": 1}), ("other", {"FAKE_CUPTI_SUBSCRIBE": 39})):
        db, _ = record(folder, name, FAKE_NCCL_VERSION=23102, **extra)
        untold = db.execute("SELECT count(*), count(initial_sync_ns), count(final_sync_ns), count(user_tag) FROM v_collective WHERE op LIKE 'nccl%'").fetchone()
        job.check(untold[0] > 0 and tuple(untold)[1:] == (0, 0, 0), f"{name}: {tuple(untold)}")


def copy_engines(folder):
    """Collectives that copy engines carry out: their call says so, and what CUPTI tells of it is its time."""
    db, _ = record(folder, "engines", FAKE_NCCL_VERSION=23102, FAKE_NCCL_CE=1)
    rows = {(r["algorithm"], r["protocol"], r["channels"], r["source"]) for r in db.execute("SELECT * FROM v_collective WHERE op LIKE 'nccl%' AND seq < 1 << 32")}
    job.check(rows == {("CE", "UC", None, "kernel")}, f"copy engines: {rows}")


if __name__ == "__main__":
    job.main(by_cupti, captured, cupti_is_taken, phases, copy_engines)
