#!/usr/bin/env python3
"""One process with two GPUs that are two ranks of one communicator of NCCL, driven by one thread or by one each: rows, parts of steps, waiting, and idling for a copy
or a collective of the other GPU are those that gpu_truth.py computes, to the nanosecond."""
import gpu_truth
import job
import nccl_job
from job import check

STEPS, GPUS = 3, 2
VIRTUAL = {"FAKE_CUDA_CLOCK": "virtual", "DDL_CLOCK": "monotonic"}


def told(db, sql, *values):
    return [tuple(row) for row in db.execute(sql, values)]


def record(folder, mode, name, **knobs):
    run_dir = folder / f"{name}.ddl"
    done = job.run([nccl_job.PROGRAMS / "gpu_pair", STEPS, mode], **nccl_job.environment(LD_PRELOAD=job.LIBRARY, DDL_OUT=run_dir, **VIRTUAL, **knobs))
    check(done.stdout == OUTPUT and done.returncode == 0 and done.stderr == "", f"{name}: {done}")
    return job.store(run_dir)


OUTPUT = job.run([nccl_job.PROGRAMS / "gpu_pair", STEPS, "group"], **nccl_job.environment(FAKE_CUDA_CLOCK="virtual")).stdout


def compare(db, truth, host, what):
    for gpu, one in enumerate(truth):
        rows = told(db, "SELECT kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes FROM v_gpu WHERE device = ?", gpu)
        check(sorted(rows, key=str) == sorted(one.rows, key=str), f"{what}: GPU {gpu}: {rows}, not {one.rows}")
        for name, columns, expected in (("parts", "duration_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns, idle_ns", gpu_truth.parts(one)),
                                        ("idling", "idle_input_ns, idle_host_ns, idle_launch_ns, idle_kernel_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns",
                                         gpu_truth.idling(one))):
            found = told(db, f"SELECT step, {columns} FROM v_gpu_part WHERE device = ? AND step IS NOT NULL ORDER BY step", gpu)
            check(found == expected, f"{what}: GPU {gpu}: {name}: {found}, not {expected}")
    waiting = told(db, "SELECT step, wait_ns, exposed_wait_ns, why FROM v_gpu_part WHERE device = 0 AND step IS NOT NULL ORDER BY step")
    check(waiting == [(*row, None) for row in gpu_truth.waits(truth[0])], f"{what}: waiting {waiting}")
    unknown = told(db, "SELECT DISTINCT wait_ns, why FROM v_gpu_part WHERE device = 1")
    check(unknown == [(None, "PARTIAL_RANKS")], f"{what}: GPU 1 has a kernel of a collective that nobody called: {unknown}")
    rows = told(db, "SELECT kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes FROM v_gpu WHERE device IS NULL")
    check(sorted(rows, key=str) == sorted(host, key=str), f"{what}: synchronisation: {rows}, not {host}")
    expected = [(gpu, number + 1, number, row.start_ns, row.duration_ns, waited, gpu_truth.NCCL_NS, None) for gpu, one in enumerate(truth)
                for number, (row, waited) in enumerate(one.waited.items())]
    found = told(db, "SELECT comm_rank, seq, step, enter_ns, duration_ns, wait_ns, xfer_ns, why FROM v_collective WHERE op = 'ncclAllReduce' AND rank = 0 AND comm_size = 2"
                     " AND source = 'kernel' ORDER BY comm_rank, seq")
    check(found == expected, f"{what}: collectives {found}, not {expected}")
    check(told(db, "SELECT kind, note FROM loss") == [], f"{what}: losses {told(db, 'SELECT * FROM loss')}")
    check(told(db, "SELECT rank, world_size FROM process") == [(0, 1)], f"{what}: one process is one rank: {told(db, 'SELECT rank, world_size FROM process')}")
    check(told(db, "SELECT comm_rank, rank FROM communicator_member") == [(0, 0), (1, 0)], f"{what}: members")


def two_gpus(folder):
    for mode in ("group", "threads"):
        for version in (13, 26, 130001, 999999):
            truth, host = gpu_truth.pair(STEPS, mode == "threads", version >= 26)
            compare(record(folder, mode, f"{mode}{version}", FAKE_CUPTI_VERSION=version), truth, host, f"{mode}, CUPTI {version}")


def without_events(folder):
    """Where CUPTI does not tell of events the same time is idle for other reasons, and the report says what is missing."""
    db = record(folder, "group", "refused", FAKE_CUPTI_REFUSE="events")
    truth, _ = gpu_truth.pair(STEPS, False, False)
    found = told(db, "SELECT step, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns FROM v_gpu_part WHERE device = 0 AND step IS NOT NULL ORDER BY step")
    check(found == [(row[0], *row[-3:]) for row in gpu_truth.idling(truth[0])], f"refused: {found}")
    notes = told(db, "SELECT kind, note FROM loss")
    check(len(notes) == 1 and notes[0][0] == "gpu_tracing" and "events (27)" in notes[0][1], f"refused: {notes}")


def by_timers(folder):
    """Without CUPTI the timers of NCCL's profiler tell the same instances, each rank's on its own."""
    for mode in ("group", "threads"):
        db = record(folder, mode, f"timers-{mode}", DDL_COLLECTORS="mpi,nvtx,nccl")
        found = told(db, "SELECT comm_rank, seq, step, source, duration_ns FROM v_collective WHERE op = 'ncclAllReduce' ORDER BY comm_rank, seq")
        truth, _ = gpu_truth.pair(STEPS, mode == "threads", True)
        expected = [(gpu, number + 1, number, "profiler", row.duration_ns) for gpu, one in enumerate(truth) for number, row in enumerate(one.waited)]
        check(found == expected, f"timers, {mode}: {found}, not {expected}")


if __name__ == "__main__":
    job.main(two_gpus, without_events, by_timers)
