#!/usr/bin/env python3
"""Measures what recording costs, and prints it as tables.

    run.py [--build DIR] [--rounds N] [--json FILE] [calls] [cold] [ranks] [job] [many] [analysis] [spawn] [ranges] [peer]     default: all but peer

Everything that is compared runs in turns, in random order, round after round, so that the machine's other load falls on all alike. Costs are
differences to the same call without a tool, timed in the same process (bench/calls.c), because two processes do not get the same clock of the
processor; the median of all rounds is printed. "Quiet" compares the least block of each: what a call costs when nothing else happens. Times of
one rank are processor time, of two ranks wall time.

peer: the same calls under EZTrace, a tracer that Debian has (apt install eztrace, or its packages unpacked: --eztrace FOLDER).
"""
import argparse
import json
import os
import pathlib
import platform
import random
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MPI_ENV = dict(line.split("=", 1) for line in re.findall(r"\bO[A-Z]+_\w+=\S+", (ROOT / "tests/support/mpi_env.sh").read_text()))
GIB = 1 << 30
STEPS_NEVER = "4000000000"

# variant -> what is preloaded (of lib/), settings
VARIANTS = {
    "none": ([], {}),
    "floor_rdtsc": (["libfloor_rdtsc.so"], {}),
    "floor_clock": (["libfloor_clock.so"], {}),
    "recorded": (["libddl.so"], {"DDL_BUDGET": "off", "DDL_CAP": 4 * GIB}),
    "profiled": (["libddl.so"], {"DDL_BUDGET": "off", "DDL_STEPS": STEPS_NEVER}),
    "default": (["libddl.so"], {}),
    "monotonic": (["libddl.so"], {"DDL_BUDGET": "off", "DDL_CAP": 4 * GIB, "DDL_CLOCK": "monotonic"}),
    "disabled": (["libddl.so"], {"DDL_DISABLE": "1"}),
}
HOT = ["allreduce_self", "barrier_self", "isend_irecv_waitall", "test_null", "test_active"]
COLD = ["allreduce_self_cold", "isend_irecv_waitall_cold"]
RANKS = ["pingpong", "allreduce_2"]
RANGES = ["default", "profiled", "recorded"]


