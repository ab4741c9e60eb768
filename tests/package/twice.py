#!/usr/bin/env python3
"""The same sources, built twice in two folders without a cache of the compiler's work, at other hours, in another time zone and language: every package has the same bytes."""
import filecmp
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"deb": "*.deb", "tar": "*.tar.zst", "rpm": "*.rpm", "wheel": "*.whl"}
UNPACK = {"deb": "dpkg-deb -x {0} {1}", "tar": "tar --zstd -xf {0} -C {1}", "rpm": "rpm2cpio {0} | (cd {1} && cpio -idm --quiet)", "wheel": "/usr/bin/python3 -m zipfile -e {0} {1}"}


def copy_sources(folder):
    for name in subprocess.run(["git", "-C", ROOT, "ls-files", "-c", "-o", "--exclude-standard"], capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
            os.utime(folder / name)


def packages_of(folder, kinds, **environment):
    copy_sources(folder)
    environment.update(SOURCE_DATE_EPOCH=1767225600, CCACHE_DISABLE=1)

    def must(*command):
        done = job.run(["env", "-C", folder, *command], timeout=7200, **environment)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}: {done.stdout[-3000:]}{done.stderr[-3000:]}")

    must("cmake", "--preset", "release", "-DDDL_TESTS=OFF", "-DDDL_BENCH=OFF")
    must("cmake", "--build", "--preset", "release", "-j", os.cpu_count())
    for kind in kinds:
        must("tools/package", "--as-built", kind)
    return {kind: next((folder / "build" / "packages").glob(KINDS[kind])) for kind in kinds}


def what_differs(kind, first, second, folder):
    """Names of the files whose bytes differ: where to begin."""
    trees = []
    for package in (first, second):
        trees.append(Path(tempfile.mkdtemp(dir=folder)))
        subprocess.run(UNPACK[kind].format(package, trees[-1]), shell=True, check=True)
    files = [{path.relative_to(tree) for path in tree.rglob("*") if path.is_file() and not path.is_symlink()} for tree in trees]
    _, differing, _ = filecmp.cmpfiles(*trees, sorted(files[0] & files[1]), shallow=False)
    return sorted(map(str, [*differing, *(files[0] ^ files[1])]))


def test_twice(folder):
    missing = [program for program in ("cpack", "patchelf", "rpmbuild", "zstd") if not shutil.which(program)]
    if missing:
        raise job.Skip(f"no {', '.join(missing)} (tools/setup package)")
    first = packages_of(folder / "a", KINDS, TZ="UTC", LC_ALL="C.UTF-8")
    second = packages_of(folder / "a-longer-name" / "b", KINDS, TZ="Asia/Tokyo", LC_ALL="C", HOME=folder)
    for kind, package in first.items():
        same = package.name == second[kind].name and package.read_bytes() == second[kind].read_bytes()
        job.check(same, "" if same else f"{package.name}: built twice, other bytes; in {what_differs(kind, package, second[kind], folder) or 'the container only'}")
        print(f"{package.name}: {package.stat().st_size} bytes, {'equal' if same else 'differ'}")


job.main(test_twice)
