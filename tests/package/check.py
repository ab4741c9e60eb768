#!/usr/bin/env python3
"""The packages of tools/package, where nothing of the build is: they record a job and report on it.

    check.py tar    unpacked elsewhere; its programs use its own libraries, and find_package(ddl) its header, as FetchContent does that of the sources
    check.py wheel  in a virtual environment without a network: commands, and runs as DataFrames of Debian's pandas
    check.py rpm    installed by rpm --root into a bare Debian 12, whose glibc is all that it needs, and removed again
    check.py container  an image on top of a bare Debian 12, in which ddl reports, and records a job that is there too
    check.py deb    lintian; then in a bare Debian 12 made by debootstrap: apt install, the first report, apt purge that leaves nothing
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build" / "packages"
VERSION = re.search(r"^project\(ddl VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
SLEEPY = job.BUILD / "tests" / "programs" / "sleepy_job"


def made(kind, pattern):
    for old in PACKAGES.glob(pattern):
        old.unlink()
    done = job.run([ROOT / "tools" / "package", "--as-built", kind], SOURCE_DATE_EPOCH=1767225600)
    job.check(done.returncode == 0, f"tools/package {kind}: {done.stdout}{done.stderr}")
    (package,) = PACKAGES.glob(pattern)
    return package


def tells_of_the_job(report):
    job.check("WHERE IT GOES" in report and "2 ranks" in report, f"not a report of the job:\n{report}")


def test_tar(folder):
    package = made("tar", "*.tar.zst")
    again = made("tar", "*.tar.zst").read_bytes()
    job.check(package.read_bytes() == again, "the same build was packed into other bytes")
    place = folder / "opt"
    place.mkdir()
    subprocess.run(["tar", "--zstd", "-xf", package, "-C", place], check=True)
    (tree,) = place.iterdir()
    ddl = tree / "bin" / "ddl"
    elsewhere = [line.strip() for program in ("ddl", "ddl-top") for line in job.run(["ldd", tree / "bin" / program]).stdout.splitlines()
                 if "=>" in line and str(tree) not in line and not re.search(r"lib(c|m|dl|rt|pthread)\.so", line)]
    job.check(not elsewhere, f"libraries from elsewhere: {elsewhere}")
    job.check("rank 2" in job.run([ddl, "report", "--demo"]).stdout, "the run that ships with ddl")
    bill = json.loads(job.run([ROOT / "tools" / "sbom", "--build", job.BUILD, package], check_rc=0, SOURCE_DATE_EPOCH=1767225600).stdout)
    job.check(bill["packages"][0]["checksums"][0]["checksumValue"] == hashlib.sha256(package.read_bytes()).hexdigest(), f"bill of materials: {bill['packages'][0]}")
    told = {part["name"] for part in bill["packages"]}
    for library in (tree / "lib" / "ddl").iterdir():  # what it brings of others
        if "ddl" not in library.name:
            owners = {line.split(":")[0] for line in job.run(["dpkg", "-S", f"*/{library.name}"]).stdout.splitlines()}
            job.check(owners & told, f"{library.name} of {owners} is not in the bill of materials: {told}")
    job.check({r["relatedSpdxElement"] for r in bill["relationships"]} == {p["SPDXID"] for p in bill["packages"]}, "parts and relationships differ")
    preload = job.run([ddl, "record", "-o", folder / "sh.ddl", "--no-python", "--", "sh", "-c", "echo $LD_PRELOAD"]).stdout
    job.check("libddl.so" in preload, f"no library was preloaded: {preload}")
    named = [path for path in tree.rglob("*") if path.is_file() and "demo" not in path.parts and str(job.BUILD).encode() in path.read_bytes()]
    job.check(not named, f"these name the folder of the build: {named}")
    run = folder / "job.ddl"
    done = job.run([ddl, "record", "-o", run, "--", *job.mpirun(2, [SLEEPY, "--ms", "5", "--steps", "20"])])
    job.check(done.returncode == 0, f"recording: {done.stdout}{done.stderr}")
    tells_of_the_job(job.run([ddl, "report", run]).stdout)
    marks_steps(folder / "installed", "find_package(ddl 0.1 REQUIRED)", f"-DCMAKE_PREFIX_PATH={tree}")
    marks_steps(folder / "fetched", f"include(FetchContent)\nFetchContent_Declare(ddl SOURCE_DIR {ROOT})\nFetchContent_MakeAvailable(ddl)")


def marks_steps(project, found, *options):
    """A project of somebody else's that includes ddl/annotate.h, which CMake has found so."""
    project.mkdir()
    (project / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.16)\nproject(p C)\n{found}\n"
                                            "add_executable(p p.c)\ntarget_link_libraries(p ddl::annotate)\n")
    (project / "p.c").write_text('#include <ddl/annotate.h>\nint main(void) { ddl_step_begin(0); ddl_step_end(); return 0; }\n')
    for command in (["cmake", "-S", project, "-B", project / "b", *options], ["cmake", "--build", project / "b"], [project / "b" / "p"]):
        done = job.run(command)
        job.check(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
    built = job.run(["cmake", "--build", project / "b", "--target", "help"]).stdout
    job.check("ddl_core" not in built, f"{found}: brings targets of ddl's own: {built}")


READ = """
import sys
import ddl
with ddl.open(sys.argv[1]) as run:
    steps = run.steps()
    assert type(steps).__module__.startswith("pandas") == (sys.argv[2] == "pandas"), type(steps)
    assert len(steps) == 40 and len(run.ranks()) == 2, (len(steps), len(run.ranks()))
    print(run.query("SELECT count(*) AS n FROM v_step"))
"""


def test_wheel(folder):
    python = "/usr/bin/python3"
    for module, name in (("wheel", "python3-wheel"), ("ensurepip", "python3-venv")):
        if job.run([python, "-c", f"import {module}"]).returncode != 0:
            raise job.Skip(f"no {name} (tools/setup package)")
    package = made("wheel", "*.whl")
    again = made("wheel", "*.whl").read_bytes()
    job.check(package.read_bytes() == again, "the same build was packed into other bytes")
    begin = time.monotonic()
    for packages in ("alone", "pandas") if job.run([python, "-c", "import pandas"]).returncode == 0 else ("alone",):
        place = folder / packages
        subprocess.run([python, "-m", "venv", *(["--system-site-packages"] if packages == "pandas" else []), place], check=True)
        done = job.run([place / "bin" / "pip", "install", "--no-index", "--no-deps", package])
        job.check(done.returncode == 0, f"pip install: {done.stdout}{done.stderr}")
        ddl = place / "bin" / "ddl"
        job.check("rank 2" in job.run([ddl, "report", "--demo"]).stdout, "the run that ships with ddl")
        if packages == "alone":
            print(f"from making the environment to the first report: {time.monotonic() - begin:.1f} s")
        run = folder / f"{packages}.ddl"
        done = job.run([ddl, "record", "-o", run, "--", *job.mpirun(2, [SLEEPY, "--ms", "5", "--steps", "20"])])
        job.check(done.returncode == 0, f"recording: {done.stdout}{done.stderr}")
        tells_of_the_job(job.run([ddl, "report", run]).stdout)
        done = job.run([place / "bin" / "python", "-c", READ, run, packages])
        job.check(done.returncode == 0, f"reading: {done.stdout}{done.stderr}")
        marks = job.run([ddl, "record", "-o", folder / "marks.ddl", "--", place / "bin" / "python", "-c", "import ddl_annotate; print(ddl_annotate.RECORDED)"])
        job.check(marks.stdout == "True\n", f"ddl_annotate: {marks.stdout}{marks.stderr}")
        shutil.rmtree(folder / "marks.ddl", ignore_errors=True)
        job.run([place / "bin" / "pip", "uninstall", "-y", "ddl-profiler"])
        left = [path for path in place.rglob("*ddl*") if "__pycache__" not in path.parts]
        job.check(not left, f"left behind: {left}")


def test_deb(folder):
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("lintian"):
        raise job.Skip("needs root, debootstrap and lintian (tools/setup package)")
    package = made("deb", "ddl_*.deb")
    said = job.run(["lintian", "--fail-on", "error,warning", package])
    job.check(said.returncode == 0, f"lintian: {said.stdout}{said.stderr}")
    in_bare_debian(folder, package, tried_in)


def in_bare_debian(folder, package, tried):
    """tried(folder of a Debian 12 with nothing in it, function that runs a command there, package)."""
    bare = folder / "bare"
    if subprocess.run(["debootstrap", "--variant=minbase", "bookworm", bare], stdout=subprocess.DEVNULL).returncode != 0:
        raise job.Skip("debootstrap cannot make a Debian 12 here: is there a network?")

    def inside(command, code=0):
        done = job.run(["chroot", bare, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
                        "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "sh", "-ec", command], timeout=600)
        job.check(done.returncode == code, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    subprocess.run(["mount", "-t", "proc", "proc", bare / "proc"], check=True)
    try:
        tried(bare, inside, package)
    finally:
        subprocess.run(["umount", bare / "proc"])


ALL_FILES = "find / -xdev -path /proc -prune -o -path /var -prune -o -print"


def give_job(bare, inside):
    shutil.copy(SLEEPY, bare / "root" / "job")
    inside("apt-get update -q")
    inside("apt-get install -q -y --no-install-recommends openmpi-bin openssh-client")  # the job's own


def test_rpm(folder):
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("rpmbuild"):
        raise job.Skip("needs root, debootstrap and rpm (tools/setup package)")
    package = made("rpm", "ddl-*.rpm")
    again = made("rpm", "ddl-*.rpm").read_bytes()
    job.check(package.read_bytes() == again, "the same build was packed into other bytes")
    files = job.run(["rpm", "-qlp", package]).stdout.split("\n")
    job.check({"/usr/bin/ddl", "/opt/ddl/bin/ddl", "/opt/ddl/lib/ddl/libddl.so", "/usr/share/man/man1/ddl.1.gz"} <= set(files), f"{files}")
    in_bare_debian(folder, package, rpm_tried_in)


def rpm_tried_in(bare, inside, package):
    give_job(bare, inside)
    before = set(inside(ALL_FILES).split("\n"))
    rpm = ["rpm", "--root", bare, "--dbpath", "/var/lib/rpm"]
    started = time.monotonic()
    # That no package of an RPM database is called glibc is all that is amiss in a Debian.
    done = job.run([*rpm, "-i", "--nodeps", package])
    job.check(done.returncode == 0, f"rpm -i: {done.stdout}{done.stderr}")
    job.check("rank 2" in inside("ddl report --demo"), "the run that ships with ddl")
    inside("cd /root; ddl record -o job.ddl -- mpirun -np 2 --oversubscribe /root/job --ms 5 --steps 20")
    tells_of_the_job(inside("ddl report /root/job.ddl"))
    print(f"from rpm -i to the first report: {time.monotonic() - started:.1f} s")
    job.check(job.run([*rpm, "-q", "--requires", "ddl"]).stdout.split("\n")[0].startswith("glibc >= "), "needs glibc and nothing else")
    done = job.run([*rpm, "-e", "ddl"])
    job.check(done.returncode == 0, f"rpm -e: {done.stdout}{done.stderr}")
    inside("rm -r /root/job.ddl")
    left = {path for path in set(inside(ALL_FILES).split("\n")) - before if "ddl" in path}
    job.check(not left, f"left behind: {sorted(left)}")


def test_container(folder):
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("buildah"):
        raise job.Skip("needs root, debootstrap and buildah (tools/setup package)")
    bare, base, image = folder / "bare", folder / "base.tar", PACKAGES / f"ddl-{VERSION}-container.tar"
    if subprocess.run(["debootstrap", "--variant=minbase", "bookworm", bare], stdout=subprocess.DEVNULL).returncode != 0:
        raise job.Skip("debootstrap cannot make a Debian 12 here: is there a network?")
    buildah = ["buildah", "--root", folder / "storage"]
    chroot = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}

    def must(*command):
        done = job.run(command, timeout=600, **chroot)
        job.check(done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout.strip()

    scratch = must(*buildah, "from", "scratch")
    must(*buildah, "copy", "-q", scratch, bare, "/")
    must(*buildah, "commit", "-q", scratch, f"docker-archive:{base}")
    must(ROOT / "tools" / "package", "--as-built", "container", f"docker-archive:{base}")
    name = must(*buildah, "pull", "-q", f"docker-archive:{image}")
    place = must(*buildah, "from", name)
    run = [*buildah, "run", "-e", "OMPI_ALLOW_RUN_AS_ROOT=1", "-e", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", place, "--"]
    job.check("rank 2" in must(*run, "ddl", "report", "--demo"), "the run that ships with ddl")
    must(*buildah, "copy", "-q", place, SLEEPY, "/root/job")
    must(*run, "sh", "-ec", "apt-get update -q; apt-get install -q -y --no-install-recommends openmpi-bin openssh-client")
    must(*run, "sh", "-ec", "ddl record -o job.ddl -- mpirun -np 2 --oversubscribe /root/job --ms 5 --steps 20")
    tells_of_the_job(must(*run, "ddl", "report", "/runs/job.ddl"))


def tried_in(bare, inside, package):
    shutil.copy(package, bare / "root" / package.name)
    give_job(bare, inside)
    before = set(inside(ALL_FILES).split("\n"))
    started = time.monotonic()
    inside(f"apt-get install -q -y --no-install-recommends /root/{package.name}")
    job.check("rank 2" in inside("ddl report --demo"), "the run that ships with ddl")
    inside("cd /root; ddl record -o job.ddl -- mpirun -np 2 --oversubscribe /root/job --ms 5 --steps 20")
    tells_of_the_job(inside("ddl report /root/job.ddl"))
    print(f"from apt install to the first report: {time.monotonic() - started:.1f} s")
    inside("rm -r /root/job.ddl; apt-get purge -q -y ddl; apt-get autoremove -q -y --purge; ldconfig")
    left = {path for path in set(inside(ALL_FILES).split("\n")) - before if "ddl" in path}
    job.check(not left, f"left behind: {sorted(left)}")


if len(sys.argv) != 2 or sys.argv[1] not in ("tar", "wheel", "rpm", "deb", "container"):
    sys.exit(__doc__)
job.main({"tar": test_tar, "wheel": test_wheel, "rpm": test_rpm, "deb": test_deb, "container": test_container}[sys.argv.pop()])
