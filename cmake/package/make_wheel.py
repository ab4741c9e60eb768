#!/usr/bin/env python3
"""A wheel of an installation: make_wheel.py INSTALLATION FOLDER VERSION GLIBC. Module ddl with the installation inside, ddl_annotate, commands ddl and ddl-top.

Packed by python3-wheel; the same installation gives the same bytes ($SOURCE_DATE_EPOCH).
"""
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

METADATA = """Metadata-Version: 2.1
Name: ddl-profiler
Version: {version}
Summary: profiler and tuner of distributed deep-learning jobs
License: Apache-2.0
Requires-Python: >=3.8
Provides-Extra: pandas
Requires-Dist: pandas; extra == 'pandas'
Description-Content-Type: text/markdown

`ddl record -- torchrun train.py` records an unmodified job; `ddl report` says where its time goes, splits every collective into waiting and
transfer, and names the rank to blame. `import ddl; ddl.open("job.ddl").steps()` reads it in Python.
"""
WHEEL = """Wheel-Version: 1.0
Generator: ddl
Root-Is-Purelib: false
Tag: {tag}
"""
COMMANDS = """[console_scripts]
ddl = ddl:_run_program
ddl-top = ddl:_run_program
"""


def main(installation, folder, version, glibc):
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"
    with tempfile.TemporaryDirectory() as name:
        stage = Path(name) / "wheel"
        share = Path(installation) / "share" / "ddl"
        shutil.copytree(share / "reader" / "ddl", stage / "ddl")
        shutil.copy(share / "python" / "ddl_annotate.py", stage)
        shutil.copytree(installation, stage / "ddl" / "installation", ignore=shutil.ignore_patterns("reader", "modulefiles", "man", "lintian", "zsh", "fish"))
        info = stage / f"ddl_profiler-{version}.dist-info"
        info.mkdir()
        for file, text in (("METADATA", METADATA), ("WHEEL", WHEEL), ("entry_points.txt", COMMANDS)):
            (info / file).write_text(text.format(version=version, tag=tag))
        (info / "LICENSE").write_bytes((Path(__file__).parents[2] / "LICENSE").read_bytes())
        subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", folder, stage], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    os.umask(0o022)
    main(*sys.argv[1:])
