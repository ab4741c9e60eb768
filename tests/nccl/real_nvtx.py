#!/usr/bin/env python3
"""The real libnccl, without a GPU: what it tells of its calls with NVTX is recorded where nobody else sees them, and its answers are the same.

usage: real_nvtx.py LIBNCCL
"""
import sys

import job

PROGRAM = job.BUILD / "tests" / "programs" / "nccl_refused"


def refused(folder):
    bare = job.run([PROGRAM, sys.argv[1]])
    if bare.returncode == 77:
        raise job.Skip(f"{sys.argv[1]} cannot be opened: {bare.stdout}")
    recorded = job.run([job.DDL, "record", "-o", folder / "r.ddl", "--", PROGRAM, sys.argv[1]], check_rc=0)
    job.check(recorded.stdout == bare.stdout, f"output {recorded.stdout!r} instead of {bare.stdout!r}")
    db = job.store(folder / "r.ddl")
    calls = {tuple(r) for r in db.execute("SELECT op, calls, bytes, comm FROM v_call")}
    job.check(calls == {("ncclAllReduce", 3, 3 * 4096, None), ("ncclReduceScatter", 1, 0, None)}, f"calls {calls}")
    sources = {r[0][:4] for r in db.execute("SELECT value FROM process_fact WHERE key = 'nccl.source'")}
    job.check("NVTX" in sources, f"sources {sources}")


if __name__ == "__main__":
    job.main(refused)
