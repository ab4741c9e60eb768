#!/usr/bin/env python3
"""Two ranks, two threads and two streams against the mocks of CUDA, CUPTI and NCCL: for every version of CUPTI's records, with and without captured graphs, every
kernel, copy and collective, and what is made of them - where each step of each GPU went, what it did for each layer, how long kernels of collectives waited for
the slower rank - is the one that gpu_truth.py computes, to the nanosecond."""
import json

import gpu_truth
import job
import nccl_job
from job import check

STEPS, RANKS = 3, 2
VERSIONS = [13, 14, 15, 17, 18, 20, 26, 28, 130001, 999999]
VIRTUAL = {"FAKE_CUDA_CLOCK": "virtual", "DDL_CLOCK": "monotonic"}


def told(db, sql, *values):
    return [tuple(row) for row in db.execute(sql, values)]


def check_rank(db, rank, truth, what):
    rows = told(db, "SELECT kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes FROM v_gpu WHERE rank = ?", rank)
    missing, extra = [r for r in truth.rows if r not in rows], [r for r in rows if r not in truth.rows]
    check(len(rows) == len(truth.rows) and not missing and not extra, f"{what}: {len(rows)} activities; missing {missing[:2]}, not expected {extra[:2]}")
    check(told(db, "SELECT step, start_ns, duration_ns FROM v_step WHERE rank = ? ORDER BY step", rank) == truth.steps, f"{what}: steps")
    for name, columns, expected in (("parts", "duration_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns, idle_ns", gpu_truth.parts(truth)),
                                    ("waiting", "wait_ns, exposed_wait_ns", gpu_truth.waits(truth)),
                                    ("idling", "idle_input_ns, idle_host_ns, idle_launch_ns, idle_kernel_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns", gpu_truth.idling(truth))):
        found = told(db, f"SELECT step, {columns} FROM v_gpu_part WHERE device = 0 AND step IS NOT NULL AND rank = ? ORDER BY step", rank)
        check(found == expected, f"{what}: {name}: {found}, not {expected}")
    found = {row[:3]: row[3:] for row in told(db, "SELECT step, phase, layer, compute_ns, comm_ns, copy_ns, exposed_comm_ns FROM v_gpu_layer_part WHERE rank = ?", rank)}
    check(found == gpu_truth.layers(truth), f"{what}: layers: {found}, not {gpu_truth.layers(truth)}")
    collectives = told(db, "SELECT op, phase, layer, step, enter_ns, duration_ns, wait_ns, xfer_ns, bytes, source FROM v_collective WHERE rank = ? ORDER BY seq", rank)
    expected = [("ncclAllReduce", row.phase, row.layer, row.step, row.start_ns, row.duration_ns, wait, gpu_truth.NCCL_NS, 800000, "kernel")
                for row, wait in truth.waited.items()]
    check(collectives == expected, f"{what}: collectives: {collectives}, not {expected}")


def every_version(folder):
    output = nccl_job.torchrun("gpu_job_nccl", folder, RANKS, None, [str(STEPS)])
    for graph in (False, True):
        truth = gpu_truth.ranks(STEPS, graph)
        check(sum(truth[0].waited.values()) > 0 == sum(truth[1].waited.values()), "the truth has no rank that is late")
        for version in VERSIONS:
            what = f"version {version}, graph {graph}"
            run_dir = folder / f"{version}{graph}.ddl"
            outputs = nccl_job.torchrun("gpu_job_nccl", folder, RANKS, run_dir, [str(STEPS), *(["graph"] if graph else [])], FAKE_CUPTI_VERSION=version, **VIRTUAL)
            check(outputs == output, f"{what}: {outputs}, not {output}")
            db = job.store(run_dir)
            for rank in range(RANKS):
                check_rank(db, rank, truth[rank], f"{what}, rank {rank}")
            replayed = told(db, "SELECT count(*), count(graph_node), count(DISTINCT correlation) FROM v_kernel WHERE phase = 'forward' AND rank = 0")
            check(replayed == [(3 * STEPS, 3 * STEPS if graph else 0, STEPS if graph else 3 * STEPS)], f"{what}: {replayed}")
            check(told(db, "SELECT kind, count, note FROM loss") == [], f"{what}: {told(db, 'SELECT * FROM loss')}")


