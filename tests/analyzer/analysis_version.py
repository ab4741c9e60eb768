#!/usr/bin/env python3
"""The version of the analysis changes with what it is made of, and with nothing else:  analysis_version.py CMAKE"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARTS = ["store/schema.sql", "analyzer/metrics/step_time.sql", "analyzer/findings/straggler.cpp", "analyzer/passes/blame.cpp"]


def version(root, parts=PARTS):
    command = [sys.argv[1], f"-DROOT={root}", f"-DOUTPUT={root}/out.cpp", f"-DINPUTS={','.join(parts)}", "-P", ROOT / "analyzer/version.cmake"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    written = re.search(r'return "([0-9a-f]{16})"', (root / "out.cpp").read_text())[1]
    assert written in said, said
    return written


def tree(folder):
    for part in PARTS:
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / part, folder / part)
    return folder


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    first, second = tree(here / "first"), tree(here / "second" / "deeper")
    original = version(first)
    assert version(second) == original, "depends on where the sources lie, or on when they were written"
    assert version(first, PARTS[::-1]) == original, "depends on the order of the files"
    assert version(first, PARTS[:-1]) != original, "a file came, and the version stayed"
    for part in PARTS:
        text = (second / part).read_text()
        (second / part).write_text(text + "\n")
        assert version(second) != original, f"{part} changed, and the version stayed"
        (second / part).write_text(text)
    assert version(second) == original
print(f"{len(PARTS)} files, version {original}")
