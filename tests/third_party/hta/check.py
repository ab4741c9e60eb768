#!/usr/bin/env python3
"""Side by side with HTA (github.com/facebookresearch/HolisticTraceAnalysis): both read the same traces, question by question. By hand: HTA is in no package of
Debian.

    check.py HTA_CHECKOUT [TRACE.json.gz...]      default: all traces of HTA with GPU events (extra: needs ../shared, skipped without it)

HTA needs pandas, numpy, psutil and PyYAML; plotly and networkx, which nothing here uses, are replaced where they are not installed. It rounds begins up and ends down to
whole us by default; here it is told not to (HTA_DISABLE_NS_ROUNDING). Prints a row for each trace and question; exit code 1 if one differs that must be equal.
Questions and what is known to differ: docs/how-to/import.md.
"""
import json
import logging
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest.mock
import warnings

HERE = pathlib.Path(__file__).resolve()
BUILD = pathlib.Path(os.environ.get("DDL_BUILD", HERE.parents[3] / "build" / "release"))
TRACES = HERE.parents[4] / "shared/traces/hta"

# One launch may be that of a graph: HTA knows only calls that launch one thing.
SINGLE = "SELECT *, count(*) OVER (PARTITION BY correlation) AS of_launch FROM v_hta_event WHERE launch_ns IS NOT NULL"

QUESTIONS = {
    "where the time went": "SELECT kernel_time_ns / 1e3 AS kernel_time, idle_ns / 1e3 AS idle, compute_ns / 1e3 AS compute,"
                           " non_compute_ns / 1e3 AS non_compute FROM v_hta",
    "overlap": "SELECT round(comp_comm_overlap_pctg, 2) AS pctg FROM v_hta",
    "kernels by kind": "SELECT compute_ns / 1e3 AS compute, comm_ns / 1e3 AS comm, overlap_ns / 1e3 AS both FROM v_hta",
    "kernels by name": "SELECT count(*) AS names, sum(t) AS sum, max(t) AS longest, sum(m) AS of_max, sum(a) AS of_mean FROM"
                       " (SELECT sum(duration_ns) / 1e3 AS t, max(duration_ns) / 1e3 AS m, avg(duration_ns) / 1e3 AS a FROM v_hta_event"
                       " WHERE class <> 'MEMORY' GROUP BY name)",
    "launches": "SELECT count(*) AS launches, coalesce(sum(launch_duration_ns), 0) / 1e3 AS host, coalesce(sum(duration_ns), 0) / 1e3 AS gpu,"
                " coalesce(sum(max(0, start_ns - launch_ns - launch_duration_ns)), 0) / 1e3 AS delay,"
                " coalesce(sum(duration_ns < launch_duration_ns), 0) AS short, coalesce(sum(launch_duration_ns > 50000), 0) AS slow_calls,"
                f" coalesce(sum(start_ns - launch_ns - launch_duration_ns > 100000), 0) AS late FROM ({SINGLE}) WHERE of_launch = 1",
    "queue": f"WITH e AS (SELECT * FROM ({SINGLE}) WHERE of_launch = 1), q AS (SELECT stream, launch_ns AS t, 1 AS c, event FROM e"
             " UNION ALL SELECT stream, start_ns, -1, event FROM e), s AS (SELECT stream, sum(c) OVER (PARTITION BY stream"
             " ORDER BY t, c DESC, event ROWS UNBOUNDED PRECEDING) AS n FROM q)"
             " SELECT stream, count(*) AS count, avg(n) AS mean, max(n) AS max FROM s GROUP BY stream",
    "copy rate": "SELECT CASE name WHEN '[CUDA memset]' THEN 'Memset' ELSE 'Memcpy ' || substr(name, 14, 4) END AS kind, count(*) AS count,"
                 " max(bytes * 1.0 / duration_ns) AS max FROM v_hta_event WHERE class = 'MEMORY' AND duration_ns > 0 AND bytes > 0 GROUP BY kind",
    "idle by stream": "WITH g AS (SELECT stream, start_ns, launch_ns, lag(start_ns + duration_ns) OVER (PARTITION BY stream ORDER BY start_ns, event) AS e"
                      " FROM v_hta_event) SELECT stream, sum(CASE WHEN launch_ns > e THEN start_ns - e ELSE 0 END) / 1e3 AS host_wait,"
                      " sum(CASE WHEN launch_ns > e THEN 0 WHEN start_ns - e < 30000 THEN start_ns - e ELSE 0 END) / 1e3 AS kernel_wait,"
                      " sum(CASE WHEN launch_ns > e OR start_ns - e < 30000 THEN 0 ELSE start_ns - e END) / 1e3 AS other FROM g"
                      " WHERE e IS NOT NULL GROUP BY stream HAVING count(*) > 0",
    "sequences": "WITH s AS (SELECT sequence, sum(calls) AS c, sum(gpu_ns) / 1e3 AS g, sum(host_ns) / 1e3 AS h FROM v_kernel_sequence"
                 " WHERE range_name = 'aten::addmm' AND (step < (SELECT max(step) FROM v_step) OR (SELECT count(DISTINCT step) FROM v_step) < 2)"
                 " GROUP BY sequence) SELECT count(*) AS sequences, coalesce(sum(c), 0) AS calls, coalesce(max(c), 0) AS most,"
                 " coalesce(sum(g), 0) AS gpu, coalesce(sum(h), 0) AS host FROM s",
    "steps": "SELECT group_concat(step) AS steps FROM (SELECT DISTINCT step FROM v_step WHERE step < (SELECT max(step) FROM v_step)"
             " OR (SELECT count(DISTINCT step) FROM v_step) = 1 ORDER BY step)",
}

