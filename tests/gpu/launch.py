"""Starts RANKS processes of a Python script, as torchrun does but without an import of torch: launch.py RANKS SCRIPT ARGUMENT...   Where one fails the others are ended."""
import os
import subprocess
import sys
import time

ranks = int(sys.argv[1])
shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": str(os.getpid()), "MASTER_ADDR": "127.0.0.1",
          "MASTER_PORT": os.environ.get("MASTER_PORT", "29555")}
jobs = [subprocess.Popen([sys.executable, *sys.argv[2:]], env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(ranks)]
while any(job.poll() is None for job in jobs):
    if any(job.poll() for job in jobs):
        for job in jobs:
            job.terminate()
            job.wait()
    time.sleep(0.05)
sys.exit(any(job.returncode for job in jobs))
