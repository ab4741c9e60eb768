#!/usr/bin/env python3
"""Collectives of NCCL as its profiler times them: one row per rank and collective, with the length, the waiting, the bandwidth, the algorithm and the layer that the
double says, for every version of the plugin's interface, with and without the wrappers."""
import job
import nccl_job

RANKS = 3
BUS = {"AllReduce": lambda n: 2 * (n - 1) / n, "ReduceScatter": lambda n: (n - 1) / n, "AllGather": lambda n: (n - 1) / n, "AlltoAll": lambda n: (n - 1) / n}


def expected(log, ranks):
    """(function, S) in the order of the first communicator -> per rank: length and waiting by the shortest member."""
    told = nccl_job.told(log, ranks)
    first = told[0][0][0]
    lengths = []  # per collective: function, S, count, calls in kernel, [length per rank]
    for rank in range(ranks):
        rows = [row for row in told[rank] if row[0] == first]
        at = 0
        while at < len(rows):
            kernel = rows[at:at + rows[at][7]]
            start, end = kernel[0][5:7]
            for i, (_, function, count, _, size, _, _, calls) in enumerate(kernel):
                rest = sum(k[4] // 10 for k in kernel[1:])
                length = end - rest - start if i == 0 else size // 10
                if rank == 0:
                    lengths.append((function, size, count, calls, [length]))
                else:
                    lengths[at + i][4].append(length)
            at += len(kernel)
    return lengths


def check_run(db, log, ranks, what, by_wrappers=True):
    want = expected(log, ranks)
    label = "ncclCommInitRankConfig#1" if by_wrappers else "ncclCommInitRank#1"
    sizes, busy = {}, 0
    for rank in range(ranks):
        rows = db.execute("SELECT *, CAST(substr(op, 5) AS TEXT) function FROM v_collective WHERE rank = ? AND comm = ? ORDER BY seq", (rank, label)).fetchall()
        job.check([r["seq"] for r in rows] == list(range(1, len(want) + 1)), f"{what}: rank {rank} has numbers {[r['seq'] for r in rows]}, expected 1 to {len(want)}")
        for row, (function, size, count, calls, lengths) in zip(rows, want):
            name = f"{what}: rank {rank}: {row['op']} {row['seq']}"
            job.check(row["function"].replace("Bcast", "Broadcast") == function and row["bytes"] == size, f"{name}: {row['bytes']} bytes, expected {function} of {size}")
            # From the device's clock to ticks and back costs less than a millionth, and a nanosecond.
            job.check(abs(row["duration_ns"] - lengths[rank]) <= 2, f"{name}: takes {row['duration_ns']} ns, expected {lengths[rank]}")
            job.check(row["source"] == "profiler" and row["channels"] == 2 and row["fused"] == 1, f"{name}: {tuple(row)}")
            method = ("RING", "SIMPLE") if count > 1000 else ("TREE", "LL")
            job.check((row["algorithm"], row["protocol"]) == method, f"{name}: {row['algorithm']} {row['protocol']}, expected {method}")
            if function in BUS:
                job.check(row["wait_method"] == "min-duration" and abs(row["wait_ns"] - (lengths[rank] - min(lengths))) <= 3, f"{name}: waits {row['wait_ns']}, lengths {lengths}")
                job.check(row["wait_ns"] + row["xfer_ns"] == row["duration_ns"], f"{name}: {tuple(row)}")
                sizes.setdefault((row["op"], size), []).append(min(lengths))
                busy += 1
            else:
                job.check(row["wait_ns"] is None and row["why"] == "CLOCK_UNTRUSTED", f"{name}: {row['wait_ns']} {row['why']}")
        layers = {(r["layer"], r["step"]) for r in rows if r["layer"]}
        job.check(layers == {(layer, step) for layer in ("dense", "embedding") for step in range(3)}, f"{what}: layers {layers}")
    job.check(busy > 0, f"{what}: nothing was compared")
    for (op, size), shortest in sizes.items():
        if len(set(shortest)) > 1:
            continue
        row = db.execute("SELECT g.busbw_xfer FROM collective_group g JOIN op o ON o.id = g.op JOIN communicator c ON c.id = g.comm WHERE o.name = ? AND g.bytes = ? AND c.label = ?",
                         (op, size, label)).fetchone()
        bandwidth = size / shortest[0] * 1e9 * BUS[op[4:]](ranks)
        job.check(row and abs(row[0] / bandwidth - 1) < 0.03, f"{what}: {op} of {size}: {row[0]:.4g} B/s, expected {bandwidth:.4g}")
    lost = [tuple(r) for r in db.execute("SELECT kind, count, note FROM loss WHERE kind NOT LIKE 'gpu_tracing' AND kind NOT LIKE 'partial%'")]
    job.check(not lost, f"{what}: missing {lost}")


def every_version(folder):
    for version, plugin, arguments in ((22704, 4, ()), (22809, 5, ()), (22903, 6, ()), (22809, 5, ("nonblocking",)), (22704, 4, ("nonblocking",))):
        what = f"plugin v{plugin} {' '.join(arguments)}"
        run_dir, log = folder / f"{plugin}{''.join(arguments)}.ddl", folder / f"{plugin}{''.join(arguments)}.log"
        outputs = nccl_job.torchrun("nccl_calls", folder, RANKS, run_dir, arguments, FAKE_NCCL_VERSION=version, FAKE_NCCL_LOG=log)
        job.check(outputs == [f"rank {r} done\n" for r in range(RANKS)], f"{what}: {outputs}")
        db = job.store(run_dir)
        check_run(db, log, RANKS, what)
        sources = {r[0] for r in db.execute("SELECT value FROM process_fact WHERE key = 'nccl.source'")}
        job.check(sources == {"calls", f"profiler v{plugin}"}, f"{what}: {sources}")


def without_wrappers(folder):
    """NCCL opened with dlopen, as many frameworks do: the profiler stands in for the wrappers."""
    for version, plugin in ((22704, 4), (22809, 5)):
        run_dir, log = folder / f"dlopen{plugin}.ddl", folder / f"dlopen{plugin}.log"
        nccl_job.torchrun("nccl_calls_dlopen", folder, 2, run_dir, FAKE_NCCL_VERSION=version, FAKE_NCCL_LOG=log)
        db = job.store(run_dir)
        check_run(db, log, 2, f"dlopen, plugin v{plugin}", by_wrappers=False)
        calls = {r["op"]: r["n"] for r in db.execute("SELECT op, sum(calls) n FROM v_call WHERE op LIKE 'nccl%' AND rank = 0 GROUP BY op")}
        job.check(calls == {"ncclAllReduce": 6, "ncclReduceScatter": 3, "ncclAllGather": 3, "ncclBroadcast": 4, "ncclReduce": 1, "ncclAlltoAll": 1, "ncclGather": 1, "ncclScatter": 1, "ncclSend": 1,
                            "ncclRecv": 1}, f"dlopen, plugin v{plugin}: {calls}")


def untimed(folder):
    """A profiler that tells no times and no CUPTI: calls, but no rows that would have to guess."""
    run_dir = folder / "untimed.ddl"
    nccl_job.torchrun("nccl_calls", folder, 2, run_dir, FAKE_NCCL_NO_KERNEL_EVENTS=1)
    db = job.store(run_dir)
    job.check(db.execute("SELECT count(*) FROM v_collective WHERE op LIKE 'nccl%'").fetchone()[0] == 0, "collectives without times")
    job.check(db.execute("SELECT sum(calls) FROM v_call WHERE op = 'ncclReduceScatter'").fetchone()[0] == 6, "calls are missing")
    called = [r[0] for r in db.execute("SELECT sum(calls) FROM v_call c JOIN op o ON o.name = c.op JOIN communicator m ON m.label = c.comm WHERE c.op LIKE 'nccl%' AND m.size > 1 AND o.class IN ('all_to_all', 'root_to_all', 'all_to_root')"
                                       " GROUP BY c.rank ORDER BY c.rank")]
    lost = [tuple(r) for r in db.execute("SELECT count FROM loss WHERE kind = 'nccl_untimed' ORDER BY rank")]
    job.check(lost == [(n - 1,) for n in called], f"untimed: {lost}, called {called}, of which one was refused")
    job.check("neither CUPTI nor NCCL's profiler timed" in " ".join(job.report(run_dir).stdout.split()), "the report does not say what is missing")


if __name__ == "__main__":
    job.main(every_version, without_wrappers, untimed)
