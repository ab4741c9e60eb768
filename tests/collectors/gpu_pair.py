#!/usr/bin/env python3
"""Processes with two GPUs that are two ranks of one communicator of NCCL, driven by one thread or by one each: rows, parts of steps, waiting, and idling for a copy
or a collective of the other GPU are those that gpu_truth.py computes, to the nanosecond."""
import subprocess

import gpu_truth
import job
import nccl_job
from job import check

STEPS, GPUS = 3, 2
MODES = ("all", "ranks", "threads")
VIRTUAL = {"FAKE_CUDA_CLOCK": "virtual", "DDL_CLOCK": "monotonic"}
OUTPUT = job.run([nccl_job.PROGRAMS / "gpu_pair", STEPS, "all"], **nccl_job.environment(FAKE_CUDA_CLOCK="virtual")).stdout


def told(db, sql, *values):
    return [tuple(row) for row in db.execute(sql, values)]


def record(folder, mode, name, **knobs):
    run_dir = folder / f"{name}.ddl"
    done = job.run([nccl_job.PROGRAMS / "gpu_pair", STEPS, mode], **nccl_job.environment(LD_PRELOAD=job.LIBRARY, DDL_OUT=run_dir, **VIRTUAL, **knobs))
    check(done.stdout == OUTPUT and done.returncode == 0 and done.stderr == "", f"{name}: {done}")
    return job.store(run_dir)


def compare(db, truth, rank, what):
    for gpu, one in enumerate(truth.gpus):
        where = f"{what}: rank {rank}, GPU {gpu}"
        rows = told(db, "SELECT kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes FROM v_gpu WHERE device = ? AND rank = ?", gpu, rank)
        check(sorted(rows, key=str) == sorted(one.rows, key=str), f"{where}: {rows}, not {one.rows}")
        for name, columns, expected in (("parts", "duration_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns, idle_ns", gpu_truth.parts(one)),
                                        ("idling", "idle_input_ns, idle_host_ns, idle_launch_ns, idle_kernel_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns",
                                         gpu_truth.idling(one))):
            found = told(db, f"SELECT step, {columns} FROM v_gpu_part WHERE device = ? AND rank = ? AND step IS NOT NULL ORDER BY step", gpu, rank)
            check(found == expected, f"{where}: {name}: {found}, not {expected}")
    waiting = told(db, "SELECT step, wait_ns, exposed_wait_ns, why FROM v_gpu_part WHERE device = 0 AND rank = ? AND step IS NOT NULL ORDER BY step", rank)
    check(waiting == [(*row, None) for row in gpu_truth.waits(truth.gpus[0])], f"{what}: rank {rank}: waiting {waiting}")
    unknown = told(db, "SELECT DISTINCT wait_ns, why FROM v_gpu_part WHERE device = 1")
    check(unknown == [(None, "NO_DATA")], f"{what}: GPU 1 has a kernel of a collective that nobody called: {unknown}")
    rows = told(db, "SELECT kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes FROM v_gpu WHERE device IS NULL AND rank = ?", rank)
    check(sorted(rows, key=str) == sorted(truth.host, key=str), f"{what}: rank {rank}: synchronisation: {rows}, not {truth.host}")


