#!/usr/bin/env python3
"""The real libnccl speaks NVTX, and our handler understands it: no GPU is needed, the calls fail for want of a communicator.

usage: nccl_payload.py PROGRAM PROBE_LIBRARY
"""
import os
import subprocess
import sys

program, probe = sys.argv[1:]
# Without our collector for NCCL, which would listen in the probe's place.
done = subprocess.run([program], env={**os.environ, "NVTX_INJECTION64_PATH": probe, "DDL_COLLECTORS": "nvtx"}, capture_output=True, text=True, timeout=60)
print(done.stdout, done.stderr)
lines = [line for line in done.stdout.splitlines() if line.startswith(("begin NCCL", "end NCCL"))]
told = {}
for line in lines:
    if line.startswith("begin"):
        head, *fields = line.split(" | ")
        told[head.split()[2]] = dict((name.split("[")[0].strip(), int(value)) for name, value in (field.rsplit(" = ", 1) for field in fields))
# name -> payload: bytes are count times the size of the type
EXPECTED = {"ncclAllReduce": {"Message size": 4096, "Reduction operation": 2}, "ncclBroadcast": {"Message size": 4096, "Root": 3},
            "ncclSend": {"Message size": 100, "Peer rank": 5}, "ncclReduceScatter": {"Message size": 20, "Reduction operation": 0}}
failed = done.returncode != 0 or len(lines) != 2 * len(EXPECTED)
for call, fields in EXPECTED.items():
    if call not in told:
        print("FAILED: nothing was told of", call)
        failed = True
        continue
    failed = failed or "NCCL communicator ID" not in told[call]
    for name, value in fields.items():
        if told[call].get(name) != value:
            print(f"FAILED: {call}: {name} is {told[call].get(name)}, expected {value}; all: {told[call]}")
            failed = True
sys.exit(1 if failed else 0)
