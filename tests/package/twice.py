#!/usr/bin/env python3
"""The same sources built twice, in other folders, time zones and languages, without ccache: packages have the same bytes."""
import filecmp
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"deb": "*.deb", "tar": "*.tar.zst", "rpm": "*.rpm", "wheel": "*.whl"}
UNPACK = {"deb": "dpkg-deb -x {0} {1}", "tar": "tar --zstd -xf {0} -C {1}",
          "wheel": "/usr/bin/python3 -m zipfile -e {0} {1}"}


def copy_sources(folder):
    for name in job.run(["git", "-C", ROOT, "ls-files", "-c", "-o", "--exclude-standard"], check_rc=0).stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
            os.utime(folder / name)


def packages_of(folder, kinds, **environment):
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
    if kind == "rpm":
        listed = [set(job.run(["rpm", "-qp", "--dump", package]).stdout.splitlines()) for package in (first, second)]
        return sorted({line.split()[0] for line in listed[0] ^ listed[1]})
    trees = []
    for package in (first, second):
        trees.append(Path(tempfile.mkdtemp(dir=folder)))
        subprocess.run(UNPACK[kind].format(package, trees[-1]), shell=True, check=True)
    files = [{path.relative_to(tree) for path in tree.rglob("*") if path.is_file() and not path.is_symlink()}
             for tree in trees]
    _, differing, _ = filecmp.cmpfiles(*trees, sorted(files[0] & files[1]), shallow=False)
    return sorted(map(str, [*differing, *(files[0] ^ files[1])]))


def test_twice(folder):
    missing = [program for program in ("cpack", "patchelf", "rpmbuild", "zstd") if not shutil.which(program)]
    if missing:
        raise job.Skip(f"no {', '.join(missing)} (tools/setup package)")
    places = folder / "a", folder / "a-longer-name" / "b"
    for place in places:  # both now: somebody may edit them while we build
        copy_sources(place)
    first = packages_of(places[0], KINDS, TZ="UTC", LC_ALL="C.UTF-8")
    second = packages_of(places[1], KINDS, TZ="Asia/Tokyo", LC_ALL="C", HOME=folder)
    for kind, package in first.items():
        same = package.name == second[kind].name and package.read_bytes() == second[kind].read_bytes()
        where = [] if same else what_differs(kind, package, second[kind], folder)
        job.check(same, f"{package.name}: built twice, other bytes; in {where or 'the archive, not in its files'}")
        print(f"{package.name}: {package.stat().st_size} bytes, {'equal' if same else 'differ'}")


job.main(test_twice)
