"""A job that stalls in the way that argv[1] says; rank 1 is at fault. Its own log says what should be found."""
import array
import ctypes
import os
import signal
import sys
import time

from mpi4py import MPI

import ddl_annotate as ddl

world = MPI.COMM_WORLD
rank = world.rank
how = sys.argv[1]
total = array.array("d", [0.0])


def next_batch():
    if rank == 1 and how == "loader":
        time.sleep(1000)


def gradients():
    if rank == 1 and how == "lock":
        ctypes.PyDLL(None).sleep(1000)  # keeps the interpreter's lock
    if rank == 1 and how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if rank == 1 and how == "never":
        while True:
            pass
    if rank == 1 and how == "evaluates":
        end = time.monotonic() + 4.8
        while time.monotonic() < end:
            with ddl.layer("evaluation"):
                time.sleep(0.1)
    if how == "all_compute":  # compiles, say
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            pass
    if how == "takes_turns":  # each is slow now and then, and somebody always gets on
        time.sleep(0.5)


for step in range(8):
    with ddl.step(step):
        if step == 4:
            next_batch()
            gradients()
        world.Allreduce(array.array("d", [1.0]), total)
