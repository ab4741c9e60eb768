#!/usr/bin/env python3
"""The conformance programs with Debian 13's Open MPI 5.0 and MPICH 4.2, under the libraries that were built here.

    DDL_TRIXIE=FOLDER trixie.py [--flavour openmpi5|mpich42] [PROGRAM...]

FOLDER is made as docs/how-to/install.md says. As root. Programs are compiled there, with its compiler wrappers; run.py
runs there too.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import job

HERE = Path(__file__).resolve().parent
IN_TRIXIE = HERE.parent / "support" / "in_trixie"
FLAGS = ["-g", "-pthread", "-std=gnu11", "-Wall", "-Wextra", "-Wno-stringop-overflow", "-Wno-stringop-overread"]
FORTRAN_FLAGS = ["-g", "-O0", "-ffree-line-length-none", "-fopenmp"]
NOT_THERE = {"openmpi5": lambda source: source.stem.endswith("_large")}  # Open MPI 5.0 has no large counts yet


def inside(*command):
    return subprocess.run([IN_TRIXIE, *command], capture_output=True, text=True)


def compile_all(flavour, folder):
    """What does not compile there is named: it may need what this MPI has not."""
    for binding in (".", "mpif_h", "mpi", "f08"):
        (folder / binding).mkdir(parents=True)
    jobs = []
    for source in sorted(HERE.glob("c/*.c")) + sorted(HERE.glob("c/mpi4/*.c")):
        if not NOT_THERE.get(flavour, lambda _: False)(source):
            jobs.append([f"mpicc.{flavour.rstrip('0123456789')}", *FLAGS, source, "-o", folder / source.stem])
    if flavour == "openmpi5":
        done = inside("env", "-C", folder, "gfortran", *FORTRAN_FLAGS, "-c", HERE / "fortran/support/transcript.f90")
        job.check(done.returncode == 0, done.stderr)
        for source in sorted(HERE.glob("fortran/*.F90")):
            counted = folder / source.name
            subprocess.run([sys.executable, HERE / "fortran/support/insert_counts.py", source, counted], check=True)
            text = counted.read_text().replace("MPIX_", "MPI_")  # no extensions any more
            text = re.sub(r"call set_for_open_mpi\(.*", "continue", text)  # it has other components
            # What the launcher of 5.0.7 does not survive is left out.
            counted.write_text(re.sub(r"call spawn_multiple$", "continue", text, flags=re.M))
            for binding in ("mpif_h", "mpi", "f08"):
                loose = ["-fallow-argument-mismatch", "-w"] if binding == "mpif_h" else []
                jobs.append(["env", "-C", folder / binding, "mpifort.openmpi", *FORTRAN_FLAGS, *loose,
                             f"-DBINDING_{binding.upper()}", f"-I{folder}", f"-I{HERE}/fortran/support", counted,
                             folder / "transcript.o", "-o", folder / binding / source.stem])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for command, done in zip(jobs, pool.map(lambda command: inside(*command), jobs)):
            job.check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flavour", choices=("openmpi5", "mpich42"), action="append")
    parser.add_argument("program", nargs="*", help="default: all")
    options = parser.parse_args()
    if not os.environ.get("DDL_TRIXIE") or os.geteuid() != 0:
        print("skipped: needs root, and a Debian 13 at $DDL_TRIXIE (see the head of this file)")
        return 77
    code = 0
    for flavour in options.flavour or ("openmpi5", "mpich42"):
        folder = job.BUILD / "tests" / "conformance" / "trixie" / flavour
        shutil.rmtree(folder, ignore_errors=True)
        compile_all(flavour, folder)
        if job.failures:
            return 1
        command = ["python3", HERE / "run.py", "--flavour", flavour, "--programs", folder, *options.program]
        code |= subprocess.run([IN_TRIXIE, *command]).returncode
    return code


sys.exit(main())
