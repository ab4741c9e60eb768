"""A job of Horovod for PyTorch that times itself: forward and backward, and how long it is blocked in synchronize()."""
import argparse
import ctypes
import json
import time

import horovod.torch as hvd
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--width", type=int, default=384)
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--slow-ms", type=float, default=30)
parser.add_argument("--spin", action="store_true", help="compute for so long instead of sleeping")
parser.add_argument("--hang-rank", type=int, default=-1, help="sleeps for ever in step 20")
parser.add_argument("--marks", action="store_true")
parser.add_argument("--out", help="what each rank timed goes to OUT.RANK")
options = parser.parse_args()

hvd.init()
torch.set_num_threads(1)
torch.manual_seed(1)
layers = [layer for _ in range(4) for layer in (torch.nn.Linear(options.width, options.width), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers, torch.nn.Linear(options.width, 10))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.001), named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
inputs, labels = torch.randn(options.batch, options.width), torch.randint(0, 10, (options.batch,))
annotations = ctypes.CDLL(None) if options.marks else None
now = time.monotonic_ns

steps = []
for step in range(options.steps):
    begin = now()
    if annotations:
        annotations.ddl_range_push(1, None, ctypes.c_uint64(step))
    optimizer.zero_grad()
    if step == 20 and hvd.rank() == options.hang_rank:
        time.sleep(3600)
    slept = 0
    if hvd.rank() == options.slow_rank:
        if options.spin:
            while now() - begin < options.slow_ms * 1e6:
                pass
        else:
            time.sleep(options.slow_ms / 1e3)
            slept = now() - begin
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    handed_over = now()
    optimizer.synchronize()
    reduced = now()
    with optimizer.skip_synchronize():
        optimizer.step()
    if annotations:
        annotations.ddl_range_pop(1)
    steps.append({"step": step, "whole_ns": now() - begin, "blocked_ns": reduced - handed_over, "slept_ns": slept})
if options.out:
    with open(f"{options.out}.{hvd.rank()}", "w") as file:
        json.dump(steps, file)
print(f"rank {hvd.rank()} loss {loss.item():.6f}", flush=True)