# What is known to differ, and why: by question and trace.
WHOLE_US = "HTA cuts every piece of time of this table to whole us"
SYNCHRONISATION = "HTA counts synchronisations of which the trace names a stream: they lengthen the time, and are no idling"
BANDWIDTH = "HTA takes the trace's own bandwidth, of durations that are not rounded to us; what its sums leave at the end (1e-13) counts"
KNOWN = {
    ("kernels by kind", "amd_trace"): WHOLE_US,
    ("kernels by kind", "nccl_parser_config"): WHOLE_US,
    ("launches", "amd_trace"): "HTA knows no call of HIP here",
    ("copy rate", "amd_trace"): "the trace of ROCm 6.2 tells no bytes",
    ("where the time went", "alexnet"): SYNCHRONISATION,
    ("where the time went", "cuda_event_sync"): SYNCHRONISATION,
    ("where the time went", "cuda_event_sync_multi_stream"): SYNCHRONISATION,
    ("sequences", "control"): "HTA counts the calls at the smallest depth at which it finds the operator, here 345 of 495",
    ("copy rate", "df_index_resolver"): BANDWIDTH,
    ("copy rate", "control"): BANDWIDTH,
    ("copy rate", "test"): BANDWIDTH,
}


def load_hta(checkout):
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    warnings.filterwarnings("ignore")
    try:
        import plotly  # noqa: F401
    except ImportError:
        for name in ("plotly", "plotly.express", "plotly.graph_objects", "plotly.subplots", "plotly.graph_objs"):
            sys.modules[name] = unittest.mock.MagicMock()
    try:
        import networkx  # noqa: F401
    except ImportError:
        sys.modules["networkx"] = unittest.mock.MagicMock(DiGraph=type("DiGraph", (), {}))
    sys.path.insert(0, str(checkout))
    from hta.trace_analysis import TraceAnalysis
    from hta.analyzers.cuda_kernel_analysis import CudaKernelAnalysis
    from hta.common.trace import Trace
    # Sequences are also drawn into a copy of the trace, which takes minutes.
    CudaKernelAnalysis._overlay_frequent_patterns_with_trace = classmethod(lambda *args, **named: {})
    Trace.write_raw_trace = lambda *args, **named: None
    logging.disable(logging.CRITICAL)
    return TraceAnalysis


