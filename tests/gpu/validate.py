#!/usr/bin/env python3
"""What only a GPU can confirm, in one run of less than ten minutes on a machine with one GPU: builds the probes with nvcc, runs them with and without libddl.so
and writes a table in markdown, ready for docs/gpu-validation.md. What the machine lacks (PyTorch, NCCL, a ddl that runs here) is said in its row.

usage: validate.py [-o FOLDER]      FOLDER gets table.md and the recordings; $DDL_BUILD: where lib/libddl.so and bin/ddl are (default: build/release)
Exit code 77 if no GPU answers.
"""
import argparse
import ctypes
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = Path(os.environ.get("DDL_BUILD", ROOT / "build" / "release"))
LIBRARY, DDL = BUILD / "lib" / "libddl.so", BUILD / "bin" / "ddl"
CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
rows = []


class Missing(Exception):
    pass


def run(command, timeout=120, record=None, **env):
    """The finished process. With record: under libddl.so, into that directory."""
    variables = {**os.environ, **{k: str(v) for k, v in env.items()}}
    if record:
        variables |= {"LD_PRELOAD": str(LIBRARY), "CUDA_INJECTION64_PATH": str(LIBRARY), "NVTX_INJECTION64_PATH": str(LIBRARY),
                      "NCCL_PROFILER_PLUGIN": str(LIBRARY), "DDL_OUT": str(record), **{k: str(v) for k, v in env.items()}}
    return subprocess.run([str(c) for c in command], env=variables, capture_output=True, text=True, timeout=timeout)


def store(directory):
    done = subprocess.run([str(DDL), "report", str(directory)], capture_output=True, text=True)
    if not (Path(directory) / "run.sqlite").exists():
        raise Missing(f"recorded, but ddl does not run here: {(done.stderr or done.stdout).strip()[:120]}; open {directory} elsewhere")
    return sqlite3.connect(Path(directory) / "run.sqlite")


