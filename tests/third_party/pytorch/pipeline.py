#!/usr/bin/env python3
"""An ordinary pipeline over Gloo: a stage per rank, micro-batches, activations and their gradients by send and recv (--batched: batch_isend_irecv) of torch.distributed. It knows nothing of ddl.

--truth FILE.RANK gets as JSON what the script measured and counted itself: ms of each step, ms of it in messages, messages sent, bytes. The rank --slow-rank computes --slow-ms longer in
each step's forward passes. With --replicas there are so many pipelines, whose stages average their gradients by all_reduce in groups of their own. --barrier: a monitored_barrier after each step, for which --late-rank is --slow-ms late.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--micro-batches", type=int, default=4)
parser.add_argument("--batched", action="store_true")
parser.add_argument("--replicas", type=int, default=1)
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--late-rank", type=int, default=-1)
parser.add_argument("--slow-ms", type=float, default=20)
parser.add_argument("--barrier", action="store_true")
parser.add_argument("--truth")
options = parser.parse_args()

for name, mpi in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
    if mpi in os.environ:
        os.environ.setdefault(name, os.environ[mpi])
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, stages = dist.get_rank(), dist.get_world_size() // options.replicas
stage = rank % stages  # of its pipeline
alike = [dist.new_group(list(range(other, dist.get_world_size(), stages))) for other in range(stages)][stage] if options.replicas > 1 else None
torch.manual_seed(7 + stage)
WIDTH, ROWS = 256, 64

model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
losses, times, waits, in_barriers = [], [], [], []
sent = sent_bytes = 0
in_messages = 0.0


def message(op, tensor, peer):
    global in_messages, sent, sent_bytes
    begin = time.perf_counter()
    if options.batched:
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend if op is dist.send else dist.irecv, tensor, peer)]):
            work.wait()
    else:
        op(tensor, peer)
    in_messages += time.perf_counter() - begin
    if op is dist.send:
        sent += 1
        sent_bytes += tensor.numel() * tensor.element_size()


for step in range(options.steps):
    begin, in_messages = time.perf_counter(), 0.0
    kept = []
    for part in range(options.micro_batches):
        x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(step * 100 + part)) if stage == 0 else torch.empty(ROWS, WIDTH)
        if stage > 0:
            message(dist.recv, x, rank - 1)
            x.requires_grad_()
        y = model(x)
        if rank == options.slow_rank:
            time.sleep(options.slow_ms / 1000 / options.micro_batches)
        if stage < stages - 1:
            message(dist.send, y.detach(), rank + 1)
        kept.append((x, y))
    for x, y in kept:
        if stage == stages - 1:
            loss = y.square().mean()
            losses.append(loss.item())
            loss.backward()
        else:
            gradient = torch.empty(ROWS, WIDTH)
            message(dist.recv, gradient, rank + 1)
            y.backward(gradient)
        if stage > 0:
            message(dist.send, x.grad, rank - 1)
    if alike is not None:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=alike)
            parameter.grad /= options.replicas
    optimizer.step()
    optimizer.zero_grad()
    times.append((time.perf_counter() - begin) * 1000)
    waits.append(in_messages * 1000)
    if options.barrier:
        if rank == options.late_rank:
            time.sleep(options.slow_ms / 1000)
        begin = time.perf_counter()
        dist.monitored_barrier()
        in_barriers.append((time.perf_counter() - begin) * 1000)

if options.truth:
    with open(f"{options.truth}.{rank}", "w") as file:
        json.dump({"steps": times, "in_messages": waits, "in_barriers": in_barriers, "sent": sent, "bytes": sent_bytes}, file)
if rank == dist.get_world_size() - 1:
    print("losses", *(value.hex() for value in losses))
dist.destroy_process_group()
