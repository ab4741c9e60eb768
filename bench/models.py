#!/usr/bin/env python3
"""How far `ddl model fusion` and `ddl model pipeline` are off: a run is recorded, the model asked for another setting, and that one recorded.

usage: bench/models.py [--rounds N] [--bin DIR] [--only WORD]

In a round a job is recorded with its first setting and then with every other one; the prediction is made from the recording of the same
round, so that load which comes and goes hits both; where the run does not tell what its allreduces took, a sweep of them is given.
Needs two cores that nobody else uses for numbers worth quoting.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20


def train(model, batch, *more):
    return ["-np", "2", "train", "--model", model, "--batch", str(batch), "--steps", "20", *more]


def buckets(job, first, others, *more):
    """A job by sizes of buckets in MiB; its recording has those of `first`."""
    return [(f"{first:g} MiB", job + ["--bucket-mb", str(first), *more])] + [
        (f"{size:g} MiB", job + ["--bucket-mb", str(size), *more], size) for size in others
    ]


def network(ranks, stages, table, micro_batches, *more):
    return ["-np", str(ranks), "network", "--table", table, "--stages", str(stages), "--micro-batches", str(micro_batches), "--batch", "16",
            "--steps", "15", *more]


def fusion_jobs():
    for model, batch, sizes in (("mlp", 64, (1, 4, 25)), ("cnn", 32, (0.1, 1)), ("transformer", 16, (0.25, 2))):
        for kind, more in (("overlapped", ()), ("blocking", ("--no-overlap",))):
            yield f"train {model}", kind, buckets(train(model, batch), 0, sizes, *more)
    resnet = ["-np", "2", "network", "--table", "resnet50", "--scale", "0.001", "--batch", "16", "--steps", "12"]
    for kind, more in (("overlapped", ()), ("blocking", ("--no-overlap",))):
        yield "network resnet50", kind, buckets(resnet, 5, (25, 100), *more)


def pipeline_jobs(table):
    """Sleeping stages take as long for a micro-batch as they are told: half of it with twice as many."""
    for ranks, stages, schedule in ((2, 2, "gpipe"), (4, 4, "gpipe"), (4, 4, "1f1b"), (4, 2, "gpipe")):
        counts = (4, 8, 16) if stages == 2 else (4, 8, 2)
        runs = [(f"M = {m}", network(ranks, stages, table, m, "--schedule", schedule, "--fixed-ms", str(32 / m)), m) for m in counts]
        yield f"network, {stages} stages x {ranks // stages}, {schedule}", "asleep", [runs[0][:2]] + runs[1:]
    for name, words in (("few parameters", (table, "--scale", "0.05")), ("vgg16", ("vgg16", "--scale", "0.002"))):
        runs = [(f"M = {m}", network(2, 2, words[0], m, *words[1:]), m) for m in (2, 4, 8)]
        yield f"network, {name}, 2 stages", "computing", [runs[0][:2]] + runs[1:]


class Bench:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                                OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_hwloc_base_binding_policy="none",
                                OMPI_MCA_btl_vader_single_copy_mechanism="none", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

    def ddl(self, *words):
        ended = subprocess.run([self.binaries / "ddl", *words], env=self.environment, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {ended.stderr}")
        return ended.stdout

    def record(self, name, job):
        run = self.folder / f"{name}.ddl"
        shutil.rmtree(run, ignore_errors=True)
        self.ddl("record", "-o", run, "--", "mpirun", *job[:2], self.binaries / job[2], *job[3:])
        return run

    def step_ms(self, run):
        return json.loads(self.ddl("query", run, "SELECT value FROM metric WHERE id = 'step_time'", "--json"))[0]["value"] * 1e-6


def predicted_ms(bench, run, kind, setting, sweep):
    if kind in ("overlapped", "blocking"):
        question = ["model", "fusion", run, "--rule", "fill", "--thresholds", str(int(setting * MIB)), "--json"]
        try:
            said = json.loads(bench.ddl(*question))
        except RuntimeError:  # the run does not tell what its allreduces took
            said = json.loads(bench.ddl(*question, "--sweep", sweep))
        return said["fusion"][0][f"{kind}_step_ns"] * 1e-6
    said = json.loads(bench.ddl("model", "pipeline", run, "--micro-batches", str(setting), "--json"))
    return said["pipeline"][0]["step_ns"] * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--only", default="", help="jobs whose name has this word")
    arguments = parser.parse_args()
    offs = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        table = folder / "even.csv"
        table.write_text("layer,params,fwd_macs_per_sample,act_out_elems_per_sample\n" + "".join(f"l{i},65536,30000000,4096\n" for i in range(16)))
        bench = Bench(arguments.bin, folder)
        sweep = folder / "sweep.csv"
        sweep.write_text(subprocess.run(["mpirun", "-np", "2", arguments.bin / "allreduce", "--bytes", "64,4K,64K,1M,4M", "--rounds", "10"],
                                        env=bench.environment, capture_output=True, text=True, check=True).stdout)
        print("| job | calls | recorded with | predicted for | recorded step | predicted / recorded |\n| --- | --- | --- | --- | --- | --- |")
        for name, kind, runs in [*fusion_jobs(), *pipeline_jobs(str(table))]:
            if arguments.only not in name:
                continue
            rows = {label: [] for label, *_ in runs[1:]}
            for _ in range(arguments.rounds):
                base = bench.record("base", runs[0][1])
                for label, job, setting in runs[1:]:
                    measured = bench.step_ms(bench.record("changed", job))
                    try:
                        rows[label].append((measured, predicted_ms(bench, base, kind, setting, sweep) / measured))
                    except RuntimeError as refusal:
                        print(f"{name}, {label}: {refusal}", file=sys.stderr)
            for label, values in rows.items():
                if not values:
                    print(f"| {name} | {kind} | {runs[0][0]} | {label} | | refused |")
                    continue
                ratio = statistics.median(value[1] for value in values)
                offs.append(abs(ratio - 1))
                print(f"| {name} | {kind} | {runs[0][0]} | {label} | {statistics.median(value[0] for value in values):.1f} ms | {ratio:.2f} |",
                      flush=True)
    if offs:
        near = sum(off <= 0.1 for off in offs)
        print(f"\n{len(offs)} changed settings: {100 * statistics.median(offs):.1f} % off in the median, {near} within 10 %, at most "
              f"{100 * max(offs):.0f} %")


if __name__ == "__main__":
    main()
