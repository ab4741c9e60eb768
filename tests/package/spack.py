#!/usr/bin/env python3
"""The recipes of packaging/spack: they set options that CMake knows, ask for what its find_package needs, and Spack
itself accepts them: its audit, and the tools of `spack style` with its settings.

DDL_SPACK is a checkout of Spack; without it only the first two are tried.
"""
import ast
import os
import re
import shutil
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "packaging" / "spack"
# In a Spack of before 0.23, compilers are no packages.
COMPILERS = """from spack.package import *


class HostCompilers(BundlePackage):
    homepage = "https://example.org"
    version("1")
    provides("c", "cxx")
"""


def calls_of(tree, name):
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == name
    ]


def options_are_known(folder):
    tree = ast.parse((RECIPES / "packages" / "ddl" / "package.py").read_text())
    known = (ROOT / "cmake" / "DdlOptions.cmake").read_text()
    options = [call.args[0].value for call in calls_of(tree, "define")]
    job.check(len(options) >= 5, f"options: {options}")
    for option in options:
        job.check(
            re.search(rf"^(?:set|option)\({option}\b", known, re.M), f"{option} is no option of cmake/DdlOptions.cmake"
        )
    asked = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", (ROOT / "CMakeLists.txt").read_text())[1]
    needed = [call.args[0].value for call in calls_of(tree, "depends_on")]
    job.check(f"cmake@{asked}:" in needed, f"the recipe does not ask for CMake {asked}")
    # What the build cannot do without, by the names of Spack.
    names = {re.split(r"[@ +]", need)[0] for need in needed}
    for package in re.findall(r"^find_package\((\w+) REQUIRED", known, re.M):
        spack = {
            "MPI": "openmpi",
            "SQLite3": "sqlite",
            "Eigen3": "eigen",
            "nlohmann_json": "nlohmann-json",
            "ZLIB": "zlib-api",
            "Threads": "c",
        }
        job.check(
            spack.get(package, package.lower()) in names,
            f"find_package({package}): the recipe asks for nothing like it",
        )


def spack_accepts_them(folder):
    if "DDL_SPACK" not in os.environ:
        print("not tried: Spack itself, which needs DDL_SPACK, a checkout of it")
        return
    checkout = Path(os.environ["DDL_SPACK"])
    home = {"SPACK_USER_CONFIG_PATH": folder / "config", "SPACK_USER_CACHE_PATH": folder / "cache"}

    def spack(*words, code=0):
        return job.run([checkout / "bin" / "spack", *words], check_rc=code, timeout=300, **home).stdout

    spack("repo", "add", RECIPES)
    if job.run([checkout / "bin" / "spack", "providers", "c"], timeout=300, **home).returncode != 0:
        recipe = folder / "before" / "packages" / "host-compilers" / "package.py"
        recipe.parent.mkdir(parents=True)
        recipe.write_text(COMPILERS)
        (folder / "before" / "repo.yaml").write_text("repo: {namespace: before}\n")
        spack("repo", "add", folder / "before")
    found = spack("audit", "packages", "ddl", "sqlitecpp")
    job.check(
        re.findall(r"(\d+) issues? found", found) and set(re.findall(r"(\d+) issues? found", found)) == {"0"}, found
    )
    job.check("Profiler and tuner" in spack("info", "ddl"), "spack info ddl")
    print(spack("--version").strip(), "audits both recipes:", " ".join(found.split()))
    # Where recipes lie decides which of Spack's exceptions hold for them.
    shutil.copytree(RECIPES / "packages", folder / "var" / "spack" / "repos" / "builtin" / "packages")
    for tool, *options in (
        ("black", "--check", "-q", "--config", checkout / "pyproject.toml"),
        ("isort", "--check", "-q", "--settings-path", checkout / "pyproject.toml"),
        ("flake8", "--config", checkout / ".flake8"),
    ):
        program = Path("/usr/bin", tool)
        if not program.exists():
            print(f"not tried: {tool} (apt install {tool})")
            continue
        done = job.run(["env", "-C", folder, program, *options, *(folder / "var").rglob("package.py")])
        job.check(done.returncode == 0, f"{tool}: {done.stdout}{done.stderr}")
        print(f"{tool}: clean")


job.main(options_are_known, spack_accepts_them)
