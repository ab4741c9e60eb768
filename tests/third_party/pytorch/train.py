#!/usr/bin/env python3
"""An ordinary training script: DDP over Gloo or MPI on CPUs, a small CNN or transformer. It knows nothing of ddl.

Rank 0 prints the losses of every step, in full precision, and what the script itself counted. --truth FILE.RANK gets that as JSON.
"""
import argparse
import gc
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=["cnn", "transformer"], default="cnn")
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--bucket-mb", type=float, default=0.25)
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--slow-ms", type=float, default=30)
parser.add_argument("--slow-loader", type=int, default=-1)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--save")
parser.add_argument("--save-every", type=int, default=10)
parser.add_argument("--collect", action="store_true", help="a full garbage collection on changing ranks")
parser.add_argument("--profile", action="store_true")
parser.add_argument("--kineto")
parser.add_argument("--backend", choices=["gloo", "mpi"], default="gloo")
parser.add_argument("--truth")
options = parser.parse_args()

for name, mpi in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
    if mpi in os.environ:
        os.environ.setdefault(name, os.environ[mpi])
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
torch.set_num_threads(1)
dist.init_process_group(options.backend)
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)


class Block(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)
        self.norm = nn.BatchNorm2d(outer)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def model_and_data():
    n = options.steps * options.accumulate * 8
    generator = torch.Generator().manual_seed(rank)
    if options.model == "cnn":
        model = nn.Sequential()
        model.add_module("stem", Block(3, 24))
        model.add_module("body", nn.Sequential(Block(24, 32), Block(32, 32)))
        model.add_module("head", nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)))
        return model, TensorDataset(torch.randn(n, 3, 32, 32, generator=generator), torch.randint(0, 10, (n,), generator=generator))
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
    model = nn.Sequential()
    model.add_module("embedding", nn.Embedding(100, 64))
    model.add_module("encoder", nn.TransformerEncoder(layer, 2))
    model.add_module("head", nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 10)))
    return model, TensorDataset(torch.randint(0, 100, (n, 64), generator=generator), torch.randint(0, 10, (n,), generator=generator))


class Slow(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        if rank == options.slow_loader:
            time.sleep(options.slow_ms / 8000)
        return self.data[index]


model, data = model_and_data()
model = DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
lossy = nn.CrossEntropyLoss()
loader = DataLoader(Slow(data), batch_size=8, num_workers=options.workers)
losses, begin, steps, saved = [], time.perf_counter(), 0, 0


def iterate(profiler=None):
    global steps, saved
    for i, (x, y) in enumerate(loader):
        if rank == options.slow_rank:
            time.sleep(options.slow_ms / 1000)
        last = (i + 1) % options.accumulate == 0
        if last:
            loss = lossy(model(x), y)
            loss.backward()
        else:
            with model.no_sync():
                loss = lossy(model(x), y)
                loss.backward()
        losses.append(float(loss).hex())
        if last:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if options.collect and steps % ranks == rank and steps % 4 < 2:
                keep = [[] for _ in range(1_500_000)]
                gc.collect()
                del keep
            if options.save and steps % options.save_every == 0:
                if rank == 0:
                    torch.save(model.state_dict(), options.save)
                    saved += os.path.getsize(options.save)
                dist.barrier()
            if profiler:
                profiler.step()


spans = {}
if options.kineto:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        iterate(profiler)
    profiler.export_chrome_trace(f"{options.kineto}/rank{rank}.json")
elif options.profile:
    paths = {module: name for name, module in model.module.named_modules() if name}
    opened = []
    for module in paths:
        module.register_forward_pre_hook(lambda m, _: opened.append((m, time.perf_counter_ns())) and None)

        def leave(m, *_):
            _, entered = opened.pop()
            spans[paths[m]] = spans.get(paths[m], 0) + time.perf_counter_ns() - entered

        module.register_forward_hook(leave)
    iterate()
else:
    iterate()
seconds = time.perf_counter() - begin
if rank == 0:
    print("losses", *losses, flush=True)
if options.truth:
    with open(f"{options.truth}.{rank}", "w") as out:
        json.dump({"steps": steps, "seconds": seconds, "saved": saved, "spans": spans,
                   "bytes": sum(p.numel() * p.element_size() for p in model.parameters())}, out)
dist.barrier()
dist.destroy_process_group()
