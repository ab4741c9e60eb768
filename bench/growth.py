#!/usr/bin/env python3
"""Measures how the processor time of ddl's verbs grows with a run, and prints it as a table with exponents.

    growth.py [--build DIR] [--rounds N] [--limit X] [--keep FOLDER] [events] [regions] [ranks] [kernels]     default: all

Virtual jobs (sized_run.cpp) of three sizes along one axis each. A time is the least of all rounds, less that of a job of two
ranks and two steps, which is what a verb costs before it has seen any data. The exponent is the slope of a line through the
points (log size, log time): 1 is linear. Exit code 1 if one is above the limit (1.1). Use a quiet machine and three rounds.
"""
import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# axis -> [(size, (ranks, steps, layers, calls))]: what else the job has stays as it is
AXES = {
    "events": [(8 * steps * 20, (8, steps, 5, 20)) for steps in (200, 800, 3200)],
    "regions": [(layers, (2, 3, layers, 2)) for layers in (2000, 8000, 30000)],
    "ranks": [(ranks, (ranks, 40, 5, 4)) for ranks in (64, 256, 1024)],
    "kernels": [(4 * steps * 20 * 2 * 12, (4, steps, 20, 1, 12)) for steps in (50, 200, 800)],
}
SMALLEST = (2, 2, 1, 1)

VERBS = {
    "analyze": ["analyze", "{run}"],
    "report": ["report", "{run}"],
    "report --json": ["report", "{run}", "--json"],
    "report --html": ["report", "{run}", "--html", "{out}.html"],
    "export perfetto": ["export", "perfetto", "{run}", "-o", "{out}.pftrace"],
    "export prometheus": ["export", "prometheus", "{run}", "-o", "{out}.prom"],
}
LEAST_S = 0.01  # of processor time: below, starting the program is what is measured


def processor_s(command):
    """User and system time of a command."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{errors.read().decode(errors='replace')[-2000:]}")
    return usage.ru_utime + usage.ru_stime


class Bench:
    def __init__(self, build, rounds, folder):
        self.bin, self.rounds, self.folder = build / "bin", rounds, folder

    def times(self, name, size):
        """Seconds of each verb on a job of this size."""
        run = self.folder / f"{name}.ddl"
        subprocess.run([self.bin / "bench_sized_run", run, *map(str, size)], check=True)
        subprocess.run([self.bin / "ddl", "report", run], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # reads the spools
        times = {}
        for verb, words in VERBS.items():
            files = [pathlib.Path(word.format(run=run, out=run)) for word in words if "{out}" in word]
            command = [self.bin / "ddl", *(word.format(run=run, out=run) for word in words)]
            for _ in range(self.rounds):
                for file in files:
                    file.unlink(missing_ok=True)
                times[verb] = min(times.get(verb, math.inf), processor_s(command))
        return times


def exponent(points):
    """Slope of log time over log size; None if there is too little to measure."""
    points = [(math.log(size), math.log(seconds)) for size, seconds in points if seconds >= LEAST_S]
    if len(points) < 2:
        return None
    x, y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((p[0] - x) * (p[1] - y) for p in points) / sum((p[0] - x) ** 2 for p in points)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--limit", type=float, default=1.1)
    options.add_argument("--keep", type=pathlib.Path, help="leave the runs in this folder")
    options.add_argument("axes", nargs="*", choices=[[], *AXES])
    chosen = options.parse_args()
    steep = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(chosen.build, chosen.rounds, folder)
        least = bench.times("smallest", SMALLEST)
        for axis in chosen.axes or AXES:
            sizes = AXES[axis]
            times = {size: bench.times(f"{axis}-{size}", job) for size, job in sizes}
            print(f"\n| {axis} | " + " | ".join(f"{size:,}" for size, _ in sizes) + " | exponent |\n|" + " --- |" * (len(sizes) + 2))
            for verb in VERBS:
                own = [(size, times[size][verb] - least[verb]) for size, _ in sizes]
                slope = exponent(own)
                print(f"| `ddl {verb}` | " + " | ".join(f"{max(0, s):.2f} s" for _, s in own) + f" | {'-' if slope is None else format(slope, '.2f')} |", flush=True)
                if slope is not None and slope > chosen.limit:
                    steep.append(f"{verb} over {axis}: {slope:.2f}")
    if steep:
        print("\nabove the limit: " + "; ".join(steep), file=sys.stderr)
    return 1 if steep else 0


if __name__ == "__main__":
    sys.exit(main())
