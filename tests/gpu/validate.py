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


def build(source, *flags, name=None):
    binary = Path(name or f"{source}.bin").resolve()
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


def cupti_itself(folder):
    """What collectors/ is built on, asked of CUPTI without us: each line of cupti.cu."""
    cupti = build("cupti.cu", "-lcupti", "-lcuda", *(f"-L{CUDA / place}" for place in ("lib64", "lib64/stubs", "extras/CUPTI/lib64")))
    paths = ":".join(str(CUDA / place) for place in ("lib64", "extras/CUPTI/lib64"))
    done = run([cupti], LD_LIBRARY_PATH=f"{paths}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    told = numbers(done.stdout)
    if done.returncode or "finalize" not in told:
        return False, f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}"
    expected = {"second_subscriber": 39, "timestamp_callback": 0, "own_clock_in_records": 1, "graph_nodes": 3, "graph_nodes_known_from_clone": 3, "fork_child_status": 0,
                **{f"enable_{kind}": 0 for kind in (10, 1, 2, 22, 38, 17)}}
    wrong = {k: told.get(k) for k, v in expected.items() if told.get(k) != v}
    facts = ", ".join(f"{k} {v:g}" for k, v in told.items() if k not in expected)
    return not wrong, f"not as expected: {wrong}; {facts}" if wrong else facts


def cupti_cost(folder):
    cupti, measured = Path("cupti.cu.bin").resolve(), []
    paths = ":".join(str(CUDA / place) for place in ("lib64", "extras/CUPTI/lib64"))
    for what in ("off", "activity", "callbacks", "external", "runtime"):
        told = [numbers(run([cupti, "cost", what], LD_LIBRARY_PATH=f"{paths}:{os.environ.get('LD_LIBRARY_PATH', '')}").stdout) for _ in range(3)]
        if any("launch_ns" not in t for t in told):
            return False, f"{what}: {told}"
        after = statistics.median(t.get("launch_ns_after_disable", t["launch_ns"]) for t in told)
        measured.append(f"{what} {statistics.median(t['launch_ns'] for t in told):.0f}" + ("" if what == "off" else f" (after it is disabled {after:.0f})"))
    return True, f"ns per launch: {', '.join(measured)}; dropped {told[-1]['dropped']:.0f}, without time {told[-1]['unstamped']:.0f} of {told[-1]['kernels']:.0f}"


def at_cuinit(folder):
    """cuInit alone calls us: before there is a context, in a program that is linked to nothing of CUDA's, and once."""
    script = "import ctypes; cuda = ctypes.CDLL('libcuda.so.1'); print(cuda.cuInit(0), cuda.cuInit(0), cuda.cuCtxGetCurrent(ctypes.byref(c := ctypes.c_void_p())), c.value)"
    done = run([sys.executable, "-c", script], record=folder / "init.ddl")
    facts = store(folder / "init.ddl").execute("SELECT value FROM process_fact WHERE key = 'cupti'").fetchall()
    return done.stdout == "0 0 0 None\n" and len(facts) == 1, f"python printed {done.stdout.strip()!r}; attached {len(facts)} time(s)"


def leaving(folder):
    """How a process leaves decides what of the last second survives: kernels found after each way."""
    probe, found = Path("probe.cu.bin").resolve(), {}
    for how in ("return", "exit", "_exit", "abort"):
        run([probe, 1000, how], record=folder / f"left-{how}.ddl")
        found[how] = store(folder / f"left-{how}.ddl").execute("SELECT count(*) FROM v_kernel").fetchone()[0]
    return found["return"] == found["exit"] == 1141, f"of 1141 kernels: {found}"


def visible_devices(folder):
    done = run([Path("probe.cu.bin").resolve(), 10], record=folder / "hidden.ddl", CUDA_VISIBLE_DEVICES="")
    return done.returncode == 77 and not (folder / "hidden.ddl").exists(), f"without a visible device: exit {done.returncode}, recorded: {(folder / 'hidden.ddl').exists()}"


