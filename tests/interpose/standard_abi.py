#!/usr/bin/env python3
"""A job of the standard ABI of MPI 5.0: under each preload library it runs as it does alone, is told that it is not recorded, and leaves no recording.

    standard_abi.py PROGRAM FOLDER-OF-LIBMPI_ABI LIBDDL..."""
import os
import pathlib
import subprocess
import sys
import tempfile

program, libraries, *preloads = sys.argv[1:]


def run(**settings):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DDL_")}
    done = subprocess.run([program], env={**environment, "LD_LIBRARY_PATH": libraries, **settings}, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


alone = run()
assert alone == (0, "3 4\n", ""), alone
for preload in preloads:
    with tempfile.TemporaryDirectory() as folder:
        code, out, said = run(LD_PRELOAD=preload, DDL_OUT=f"{folder}/run.ddl")
        assert (code, out) == alone[:2], f"{preload}: {code} {out} {said}"
        assert said.count("standard ABI of MPI 5.0") == 1 and said.count("\n") == 1, f"{preload}: {said}"
        left = list(pathlib.Path(folder).rglob("*.spool"))
        assert not left, f"{preload}: {left}"
    print(f"{pathlib.Path(preload).name}: as alone, and told once")
