#!/usr/bin/env python3
"""What the hooks of python/ddl_hooks cost, by the real torch: ddl record -o cost.ddl --budget off -- /usr/bin/python3 cost.py

Prints us per call of a module that is named, of one that is only looked at, and of a step (optimizer, backward, loader); each less what it takes without hooks, shortest of many.
"""
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)
hooks = sys.modules.get("_ddl_torch")
if not hooks:
    sys.exit("not under ddl record")
N = 200
net = nn.Sequential(*[nn.Identity() for _ in range(N)])
x = torch.zeros(1)


def shortest(f, times=300):
    best = float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


with torch.no_grad():
    hooks._Layers.times = None
    net(x)
    named = shortest(lambda: net(x))
    hooks._Layers.quiet = {id(child) for child in net}
    looked_at = shortest(lambda: net(x))
    handles, hooks._Layers.handles = hooks._Layers.handles, []
    for handle in handles:
        handle.remove()
    plain = shortest(lambda: net(x))
print(f"a named call {(named - plain) / N:.2f} us, one that is looked at {(looked_at - plain) / N:.2f} us, a call without hooks {plain / N:.2f} us")

weight = nn.Parameter(torch.zeros(1))
sgd = torch.optim.SGD([weight], lr=0.1)
data = [0] * 2000


def step():
    weight.grad = None
    torch.autograd.backward(weight * 2)
    sgd.step()


def batches():
    return iter(DataLoader(data, batch_size=1))


hooked = shortest(step, 2000)
loader = batches()
hooked_batch = shortest(lambda: next(loader), 1000)
hooks._active = False
alone = shortest(step, 2000)
loader = batches()
alone_batch = shortest(lambda: next(loader), 1000)
print(f"a step's optimizer and backward {hooked - alone:.2f} us, a batch {hooked_batch - alone_batch:.2f} us")
