#!/usr/bin/env python3
"""DDP over Gloo that stalls in the way that argv[1] says, in step 4; the rank argv[2] is at fault. It knows nothing of ddl.

loader: sleeps in its data set   workers: the data set's worker process sleeps   lock: in C, with the interpreter's lock   never: computes before its forward   stopped: SIGSTOP
evaluates SECONDS: evaluates while the others wait in a barrier   saves SECONDS: writes a checkpoint meanwhile   computes SECONDS: Python that no hook sees   turns: each rank is slow now and then
"""
import ctypes
import io
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

for name, mpi in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
    if mpi in os.environ:
        os.environ.setdefault(name, os.environ[mpi])
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29551")
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
how, guilty = sys.argv[1], rank == int(sys.argv[2])
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0
BATCH, FAULTY = 8, 4


class Samples(Dataset):
    def __len__(self):
        return 8 * BATCH

    def __getitem__(self, index):
        if guilty and how in ("loader", "workers") and index == FAULTY * BATCH + 3:
            time.sleep(1000)
        return torch.full((64,), float(index)), index % 10


def hold_the_lock():
    ctypes.PyDLL(None).sleep(1000)


def never_enters():
    while True:
        pass


def evaluate(model):
    model.eval()
    end = time.monotonic() + seconds
    with torch.no_grad():
        while time.monotonic() < end:
            model(torch.randn(4096, 64))
    model.train()


class Slow(io.BytesIO):
    def write(self, data):
        time.sleep(seconds / 8)
        return super().write(data)


model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
lossy = nn.CrossEntropyLoss()
for step, (x, y) in enumerate(DataLoader(Samples(), batch_size=BATCH, num_workers=how == "workers")):
    if step == FAULTY and guilty:
        if how == "lock":
            hold_the_lock()
        if how == "never":
            never_enters()
        if how == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
    if step == FAULTY and how in ("evaluates", "saves", "computes"):
        if guilty and how == "evaluates":
            evaluate(model.module)
        if guilty and how == "saves":
            torch.save(model.state_dict(), Slow())
        if guilty and how == "computes":
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                torch.randn(1000).sum()
        dist.barrier()
    if how == "turns":
        time.sleep(seconds if step % ranks == rank else 0)
    lossy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    print("done", flush=True)
dist.destroy_process_group()