def left_by_exit(folder):
    """With the last communicator all that CUPTI has is asked for: a job that then leaves by _exit loses nothing."""
    run_dir = folder / "left.ddl"
    nccl_job.torchrun("gpu_job_nccl", folder, RANKS, run_dir, [str(STEPS), "exit"], expected=3, **VIRTUAL)
    db, truth = job.store(run_dir), gpu_truth.ranks(STEPS)
    for rank in range(RANKS):
        check_rank(db, rank, truth[rank], f"left by _exit, rank {rank}")


def who_is_late(folder):
    """Kernels of rank 0 wait for those of rank 1, which has more to compute: that is the finding about a rank, and there is no other."""
    run_dir = folder / "late.ddl"
    nccl_job.torchrun("gpu_job_nccl", folder, RANKS, run_dir, ["12"], **VIRTUAL)
    found = json.loads(job.report(run_dir, "--json").stdout)
    late = [f for f in found["findings"] if f["id"] in ("straggler", "missing_rank", "killed_rank")]
    check([(f["id"], f["rank"]) for f in late] == [("straggler", 1)], f"findings: {found['findings']}")
    check("It computes 298" in late[0]["evidence"] and "the other 198" in late[0]["evidence"], f"evidence: {late[0]['evidence']}")
    metrics = {m["id"]: m["value"] for m in found["metrics"]}
    truth = gpu_truth.ranks(12)
    steady = [[row for row in rows if row[0] >= 5] for rows in (gpu_truth.parts(truth[0]), gpu_truth.parts(truth[1]))]
    computes, runs = [sum(row[2] for row in rows) for rows in steady], sum(row[1] for row in steady[0])
    check(abs(metrics["gpu_parallel_efficiency"] - sum(computes) / (2 * runs)) < 1e-9, f"parallel efficiency {metrics['gpu_parallel_efficiency']}")
    check(abs(metrics["gpu_load_balance"] - sum(computes) / (2 * max(computes))) < 1e-9, f"load balance {metrics['gpu_load_balance']}")
    check(metrics["blame_share"] == 1, f"blame {metrics['blame_share']}")
    every_screen(run_dir, folder, truth)


