#!/usr/bin/env python3
"""train --device cuda under mpirun against mocks of CUDA, cuBLAS, cuDNN and NCCL that compute on the CPU: the losses of the CPU, gradients by NCCL or by way of the host,
and a recording with kernels, copies and collectives in their layers."""
import re

import job
import nccl_job

STEPS, RANKS = 3, 2
MODELS = {"mlp": ("--width", 48), "cnn": ("--width", 2)}


def train(*arguments, record=None):
    command = ["mpirun", "-np", RANKS, job.TRAIN, "--batch", 4, "--steps", STEPS, "--bucket-mb", 0.01, *arguments]
    done = job.run([job.DDL, "record", "-o", record, "--", *command] if record else command, check_rc=0, **nccl_job.environment(DDL_CLOCK="monotonic"))
    losses = [float(x) for x in re.findall(r"^step \d+ loss (\S+)$", done.stdout, re.M)]
    facts = re.search(r"parameters (\d+) .* buckets (\d+) ", done.stdout)
    return losses, int(facts[1]), int(facts[2])


def check_model(folder, model):
    want, parameters, buckets = train("--model", model, *MODELS[model])
    for reduce in ("nccl", "mpi"):
        what, run_dir = f"{model} by {reduce}", folder / f"{model}-{reduce}.ddl"
        losses, *_ = train("--model", model, *MODELS[model], "--device", "cuda", "--reduce", reduce, record=run_dir)
        same = len(losses) == len(want) == STEPS and all(abs(a - b) <= 1e-4 * b for a, b in zip(losses, want))
        job.check(same, f"{what}: losses {losses}, on the CPU {want}")
        db = job.store(run_dir)
        layers = {r[0] for r in db.execute("SELECT DISTINCT layer FROM v_kernel WHERE rank = 1 AND phase = 'backward'")}
        named = {"fc1", "relu1", "fc2", "relu2", "fc3", "relu3", "fc4"} if model == "mlp" else {"stem", "block1.conv1", "block2.shortcut", "block3.add", "pool", "fc"}
        job.check(named <= layers, f"{what}: kernels of backward in {layers}")
        steps = db.execute("SELECT count(DISTINCT step) FROM v_kernel WHERE step IS NOT NULL").fetchone()[0]
        job.check(steps == STEPS, f"{what}: kernels in {steps} steps")
        moved = dict(db.execute("SELECT kind, sum(bytes) FROM v_memcpy WHERE rank = 0 AND layer LIKE 'bucket%' GROUP BY kind").fetchall())
        whole = STEPS * 4 * (parameters + 2)
        job.check(moved == ({} if reduce == "nccl" else {"DtoH": whole, "HtoD": whole}), f"{what}: copies of gradients {moved}, expected {whole} each way")
        rows = db.execute("SELECT rank, count(*) n, sum(bytes) b, count(wait_ns) split, count(DISTINCT layer) layers, min(source) source FROM v_collective WHERE op = 'ncclAllReduce'"
                          " GROUP BY rank ORDER BY rank").fetchall()
        n = STEPS * buckets
        expected = [(rank, n, whole, n, buckets, "kernel") for rank in range(RANKS)] if reduce == "nccl" else []
        job.check([tuple(r) for r in rows] == expected, f"{what}: collectives {[tuple(r) for r in rows]}, expected {expected}")
        of_view = "SELECT world, layer, phase, sum(calls), sum(compute_ns), sum(exposed_ns), sum(wait_ns) FROM v_layer GROUP BY world, layer, phase ORDER BY world, layer, phase"
        of_table = "SELECT world, layer, phase, calls, compute_ns, exposed_ns, wait_ns FROM layer_total ORDER BY world, layer, phase"
        view, table = ([tuple(r) for r in db.execute(sql)] for sql in (of_view, of_table))
        job.check(view == table and any(row[-1] for row in table), f"{what}: layer_total {table}, v_layer {view}")
        lost = [tuple(r) for r in db.execute("SELECT kind, count, note FROM loss")]
        job.check(not lost, f"{what}: missing {lost}")


def mlp(folder):
    check_model(folder, "mlp")


def cnn(folder):
    check_model(folder, "cnn")


if __name__ == "__main__":
    job.main(mlp, cnn)
