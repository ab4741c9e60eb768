"""Runs the programs of tests/nccl against the mock of NCCL, as Open MPI or as PyTorch starts jobs, and reads what the mock says of each collective."""
import os
import subprocess
from pathlib import Path

import job

PROGRAMS = job.BUILD / "tests" / "programs"
MOCKS = job.BUILD / "mocks"


def environment(**extra):
    path = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{MOCKS}:{path}" if path else str(MOCKS), **{k: v for k, v in extra.items() if v is not None}}


def torchrun(program, folder, ranks=2, run_dir=None, arguments=(), expected=0, **extra):
    """As torchrun does: one process per rank, told who they are by RANK and WORLD_SIZE. With run_dir: recorded. Returns their outputs."""
    id_file = Path(folder) / f"id-{os.urandom(4).hex()}"
    jobs = []
    for rank in range(ranks):
        env = environment(RANK=rank, WORLD_SIZE=ranks, ID_FILE=id_file, **extra)
        if run_dir:
            env |= {"LD_PRELOAD": str(job.LIBRARY), "DDL_OUT": str(run_dir)}
        jobs.append(subprocess.Popen([str(PROGRAMS / program), *arguments], env=job.environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = []
    for rank, process in enumerate(jobs):
        out, err = process.communicate(timeout=60)
        job.check(process.returncode == expected, f"{program} rank {rank}: exit code {process.returncode}\n{out}{err}")
        outputs.append(out + err)
    return outputs


def told(log, ranks):
    """What the mock did: rank -> [(uid, function, count, root, S, start_ns, end_ns, calls in the kernel)] in the order of the device."""
    result = {}
    for rank in range(ranks):
        rows = [line.split() for line in Path(f"{log}.{rank}").read_text().splitlines()]
        result[rank] = [(uid, f, int(count), int(root), int(size), int(start), int(end), int(calls)) for uid, f, count, root, size, start, end, calls in rows]
    return result
