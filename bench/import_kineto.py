#!/usr/bin/env python3
"""Compares `ddl import kineto`, the analysis included, with Python's json.load of the same file, in one run.

    import_kineto.py [--build DIR] [--folder DIR] [--runs N] EVENTS...

The trace is that of one of two ranks: steps of operators, each of which launches a kernel, and all-reduces on a stream of their own that wait
for the computing stream by an event, and it for the last of them; each step ends with a synchronisation. 10 million events are 3 GB in
DIR (default: /tmp). Prints processor time (user and system), the largest resident set, and the ratio of the two times, run by run.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATORS, REDUCES = 250, 50  # a step


class Trace:
    def __init__(self, file):
        self.file, self.events, self.correlation, self.us, self.reduces = file, 0, 0, 0.0, 0

    def write(self, category, name, pid, tid, us, duration, **args):
        # The lines and blanks are those of PyTorch's profiler: a parser has to read them, too.
        words = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in args.items())
        self.file.write(f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid},\n'
                        f'    "ts": {us:.3f}, "dur": {duration:.3f},\n    "args": {{\n      {words}\n    }}\n  }},\n')
        self.events += 1

    def launch(self, kernel, stream, us, ends, duration, **args):
        """A kernel behind what its stream had before, at `ends`. Returns when it ends."""
        self.correlation += 1
        self.write("cuda_runtime", "cudaLaunchKernel", 42, 42, us, 3.5, correlation=self.correlation, **{"External id": self.correlation})
        begin = max(us + 6, ends)
        self.write("kernel", kernel, 0, stream, begin, duration, **{"External id": self.correlation, "queued": 0}, device=0, context=1, stream=stream,
                   correlation=self.correlation, **{"registers per thread": 32, "shared memory": 0, "blocks per SM": 1.185185, "warps per SM": 9.481481},
                   grid=[128, 1, 1], block=[256, 1, 1], **{"est. achieved occupancy %": 15}, **args)
        return begin + duration

    def stream_waits(self, waiting, awaited, us):
        self.correlation += 2
        self.write("cuda_runtime", "cudaEventRecord", 42, 42, us, 0.8, correlation=self.correlation - 1)
        self.write("cuda_runtime", "cudaStreamWaitEvent", 42, 42, us + 1, 0.8, correlation=self.correlation)
        self.write("cuda_sync", "Stream Wait Event", 0, waiting, us + 1, 0, device=0, context=1, stream=waiting, correlation=self.correlation,
                   wait_on_stream=awaited, wait_on_cuda_event_record_corr_id=self.correlation - 1, wait_on_cuda_event_id=1)

    def step(self, number):
        begin, us = self.us, self.us
        computing = communicating = us
        for index in range(OPERATORS):
            self.write("cpu_op", f"aten::operator_{index % 40}", 42, 42, us, 9.5, **{"External id": self.correlation + 1, "Sequence number": index, "Fwd thread id": 0, "Ev Idx": self.events})
            computing = self.launch(f"void kernel_{index % 60}<float, 4>(float*, float const*, int)", 7, us + 2, computing, 8.0)
            us += 10
            if index % (OPERATORS // REDUCES) == 0:
                self.stream_waits(20, 7, us)
                self.reduces += 1
                communicating = self.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", 20, us + 3,
                                            max(computing, communicating), 30.0, **{
                                                "Collective name": "allreduce", "In msg nelems": 65536, "Out msg nelems": 65536, "dtype": "Float",
                                                "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "seq": self.reduces})
                us += 8
        self.stream_waits(7, 20, us)
        self.correlation += 1
        done = max(us + 3, computing, communicating)
        self.write("cuda_runtime", "cudaDeviceSynchronize", 42, 42, us + 3, done - us, correlation=self.correlation)
        self.us = done + 5
        self.write("user_annotation", f"ProfilerStep#{number}", 42, 42, begin, self.us - begin)


def make(path, events):
    with path.open("w", buffering=1 << 20) as file:
        file.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}],\n'
                   '"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},\n"traceEvents": [\n')
        trace, number = Trace(file), 0
        while trace.events < events:
            trace.step(number)
            number += 1
        file.write('{"ph": "M", "name": "process_name", "pid": 42, "tid": 0, "args": {"name": "python"}}\n]}\n')
    return trace.events


def measured(what, *command):
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen([*map(str, command)], stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        said.seek(0)
        if status:
            sys.exit(f"{what} failed\n{said.read()}")
    print(f"    {what}: {usage.ru_utime:.2f} s user, {usage.ru_stime:.2f} s system, {time.monotonic() - begin:.1f} s in all, {usage.ru_maxrss / 1024:.0f} MiB",
          flush=True)
    return usage.ru_utime + usage.ru_stime


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/tmp"))
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("events", type=int, nargs="+")
    chosen = options.parse_args()
    for events in chosen.events:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            trace, run = pathlib.Path(folder) / "trace.json", pathlib.Path(folder) / "run.ddl"
            print(f"{make(trace, events):,} events, {trace.stat().st_size / 1e6:,.0f} MB", flush=True)
            for _ in range(chosen.runs):
                ours = measured("ddl import kineto", chosen.build / "bin/ddl", "import", "kineto", trace, "-o", run)
                theirs = measured("json.load", sys.executable, "-c", "import json, sys; json.load(open(sys.argv[1]))", trace)
                print(f"    ratio {ours / theirs:.2f}", flush=True)
                shutil.rmtree(run)


main()