def compare_job(db, truths, what):
    for rank, truth in enumerate(truths):
        compare(db, truth, rank, what)
    expected = [(rank, GPUS * rank + gpu, number + 1, number, row.start_ns, row.duration_ns, waited, gpu_truth.NCCL_NS, None) for rank, truth in enumerate(truths)
                for gpu, one in enumerate(truth.gpus) for number, (row, waited) in enumerate(one.waited.items())]
    found = told(db, "SELECT rank, comm_rank, seq, step, enter_ns, duration_ns, wait_ns, xfer_ns, why FROM v_collective WHERE op = 'ncclAllReduce' AND comm_size = ?"
                     " AND source = 'kernel' ORDER BY comm_rank, seq", GPUS * len(truths))
    check(found == expected, f"{what}: collectives {found}, not {expected}")
    check(told(db, "SELECT kind, note FROM loss") == [], f"{what}: losses {told(db, 'SELECT kind, note FROM loss')}")
    processes = told(db, "SELECT rank, world_size FROM process ORDER BY rank")
    check(processes == [(rank, len(truths)) for rank in range(len(truths))], f"{what}: a process is a rank: {processes}")
    members = told(db, "SELECT comm_rank, rank FROM communicator_member")
    check(members == [(i, i // GPUS) for i in range(GPUS * len(truths))], f"{what}: members {members}")


def two_gpus(folder):
    for mode in MODES:
        for version in (13, 26, 130001, 999999):
            truths = gpu_truth.pairs(STEPS, mode == "threads", version >= 26)
            compare_job(record(folder, mode, f"{mode}{version}", FAKE_CUPTI_VERSION=version), truths, f"{mode}, CUPTI {version}")


def two_processes(folder):
    """Four ranks in two processes; who is who the launcher says, as torchrun does, or nobody but NCCL."""
    for mode in ("ranks", "threads"):
        truths = gpu_truth.pairs(STEPS, mode == "threads", True, 2)
        check(all(sum(one.waited.values()) > 0 for one in truths[0].gpus) and min(sum(one.waited.values()) for one in truths[1].gpus) == 0, "the truth has no process that is late")
        for announced in (True, False):
            what, jobs = f"two processes, {mode}, announced {announced}", []
            for number in range(2):
                env = nccl_job.environment(LD_PRELOAD=job.LIBRARY, DDL_OUT=folder / f"{what}.ddl", PAIR_NUMBER=number, PAIR_COUNT=2, ID_FILE=folder / f"{what}.id", **VIRTUAL,
                                           **({"RANK": number, "WORLD_SIZE": 2} if announced else {}))
                jobs.append(subprocess.Popen([nccl_job.PROGRAMS / "gpu_pair", str(STEPS), mode], env=job.environment(**env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
            outputs = [process.communicate(timeout=60)[0] for process in jobs]
            check(outputs[0] == outputs[1] == "sum 96 96\n", f"{what}: {outputs}")
            compare_job(job.store(folder / f"{what}.ddl"), truths, what)


def without_events(folder):
    """Where CUPTI does not tell of events the same time is idle for other reasons, and the report says what is missing."""
    db = record(folder, "all", "refused", FAKE_CUPTI_REFUSE="events")
    truth, = gpu_truth.pairs(STEPS, False, False)
    found = told(db, "SELECT step, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns FROM v_gpu_part WHERE device = 0 AND step IS NOT NULL ORDER BY step")
    check(found == [(row[0], *row[-3:]) for row in gpu_truth.idling(truth.gpus[0])], f"refused: {found}")
    notes = told(db, "SELECT kind, note FROM loss")
    check(len(notes) == 1 and notes[0][0] == "gpu_tracing" and "events (27)" in notes[0][1], f"refused: {notes}")


def by_timers(folder):
    """Without CUPTI the timers of NCCL's profiler tell the same instances, each rank's on its own."""
    for mode in MODES:
        db = record(folder, mode, f"timers-{mode}", DDL_COLLECTORS="mpi,nvtx,nccl")
        found = told(db, "SELECT comm_rank, seq, step, source, duration_ns FROM v_collective WHERE op = 'ncclAllReduce' ORDER BY comm_rank, seq")
        truth, = gpu_truth.pairs(STEPS, mode == "threads", True)
        expected = [(gpu, number + 1, number, "profiler", row.duration_ns) for gpu, one in enumerate(truth.gpus) for number, row in enumerate(one.waited)]
        check(found == expected, f"timers, {mode}: {found}, not {expected}")


if __name__ == "__main__":
    job.main(two_gpus, two_processes, without_events, by_timers)
