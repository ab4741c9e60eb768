#!/usr/bin/env python3
"""Measures a space of a tuner point by point, over and over, for bench_tune_search --replay.

    measure_space.py [--build DIR] [--rounds N] [-o FOLDER] SPACE...

    background  cycle and fusion of a runtime in a thread of its own, as Horovod's (train --runtime background), from a poor default
    buckets     batch and bucket of data-parallel training (train), two ranks
    cable       algorithm, segment and bucket of four ranks on two hosts a long cable apart (2 ms, 1 Gbit/s; needs namespaces)
    nccl        simulated: algorithm, protocol, channels and bucket of an all-reduce of 64 GPUs on 8 nodes, by latencies and bandwidths
                as NCCL's own tuning adds them up, times what that does not know; rounds and trials are noisy

A round tries every point once and the default twice, in an order of its own. FOLDER/SPACE.txt (default: bench/spaces) has a line for each
point: milliseconds a sample (nccl: a step) in each round. Use a quiet machine: the files are what one machine was like on one day.
"""
import argparse
import datetime
import itertools
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
options.add_argument("--rounds", type=int, default=12)
options.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "bench/spaces")
options.add_argument("spaces", nargs="+", choices=["background", "buckets", "cable", "nccl"])
chosen = options.parse_args()
os.environ.setdefault("DDL_BUILD", str(chosen.build.resolve()))

import job  # noqa: E402: reads DDL_BUILD
import virtual_hosts  # noqa: E402


def ms_of(ran):
    """Milliseconds a sample, by what the trainer says."""
    said = re.search(r"train: ([0-9.]+) samples/s", ran.stderr)
    if ran.returncode != 0 or not said:
        sys.exit(f"a trial failed: {ran.args}\n{ran.stdout[-1000:]}\n{ran.stderr[-2000:]}")
    return 1e3 / float(said[1])


def launch(*words):
    return ms_of(subprocess.run(["mpirun", "-np", "2", job.TRAIN, "--print-every", "0", *map(str, words)], capture_output=True, text=True,
                                env=job.environment(**job.ALONE), timeout=300))


class Space:
    def begin_round(self):
        pass


class Background(Space):
    # The first of each is the default.
    tunables = {"cycle_ms": ["100", "1", "2.5", "5", "10", "25", "50"], "fusion_mb": ["0.0625", "0", "0.25", "1", "4", "16", "64"]}

    def trial(self, cycle_ms, fusion_mb):
        steps = 6 if float(cycle_ms) >= 25 else 20
        return launch("--runtime", "background", "--width", 512, "--bucket-mb", 0.0625, "--steps", steps, "--cycle-ms", cycle_ms, "--fusion-mb", fusion_mb)