def default_streams(folder):
    streams = {}
    for what, flags in (("legacy", ()), ("per thread", ("--default-stream", "per-thread"))):
        program = build("threads.cu", *flags, name=f"threads-{what.split()[0]}.bin")
        done = run([program], record=folder / f"threads-{what.split()[0]}.ddl")
        db = store(folder / f"threads-{what.split()[0]}.ddl")
        streams[what] = db.execute("SELECT count(*), count(DISTINCT stream), count(DISTINCT thread), count(DISTINCT context), sum(layer IS NULL) FROM v_kernel").fetchone()
        if done.returncode:
            return False, f"{what}: exit {done.returncode} {done.stdout.strip()[:100]}"
    good = streams["legacy"][:3] == (40, 1, 2) and streams["per thread"][:3] == (40, 2, 2) and all(s[4] == 0 for s in streams.values())
    return good, f"kernels, streams, threads, contexts, without layer: {streams}"


def health(folder):
    names = {r[0] for r in store(folder / "probe.ddl").execute("SELECT DISTINCT name FROM node_sample WHERE device LIKE 'gpu%'")}
    wanted = {"sm_mhz", "memory_mhz", "throttle_reasons", "power_watts", "temperature_celsius", "memory_used_bytes", "memory_total_bytes", "busy_ratio"}
    gpu = store(folder / "probe.ddl").execute("SELECT name, bus, link FROM gpu").fetchall()
    return wanted <= names, f"{sorted(names)}; missing {sorted(wanted - names)}; {gpu}"


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