def of_hta(analysis):
    rank = next(iter(analysis.t.traces))
    time = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    classes, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True, num_kernels=10**6, duration_ratio=1.1)
    kinds = dict(zip(classes["kernel_type"], classes["sum"]))
    kernels = kernels[kernels["kernel_type"] != "MEMORY"]
    launches = analysis.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank]
    queue = analysis.get_queue_length_summary(ranks=[rank])
    rates = analysis.get_memory_bw_time_series(ranks=[rank]).get(rank)
    idle = analysis.get_idle_time_breakdown(ranks=[rank], visualize=False)[0]
    sequences = analysis.get_frequent_cuda_kernel_sequences("aten::addmm", tempfile.gettempdir(), min_pattern_len=1, rank=rank, visualize=False)

    def total(*names):
        return sum(value for name, value in kinds.items() if all(part in name for part in names))

    return {
        "where the time went": [{"kernel_time": time["kernel_time(us)"], "idle": time["idle_time(us)"], "compute": time["compute_time(us)"],
                                 "non_compute": time["non_compute_time(us)"]}],
        "overlap": [{"pctg": analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"]}],
        "kernels by kind": [{"compute": total("COMPUTATION"), "comm": total("COMMUNICATION"), "both": total("COMPUTATION", "COMMUNICATION")}],
        "kernels by name": [{"names": len(kernels), "sum": kernels["sum (us)"].sum(), "longest": kernels["sum (us)"].max(),
                             "of_max": kernels["max (us)"].sum(), "of_mean": kernels["mean (us)"].sum()}],
        "launches": [{"launches": len(launches), "host": launches["cpu_duration"].sum(), "gpu": launches["gpu_duration"].sum(),
                      "delay": launches["launch_delay"].sum(), "short": (launches["gpu_duration"] < launches["cpu_duration"]).sum(),
                      "slow_calls": (launches["cpu_duration"] > 50).sum(), "late": (launches["launch_delay"] > 100).sum()}],
        "queue": [] if queue is None else [{"stream": index[1], **{k: row["queue_length"][k] for k in ("count", "mean", "max")}}
                                           for index, row in queue.iterrows()],
        "copy rate": [] if rates is None else [{"kind": kind, "count": (of["memory_bw_gbps"] > 0).sum(), "max": of["memory_bw_gbps"].max()}
                                               for kind, of in rates.groupby("name")],
        "idle by stream": [{"stream": stream, **{k: of[of["idle_category"] == k]["idle_time"].sum() for k in ("host_wait", "kernel_wait", "other")}}
                           for stream, of in idle.groupby("stream") if of["idle_time"].sum() != 0],
        "sequences": [{"sequences": len(sequences), "calls": sequences["count"].sum(), "most": sequences["count"].max(),
                       "gpu": sequences["GPU kernel duration (us)"].sum(), "host": sequences["CPU op duration (us)"].sum()}
                      if len(sequences) else {"sequences": 0}],
        "steps": [{"steps": ",".join(map(str, analysis.get_profiler_steps())) or None}],
    }


def of_ddl(run, sql):
    done = subprocess.run([BUILD / "bin/ddl", "query", run, sql, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def equal(ours, theirs):
    if ours is None or theirs is None or isinstance(theirs, str):
        return (ours is None and (theirs is None or (isinstance(theirs, float) and math.isnan(theirs)))) or ours == theirs
    if math.isnan(theirs):
        return ours is None
    # HTA keeps us since 1970 as 64-bit floats: half a us; and where it sums them, more. Of equal times it takes any order.
    return abs(float(ours) - float(theirs)) <= max(1.0, 0.002 * abs(theirs))


def check(question, ours, theirs):
    """What differs, for people; empty: nothing."""
    key = {"queue": "stream", "idle by stream": "stream", "copy rate": "kind"}.get(question)
    ours, theirs = ({row.get(key): row for row in rows} for rows in (ours, theirs))
    return [f"{k if key else ''} {name}: ddl {ours.get(k, {}).get(name)}, HTA {value}" for k, row in theirs.items() for name, value in row.items()
            if name != key and not equal(ours.get(k, {}).get(name), value)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    analyze = load_hta(pathlib.Path(sys.argv[1]).resolve())
    traces = [pathlib.Path(t) for t in sys.argv[2:]] or sorted(TRACES.rglob("*.json.gz"))
    if not traces:
        print(f"skipped: no traces in {TRACES}")
        return 77
    different = 0
    for trace in traces:
        with tempfile.TemporaryDirectory(prefix="ddl-hta-") as folder:
            run = pathlib.Path(folder) / "run.ddl"
            subprocess.run([BUILD / "bin/ddl", "import", "kineto", trace, "-o", run], check=True, stderr=subprocess.DEVNULL)
            name = trace.parent.name
            if not of_ddl(run, "SELECT 1 AS n FROM v_hta"):
                print(f"{name}: no GPU events")
                continue
            theirs = of_hta(analyze(trace_files={0: str(trace)}, trace_dir=""))
            for question, sql in QUESTIONS.items():
                ours = of_ddl(run, sql)
                wrong = check(question, ours, theirs[question])
                reason = KNOWN.get((question, name))
                different += bool(wrong) and not reason
                told = f"{'known' if reason else 'DIFFERS'}: {'; '.join(wrong[:4])}{f' ({reason})' if reason else ''}" if wrong else f"equal: {ours[:1]}"
                print(f"{name:30} {question:20} {told}")
    print(f"{different} answers differ without a known reason")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