class Bench:
    def __init__(self, build, rounds, folder):
        self.build, self.rounds, self.folder = build, rounds, folder
        self.number = 0
        self.variants = dict(VARIANTS)

    def run(self, command, variant, **extra):
        """Standard output of `command` under a variant; whatever it recorded is in self.run_dir."""
        libraries, settings = self.variants[variant]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DDL_") and k != "LD_PRELOAD"}
        environment.update(MPI_ENV)
        self.number += 1
        self.run_dir = self.folder / f"{self.number}.ddl"
        environment["DDL_OUT"] = environment["EZTRACE_TRACE_DIR"] = str(self.run_dir)
        environment.update({k: str(v) for k, v in {**settings, **extra}.items()})
        command = [str(c) for c in command]
        if libraries:
            preload = "LD_PRELOAD=" + ":".join(str(self.build / "lib" / library) for library in libraries)
            if command[0] == "mpirun":  # the ranks only, not the launcher
                command[3:3] = ["env", preload]
            else:
                environment["LD_PRELOAD"] = preload.split("=", 1)[1]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=self.folder)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ({variant}): exit code {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def forget(self):
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def program(self, name):
        return self.build / "bin" / name


def in_turns(variants, rounds):
    for _ in range(rounds):
        for variant in random.sample(variants, len(variants)):
            yield variant


def interval(samples, statistic, draws=2000):
    """Bootstrap, 95 %."""
    drawn = sorted(statistic(random.choices(samples, k=len(samples))) for _ in range(draws))
    return drawn[int(0.025 * draws)], drawn[int(0.975 * draws) - 1]


# ------------------------------------------------------------------------------------------------ calls


def added(samples, column):
    """`samples`: rounds of (tool_min, tool_median, tool_mean, real_min, real_median, real_mean)."""
    at = {"quiet": 0, "median": 1, "mean": 2}[column]
    return statistics.median(s[at] - s[at + 3] for s in samples)


def bench_calls(bench, kinds, variants, ranks=None, arguments=()):
    """`ranks`: None: without mpirun."""
    samples = {kind: {v: [] for v in variants} for kind in kinds}
    for kind in kinds:
        for variant in in_turns(variants, bench.rounds):
            command = [bench.program("bench_calls"), kind, *arguments]
            if ranks:
                command = ["mpirun", "-np", str(ranks), *command]
            samples[kind][variant].append(tuple(float(x) for x in bench.run(command, variant).split()))
            bench.forget()
    result = {}
    for kind in kinds:
        result[kind] = {}
        for variant in variants:
            mine = samples[kind][variant]
            row = {c: added(mine, c) for c in ("quiet", "median", "mean")}
            for floor in ("floor_rdtsc", "floor_clock"):
                pairs = list(zip(mine, samples[kind][floor]))
                column = "median" if kind.endswith("_cold") else "quiet"
                ratio = lambda drawn: added([p[0] for p in drawn], column) / max(added([p[1] for p in drawn], column), 1e-9)
                row[floor] = ratio(pairs)
                row[floor + "_interval"] = interval(pairs, ratio, 500)
            row["without"] = min(s[3] for rounds in samples[kind].values() for s in rounds)
            result[kind][variant] = row
    return result


def print_calls(result, title):
    print(f"\n{title}: ns added per call; x = times the floor (95 % interval over rounds)")
    print(f"{'call':26} {'variant':12} {'quiet':>8} {'median':>8} {'mean':>8}   {'x rdtsc floor':>20} {'x clock floor':>20}")
    for kind, variants in result.items():
        for variant, row in variants.items():
            ratios = [f"{row[f]:6.2f} ({row[f + '_interval'][0]:.2f}-{row[f + '_interval'][1]:.2f})" for f in ("floor_rdtsc", "floor_clock")]
            if variant == "none":
                ratios = ["", ""]
            print(f"{kind:26} {variant:12} {row['quiet']:8.1f} {row['median']:8.1f} {row['mean']:8.1f}   {ratios[0]:>20} {ratios[1]:>20}")


# ------------------------------------------------------------------------------------------------ a peer


def add_eztrace(bench, folder):
    """`folder`: of its libraries."""
    libraries = [folder / "libeztrace-lib.so", folder / "libeztrace-openmpi.so"]
    if missing := [str(library) for library in libraries if not library.exists()]:
        sys.exit(f"EZTrace is not there: {missing[0]} (apt install eztrace, or --eztrace FOLDER)")
    bench.variants["eztrace"] = (libraries, {"EZTRACE_TRACE": "openmpi", "EZTRACE_LIBRARY_PATH": folder, "LD_LIBRARY_PATH": folder})


def bench_peer(bench):
    """Under mpirun: EZTrace breaks the daemon that MPI starts for a rank without."""
    variants = ["none", "floor_rdtsc", "floor_clock", "recorded", "profiled", "eztrace"]
    return bench_calls(bench, HOT + COLD, variants, ranks=1, arguments=["200", "1000"])


# ------------------------------------------------------------------------------------------------ a whole job


def store_of(bench, run_dir):
    done = subprocess.run([bench.program("ddl"), "report", run_dir], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"ddl report {run_dir}: {done.stderr}")
    return sqlite3.connect(f"file:{run_dir}/run.sqlite?mode=ro", uri=True)


def bench_job(bench, cold_ns):
    """The trainer, 8 layers of 1 MB gradients, recorded as users do (default settings) and not, in pairs."""
    steps = 60
    command = ["mpirun", "-np", "2", bench.program("train"), "--model", "mlp", "--width", "512", "--batch", "128", "--steps", str(steps)]
    wall = {"none": [], "default": []}
    shares, rates, own = [], [], []
    for variant in in_turns(list(wall), bench.rounds):
        begin = time.monotonic()
        bench.run(command, variant)
        wall[variant].append(time.monotonic() - begin)
        if variant == "default":
            db = store_of(bench, bench.run_dir)
            calls, seconds = db.execute(
                "SELECT (SELECT sum(calls) FROM profile p JOIN op o ON o.id = p.op JOIN process x ON x.id = p.process WHERE x.rank = 0),"
                " (SELECT (end_ns - start_ns) / 1e9 FROM process WHERE rank = 0)").fetchone()
            overhead = db.execute("SELECT sum(overhead_ns) * 1.0 / sum(end_ns - start_ns) FROM process").fetchone()[0]
            db.close()
            rates.append(calls / seconds)
            shares.append(calls * cold_ns / 1e9 / seconds)
            own.append(overhead)
        bench.forget()
    ratios = [b / a - 1 for a, b in zip(wall["none"], wall["default"])]
    return {"command": " ".join(str(c) for c in command[3:]), "calls_per_second": statistics.median(rates),
            "calls_times_cost": statistics.median(shares), "own_estimate": statistics.median(own), "cold_ns": cold_ns,
            "wall_s": statistics.median(wall["none"]), "wall_added": statistics.median(ratios), "wall_added_interval": interval(ratios, statistics.median),
            "pairs": len(ratios)}


def print_job(r):
    print(f"\na whole job: {r['command']} on 2 ranks, {r['wall_s']:.1f} s, {r['calls_per_second']:.0f} calls/s and rank")
    print(f"  calls x cost of a cold call ({r['cold_ns']:.0f} ns)  {100 * r['calls_times_cost']:.3f} %")
    print(f"  what the run says itself                {100 * r['own_estimate']:.3f} %")
    print(f"  wall clock, {r['pairs']} pairs                    {100 * r['wall_added']:+.2f} % ({100 * r['wall_added_interval'][0]:+.2f} to"
          f" {100 * r['wall_added_interval'][1]:+.2f})")


# ------------------------------------------------------------------------------------------------ ten million events


def bench_many(bench, calls=10_000_000):
    result = {}
    for variant in ("none", "floor_rdtsc", "recorded", "profiled", "default"):
        begin, end, _ = (int(x) for x in bench.run([bench.program("bench_many_calls"), calls], variant).split())
        ended = time.monotonic_ns()
        row = {"loop_ns_per_call": (end - begin) / calls, "exit_ms": (ended - end) / 1e6}
        if bench.run_dir.exists():
            row["spool_bytes"] = sum(f.stat().st_size for f in bench.run_dir.glob("*.spool"))
            if variant == "recorded":
                ingest = subprocess.run([bench.program("bench_ingest"), bench.run_dir, "3"], capture_output=True, text=True, check=True)
                for line in ingest.stdout.splitlines():
                    way, rows, ns = line.split()
                    row.setdefault(f"{way}_ns_per_row", []).append(float(ns))
                row["rows"] = int(rows)
                begin = time.monotonic()
                db = store_of(bench, bench.run_dir)
                row["report_s"] = time.monotonic() - begin
                row["events"] = db.execute("SELECT count(*) FROM event").fetchone()[0]
                db.close()
                row["sqlite_bytes"] = (bench.run_dir / "run.sqlite").stat().st_size
        bench.forget()
        result[variant] = row
    return result


def print_many(result, calls=10_000_000):
    print(f"\n{calls:,} MPI_Allreduce on MPI_COMM_SELF, one run each")
    for variant, r in result.items():
        text = f"  {variant:12} {r['loop_ns_per_call']:6.1f} ns per call (wall), {r['exit_ms']:7.1f} ms from the last call to the end of the process"
        if "spool_bytes" in r:
            text += f", spool {r['spool_bytes'] / calls:.2f} bytes per call"
        print(text)
    r = result["recorded"]
    print(f"  {r['events']:,} events: {r['spool_bytes'] / r['events']:.1f} bytes each in the spool, {r['sqlite_bytes'] / r['events']:.1f} in run.sqlite;"
          f" report after {r['report_s']:.1f} s")
    for way in ("ingest", "indexed", "vtab", "prepared"):
        ns = min(r[f"{way}_ns_per_row"])
        print(f"  {way:9} {ns:6.0f} ns of processor time per row, {1e3 / ns:.2f} million rows/s")


# ------------------------------------------------------------------------------------------------ analysing


SCAN = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}/run.sqlite?mode=ro", uri=True)
for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
    columns = ", ".join(f"count({row[1]})" for row in db.execute(f"PRAGMA table_info({table})"))
    db.execute(f"SELECT {columns} FROM {table} NOT INDEXED").fetchall()