def every_screen(run_dir, folder, truth):
    """What the devices did is the headline, everywhere the same: computing over communication raw, without waiting, exposed; what is exposed of the step."""
    def steady(rows, column):
        return sum(row[column] for rank in truth for row in rows(rank) if row[0] >= 5)
    compute, comm, exposed, whole = (steady(gpu_truth.parts, column) for column in (2, 3, 5, 1))
    ratios = [f"{compute / parts:.3g}" for parts in (comm, comm - steady(gpu_truth.waits, 1), exposed)]
    share = f"{100 * exposed / whole:.1f}%"
    check((ratios, share) == (["1.77", "2.76", "3.54"], "20.1%"), f"the truth: {ratios} {share}")
    raw, transfer, bare = ratios
    program = job.BUILD / "bin"
    page, prometheus = folder / "late.html", folder / "late.prom"
    job.report(run_dir, "--html", page)
    check(job.run([program / "ddl", "export", "prometheus", run_dir, "-o", prometheus]).returncode == 0, "export prometheus")
    json_of = json.loads(job.report(run_dir, "--json").stdout)
    shown = {
        "report": (job.report(run_dir).stdout, [f"raw {raw}   transfer {transfer}   exposed {bare}", f"exposed {share}"]),
        "one line": (job.report(run_dir, "--one-line").stdout, [f"raw {raw}, transfer {transfer}, exposed {bare}"]),
        "HTML": (page.read_text(), [raw, transfer, bare, share]),
        "Prometheus": (prometheus.read_text(), [f"ddl_gpu_ccr_{name}_ratio{{run=\"late.ddl\"}} {value}" for name, value in
                                                (("raw", raw), ("xfer", transfer[:3]), ("exposed", bare))]),
        "ddl-top": (job.run([program / "ddl-top", "--replay", run_dir, "-b", "-n", "1"]).stdout, [f"comp/comm {raw} {transfer} {bare}", "exposed 20%"]),
        "ddl-top, live": (job.run([program / "ddl-top", run_dir, "-b", "-n", "1"]).stdout, [f"comp/comm {raw} {transfer} {bare}", "exposed 20%"]),
        "model": (job.run([program / "ddl", "model", "compression", run_dir]).stdout, ["would give 1.19"]),
    }
    for name, (text, words) in shown.items():
        check(all(word in text for word in words), f"{name}: {words} in {text}")
    live_is_the_replay(run_dir, program)
    drawn = page.read_text()
    check("No rank is late" not in drawn and "on the hosts" not in drawn, "HTML: the map of lateness, or the hosts' timeline, says that nobody waits")
    check([f"{json_of['ccr'][key]:.3g}" for key in ("gpu_ccr_raw", "gpu_ccr_xfer", "gpu_ccr_exposed")] == ratios, f"JSON: {json_of['ccr']}")


def live_is_the_replay(run_dir, program):
    """The spools of the job that has ended, read as those of a running one, say of every rank and collective what the store says."""
    live, replay = (json.loads(job.run([program / "ddl-top", *how, run_dir, "--json", "-n", "1"], check_rc=0).stdout) for how in ((), ("--replay",)))
    check(live["step"]["by_device"] and live["step"]["devices_unknown"] == [], f"live: {live['step']}")
    same = {"step": ("exposed_ratio", "overlap_ratio", "waiting_known", "by_device", "gpu_ccr_raw", "gpu_ccr_xfer", "gpu_ccr_exposed", "shares")}
    for key, names in same.items():
        check(all(live[key][name] == replay[key][name] for name in names), f"{key}: live {live[key]}, replay {replay[key]}")
    for name in ("late_ns", "wait_ns", "step_ns", "compute_ns", "exposed_ns", "shares"):
        check([r[name] for r in live["ranks"]] == [r[name] for r in replay["ranks"]], f"ranks: {name}: live {live['ranks']}, replay {replay['ranks']}")
    for table in ("collectives", "axes", "layers", "blame"):
        check(live[table] == replay[table] != [], f"{table}: live {live[table]}, replay {replay[table]}")


def alone(folder):
    """One process that nobody announced: it has the same numbers of GPUs as a rank of many."""
    run_dir = folder / "alone.ddl"
    done = job.run([job.BUILD / "bin" / "gpu_job", "12"], **nccl_job.environment(LD_PRELOAD=job.LIBRARY, DDL_OUT=run_dir, **VIRTUAL))
    check(done.returncode == 0, f"alone: {done.stderr}")
    found = json.loads(job.report(run_dir, "--json").stdout)
    truth = gpu_truth.Job(12)
    steady = [row for row in gpu_truth.parts(truth) if row[0] >= 5]
    metrics = {m["id"]: m["value"] for m in found["metrics"]}
    check(abs(metrics.get("gpu_parallel_efficiency", 0) - sum(row[2] for row in steady) / sum(row[1] for row in steady)) < 1e-9, f"alone: {metrics}")
    late = [f for f in found["findings"] if f["id"] in ("straggler", "missing_rank", "killed_rank")]
    check(metrics.get("step_time") == steady[0][1] and late == [], f"alone: {metrics} {late}")


if __name__ == "__main__":
    job.main(every_version, left_by_exit, who_is_late, alone)
