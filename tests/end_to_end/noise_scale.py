#!/usr/bin/env python3
"""The trainer reports norms of gradients; the noise scale that ddl makes of them equals one computed here, from the values alone.

And what must hold of the norms whatever they are: all ranks have the same reduced one, and a mean is not longer than the root mean square of
what it is the mean of.
"""
import job

RANKS, BATCH, STEPS = 2, 16, 30
MEMORY = 0.99  # of an average over steps, per step
WARMUP = 5


def noise_scale(folder):
    run_dir = folder / "run.ddl"
    job.record(run_dir, job.mpirun(RANKS, [job.TRAIN, "--batch", BATCH, "--steps", STEPS]), check_rc=0)
    metric = {}
    for name in ("noise_scale", "gradient_square", "gradient_variance", "batch_to_noise", "statistical_efficiency"):
        metric[name] = job.run([job.DDL, "analyze", run_dir, "--metric", name]).stdout.strip()
    db = job.store(run_dir)
    values = {(step, rank, name): value for step, rank, name, value in db.execute(
        "SELECT v.step, p.rank, v.name, v.value FROM value v JOIN process p ON p.id = v.process WHERE v.name IN ('local_gradient_norm', 'gradient_norm')")}
    square = trace = weights = 0
    for step in range(STEPS):
        reduced = [values[step, rank, "gradient_norm"] for rank in range(RANKS)]
        own = [values[step, rank, "local_gradient_norm"] for rank in range(RANKS)]
        mean_square = sum(x * x for x in own) / RANKS
        job.check(max(reduced) - min(reduced) <= 1e-6 * max(reduced), f"step {step}: reduced norms differ: {reduced}")
        job.check(reduced[0] ** 2 <= mean_square * (1 + 1e-6), f"step {step}: |mean| {reduced[0]} above root mean square {mean_square ** 0.5}")
        job.check(own[0] != own[1], f"step {step}: both ranks have the same gradient")
        if step < WARMUP:
            continue
        weight = MEMORY ** (STEPS - 1 - step)
        big, small = RANKS * BATCH, BATCH
        square += weight * (big * reduced[0] ** 2 - small * mean_square) / (big - small)
        trace += weight * (mean_square - reduced[0] ** 2) / (1 / small - 1 / big)
        weights += weight
    expected = {"gradient_square": square / weights, "gradient_variance": trace / weights}
    if square > 0 and trace > 0:
        scale = trace / square
        expected |= {"noise_scale": scale, "batch_to_noise": RANKS * BATCH / scale,
                     "statistical_efficiency": (scale + BATCH) / (scale + RANKS * BATCH)}
    for name, value in expected.items():
        job.check(abs(float(metric[name]) - value) <= 1e-6 * abs(value), f"{name}: {metric[name]}, here {value}")
    print(", ".join(f"{name} {value:.6g}" for name, value in expected.items()))


job.main(noise_scale)