"""


def cost_of(command):
    """Processor seconds and largest resident MiB of a command that must succeed."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        sys.exit(f"failed: {' '.join(map(str, command))}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def bench_analysis(bench):
    """What the first report (ingest and analysis), analysing again, the report of an analyzed run and one scan of all its tables take."""
    result = []
    for calls in (1_000_000, 3_000_000, 10_000_000):
        bench.run([bench.program("bench_step_calls"), calls], "recorded")
        ddl, run_dir = bench.program("ddl"), bench.run_dir
        first_s, first_mib = cost_of([ddl, "report", run_dir])
        rows = {"events": 0, "first_s": first_s, "first_mib": first_mib, "analyze_s": [], "report_s": [], "scan_s": []}
        for _ in range(bench.rounds):
            seconds, rows["analyze_mib"] = cost_of([ddl, "analyze", run_dir])
            rows["analyze_s"].append(seconds)
            seconds, rows["report_mib"] = cost_of([ddl, "report", run_dir])
            rows["report_s"].append(seconds)
            rows["scan_s"].append(cost_of([sys.executable, "-c", SCAN, run_dir])[0])
        ingest = subprocess.run([bench.program("bench_ingest"), run_dir, str(bench.rounds)], capture_output=True, text=True, check=True)
        for line in ingest.stdout.splitlines():
            way, events, ns = line.split()
            rows.setdefault(f"{way}_ns_per_row", []).append(float(ns))
            rows["events"] = int(events)
        bench.forget()
        result.append(rows)
    return result


