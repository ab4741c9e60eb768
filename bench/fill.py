#!/usr/bin/env python3
"""Puts what bench/run.py measured into docs/performance.md: the block between `<!-- bench:NAME -->` and `<!-- /bench -->` of everything that was measured is
written anew.

    fill.py RESULT.json [docs/performance.md]
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CALLS = {
    "allreduce_self": "MPI_Allreduce, 1 float, MPI_COMM_SELF",
    "barrier_self": "MPI_Barrier, MPI_COMM_SELF",
    "isend_irecv_waitall": "Isend + Irecv + Waitall to self, per call",
    "test_null": "MPI_Test, MPI_REQUEST_NULL",
    "test_active": "MPI_Test, a request that is not complete",
    "pingpong": "Send/Recv ping-pong, 2 ranks, per call",
    "allreduce_2": "MPI_Allreduce, 1 float, 2 ranks",
    "allreduce_self_cold": "MPI_Allreduce after 8 MB",
    "isend_irecv_waitall_cold": "Isend + Irecv + Waitall after 8 MB, per call",
}
VARIANTS = ["floor_rdtsc", "floor_clock", "recorded", "profiled", "default", "monotonic", "disabled"]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join(["---"] * len(header)) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def calls_table(result, column):
    variants = [v for v in VARIANTS if all(v in kinds for kinds in result.values())]
    return table(["call"] + variants, [[CALLS[kind]] + [f"{kinds[v][column]:.1f}" for v in variants] for kind, kinds in result.items()])


def ratio(row, floor):
    low, high = row[floor + "_interval"]
    return f"{row[floor]:.2f} ({low:.2f} to {high:.2f})"


def ratios_table(result):
    rows = []
    for kind, kinds in result.items():
        rows.append([CALLS[kind], ratio(kinds["recorded"], "floor_rdtsc"), ratio(kinds["profiled"], "floor_rdtsc"),
                     ratio(kinds["default"], "floor_rdtsc"), ratio(kinds["recorded"], "floor_clock")] + ([ratio(kinds["monotonic"], "floor_clock")] if "monotonic" in kinds else ["-"]))
    return table(["call", "recorded / rdtsc floor", "profiled / rdtsc floor", "default / rdtsc floor", "recorded / clock floor", "recorded with DDL_CLOCK=monotonic / clock floor"], rows)


def job(r):
    return "\n".join([
        f"`{re.sub(r'/[^ ]*/bin/', '', r['command'])}` on 2 ranks ({r['wall_s']:.1f} s), {r['calls_per_second']:.0f} MPI calls per second and rank:", "",
        table(["", "share of the time"],
              [[f"calls x cost of a cold call ({r['cold_ns']:.0f} ns)", f"{100 * r['calls_times_cost']:.3f} %"],
               ["what the run says of itself (`recording_overhead`, background work included)", f"{100 * r['own_estimate']:.3f} %"],
               [f"wall clock with against without, {r['pairs']} pairs, 95 % interval",
                f"{100 * r['wall_added']:+.2f} % ({100 * r['wall_added_interval'][0]:+.2f} to {100 * r['wall_added_interval'][1]:+.2f})"]])])


def many(r):
    calls = 10_000_000
    rows = [[v, f"{x['loop_ns_per_call']:.0f}", f"{x['exit_ms']:.0f}", f"{x['spool_bytes'] / calls:.2f}" if "spool_bytes" in x else "-"] for v, x in r.items()]
    recorded = r["recorded"]
    text = [table(["10,000,000 calls", "ns per call in all (wall)", "ms from the last call to the end of the process", "spool, bytes per call"], rows), "",
            f"Recorded: {recorded['spool_bytes'] / recorded['events']:.1f} bytes per event in the spool, {recorded['sqlite_bytes'] / recorded['events']:.1f} in"
            f" `run.sqlite`, indices and analysis included; `ddl report` answers after {recorded['report_s']:.1f} s.", ""]
    names = {"ingest": "our ingest: spools to store, indices included", "indexed": "floor: INSERT INTO event SELECT from a virtual table, then the same indices",
             "vtab": "floor: the same without indices",
             "prepared": "floor: one prepared INSERT per row"}
    text.append(table(["rows into SQLite", "ns of processor time per row", "million rows/s"],
                      [[name, f"{min(recorded[way + '_ns_per_row']):.0f}", f"{1e3 / min(recorded[way + '_ns_per_row']):.2f}"] for way, name in names.items()]))
    return "\n".join(text)


def analysis(rows):
    least = {key: [min(r[key]) for r in rows] for key in rows[0] if isinstance(rows[0][key], list)}
    lines = [["the first report: ingest, analysis, report", *(f"{r['first_s']:.2f} s, {r['first_mib']:.0f} MiB" for r in rows)],
             ["`ddl analyze` again", *(f"{s:.2f} s, {r['analyze_mib']:.0f} MiB" for s, r in zip(least["analyze_s"], rows))],
             ["`ddl report` of the analyzed run", *(f"{s:.2f} s" for s in least["report_s"])],
             ["one scan of all its tables (SQLite, all columns)", *(f"{s:.2f} s" for s in least["scan_s"])],
             ["report over scan", *(f"{a / b:.2f}" for a, b in zip(least["report_s"], least["scan_s"]))],
             ["our ingest, ns per row", *(f"{ns:.0f}" for ns in least["ingest_ns_per_row"])],
             ["floor with the same indices, ns per row", *(f"{ns:.0f}" for ns in least["indexed_ns_per_row"])],
             ["floor by prepared INSERTs without indices, ns per row", *(f"{ns:.0f}" for ns in least["prepared_ns_per_row"])],
             ["ingest reaches of the floor with indices", *(f"{b / a:.2f}" for a, b in zip(least["ingest_ns_per_row"], least["indexed_ns_per_row"]))],
             ["... of prepared INSERTs without", *(f"{b / a:.2f}" for a, b in zip(least["ingest_ns_per_row"], least["prepared_ns_per_row"]))]]
    return table(["processor time, least of all rounds"] + [f"{r['events']:,} events" for r in rows], lines)


def spawn(r):
    return table(["posix_spawn of /bin/true", "us"],
                 [["without", f"{r['without_us']:.0f}"], ["LD_PRELOAD=libddl.so adds, quiet", f"{r['added_quiet_us']:.0f}"],
                  ["LD_PRELOAD=libddl.so adds, median", f"{r['added_median_us']:.0f}"]])


PAIRS = {"push_pop": "`nvtxRangePushA`, `nvtxRangePop`", "domain_registered": "push and pop, domain, registered string", "start_end": "`nvtxRangeStartA`, `nvtxRangeEnd`"}


def ranges(result):
    rows = [[PAIRS[kind], variant, f"{r['ours']:.1f}", f"{r['ours_median']:.1f}", f"{r['empty']:.1f}", f"{r['clocks']:.1f}", f"{r['x_quiet']:.2f}",
             "{:.2f} ({:.2f} to {:.2f})".format(r["x_median"], *r["x_median_interval"])] for kind, variants in result["ranges"].items() for variant, r in variants.items()]
    return machine(result) + "\n\n" + table(["pair", "variant", "ours, quiet", "ours, median", "empty", "two clocks", "x quiet", "x median (95 % interval)"], rows)


def peer(result):
    variants = ["floor_rdtsc", "floor_clock", "recorded", "profiled", "eztrace"]
    rows = []
    for kind, kinds in result["peer"].items():
        added = [kinds[v]["median" if kind.endswith("_cold") else "quiet"] for v in variants]
        rows.append([CALLS[kind]] + [f"{ns:.1f}" for ns in added] + [f"1 / {added[4] / added[2]:.1f}"])
    return machine(result) + "\n\n" + table(["call"] + variants + ["recorded / eztrace"], rows)


def machine(result):
    m = result["machine"]
    return (f"{m['processor']}, {m['cores']} cores, Linux {m['kernel']}, {m['mpi'].replace('mpirun ', '')}; {m['date']}, commit {m['commit']}, {result['rounds']} rounds;"
            f" load average {m['load']:.1f} when it began.")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    result = json.loads(pathlib.Path(sys.argv[1]).read_text())
    path = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "performance.md"
    makers = {"machine": lambda: machine(result), "ratios": lambda: ratios_table(result["calls"]), "calls": lambda: calls_table(result["calls"], "quiet"),
              "calls_mean": lambda: calls_table(result["calls"], "mean"), "cold": lambda: calls_table(result["cold"], "median"),
              "ranks": lambda: calls_table(result["ranks"], "quiet"), "job": lambda: job(result["job"]), "many": lambda: many(result["many"]),
              "analysis": lambda: analysis(result["analysis"]), "analysis_machine": lambda: machine(result), "spawn": lambda: spawn(result["spawn"]), "ranges": lambda: ranges(result),
              "peer": lambda: peer(result)}
    # A result of only some parts fills those and leaves the others as they are.
    measured = {"ratios": "calls", "calls_mean": "calls", "analysis_machine": "analysis"}
    whole = set(result) >= {"calls", "cold", "ranks", "job", "many", "analysis", "spawn"}
    blocks = {name: make() for name, make in makers.items() if (whole if name == "machine" else measured.get(name, name) in result)}
    used = set()

    def fill(match):
        if match[1] not in blocks:
            return match[0]
        used.add(match[1])
        return f"<!-- bench:{match[1]} -->\n{blocks[match[1]]}\n<!-- /bench -->"

    path.write_text(re.sub(r"<!-- bench:(\w+) -->\n.*?<!-- /bench -->", fill, path.read_text(), flags=re.S))
    if used != set(blocks):
        sys.exit(f"{path} has no place for: {', '.join(sorted(set(blocks) - used))}")


if __name__ == "__main__":
    main()
