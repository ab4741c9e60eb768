#!/usr/bin/env python3
"""Ranks that no launcher started: torch.multiprocessing, by spawn or fork; with 4 of them two groups of two.     spawned.py spawn|fork RANKS PORT"""
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

# They outlive the groups. Where a thread of Gloo's is the last to let go of a tensor it wants the GIL, holding a mutex that the main thread, which has the GIL, wants when it destroys
# the group: torch 2.6 hung in 1 of 95 runs, with no frame of ddl's in any stack.
SUMMED, SENT, REDUCED, GATHERED = torch.ones(1000), torch.ones(10), torch.ones(50), [torch.empty(10), torch.empty(10)]


def work(rank, n, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=n)
    pair = [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2] if n == 4 else None
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        model(torch.randn(64, 256)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if pair:
            dist.all_reduce(SUMMED, group=pair)
            dist.all_gather(GATHERED, SENT, group=pair)
        dist.reduce(REDUCED, 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.start_processes(work, (int(sys.argv[2]), sys.argv[3]), nprocs=int(sys.argv[2]), start_method=sys.argv[1])