def print_analysis(result):
    print("\nsteps of 100 MPI_Allreduce in four layers; processor time, least of all rounds")
    for r in result:
        report, scan = min(r["report_s"]), min(r["scan_s"])
        print(f"  {r['events']:>10,} events: first report {r['first_s']:.2f} s, {r['first_mib']:.0f} MiB; analyze {min(r['analyze_s']):.2f} s,"
              f" {r['analyze_mib']:.0f} MiB; report {report:.2f} s, scan {scan:.2f} s: {report / scan:.2f}; ingest"
              f" {min(r['indexed_ns_per_row']) / min(r['ingest_ns_per_row']):.2f} of the floor with indices,"
              f" {min(r['prepared_ns_per_row']) / min(r['ingest_ns_per_row']):.2f} of prepared INSERTs without")


# ------------------------------------------------------------------------------------------------ a process that is none of the job's


def bench_spawn(bench):
    samples = []
    for _ in range(bench.rounds):
        done = subprocess.run([bench.program("bench_spawn"), bench.build / "lib" / "libddl.so", "200"], capture_output=True, text=True, check=True)
        samples.append([float(x) for x in done.stdout.split()])
    return {"without_us": min(s[0] for s in samples), "added_quiet_us": min(s[2] for s in samples) - min(s[0] for s in samples),
            "added_median_us": statistics.median(s[3] - s[1] for s in samples)}


def print_spawn(r):
    print(f"\nposix_spawn of /bin/true: {r['without_us']:.0f} us; LD_PRELOAD adds {r['added_quiet_us']:.0f} us quiet, {r['added_median_us']:.0f} us median")


# ------------------------------------------------------------------------------------------------ NVTX


def bench_ranges(bench):
    """Every round is a process of its own in which ours, empty handlers and two clock readings take turns."""
    result = {}
    for variant in in_turns(RANGES, bench.rounds):
        settings = {**VARIANTS[variant][1]}
        for line in bench.run([bench.program("bench_ranges"), bench.build / "lib" / "libddl.so", "tsc"], "none", **settings).splitlines():
            kind, *numbers = line.split()
            result.setdefault(kind, {}).setdefault(variant, []).append([float(x) for x in numbers])
        bench.forget()
    ratio = lambda drawn: statistics.median(r[1] / (r[3] + r[5]) for r in drawn)
    for variants in result.values():
        for variant in RANGES:
            rounds = variants[variant]
            quiet = [min(r[i] for r in rounds) for i in (0, 2, 4)]
            variants[variant] = {"ours": quiet[0], "empty": quiet[1], "clocks": quiet[2], "x_quiet": quiet[0] / (quiet[1] + quiet[2]),
                                 "ours_median": statistics.median(r[1] for r in rounds), "x_median": ratio(rounds), "x_median_interval": interval(rounds, ratio, 500)}
    return result


