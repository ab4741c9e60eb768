#!/usr/bin/env python3
"""A job of two ranks that is killed and goes on from its checkpoint: restarts.py FOLDER KILL_AFTER          (0: not killed; it ends after step 40)

Under torchrun --max_restarts only the first attempt is killed.

It saves every 7 steps, and appends every step that it ends to FOLDER/log: attempt, step, whether it was saved. It numbers its steps itself for that, and tells nobody. Knows nothing of ddl.
"""
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

for name, mpi in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
    if mpi in os.environ:
        os.environ.setdefault(name, os.environ[mpi])
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29561")
folder, kill_after = sys.argv[1], int(sys.argv[2])
STEPS, EVERY = 40, 7
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
saved = os.path.join(folder, "model.pt")
done = 0
if os.path.exists(saved):
    state = torch.load(saved)
    model.module.load_state_dict(state["model"])
    done = state["step"]
dist.barrier()
data = DataLoader(TensorDataset(torch.randn(8 * STEPS, 64), torch.randint(0, 10, (8 * STEPS,))), batch_size=8)
lossy = nn.CrossEntropyLoss()
log = open(os.path.join(folder, "log"), "a") if rank == 0 else None
for step, (x, y) in enumerate(data, 1):
    if step <= STEPS - done:  # the rest of the epoch
        time.sleep(0.05)
        lossy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        now = done + step
        saves = now % EVERY == 0 or now == STEPS
        if saves:
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "step": now}, saved + ".new")
                os.replace(saved + ".new", saved)
            dist.barrier()
        if rank == 0:
            log.write(json.dumps({"begins_with": done, "step": now, "saved": saves}) + "\n")
            log.flush()
        dist.barrier()
        if now == kill_after and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
            dist.barrier()
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
dist.destroy_process_group()
