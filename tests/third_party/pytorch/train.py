#!/usr/bin/env python3
"""An ordinary training script: DDP over Gloo or MPI on CPUs, a small CNN or transformer. It knows nothing of ddl.

Rank 0 prints the losses of every step, in full precision, and what the script itself counted. --truth FILE.RANK gets that as JSON.
"""
import argparse
import gc
import io
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
parser.add_argument("--save-s", type=float, default=0, help="what the disk takes for a checkpoint")
parser.add_argument("--collect", type=int, default=0, metavar="OBJECTS", help="a full garbage collection on changing ranks, in every other step")
parser.add_argument("--profile", action="store_true", help="record_function around each module")
parser.add_argument("--kineto")
parser.add_argument("--count-calls", action="store_true")
parser.add_argument("--compile", action="store_true", help="batches of another size in steps 10 and 20 are compiled anew")
parser.add_argument("--sharded", action="store_true", help="--save FOLDER by torch.distributed.checkpoint")
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
dist._DEFAULT_FIRST_BUCKET_BYTES = int(options.bucket_mb * 2**20)  # else the first bucket has up to 1 MB
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
compiled = torch.compile(model, backend="eager", dynamic=False) if options.compile else model
lossy = nn.CrossEntropyLoss()
loader = DataLoader(Slow(data), batch_size=8, num_workers=options.workers)
losses, begin, steps, saved, collected = [], time.perf_counter(), 0, 0, []
held = [[] for _ in range(options.collect)]  # what a full collection looks at
if options.collect:
    gc.disable()


class Disk(io.FileIO):
    """Takes --save-s for what is written to it first."""

    def write(self, data):
        if self.tell() == 0:
            time.sleep(options.save_s)
        return super().write(data)


def iterate(profiler=None):
    global steps, saved
    for i, (x, y) in enumerate(loader):
        if rank == options.slow_rank:
            time.sleep(options.slow_ms / 1000)
        if options.compile and steps in (10, 20):
            x, y = x[:8 - steps // 10], y[:8 - steps // 10]
        last = (i + 1) % options.accumulate == 0
        if last:
            loss = lossy(compiled(x), y)
            loss.backward()
        else:
            with model.no_sync():
                loss = lossy(compiled(x), y)
                loss.backward()
        losses.append(float(loss).hex())
        if last:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            if options.collect and steps % 2 == 0 and steps // 2 % ranks == rank:
                began = time.perf_counter()
                gc.collect()
                collected.append(time.perf_counter() - began)
            if options.sharded and steps % options.save_every == 0:
                import torch.distributed.checkpoint as sharded

                folder = f"{options.save}/{steps}"
                os.makedirs(folder, exist_ok=True)
                sharded.save({"model": model.state_dict()}, storage_writer=sharded.FileSystemWriter(folder))
                saved += sum(file.stat().st_size for file in os.scandir(folder) if file.name.endswith(".distcp"))
            elif options.save and steps % options.save_every == 0:
                if rank == 0:
                    with Disk(options.save, "w") as file:
                        torch.save(model.state_dict(), file)
                    saved += os.path.getsize(options.save)
                dist.barrier()
            if profiler:
                profiler.step()


spans, module_calls = {}, [0]
if options.count_calls:
    from torch.nn.modules.module import register_module_forward_pre_hook

    def count(*_):
        module_calls[0] += 1

    register_module_forward_pre_hook(count)
if options.kineto:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        iterate(profiler)
    profiler.export_chrome_trace(f"{options.kineto}/rank{rank}.json")
elif options.profile:
    opened = []

    def enter(name):
        opened.append(torch.autograd.profiler.record_function(f"module {name}"))
        opened[-1].__enter__()

    for name, module in model.module.named_modules():
        if name:
            module.register_forward_pre_hook(lambda *_, name=name: enter(name))
            module.register_forward_hook(lambda *_: opened.pop().__exit__(None, None, None))
    with torch.autograd.profiler.profile() as profiler:
        iterate()
    for event in profiler.function_events:
        if event.name.startswith("module "):
            spans.setdefault(event.name[7:], []).append(event.time_range.elapsed_us() * 1000)
else:
    iterate()
seconds = time.perf_counter() - begin


def compilations():
    """Seconds of each, by the compiler itself."""
    from torch._dynamo.utils import get_compilation_metrics

    return [metrics.duration_us / 1e6 for metrics in get_compilation_metrics()]


sizes = model._get_ddp_logging_data()
sizes = {kind: sizes[f"{kind}bucket_sizes"] for kind in ("", "rebuilt_") if sizes.get(f"{kind}bucket_sizes")}
if rank == 0:
    print("losses", *losses, flush=True)
if options.truth:
    with open(f"{options.truth}.{rank}", "w") as out:
        json.dump({"steps": steps, "seconds": seconds, "saved": saved, "spans": spans,
                   "collected": collected, "module_calls": module_calls[0], "compilations": compilations() if options.compile else [], "sizes": {kind: sorted(map(int, text.split(", "))) for kind, text in sizes.items()},
                   "bytes": sum(p.numel() * p.element_size() for p in model.parameters())}, out)
dist.barrier()
dist.destroy_process_group()