def two_ranks(folder, name, *arguments, **extra):
    """Two ranks of NCCL on the one GPU, recorded. Returns the store."""
    jobs = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo", "LD_PRELOAD": str(LIBRARY),
               "CUDA_INJECTION64_PATH": str(LIBRARY), "NCCL_PROFILER_PLUGIN": str(LIBRARY), "DDL_OUT": str(folder / f"{name}.ddl"),
               "LD_LIBRARY_PATH": f"{CUDA / 'lib64'}:{CUDA / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}", **extra}
        jobs.append(subprocess.Popen([Path("two_ranks.cu.bin").resolve(), str(folder / f"{name}.id"), *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        outputs = [job.communicate(timeout=60)[0] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    if any(job.returncode for job in jobs):
        raise Missing(f"NCCL does not run two ranks here: {outputs[0].strip()[-200:]}")
    return store(folder / f"{name}.ddl")


def nccl(folder):
    build("two_ranks.cu", "-lnccl", f"-L{CUDA / 'lib64'}", f"-L{CUDA / 'lib'}")
    db = two_ranks(folder, "nccl")
    found = db.execute("SELECT layer, source, algorithm, protocol, channels, fused, count(*), avg(duration_ns), avg(wait_ns) FROM v_collective WHERE op LIKE 'nccl%'"
                       " AND rank = 0 GROUP BY 1, 2, 3, 4, 5, 6").fetchall()
    late = db.execute("SELECT rank, avg(wait_ns) FROM v_collective WHERE layer = 'alone' GROUP BY rank ORDER BY rank").fetchall()
    good = sum(row[6] for row in found) == 60 and len(late) == 2 and late[0][1] > 10 * max(late[1][1], 1)
    return good, f"{found}; rank 1 is late, waits: {late}"


def nccl_timers(folder):
    """The kernels that CUPTI saw against the timers of NCCL's own profiler, in two runs of the same load."""
    lengths = {}
    for name, extra in (("kernel", {}), ("profiler", {"DDL_COLLECTORS": "mpi,nvtx,nccl"})):
        db = two_ranks(folder, f"timed-{name}", **extra)
        rows = db.execute("SELECT source, xfer_ns FROM v_collective WHERE op = 'ncclAllReduce' AND layer = 'alone' AND rank = 1 AND xfer_ns IS NOT NULL ORDER BY xfer_ns").fetchall()
        if {r[0] for r in rows} != {name}:
            return False, f"expected times by {name}, got {len(rows)} rows by {({r[0] for r in rows})}"
        lengths[name] = rows[len(rows) // 2][1]
    return abs(lengths["profiler"] / lengths["kernel"] - 1) < 0.25, f"median transfer of 16 MiB: {lengths['kernel'] / 1e3:.1f} us by CUPTI, {lengths['profiler'] / 1e3:.1f} us by NCCL's timers"


def nccl_variants(folder):
    """Communicators that do not block (NCCL launches from a thread of its own); a captured collective that is replayed."""
    told = {}
    for variant in ("nonblocking", "graph"):
        db = two_ranks(folder, variant, variant)
        told[variant] = db.execute("SELECT count(*), count(wait_ns), sum(layer IS NULL) FROM v_collective WHERE op LIKE 'nccl%' AND rank = 0").fetchone()
        lost = db.execute("SELECT kind, count FROM loss").fetchall()
        if lost:
            return False, f"{variant}: missing {lost}"
    return told["nonblocking"][:2] == (60, 60) and told["graph"][:2] == (80, 80), f"rows, split, without layer: {told}"


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
    kernels, in_ranges, threads = db.execute("SELECT count(*), sum(g.region <> 0), count(DISTINCT thread) FROM gpu_event g WHERE kind = 1").fetchone()
    return steps == 3 and in_ranges == kernels and threads == 2, f"PyTorch {done.stdout.strip()}: {steps} steps, {kernels} kernels, {in_ranges} of them in ranges, of {threads} threads"


def torch_layers(folder):
    """Backward kernels are joined to the forward layer by seq; each layer's GPU time against torch.profiler's."""
    body = ("import torch\nm = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048)).cuda()\n"
            "for name, layer in zip(('fc1', 'relu', 'fc2'), m):\n  layer.register_forward_pre_hook(lambda *_, n=name: torch.cuda.nvtx.range_push(f'layer:{n}'))\n"
            "  layer.register_forward_hook(lambda *_: torch.cuda.nvtx.range_pop())\n"
            "def step():\n  m(torch.randn(1024, 2048, device='cuda')).sum().backward()\nstep()\n")
    ours, theirs = folder / "layers.py", folder / "layers_profiled.py"
    ours.write_text(body + "with torch.autograd.profiler.emit_nvtx():\n  for _ in range(10): step()\ntorch.cuda.synchronize()\n")
    theirs.write_text(body + "from torch.profiler import profile, ProfilerActivity\nwith profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:\n"
                      "  for _ in range(10): step()\n  torch.cuda.synchronize()\nprint(sum(e.self_device_time_total for e in p.key_averages()))\n")
    done, profiled = run([sys.executable, ours], record=folder / "layers.ddl"), run([sys.executable, theirs])
    if done.returncode or profiled.returncode:
        raise Missing(f"PyTorch does not run here: {(done.stderr + profiled.stderr).strip()[-150:]}")
    rows = dict(store(folder / "layers.ddl").execute("SELECT layer, round(sum(duration_ns) / 1e3) FROM v_gpu WHERE kind = 'kernel' AND layer IN ('fc1', 'relu', 'fc2') GROUP BY layer"))
    # ten steps: forward and backward of each; the warm-up step before emit_nvtx has forward only
    total = store(folder / "layers.ddl").execute("SELECT sum(duration_ns) / 1e3 FROM v_gpu WHERE kind IN ('kernel', 'memcpy', 'memset')").fetchone()[0] * 10 / 11
    them = float(profiled.stdout.split()[-1])
    return set(rows) == {"fc1", "relu", "fc2"} and rows["fc1"] > 2 * rows["relu"] and abs(total / them - 1) < 0.1, f"us by layer {rows}; in all {total:.0f}, by torch.profiler {them:.0f}"


def torch_nccl(folder):
    """Is PyTorch's NCCL seen, and by which way: our wrappers, its profiler, its NVTX."""
    script = folder / "dist.py"
    script.write_text("import os, torch, torch.distributed as dist\nos.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29555', RANK='0', WORLD_SIZE='1')\n"
                      "dist.init_process_group('nccl')\nx = torch.ones(1 << 20, device='cuda')\nfor _ in range(5): dist.all_reduce(x)\ntorch.cuda.synchronize()\n"
                      "dist.destroy_process_group()\n")
    done = run([sys.executable, script], record=folder / "dist.ddl")
    if done.returncode:
        raise Missing(f"torch.distributed does not run here: {done.stderr.strip()[-150:]}")
    db = store(folder / "dist.ddl")
    sources = sorted(r[0] for r in db.execute("SELECT value FROM process_fact WHERE key = 'nccl.source'"))
    calls = db.execute("SELECT sum(calls) FROM v_call WHERE op = 'ncclAllReduce'").fetchone()[0]
    return calls == 5, f"sources {sources}; {calls} of 5 calls of ncclAllReduce"


def torch_workers(folder):
    """DataLoader workers, forked after CUDA was initialised and spawned: the job works and they leave no spools."""
    script = folder / "workers.py"
    script.write_text("import sys, torch\nclass D(torch.utils.data.Dataset):\n  def __len__(self): return 64\n  def __getitem__(self, i): return torch.ones(4) * i\n"
                      "if __name__ == '__main__':\n  torch.zeros(1).cuda()\n  for how in ('fork', 'spawn'):\n"
                      "    for b in torch.utils.data.DataLoader(D(), batch_size=8, num_workers=2, multiprocessing_context=how): b.cuda()\n  print('done')\n")
    done = run([sys.executable, script], record=folder / "workers.ddl")
    spools = len(list((folder / "workers.ddl").glob("*.spool")))
    return done.stdout == "done\n" and spools == 1, f"printed {done.stdout.strip()!r}, {spools} spool(s); {done.stderr.strip()[-100:]}"


def other_tools(folder):
    """ncu over a preloaded program: it has CUPTI's place, the program ends well and we say why there is no GPU."""
    ncu = shutil.which("ncu") or shutil.which(str(CUDA / "bin" / "ncu"))
    if not ncu:
        raise Missing("ncu is not installed")
    done = run([ncu, "--launch-count", "1", Path("probe.cu.bin").resolve(), 10], record=folder / "ncu.ddl")
    facts = dict(store(folder / "ncu.ddl").execute("SELECT key, value FROM process_fact WHERE key LIKE 'gpu%' OR key LIKE 'held%'"))
    return "launch_ns" in done.stdout, f"exit {done.returncode}; we say {facts}"


def torch_profiler(folder):
    script = folder / "profiler.py"
    script.write_text("import torch\nfrom torch.profiler import profile, ProfilerActivity\nx = torch.randn(512, 512, device='cuda')\n"
                      "with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:\n  for _ in range(10): x = x @ x\n  torch.cuda.synchronize()\n"
                      "print(sum(1 for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA))\n")
    with_us, without = run([sys.executable, script], record=folder / "profiler.ddl"), run([sys.executable, script])
    if without.returncode:
        raise Missing(f"PyTorch does not run here: {without.stderr.strip()[-150:]}")
    return with_us.returncode == 0, f"GPU events that torch.profiler saw: {without.stdout.strip()} alone, {with_us.stdout.strip()} under ddl; said: {with_us.stderr.strip()[:150]}"


CHECKS = [("CUPTI attaches from cuInit; kernel times", attach), ("cuInit calls us once, before a context, from any program", at_cuinit),
          ("CUPTI itself: codes, clock, nodes of graphs, sizes of records", cupti_itself), ("CUPTI's own cost", cupti_cost), ("captured graphs by node", graphs),
          ("copies: bytes, pinned or pageable", copies), ("nothing dropped", losses), ("default streams: legacy, per thread; a second context", default_streams),
          ("what a launch costs under us", launch_cost), ("a killed process keeps what was flushed", killed), ("ways to leave", leaving),
          ("no visible device: nothing is recorded", visible_devices), ("NVML: health of the GPU", health),
          ("NCCL: two ranks on one GPU; wait, algorithm, fused kernels", nccl), ("NCCL: CUPTI's times against NCCL's timers", nccl_timers),
          ("NCCL: communicators that do not block, captured collectives", nccl_variants), ("PyTorch: emit_nvtx, steps, kernels in ranges", torch_ranges),
          ("PyTorch: layers, backward by seq, sums against torch.profiler", torch_layers), ("PyTorch: how its NCCL is seen", torch_nccl),
          ("PyTorch: DataLoader workers", torch_workers), ("torch.profiler beside us", torch_profiler), ("ncu over a recorded program", other_tools)]


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