def print_ranges(result):
    print("\nNVTX: ns per pair of calls; x = times (empty handlers + two clock readings), medians of rounds (95 % interval)")
    print(f"{'pair':20} {'variant':10} {'ours':>8} {'median':>8} {'empty':>8} {'2 clocks':>8}   {'x quiet':>8}   {'x median':>20}")
    for kind, variants in result.items():
        for variant in RANGES:
            r = variants[variant]
            low, high = r["x_median_interval"]
            print(f"{kind:20} {variant:10} {r['ours']:8.1f} {r['ours_median']:8.1f} {r['empty']:8.1f} {r['clocks']:8.1f}   {r['x_quiet']:8.2f}   "
                  f"{r['x_median']:6.2f} ({low:.2f}-{high:.2f})")


# ------------------------------------------------------------------------------------------------


def machine(build):
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    git = lambda *a: subprocess.run(["git", "-C", ROOT, *a], capture_output=True, text=True).stdout.strip()
    return {"processor": model.group(1) if model else platform.machine(), "cores": os.cpu_count(), "kernel": platform.release(),
            "mpi": subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout.splitlines()[0],
            "date": time.strftime("%Y-%m-%d"), "commit": git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else ""),
            "load": os.getloadavg()[0], "build": str(build)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--folder", type=pathlib.Path, help="where the runs are recorded to (default: a new folder in the temporary directory)")
    parser.add_argument("--json", type=pathlib.Path, help="write what was measured to this file as well")
    parser.add_argument("--eztrace", type=pathlib.Path, metavar="FOLDER", default=pathlib.Path(f"/usr/lib/{platform.machine()}-linux-gnu"),
                        help="where EZTrace's libraries are (peer)")
    parser.add_argument("what", nargs="*", choices=[[], "calls", "cold", "ranks", "job", "many", "analysis", "spawn", "ranges", "peer"])
    options = parser.parse_args()
    what = options.what or ["calls", "cold", "ranks", "job", "many", "analysis", "spawn", "ranges"]
    variants = list(VARIANTS)
    result = {"machine": machine(options.build), "rounds": options.rounds}
    print("  ".join(f"{k}: {v}" for k, v in result["machine"].items()))
    with tempfile.TemporaryDirectory(prefix="ddl-bench-", dir=options.folder) as folder:
        bench = Bench(options.build.resolve(), options.rounds, pathlib.Path(folder))
        if "peer" in what:
            add_eztrace(bench, options.eztrace.resolve())
        if "calls" in what:
            result["calls"] = bench_calls(bench, HOT, variants, arguments=["300", "1000"])
            print_calls(result["calls"], "hot")
        if "cold" in what or "job" in what:
            result["cold"] = bench_calls(bench, COLD, [v for v in variants if v != "default"], arguments=["200"])
            print_calls(result["cold"], "cold (8 MB touched between calls; compare medians)")
        if "ranks" in what:
            result["ranks"] = bench_calls(bench, RANKS, ["none", "floor_rdtsc", "floor_clock", "recorded", "profiled"], ranks=2, arguments=["40", "2000"])
            print_calls(result["ranks"], "two ranks (wall time)")
        if "job" in what:
            result["job"] = bench_job(bench, result["cold"]["allreduce_self_cold"]["recorded"]["median"])
            print_job(result["job"])
        if "many" in what:
            result["many"] = bench_many(bench)
            print_many(result["many"])
        if "analysis" in what:
            result["analysis"] = bench_analysis(bench)
            print_analysis(result["analysis"])
        if "spawn" in what:
            result["spawn"] = bench_spawn(bench)
            print_spawn(result["spawn"])
        if "ranges" in what:
            result["ranges"] = bench_ranges(bench)
            print_ranges(result["ranges"])
        if "peer" in what:
            result["peer"] = bench_peer(bench)
            print_calls(result["peer"], "beside EZTrace (cold: 8 MB touched between calls; compare medians)")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
