#!/usr/bin/env python3
"""An ordinary training script: DDP or FSDP over NCCL, a perceptron of some MB, one process a rank. It knows nothing of ddl. All ranks take GPU 0 where there is no other.

Each rank writes what it measured itself to --truth FILE.RANK, as JSON: losses, times of its steps, of its loader, of its late kernels by CUDA's events, bytes of DDP's buckets.
"""
import argparse
import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--late-loader", type=int, default=-1, metavar="RANK", help="whose loader takes --ms longer for a batch")
parser.add_argument("--late-host", type=int, default=-1, metavar="RANK", help="whose Python takes --ms longer before the forward pass")
parser.add_argument("--late-device", type=int, default=-1, metavar="RANK", help="whose GPU computes --ms longer before the forward pass")
parser.add_argument("--ms", type=float, default=30)
parser.add_argument("--shard", action="store_true", help="FSDP in place of DDP")
parser.add_argument("--kineto", metavar="FOLDER", help="torch.profiler's trace of each rank, FOLDER/rankN.json")
parser.add_argument("--hang-at", type=int, default=-1, metavar="STEP", help="the last rank does not come to this step's all-reduces")
parser.add_argument("--truth", required=True, metavar="FILE")
options = parser.parse_args()

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
has_gpu = torch.cuda.is_available()
device = torch.device("cuda", rank % torch.cuda.device_count()) if has_gpu else torch.device("cpu")
if has_gpu:
    torch.cuda.set_device(device)
    os.environ["NCCL_HOSTID"] = f"rank{rank}"  # else NCCL refuses two ranks on one GPU
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
torch.use_deterministic_algorithms(True)
torch.manual_seed(7)
dist.init_process_group("nccl" if has_gpu else "gloo", timeout=timedelta(seconds=10 if options.hang_at >= 0 else 60))


class Slow(TensorDataset):
    def __getitem__(self, index):
        if rank == options.late_loader and index % 64 == 0:
            time.sleep(options.ms / 1000)
        return super().__getitem__(index)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


model = nn.Sequential()
model.add_module("stem", nn.Linear(64, 512))
model.add_module("body", nn.Sequential(*(Block(512) for _ in range(3))))
model.add_module("head", nn.Linear(512, 10))
model = model.to(device)
elements = sum(p.numel() for p in model.parameters())
if options.shard:
    from torch.distributed.fsdp import fully_shard

    for block in model.body:
        fully_shard(block)
    fully_shard(model)
else:
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
optimizer, lossy = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
generator = torch.Generator().manual_seed(rank)
data = Slow(torch.randn(64 * options.steps, 64, generator=generator), torch.randint(0, 10, (64 * options.steps,), generator=generator))


def late_kernel(ms):
    """A kernel that spins for so long; returns the events around it."""
    around = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    around[0].record()
    torch.cuda._sleep(int(ms * cycles_per_ms))
    around[1].record()
    return around


cycles_per_ms = 1e6
if options.late_device == rank and has_gpu:
    for _ in range(2):  # the first loads the kernel
        events = late_kernel(10)
        torch.cuda.synchronize()
    cycles_per_ms *= 10 / events[0].elapsed_time(events[1])

losses, steps_ms, loader_ms, kernels = [], [], [], []


def iterate(profiler=None):
    batches = iter(DataLoader(data, batch_size=64))
    for step in range(options.steps):
        begin = time.perf_counter()
        x, y = next(batches)
        loader_ms.append(1000 * (time.perf_counter() - begin))
        if step == options.hang_at and rank == ranks - 1:
            time.sleep(600)
        if rank == options.late_host:
            time.sleep(options.ms / 1000)
        if rank == options.late_device and has_gpu:
            kernels.append(late_kernel(options.ms))
        loss = lossy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        steps_ms.append(1000 * (time.perf_counter() - begin))
        if profiler:
            profiler.step()


if options.kineto:
    kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * has_gpu
    with torch.profiler.profile(activities=kinds) as profiler:
        iterate(profiler)
    profiler.export_chrome_trace(f"{options.kineto}/rank{rank}.json")
else:
    iterate()
sizes = {} if options.shard else model._get_ddp_logging_data()
with open(f"{options.truth}.{rank}", "w") as out:
    json.dump({"losses": losses, "steps_ms": steps_ms, "loader_ms": loader_ms, "kernels_ms": [a.elapsed_time(b) for a, b in kernels], "bytes": 4 * elements,
               "buckets": {kind: [int(size) for size in sizes[f"{kind}bucket_sizes"].split(", ")] for kind in ("", "rebuilt_") if sizes.get(f"{kind}bucket_sizes")}}, out)
dist.barrier()
dist.destroy_process_group()
