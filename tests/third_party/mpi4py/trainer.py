"""A data-parallel trainer as people write them with mpi4py: no marks of any kind, one Allreduce per tensor, all from the same call site.

    mpirun -np 2 python3 trainer.py STEPS

A net of four dense layers on drawn data. Rank 0 prints how many tensors there are and how many bytes each reduction has.
"""
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
steps = int(sys.argv[1])
widths = [64, 128, 128, 128, 10]
batch, rate = 32, 0.01

draw = np.random.default_rng(1)
weights = [draw.normal(0, (2 / n) ** 0.5, (n, m)) for n, m in zip(widths, widths[1:])]
for w in weights:
    world.Bcast(w, root=0)
own = np.random.default_rng(100 + rank)

for step in range(steps):
    values = [own.normal(size=(batch, widths[0]))]
    labels = own.integers(0, widths[-1], batch)
    for w in weights[:-1]:
        values.append(np.maximum(values[-1] @ w, 0))
    logits = values[-1] @ weights[-1]
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    error = share
    error[np.arange(batch), labels] -= 1
    for layer in reversed(range(len(weights))):
        gradient = values[layer].T @ error / (batch * size)
        if layer > 0:
            error = (error @ weights[layer].T) * (values[layer] > 0)
        total = np.empty_like(gradient)
        world.Allreduce(gradient, total)
        weights[layer] -= rate * total
    if step % 10 == 9:  # the loss, now and then
        world.allreduce(float(-np.log(share[np.arange(batch), labels] + 1 + 1e-9).mean()))

if rank == 0:
    print("tensors", len(weights), "bytes", *[w.nbytes for w in reversed(weights)])