class Buckets(Space):
    tunables = {"batch": ["8", "4", "16", "32", "64", "128"], "bucket_mb": ["0.25", "0", "0.0625", "0.125", "0.5", "1", "4", "25"]}

    def trial(self, batch, bucket_mb):
        return launch("--model", "cnn", "--steps", max(6, 160 // int(batch)), "--batch", batch, "--bucket-mb", bucket_mb)


class Cable(Space):
    tunables = {"algorithm": ["0", "2", "3", "4", "5", "6"], "segment_kb": ["0", "16", "128"], "bucket_mb": ["0", "0.03125", "0.125", "1"]}

    def __init__(self, folder):
        self.hosts = virtual_hosts.Hosts(folder)
        self.relay = virtual_hosts.lengthen_the_cable(2000, 1000)

    def trial(self, algorithm, segment_kb, bucket_mb):
        own = {"OMPI_MCA_coll_tuned_use_dynamic_rules": 1, "OMPI_MCA_coll_tuned_allreduce_algorithm": algorithm,
               "OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize": int(segment_kb) * 1024}
        exported = [word for name in own for word in ("-x", name)]
        return ms_of(self.hosts.run("nodea", ["mpirun", "-np", 4, "--host", "nodea:2,nodeb:2", "--mca", "mpi_yield_when_idle", 1, *exported, job.TRAIN,
                                              "--print-every", 0, "--no-overlap", "--width", 48, "--batch", 4, "--steps", 10, "--bucket-mb", bucket_mb], **own))


class Nccl(Space):
    """Times of a step in milliseconds: 400 MB of gradients in buckets, of which all but the last hide behind the backward pass of 25 ms of computing."""
    tunables = {"algorithm": ["ring", "tree", "nvlstree"], "protocol": ["simple", "ll", "ll128"], "channels": ["16", "1", "2", "4", "8", "32"],
                "bucket_mb": ["25", "1", "4", "10", "50", "100"]}
    RANKS, PER_NODE, GRADIENTS_MB, COMPUTE_MS = 64, 8, 400, 25

    def __init__(self, seed=1):
        self.random = random.Random(seed)
        algorithms, protocols, channels, buckets = self.tunables.values()
        # What the model of latencies and bandwidths does not know: of an algorithm with its protocol, of a protocol on so many channels, of
        # an algorithm at a size, and a little of each point.
        factor = {pair: self.random.lognormvariate(0, sd) for sd, pairs in
                  ((0.12, itertools.product(algorithms, protocols)), (0.06, itertools.product(protocols, channels)), (0.06, itertools.product(algorithms, buckets)))
                  for pair in pairs}
        self.unknown = {(a, p, c, b): factor[a, p] * factor[p, c] * factor[a, b] * self.random.lognormvariate(0, 0.015)
                        for a, p, c, b in itertools.product(*self.tunables.values())}
        self.round = 1.0

    def begin_round(self):
        self.round = self.random.lognormvariate(0, 0.03) * (self.random.uniform(1.2, 3) if self.random.random() < 0.1 else 1)

    def allreduce_ms(self, algorithm, protocol, channels, megabytes):
        nodes = self.RANKS // self.PER_NODE
        within_us, between_us = {"simple": (3.4, 14.0), "ll": (0.6, 2.7), "ll128": (1.25, 4.0)}[protocol]
        if algorithm == "ring":
            latency_us = 2 * (self.RANKS - nodes) * within_us + 2 * (nodes - 1) * between_us
            share = 2 * (self.RANKS - 1) / self.RANKS
        else:
            latency_us = 2 * ((self.PER_NODE - 1) * within_us * (0.3 if algorithm == "nvlstree" else 1) + math.log2(nodes) * between_us)
            share = 2 * (1.0 if algorithm == "nvlstree" else 1 / 0.92)
        efficiency = {"simple": 1, "ll": 0.35 / (1 + channels / 24), "ll128": 0.92}[protocol]
        gb_s = min(170, 22 * channels) * efficiency
        return latency_us / 1e3 + share * megabytes / gb_s

    def trial(self, algorithm, protocol, channels, bucket_mb):
        bucket, count = float(bucket_mb), int(channels)
        buckets = max(1, round(self.GRADIENTS_MB / bucket))
        one = self.allreduce_ms(algorithm, protocol, count, self.GRADIENTS_MB / buckets) * self.unknown[algorithm, protocol, channels, bucket_mb]
        computing = self.COMPUTE_MS * (1 + 0.004 * count)  # channels take multiprocessors from the computing
        hidden = 0.6 * computing * (buckets - 1) / buckets
        step = computing + max(one, buckets * one - hidden)
        noise = self.random.lognormvariate(0, 0.012) * (self.random.uniform(1.05, 1.5) if self.random.random() < 0.02 else 1)
        return step * self.round * noise


def measure(name, space, about):
    points = [dict(zip(space.tunables, values)) for values in itertools.product(*space.tunables.values())]
    points.append(points[0])  # the default again
    times = [[] for _ in points]
    shuffled = random.Random(name)
    for turn in range(chosen.rounds):
        space.begin_round()
        for index in shuffled.sample(range(len(points)), len(points)):
            times[index].append(space.trial(**points[index]))
        print(f"{name}: round {turn + 1} of {chosen.rounds}, load average {os.getloadavg()[0]:.1f}", flush=True)
    chosen.output.mkdir(parents=True, exist_ok=True)
    with (chosen.output / f"{name}.txt").open("w") as file:
        print(f"# bench/measure_space.py {name}, {about}", file=file)
        print("tunables", *space.tunables, file=file)
        for point, own in zip(points, times):
            print(*point.values(), ":", *(f"{ms:.4g}" for ms in own), file=file)


def main():
    today = f"{datetime.date.today()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at its start"
    for name in chosen.spaces:
        if name == "nccl":
            measure(name, Nccl(), "simulated")
        elif name == "cable":
            with tempfile.TemporaryDirectory() as folder:
                space = Cable(pathlib.Path(folder))
                measure(name, space, today)
                space.relay.kill()
        else:
            measure(name, {"background": Background, "buckets": Buckets}[name](), today)


if "cable" in chosen.spaces:
    virtual_hosts.enter()
main()
