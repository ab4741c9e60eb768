#!/usr/bin/env python3
"""A preload library shows the job what its tables say and nothing else, needs libc and nothing else, and loads on glibc 2.28.

usage: exports.py LIBRARY SOURCE_DIR COMPILER INCLUDE_DIR...     (of the flavour's mpi.h)
"""
import platform
import re
import subprocess
import sys

library, source, compiler, *includes = sys.argv[1:]
YIELD = {"sched_yield"}  # how training threads wait that poll (collectors/threads.cpp)
ANNOTATIONS = {"ddl_range_push", "ddl_range_pop", "ddl_value_record", "ddl_tune_follow", "ddl_tune_value", "ddl_hooked_step_begin", "ddl_hooked_step_end", "ddl_hooks_tell", "ddl_hooks_tell_steps", "ddl_group_begin", "ddl_group_end", "ddl_told_begin", "ddl_told_end"}
INJECTIONS = {"InitializeInjection", "InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension", "ncclProfiler_v4", "ncclProfiler_v5", "ncclProfiler_v6", "ncclProfiler_v7"}  # others look them up by name
CUPTI = {"cuptiSubscribe", "cuptiSubscribe_v2"}  # of a program that has a use of its own for CUPTI
OLDEST_GLIBC = (2, 28)

# The rows as the preprocessor sees them: what mpi.h has decides about some.
text = subprocess.run([compiler, "-std=c++20", "-E", "-P", f"-I{source}", *[f"-I{i}" for i in includes], f"{source}/interpose/entry_rows.cpp"],
                      capture_output=True, text=True, check=True).stdout
rows = re.findall(r"DDL_ENTRY_ROW (MPIX?_\w+)", text)
allowed = {prefix + row for row in rows for prefix in ("", "P")} | YIELD | ANNOTATIONS | INJECTIONS | CUPTI
if platform.machine() == "x86_64":
    for row in rows:
        if row.endswith("_c"):
            allowed.add(row[:-2].lower() + "_f08ts_large_")
        else:
            allowed |= {row.lower() + ending for ending in ("_", "_f08_", "_f08ts_")}
        if row in ("MPI_Win_allocate", "MPI_Win_allocate_shared"):
            allowed.add(row.lower() + "_cptr_")
failed = False


def say(message):
    global failed
    failed = True
    print("FAILED:", message)


if len(rows) != len(set(rows)):
    say(f"rows occur twice: {sorted(r for r in set(rows) if rows.count(r) > 1)}")
with open(f"{source}/interpose/nccl_calls.def") as table:
    nccl_rows = set(re.findall(r"^DDL_NCCL_\w+\((nccl\w+),", table.read(), re.M))
allowed |= {prefix + row for row in nccl_rows for prefix in ("", "p")}
with open(f"{source}/interpose/gloo_calls.def") as table:
    gloo_rows = set(re.findall(r"^DDL_GLOO_COLLECTIVE\(\w+, [\w:]+, (\w+),", table.read(), re.M))
allowed |= gloo_rows | {"_ZN4gloo10rendezvous7ContextC1Eiii"}
if len(gloo_rows) < 11:
    say(f"only {len(gloo_rows)} rows of Gloo: the table's form has changed, or this test is blind")
if len(nccl_rows) < 25:
    say(f"only {len(nccl_rows)} rows of NCCL: the table's form has changed, or this test is blind")
if len(rows) < 200:
    say(f"only {len(rows)} rows: the table's form has changed, or this test is blind")

shown = set()
for line in subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines():
    shown.add(line.split()[-1].split("@")[0])
if shown - allowed:
    say(f"exported but not in the tables: {sorted(shown - allowed)}")
if allowed - shown:
    say(f"in the tables but not exported: {sorted(allowed - shown)}")

dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
if needed != ["libc.so.6"]:
    say(f"NEEDED is {needed}")
if "NODELETE" not in dynamic:
    say("not linked with -z nodelete")

for line in subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout.splitlines():
    version = re.search(r"(\S+)@GLIBC_([\d.]+)", line)
    if version and tuple(map(int, version[2].split("."))) > OLDEST_GLIBC:
        say(f"{version[1]} needs glibc {version[2]}")
    if re.search(r" U (MPI_|PMPI_|p?nccl|ompi_|_Z|__cxa_throw|__gxx)", line):
        say(f"undefined symbol of another library: {line.split()[-1]}")

print(f"{len(shown)} symbols, {len(rows)} MPI calls, {len(nccl_rows)} NCCL calls, NEEDED {needed}")
sys.exit(1 if failed else 0)