def device():
    """Driver version; None: no GPU, and why."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return None, str(error)
    code, version = driver.cuInit(0), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    return (None, f"cuInit answers {code}") if code else (version.value, "")


def numbers(text):
    return {k: float(v) for k, v in re.findall(r"^(\w+) ([\d.]+)$", text, re.M)}


def build(source, *flags):
    binary = Path(f"{source}.bin").resolve()
    done = run([CUDA / "bin" / "nvcc", "-std=c++17", "-O2", "-arch=native", f"-I{ROOT / 'include'}", HERE / source, "-o", binary, *flags], timeout=300)
    if done.returncode:
        raise Missing(f"nvcc: {done.stderr.strip()[:200]}")
    return binary


def attach(folder):
    probe = build("probe.cu")
    done = run([probe, 1000], record=folder / "probe.ddl")
    told = numbers(done.stdout)
    db = store(folder / "probe.ddl")
    facts = dict(db.execute("SELECT key, value FROM process_fact"))
    if "cupti" not in facts:
        return False, f"CUPTI was not attached: {facts.get('gpu.off', 'InitializeInjection was not called')}"
    spin = db.execute("SELECT count(*), sum(duration_ns) / 1e6 FROM v_kernel WHERE layer = 'spin'").fetchone()
    good = spin[0] == 100 and abs(spin[1] / told["spin_ms"] - 1) < 0.1
    return good, f"CUPTI {facts['cupti']}; 100 kernels of layer spin: {spin[0]} recorded, {spin[1]:.3f} ms, by events {told['spin_ms']:.3f} ms"


def graphs(folder):
    db = store(folder / "probe.ddl")
    nodes = db.execute("SELECT count(*), count(DISTINCT graph_node) FROM v_kernel WHERE layer = 'graph'").fetchone()
    return nodes == (40, 4), f"4 captured kernels launched 10 times: {nodes[0]} kernels of {nodes[1]} nodes in the layer that captured them"


def copies(folder):
    db = store(folder / "probe.ddl")
    found = sorted(db.execute("SELECT kind, source, destination, sum(bytes) FROM v_memcpy WHERE layer = 'copy' GROUP BY 1, 2, 3"), key=str)
    whole = sum(row[3] for row in found)
    return whole == 3 * (8 << 20), f"{found}"


def losses(folder):
    db = store(folder / "probe.ddl")
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    return not lost, f"{lost or 'nothing missing'}"


def launch_cost(folder):
    probe = Path("probe.cu.bin").resolve()
    times = {"without": [], "with": []}
    for i in range(5):
        times["without"].append(numbers(run([probe, 20000]).stdout)["launch_ns"])
        times["with"].append(numbers(run([probe, 20000], record=folder / f"cost{i}.ddl").stdout)["launch_ns"])
    bare, traced = (statistics.median(times[k]) for k in ("without", "with"))
    return True, f"{bare:.0f} ns per launch without, {traced:.0f} ns with (medians of 5)"


def killed(folder):
    done = run([Path("probe.cu.bin").resolve(), 1000, "kill"], record=folder / "killed.ddl")
    kernels = store(folder / "killed.ddl").execute("SELECT count(*) FROM v_kernel").fetchone()[0]
    return done.returncode == -9, f"exit {done.returncode}; {kernels} kernels were saved"


def nccl(folder):
    program = build("two_ranks.cu", "-lnccl", f"-L{CUDA / 'lib64'}", f"-L{CUDA / 'lib'}")
    jobs = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo", "LD_PRELOAD": str(LIBRARY),
               "CUDA_INJECTION64_PATH": str(LIBRARY), "NCCL_PROFILER_PLUGIN": str(LIBRARY), "DDL_OUT": str(folder / "nccl.ddl"),
               "LD_LIBRARY_PATH": f"{CUDA / 'lib64'}:{CUDA / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        jobs.append(subprocess.Popen([program, str(folder / "nccl.id")], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [job.communicate(timeout=120)[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise Missing(f"NCCL does not run two ranks here: {outputs[0].strip()[-200:]}")
    db = store(folder / "nccl.ddl")
    found = db.execute("SELECT layer, source, algorithm, protocol, channels, fused, count(*), avg(duration_ns), avg(wait_ns) FROM v_collective WHERE op LIKE 'nccl%'"
                       " AND rank = 0 GROUP BY 1, 2, 3, 4, 5, 6").fetchall()
    late = db.execute("SELECT rank, avg(wait_ns) FROM v_collective WHERE layer = 'alone' GROUP BY rank ORDER BY rank").fetchall()
    good = sum(row[6] for row in found) == 60 and len(late) == 2 and late[0][1] > 10 * max(late[1][1], 1)
    return good, f"{found}; rank 1 is late, waits: {late}"


def torch_ranges(folder):
    script = folder / "ranges.py"
    script.write_text("import torch\nm = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()\n"
                      "with torch.autograd.profiler.emit_nvtx():\n  for i in range(3):\n    torch.cuda.nvtx.range_push(f'step {i}')\n"
                      "    m(torch.randn(32, 64, device='cuda')).sum().backward()\n    torch.cuda.nvtx.range_pop()\ntorch.cuda.synchronize()\nprint(torch.__version__)\n")
    done = run([sys.executable, script], record=folder / "torch.ddl")
    if done.returncode:
        raise Missing(f"PyTorch does not run here: {done.stderr.strip()[-150:]}")
    db = store(folder / "torch.ddl")
    steps = db.execute("SELECT count(DISTINCT step) FROM step").fetchone()[0]
    kernels, in_ranges = db.execute("SELECT count(*), sum(g.region <> 0) FROM gpu_event g WHERE kind = 1").fetchone()
    return steps == 3 and in_ranges, f"PyTorch {done.stdout.strip()}: {steps} steps, {kernels} kernels, {in_ranges} of them in ranges"


def torch_profiler(folder):
    script = folder / "profiler.py"
    script.write_text("import torch\nfrom torch.profiler import profile, ProfilerActivity\nx = torch.randn(512, 512, device='cuda')\n"
                      "with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:\n  for _ in range(10): x = x @ x\n  torch.cuda.synchronize()\n"
                      "print(sum(1 for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA))\n")
    with_us, without = run([sys.executable, script], record=folder / "profiler.ddl"), run([sys.executable, script])
    if without.returncode:
        raise Missing(f"PyTorch does not run here: {without.stderr.strip()[-150:]}")
    return with_us.returncode == 0, f"GPU events that torch.profiler saw: {without.stdout.strip()} alone, {with_us.stdout.strip()} under ddl; said: {with_us.stderr.strip()[:150]}"


CHECKS = [("CUPTI attaches from cuInit; kernel times", attach), ("captured graphs by node", graphs), ("copies: bytes, pinned or pageable", copies),
          ("nothing dropped", losses), ("what a launch costs", launch_cost), ("a killed process keeps what was flushed", killed),
          ("NCCL: two ranks on one GPU; wait, algorithm, fused kernels", nccl), ("PyTorch: emit_nvtx, steps, kernels in ranges", torch_ranges),
          ("torch.profiler beside us", torch_profiler)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default="gpu-validation", help="folder to make")
    folder = Path(parser.parse_args().o).resolve()
    version, why = device()
    if version is None:
        print(f"skipped: no GPU answers: {why}")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    names = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).stdout.strip()
    failed = 0
    for what, check in CHECKS:
        begin = time.monotonic()
        try:
            good, detail = check(folder)
            verdict = "confirmed" if good else "**wrong**"
        except Missing as reason:
            verdict, detail = "not run", str(reason)
        except Exception as error:  # one check's trouble must not cost the machine's time for the others
            verdict, detail = "**failed**", f"{type(error).__name__}: {error}"
        failed += verdict.startswith("**")
        rows.append(f"| {what} | {verdict} | {str(detail).replace('|', '/')} |")
        print(f"{verdict:10} {what} ({time.monotonic() - begin:.1f} s): {detail}", flush=True)
    (folder / "table.md").write_text(f"On {names}, driver API {version}, {time.strftime('%Y-%m-%d')}:\n\n| what | verdict | measured |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n")
    print(f"table: {folder / 'table.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
