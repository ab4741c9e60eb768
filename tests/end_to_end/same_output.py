#!/usr/bin/env python3
"""The trainer prints the same losses, bit for bit, and ends with the same code, with and without the library."""
import job

del job.MPI_ENV["OMPI_MCA_pml"]  # as users' jobs: with all libraries of fabrics that MPI_Init loads

CASES = [
    ("mlp", []),
    ("mlp", ["--no-overlap"]),
    ("cnn", []),
    ("cnn", ["--no-overlap", "--bucket-mb", "0.05"]),
]


def same_losses(folder):
    for model, options in CASES:
        train = [job.TRAIN, "--model", model, "--steps", 8, "--batch", 16, *options]
        plain = job.run(job.mpirun(2, train), check_rc=0)
        out = folder / "with.ddl"
        traced = job.run(job.mpirun(2, train), check_rc=0, LD_PRELOAD=job.LIBRARY, DDL_OUT=out)
        what = f"train --model {model} {' '.join(options)}"
        job.check("loss" in plain.stdout, f"{what}: no loss in its output:\n{plain.stdout}")
        job.check(plain.stdout == traced.stdout, f"{what}: output differs\n--- without\n{plain.stdout}\n--- with\n{traced.stdout}")
        spools = list(out.glob("*.spool"))
        job.check(len(spools) == 2, f"{what}: {len(spools)} spools instead of 2")
        for spool in spools:
            spool.unlink()
        out.rmdir()


def same_exit_code(folder):
    for arguments, expected in ((["--no-such-option"], 2), (["--data", "/nonexistent"], 1)):
        codes = [job.run([job.TRAIN, *arguments], **env).returncode for env in ({}, {"LD_PRELOAD": job.LIBRARY, "DDL_OUT": folder / "bad.ddl"})]
        job.check(codes == [expected, expected], f"train {' '.join(arguments)}: exit codes without and with {codes}, expected {expected}")


def default_run_directory(folder):
    """A bare LD_PRELOAD job leaves ./ddl-<launcher>.ddl, one for all its ranks."""
    here = folder / "bare"
    here.mkdir()
    job.run(["sh", "-c", f"cd {here} && exec mpirun -np 2 {job.TRAIN} --steps 2"], check_rc=0, LD_PRELOAD=job.LIBRARY)
    runs = list(here.iterdir())
    job.check(len(runs) == 1 and runs[0].name.startswith("ddl-") and runs[0].suffix == ".ddl", f"left behind: {[r.name for r in runs]}")
    job.check(len(list(runs[0].glob("*.spool"))) == 2, "the two ranks do not share a run directory")
    job.check(runs[0].stat().st_mode & 0o777 == 0o700, f"mode of the run directory is {runs[0].stat().st_mode:o}")
    for spool in runs[0].glob("*.spool"):
        job.check(spool.stat().st_mode & 0o777 == 0o600, f"mode of the spool is {spool.stat().st_mode:o}")


job.main(same_losses, same_exit_code, default_run_directory)
