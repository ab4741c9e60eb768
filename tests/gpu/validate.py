#!/usr/bin/env python3
"""What only a GPU can confirm, in one run of less than ten minutes on a machine with one GPU: builds the probes with nvcc, runs them with and without libddl.so
and writes a table in markdown into docs/gpu-validation.md. What the machine lacks (PyTorch, NCCL, a ddl that runs here) is said in its row.

usage: validate.py [-o FOLDER] [--page PAGE] [--only REGEX]
                                    FOLDER gets table.md and the recordings; the table goes into PAGE (docs/gpu-validation.md), in place of that of the same machine;
                                    REGEX: only checks whose name has it, the others keep their rows; $DDL_BUILD: where lib/libddl.so and bin/ddl are (default: build/release)
       validate.py --pack FOLDER    puts ddl, as its package for any Linux has it, and the probes into FOLDER: copy that and tests/gpu to the machine with the GPU and say
                                    DDL_PACKED=FOLDER validate.py there, which then needs neither a compiler nor Debian's libraries
$DDL_GPU_MINUTES: what is not begun by then is not run (9.5).
Exit code 77 if no GPU answers. $DDL_NVCC_FLAGS goes to nvcc: with "-cudart shared", and the mocks' folder on LD_LIBRARY_PATH, most of it runs without a GPU, to test the script. $DDL_STEP_ENV ("NAME=value NAME=value") goes to the
job on two streams: the mocks tell coherent times with their virtual clock.
"""
import argparse
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import torch_jobs
from gpu_intervals import length, union
from support import BUILD, CUDA, DDL, DEADLINE, LIBRARY, PACKED, ROOT, Missing, build, ddl, numbers, report, run, store, with_cupti

PAGE, RUNS = ROOT / "docs" / "gpu-validation.md", "## Runs on GPUs"


def are_mocks():
    """The libraries of this machine are those of tests/mocks: nothing that they say goes on the page."""
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1"), "fake_cuda_advance")
    except OSError:
        return False


ROW = re.compile(r"^\| (.*?) \| (?:confirmed|not run|\*\*\w+\*\*) \| .* \|$", re.M)


def write_page(page, machine, rows):
    """Puts the rows of this machine behind the marker; those that were not asked for this time stay as they were."""
    text = page.read_text()
    if RUNS not in text:
        raise SystemExit(f"{page} has no line {RUNS!r}")
    head, _, runs = text.partition(RUNS)
    parts = [part for part in re.split(r"(?m)^(?=### )", runs) if part.startswith("### ")]
    before = {match[1]: match[0] for part in parts if part.startswith(f"### {machine}\n") for match in ROW.finditer(part)}
    kept = [rows.get(what) or before.get(what) for what, _ in CHECKS]
    table = "\n".join(["| what | verdict | measured |", "| --- | --- | --- |", *filter(None, kept)])
    others = "".join(f"{part.rstrip()}\n" for part in parts if not part.startswith(f"### {machine}\n"))
    page.write_text(f"{head}{RUNS}\n\n### {machine}\n\n{time.strftime('%Y-%m-%d')}, libddl.so of this tree.\n\n{table}\n{others}")


def device():
    """Driver version; None: no GPU, and why."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return None, str(error)
    code, version = driver.cuInit(0), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    return (None, f"cuInit answers {code}") if code else (version.value, "")


STUBS = tuple(f"-L{CUDA / place}" for place in ("lib64", "lib", "lib64/stubs", "lib/stubs", "extras/CUPTI/lib64"))
PROBES = {"probe.cu.bin": ("probe.cu",), "cupti.cu.bin": ("cupti.cu", "-lcupti", "-lcuda", *STUBS), "edges.cu.bin": ("edges.cu", "-lcuda", *STUBS), "step.cu.bin": ("step.cu",),
          "threads-legacy.bin": ("threads.cu",), "threads-per.bin": ("threads.cu", "--default-stream", "per-thread"), "two_ranks.cu.bin": ("two_ranks.cu", "-lnccl", *STUBS)}


def probe_program(name):
    return build(name, *PROBES[name])


def pack(folder):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "probes").mkdir(parents=True)
    subprocess.run([ROOT / "tools" / "package", "--as-built", "tar"], check=True, stdout=subprocess.DEVNULL)
    package = max((ROOT / "build" / "packages").glob("ddl-*.tar.zst"), key=lambda path: path.stat().st_mtime)
    subprocess.run(["tar", "--zstd", "--strip-components=1", "--one-top-level=ddl", "-xf", package], check=True, cwd=folder)
    for name, parts in PROBES.items():
        build(folder / "probes" / name, *parts, architectures=["-gencode=arch=compute_80,code=compute_80", "-gencode=arch=compute_90,code=sm_90"])
    for unused in ("bin/ddl-top", "lib/ddl/libddl-mpich.so", "share/doc"):
        path = folder / "ddl" / unused
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    with tarfile.open(folder / "train.tar.xz", "w:xz") as archive:
        archive.add(BUILD / "bin" / "train", "bin/train")
        archive.add(BUILD / "lib" / "libtrain-cuda.so", "lib/libtrain-cuda.so")
        needed = run(["ldd", BUILD / "bin" / "train"]).stdout
        for path in re.findall(r"=> (/\S*/lib(?:boost|openblas|gfortran|quadmath)\S*)", needed):
            archive.add(Path(path).resolve(), f"lib/{Path(path).name}")
    print(f"{folder}: ddl of {package.name}, {len(PROBES)} probes, train")


def attach(folder):
    probe = probe_program("probe.cu.bin")
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


def cupti_itself(folder, first=""):
    """What collectors/ is built on, asked of CUPTI without us: each line of cupti.cu."""
    cupti = probe_program("cupti.cu.bin")
    done = run([cupti], LD_LIBRARY_PATH=with_cupti(first))
    told = numbers(done.stdout)
    if done.returncode or "finalize" not in told:
        return False, f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}"
    expected = {"second_subscriber": 39, "timestamp_callback": 0, "own_clock_in_records": 1, "graph_nodes": 3, "graph_nodes_known_from_clone": 3, "fork_child_status": 0,
                **{f"enable_{kind}": 0 for kind in (10, 1, 2, 22, 38, 17, 36)}}
    wrong = {k: told.get(k) for k, v in expected.items() if told.get(k) != v}
    facts = ", ".join(f"{k} {v:g}" for k, v in told.items() if k not in expected)
    return not wrong, f"not as expected: {wrong}; {facts}" if wrong else facts


def cupti_cost(folder):
    cupti, measured = Path("cupti.cu.bin").resolve(), []
    for what in ("off", "activity", "callbacks", "external", "runtime"):
        told = [numbers(run([cupti, "cost", what]).stdout) for _ in range(3)]
        if any("launch_ns" not in t for t in told):
            return False, f"{what}: {told}"
        after = statistics.median(t.get("launch_ns_after_disable", t["launch_ns"]) for t in told)
        measured.append(f"{what} {statistics.median(t['launch_ns'] for t in told):.0f}" + ("" if what == "off" else f" (after it is disabled {after:.0f})"))
    return True, f"ns per launch: {', '.join(measured)}; dropped {told[-1]['dropped']:.0f}, without time {told[-1]['unstamped']:.0f} of {told[-1]['kernels']:.0f}"


def cupti_of_torch(folder):
    """The same of the libcupti that PyTorch brings, which is the one that jobs have loaded."""
    done = run([sys.executable, "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parent.parent)"])
    if done.returncode:
        raise Missing("PyTorch is not installed")
    found = sorted(Path(done.stdout.strip()).glob("nvidia/**/libcupti.so.*"))
    if not found:
        raise Missing("this PyTorch brings no libcupti")
    good, detail = cupti_itself(folder, found[0].parent)
    return good, f"{found[0].name}: {detail}"


def waits(folder):
    """Which stream waits for which: the records of events that CUPTI gives, within a context and across two."""
    edges = probe_program("edges.cu.bin")
    done = run([edges], record=folder / "edges.ddl")
    db = store(folder / "edges.ddl")
    inside, across = (db.execute(f"SELECT count(*), count(DISTINCT stream || '/' || on_stream) FROM stream_wait WHERE context {how} on_context").fetchone() for how in ("=", "<>"))
    version = db.execute("SELECT value FROM process_fact WHERE key = 'cupti'").fetchone()[0].split()[0]
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    good = done.returncode == 0 and inside == (10, 1) and (across == (10, 1) or int(version) < 26) and not lost
    return good, f"CUPTI {version}, exit {done.returncode} {done.stdout.split()}: waits within a context {inside[0]} of 10, across contexts {across[0]} of 10; missing {lost or 'nothing'}"


def managed(folder):
    """Managed memory moves by faults, of which we ask nothing: the kernels are there, no copies, and the job's result is right."""
    db = store(folder / "edges.ddl")
    kernels, copies = (db.execute(f"SELECT count(*) FROM {view} WHERE layer = 'managed'").fetchone()[0] for view in ("v_kernel", "v_memcpy"))
    return (kernels, copies) == (1, 0), f"{kernels} kernel, {copies} copies"


def fast_launches(folder):
    """50,000 kernels a second and more: every one is there, with its layer."""
    told = numbers(run([Path("probe.cu.bin").resolve(), 300000], record=folder / "fast.ddl").stdout)
    db = store(folder / "fast.ddl")
    kernels = db.execute("SELECT count(*) FROM v_kernel WHERE layer = 'launch'").fetchone()[0]
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    return kernels == 300000 and not lost, f"{1e9 / told['launch_ns']:.0f} launches a second: {kernels} of 300000 recorded, missing {lost or 'nothing'}"


PYTHON_JOB = """import ctypes, os, signal, sys
cuda = ctypes.CDLL('libcudart.so.' + sys.argv[2])
memory = ctypes.c_void_p()
def job():
  assert cuda.cudaMalloc(ctypes.byref(memory), 4096) == 0
  for _ in range(100): cuda.cudaMemset(memory, 0, 4096)
  cuda.cudaDeviceSynchronize()
if sys.argv[1] == 'fork':
  child = os.fork()
  job()
  if child: assert os.waitpid(child, 0)[1] == 0
else: job()
if sys.argv[1] == 'os._exit': os._exit(0)
if sys.argv[1] == 'exception': raise RuntimeError('meant')
if sys.argv[1] == 'SIGKILL': os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == 'sys.exit': sys.exit(3)
"""


def python_job(folder, how):
    name = next((path.name for place in with_cupti().split(":") for path in sorted(Path(place).glob("libcudart.so.*")) if path.name.count(".") == 2), None)
    if not name:
        raise Missing("no libcudart.so.N in the toolkit")
    script = folder / "job.py"
    script.write_text(PYTHON_JOB)
    record = folder / f"python-{how}.ddl"
    return run([sys.executable, script, how, name.rsplit(".", 1)[1]], record=record, LD_LIBRARY_PATH=with_cupti()), record


def python_leaves(folder):
    """What survives of 100 memsets, by the way in which Python ends; the codes must be those without us."""
    found, codes = {}, {}
    for how, code in (("return", 0), ("sys.exit", 3), ("exception", 1), ("os._exit", 0), ("SIGKILL", -9)):
        done, record = python_job(folder, how)
        codes[how] = done.returncode == code
        found[how] = store(record).execute("SELECT count(*) FROM v_memcpy").fetchone()[0]
    good = all(codes.values()) and found["return"] == found["sys.exit"] == found["exception"] == 100
    return good, f"memsets of 100: {found}; exit codes as without us: {codes}"


def python_forks(folder):
    """A process that forks before it uses CUDA: parent and child are two processes with a GPU, each attached once."""
    done, record = python_job(folder, "fork")
    attached = store(record).execute("SELECT p.id, count(DISTINCT f.value), count(g.id) FROM process p LEFT JOIN process_fact f ON f.process = p.id AND f.key = 'cupti'"
                                     " LEFT JOIN gpu_event g ON g.process = p.id AND g.kind = 3 GROUP BY p.id").fetchall()
    return done.returncode == 0 and [row[1:] for row in attached] == [(1, 100)] * 2, f"exit {done.returncode}; processes, times attached, memsets: {attached}"


def already_set(folder):
    """Another tool's variable stays, one line says what that costs, and the job runs."""
    done = run([Path("probe.cu.bin").resolve(), 10], record=folder / "set.ddl", CUDA_INJECTION64_PATH="/nonexistent/tool.so")
    return done.returncode == 0 and "CUDA_INJECTION64_PATH is set to /nonexistent/tool.so" in done.stderr, f"exit {done.returncode}; we say {done.stderr.strip()[:160]!r}"


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


STEP_ENV = dict(item.split("=", 1) for item in os.environ.get("DDL_STEP_ENV", "").split())


def headline(folder):
    """A training step on two streams: what the report says first, computed a second time from the kernels that it recorded."""
    step = probe_program("step.cu.bin")
    done = run([step, 30], record=folder / "step.ddl", **STEP_ENV)
    if done.returncode:
        return False, f"exit {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}"
    told, db = report(folder / "step.ddl")["ccr"], store(folder / "step.ddl")
    compute_ns = comm_ns = exposed_ns = 0
    for begin, end in db.execute("SELECT s.start_ns, s.start_ns + s.duration_ns FROM step s JOIN steady_number n ON n.step = s.step").fetchall():
        kernels = [(max(a, begin), min(b, end), name) for a, b, name in db.execute(
            "SELECT start_ns, start_ns + duration_ns, name FROM v_gpu WHERE kind = 'kernel' AND start_ns < ? AND start_ns + duration_ns > ?", (end, begin))]
        compute, comm = (union((a, b) for a, b, name in kernels if ("nccl" in name) == which) for which in (False, True))
        compute_ns, comm_ns, exposed_ns = compute_ns + length(compute), comm_ns + length(comm), exposed_ns + length(union(compute + comm)) - length(compute)
    want = {"gpu_ccr_raw": compute_ns / comm_ns if comm_ns else None, "gpu_ccr_exposed": compute_ns / exposed_ns if exposed_ns else None}
    same = comm_ns > 0 and all((told.get(k) is None) == (v is None) and (v is None or abs(told[k] / v - 1) < 1e-6) for k, v in want.items())
    return same, f"raw, exposed: {[told.get(k) for k in want]}; from its kernels {list(want.values())}"


def headline_truth(folder):
    """The same against what was launched: two kernels of 300 us, and beside the second one of 400 us that is called as a collective's."""
    launched, told = numbers(run([Path("step.cu.bin").resolve(), 30], record=folder / "truth.ddl").stdout), report(folder / "truth.ddl")["ccr"]
    want = {"gpu_ccr_raw": launched["compute_ns"] / launched["comm_ns"], "gpu_ccr_exposed": launched["compute_ns"] / launched["exposed_ns"]}
    good = all(told.get(k) is not None and abs(told[k] / v - 1) < (0.1 if k == "gpu_ccr_raw" else 0.25) for k, v in want.items())
    return good, f"raw, exposed: {[told.get(k) for k in want]}, as launched {list(want.values())}"


def collector_costs(folder):
    """What each collector adds to that step, one beside the other: medians of three runs of 60 steps."""
    step, taken, lost = Path("step.cu.bin").resolve(), {}, []
    kinds = {"without": None, "library alone": "mpi", "NVTX": "mpi,nvtx", "NCCL": "mpi,nccl", "CUPTI": "mpi,cuda", "health": "mpi,node", "all": None}
    for turn in range(3):
        for what, collectors in kinds.items():
            directory = None if what == "without" else folder / f"costs-{what.split()[0]}-{turn}.ddl"
            done = run([step, 60], record=directory, **({"DDL_COLLECTORS": collectors} if collectors else {}))
            if done.returncode:
                return False, f"{what}: exit {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}"
            taken.setdefault(what, []).append(numbers(done.stdout)["step_ns"])
    lost = store(folder / "costs-all-0.ddl").execute("SELECT kind, count FROM loss").fetchall()
    bare = statistics.median(taken["without"])
    return not lost, f"step of {bare / 1e3:.1f} us; " + ", ".join(f"{what} {(statistics.median(ns) - bare) / 1e3:+.1f} us" for what, ns in taken.items() if what != "without") + f"; missing {lost or 'nothing'}"


def nccl_one_process(folder):
    """One process with one GPU, as PyTorch on a workstation: it is rank 0 of 1, its calls are there, and the profiler's version is that of its NCCL."""
    db = store(folder / "alone.ddl")
    ranks = db.execute("SELECT rank, world_size FROM v_rank WHERE rank IS NOT NULL").fetchall()
    calls = db.execute("SELECT coalesce(sum(calls), 0) FROM v_call WHERE op = 'ncclAllReduce'").fetchone()[0]
    facts = {key: value for key, value in db.execute("SELECT key, value FROM process_fact WHERE key LIKE 'nccl%' ORDER BY value")}
    sources = sorted(r[0] for r in db.execute("SELECT value FROM process_fact WHERE key = 'nccl.source'"))
    return ranks == [(0, 1)] and calls > 0, f"ranks {ranks}; {calls} calls of ncclAllReduce; NCCL {facts.get('nccl', '?').split()[0]}, sources {sources}"


def nccl_phases(folder):
    """Where CUPTI does not trace: the version of NCCL's profiler interface, its times, and from version 7 on the phases of kernels on symmetric memory against the
    other estimate of the waiting."""
    db = store(folder / "timed-profiler.ddl")
    versions = sorted(r[0] for r in db.execute("SELECT DISTINCT value FROM process_fact WHERE key = 'nccl.source' AND value LIKE 'profiler%'"))
    rows = db.execute("SELECT count(*), count(initial_sync_ns), avg(initial_sync_ns), avg(wait_ns), avg(final_sync_ns), count(user_tag) FROM v_collective WHERE source = 'profiler'").fetchone()
    if not rows[0]:
        return False, f"sources {versions}: no collective was timed by NCCL"
    if "profiler v7" not in versions:
        return True, f"{versions}: {rows[0]} collectives timed; this NCCL tells no phases (2.31 does)"
    if not rows[1]:
        return True, f"{versions}: {rows[0]} collectives timed, none of them by a kernel on symmetric memory, which alone has phases"
    return True, (f"{versions}: {rows[1]} of {rows[0]} collectives with phases, initial_sync {rows[2] / 1e3:.1f} us, waiting by the other estimate "
                  f"{'n/a' if rows[3] is None else f'{rows[3] / 1e3:.1f} us'}, final_sync {rows[4] / 1e3:.1f} us")


def live(folder):
    """ddl-top on the spools of that job says what its replay says."""
    looks = []
    for how in ((), ("--replay",)):
        done = ddl("top", *how, folder / "step.ddl", "--json", "-n", "1")
        looks.append(json.loads(done)["step"])
    names = ("by_device", "exposed_ratio", "gpu_ccr_raw", "gpu_ccr_exposed")
    same = all(looks[0][n] == looks[1][n] or (isinstance(looks[0][n], float) and abs(looks[0][n] - looks[1][n]) < 1e-5 * abs(looks[1][n])) for n in names)
    return same and looks[0]["by_device"], f"live {[looks[0][n] for n in names]}, replay {[looks[1][n] for n in names]}"


def default_streams(folder):
    streams = {}
    for what in ("legacy", "per thread"):
        program = probe_program(f"threads-{what.split()[0]}.bin")
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
    return done.returncode == -9 and kernels == 1141, f"exit {done.returncode} 2.5 s after the last launch; {kernels} of 1141 kernels were saved"


def two_ranks(folder, name, *arguments, **extra):
    """Two ranks of NCCL on the one GPU, recorded. Returns the store."""
    jobs = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo", "LD_PRELOAD": str(LIBRARY),
               "CUDA_INJECTION64_PATH": str(LIBRARY), "NCCL_PROFILER_PLUGIN": str(LIBRARY), "DDL_OUT": str(folder / f"{name}.ddl"),
               "LD_LIBRARY_PATH": with_cupti(), **extra}
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
    probe_program("two_ranks.cu.bin")
    db = two_ranks(folder, "nccl")
    found = db.execute("SELECT layer, source, algorithm, protocol, channels, fused, count(*), avg(duration_ns), avg(wait_ns) FROM v_collective WHERE op LIKE 'nccl%'"
                       " AND rank = 0 GROUP BY 1, 2, 3, 4, 5, 6").fetchall()
    late = db.execute("SELECT rank, avg(wait_ns) FROM v_collective WHERE layer = 'alone' GROUP BY rank ORDER BY rank").fetchall()
    good = sum(row[6] for row in found) == 60 and len(late) == 2 and late[0][1] > 10 * max(late[1][1], 1)
    return good, f"{found}; rank 1 is late, waits: {late}"


def nccl_bandwidth(folder):
    """Busy bandwidths that a GPU can have, from the run before: two ranks of one GPU share its memory."""
    db = store(folder / "nccl.ddl")
    rows = db.execute("SELECT bytes, min(xfer_ns), avg(xfer_ns) FROM v_collective WHERE layer = 'alone' AND xfer_ns > 0 GROUP BY bytes").fetchall()
    rates = [(size, size / best, size / mean) for size, best, mean in rows]
    return bool(rates) and all(0.1 < rate < 5000 for _, rate, _ in rates), "; ".join(f"{size / 2**20:.0f} MiB: {best:.1f} GB/s at best, {mean:.1f} on average" for size, best, mean in rates)


def nccl_alone(folder):
    """One rank has nothing to exchange: NCCL launches no kernel of its own, and we miss none."""
    env = {"RANK": "0", "WORLD_SIZE": "1"}
    done = run([Path("two_ranks.cu.bin").resolve(), folder / "alone.id"], record=folder / "alone.ddl", **env)
    if done.returncode:
        raise Missing(f"NCCL does not run here: {done.stdout.strip()[-200:]}")
    db = store(folder / "alone.ddl")
    names = db.execute("SELECT name, count(*) FROM v_kernel WHERE class = 'communication' GROUP BY name").fetchall()
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    return not any("ncclDevKernel" in name for name, _ in names) and not lost, f"kernels of collectives {names or 'none'}, missing {lost or 'nothing'}"


def nccl_bcast(folder):
    """ncclBcast calls ncclBroadcast by its public name: one call of the program must be one record."""
    db = two_ranks(folder, "bcast", "bcast")
    calls = dict(db.execute("SELECT op, calls FROM v_call WHERE op IN ('ncclBcast', 'ncclBroadcast') AND rank = 1"))
    rows = db.execute("SELECT op, count(*) FROM v_collective WHERE rank = 1 GROUP BY op").fetchall()
    return calls == {"ncclBcast": 10} and rows == [("ncclBcast", 10)], f"calls {calls}, collectives {rows}"


def nccl_timers(folder):
    """The kernels that CUPTI saw against the timers of NCCL's own profiler, in two runs of the same load."""
    lengths = {}
    for name, extra in (("kernel", {}), ("profiler", {"DDL_COLLECTORS": "mpi,nvtx,nccl"})):
        db = two_ranks(folder, f"timed-{name}", **extra)
        rows = db.execute("SELECT source, xfer_ns FROM v_collective WHERE op = 'ncclAllReduce' AND layer = 'alone' AND rank = 1 AND xfer_ns IS NOT NULL ORDER BY xfer_ns").fetchall()
        if {r[0] for r in rows} != {name}:
            return False, f"expected times by {name}, got {len(rows)} rows by {({r[0] for r in rows})}"
        lengths[name] = rows[len(rows) // 2][1]
    return lengths["kernel"] > 0 and abs(lengths["profiler"] / lengths["kernel"] - 1) < 0.25, f"median transfer of 16 MiB: {lengths['kernel'] / 1e3:.1f} us by CUPTI, {lengths['profiler'] / 1e3:.1f} us by NCCL's timers"


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
            "for name, layer in zip(('fc1', 'relu', 'fc2'), m):\n  layer.register_forward_pre_hook(lambda *_, n=name: [torch.cuda.nvtx.range_push(f'layer:{n}'), None][1])\n"
            "  layer.register_forward_hook(lambda *_: [torch.cuda.nvtx.range_pop(), None][1])\n"
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


TRANSFORMER = """import time, torch
m = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, batch_first=True), 6).cuda()
o = torch.optim.SGD(m.parameters(), lr=1e-3)
for batch in (64, 1):
  x = torch.randn(batch, 128, 512, device='cuda')
  times = []
  for i in range(60):
    torch.cuda.nvtx.range_push(f'step {i}')
    begin = time.perf_counter()
    o.zero_grad(); m(x).sum().backward(); o.step(); torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
    torch.cuda.nvtx.range_pop()
  print(sorted(times[20:])[20])
"""


def torch_step_cost(folder):
    """What a step of a transformer takes, with a batch that fills the GPU and one that does not: without us, without CUPTI, with all."""
    script = folder / "transformer.py"
    script.write_text(TRANSFORMER)
    ms = {}
    for turn in range(3):
        for what, collectors in (("off", None), ("nvtx", {"DDL_COLLECTORS": "mpi,nvtx,nccl"}), ("all", {})):
            done = run([sys.executable, script], record=folder / f"cost-{what}{turn}.ddl" if what != "off" else None, **(collectors or {}))
            if done.returncode:
                raise Missing(f"PyTorch does not run here: {done.stderr.strip()[-150:]}")
            for batch, seconds in zip((64, 1), done.stdout.split()):
                ms.setdefault((batch, what), []).append(float(seconds) * 1e3)
    median = {key: statistics.median(values) for key, values in ms.items()}
    lost = store(folder / "cost-all0.ddl").execute("SELECT kind, count FROM loss").fetchall()
    told = [f"batch {batch}: {median[batch, 'off']:.3f} ms, with NVTX {median[batch, 'nvtx'] / median[batch, 'off']:.3f}x, with CUPTI too {median[batch, 'all'] / median[batch, 'off']:.3f}x" for batch in (64, 1)]
    return not lost, f"{'; '.join(told)} (medians of 3); missing {lost or 'nothing'}"


def trainer(folder):
    """train --device cuda computes what train computes; its buckets travel by NCCL or by way of the host."""
    if not shutil.which("mpirun") or are_mocks():
        raise Missing("no mpirun, or no real cuBLAS")
    build = folder / "train" if PACKED else BUILD
    if PACKED:
        shutil.unpack_archive(PACKED / "train.tar.xz", build)
    def train(*options, record=()):
        ranks = [part for rank in (0, 1) for part in ([":"] if rank else []) + ["-np", 1, "-x", f"NCCL_HOSTID=rank{rank}", "-x", "NCCL_SOCKET_IFNAME=lo", build / "bin" / "train", "--steps", 20, *options]]
        done = run([*record, "mpirun", "--oversubscribe", *ranks], OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, LD_LIBRARY_PATH=f"{with_cupti()}:{build / 'lib'}")
        losses = [float(value) for value in re.findall(r"^step \d+ loss (\S+)", done.stdout, re.M)]
        if done.returncode or len(losses) != 20:
            raise Missing(f"train {options} ends with {done.returncode}: {(done.stdout + done.stderr).strip()[-200:]}")
        return losses
    apart = {}
    for model in ("mlp", "cnn"):
        here = train("--model", model)
        for way in ("nccl", "mpi"):
            there = train("--model", model, "--device", "cuda", "--reduce", way)
            apart[model, way] = max(abs(a / b - 1) for a, b in zip(there, here))
    train("--model", "cnn", "--device", "cuda", record=(DDL, "record", "-o", folder / "train.ddl", "--"))
    db = store(folder / "train.ddl")
    rows = db.execute("SELECT op, count(*), count(wait_ns) FROM v_collective WHERE op LIKE 'nccl%' AND rank = 0 GROUP BY op").fetchall()
    lost = db.execute("SELECT kind, count FROM loss").fetchall()
    return max(apart.values()) < 0.01 and bool(rows) and not lost, f"losses of 20 steps apart from those on CPUs by at most { {' '.join(k): f'{v:.1e}' for k, v in apart.items()} }; NCCL's of rank 0 {rows}; missing {lost or 'nothing'}"


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
    library = run([sys.executable, "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parent / 'lib' / 'libtorch_cuda.so')"]).stdout.strip()
    needed = re.findall(r"NEEDED.*\[(libnccl\S*)\]", run(["readelf", "-d", library]).stdout) if shutil.which("readelf") else "not asked, no readelf"
    return calls == 5, f"sources {sources}; {calls} of 5 calls of ncclAllReduce; libtorch_cuda.so needs {needed or 'no libnccl: it is linked in'}"


def torch_workers(folder):
    """DataLoader workers, forked after CUDA was initialised and spawned: the job works and they leave no spools."""
    script = folder / "workers.py"
    script.write_text("import sys, torch\nclass D(torch.utils.data.Dataset):\n  def __len__(self): return 64\n  def __getitem__(self, i): return torch.ones(4) * i\n"
                      "if __name__ == '__main__':\n  torch.zeros(1).cuda()\n  for how in ('fork', 'spawn'):\n"
                      "    for b in torch.utils.data.DataLoader(D(), batch_size=8, num_workers=2, multiprocessing_context=how): b.cuda()\n  print('done')\n")
    done = run([sys.executable, script], record=folder / "workers.ddl")
    if "No module named 'torch'" in done.stderr:
        raise Missing("PyTorch is not installed")
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
    """CUPTI takes one client: torch.profiler sees of the GPU what it sees without us, and we say since when we do not."""
    script, early = folder / "profiler.py", folder / "profiler_first.py"
    body = ("    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:\n      for _ in range(10): x = x @ x\n      torch.cuda.synchronize()\n"
            "    seen = [e for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA]\n    print(len(seen), sum('gemm' in e.name.lower() for e in seen))\n"
            "    print(all(0 < e.device_time < 1e6 and abs(e.time_range.start) < 1e9 for e in seen))\n")
    head = "import torch\nfrom torch.profiler import profile, ProfilerActivity\nif 1:\n"
    script.write_text(head + "    x = torch.eye(512, device='cuda')\n    for _ in range(5): x = x @ x\n    torch.cuda.synchronize()\n" + body)
    early.write_text(head + body.replace(" as p:\n", " as p:\n      x = torch.eye(512, device='cuda')\n"))  # it is active before anything has called cuInit
    told = {}
    for name in (script, early):
        without, with_us = run([sys.executable, name]), run([sys.executable, name], record=folder / f"{name.stem}.ddl")
        if without.returncode:
            raise Missing(f"PyTorch does not run here: {without.stderr.strip()[-150:]}")
        db = store(folder / f"{name.stem}.ddl")
        told[name.stem] = (without.stdout.split(), with_us.stdout.split(), db.execute("SELECT count(*) FROM v_kernel").fetchone()[0],
                           [row[0] for row in db.execute("SELECT note FROM loss")], [line for line in with_us.stderr.splitlines() if line.startswith("ddl:")])
    good = all(a == b for a, b, *_ in told.values()) and told["profiler"][2] >= 5 and all(t[3] and t[4] for t in told.values())
    return good, f"torch.profiler's GPU events and matrix products without us, with us; kernels that we saw, what we say: {told}"


# Those that measure costs come last: where time runs out, they are left out.
CHECKS = [("CUPTI attaches from cuInit; kernel times", attach), ("cuInit calls us once, before a context, from any program", at_cuinit),
          ("CUPTI itself: codes, clock, nodes of graphs, sizes of records", cupti_itself), ("CUPTI itself: the one that PyTorch brings", cupti_of_torch),
          ("which stream waits for which, within a context and across two", waits), ("managed memory", managed), ("50,000 kernels a second", fast_launches),
          ("captured graphs by node", graphs), ("copies: bytes, pinned or pageable", copies), ("nothing dropped", losses),
          ("default streams: legacy, per thread; a second context", default_streams), ("headline of a job on two streams, from its kernels", headline),
          ("headline of a job on two streams, as launched", headline_truth), ("ddl-top live on that job", live),
          ("a killed process keeps what was flushed", killed), ("ways to leave", leaving), ("Python: ways to leave", python_leaves),
          ("Python: fork before cuInit", python_forks), ("another tool's CUDA_INJECTION64_PATH", already_set),
          ("no visible device: nothing is recorded", visible_devices), ("NVML: health of the GPU", health),
          ("NCCL: two ranks on one GPU; wait, algorithm, fused kernels", nccl), ("NCCL: bandwidths", nccl_bandwidth), ("NCCL: one rank alone", nccl_alone),
          ("NCCL: one process with one GPU", nccl_one_process), ("NCCL: ncclBcast is one call", nccl_bcast),
          ("NCCL: CUPTI's times against NCCL's timers", nccl_timers), ("NCCL: its profiler's version, phases of kernels", nccl_phases),
          ("NCCL: communicators that do not block, captured collectives", nccl_variants), ("PyTorch: emit_nvtx, steps, kernels in ranges", torch_ranges),
          ("PyTorch: layers, backward by seq, sums against torch.profiler", torch_layers), ("PyTorch: how its NCCL is seen", torch_nccl),
          ("PyTorch: DataLoader workers", torch_workers), ("torch.profiler beside us", torch_profiler), *torch_jobs.CHECKS, ("train --device cuda: losses as on CPUs, by NCCL and by way of the host", trainer), ("CUPTI's own cost", cupti_cost),
          ("what each collector costs a training step", collector_costs), ("what a launch costs under us", launch_cost),
          ("PyTorch: what a step costs", torch_step_cost), ("ncu over a recorded program", other_tools)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", default="gpu-validation", help="folder to make")
    parser.add_argument("--page", type=Path, help="page that gets the table; docs/gpu-validation.md, but not against mock libraries")
    parser.add_argument("--only", default="", metavar="REGEX", help="only checks whose name has it; the others keep their rows of the page")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="make FOLDER, which a machine with a GPU needs, and end")
    arguments = parser.parse_args()
    if arguments.pack:
        return pack(arguments.pack)
    folder = Path(arguments.o).resolve()
    arguments.page = arguments.page and arguments.page.absolute()
    version, why = device()
    if version is None:
        print(f"skipped: no GPU answers: {why}")
        return 77
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    names = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]).stdout.strip() if shutil.which("nvidia-smi") else "a GPU of unknown name"
    failed, rows = 0, {}
    for what, check in CHECKS:
        if not re.search(arguments.only, what):
            continue
        begin = time.monotonic()
        try:
            if begin > DEADLINE:
                raise Missing("no time was left")
            good, detail = check(folder)
            verdict = "confirmed" if good else "**wrong**"
        except Missing as reason:
            verdict, detail = "not run", str(reason)
        except Exception as error:  # one check's trouble must not cost the machine's time for the others
            verdict, detail = "**failed**", f"{type(error).__name__}: {error}"
        failed += verdict.startswith("**")
        rows[what] = f"| {what} | {verdict} | {' '.join(str(detail).replace('|', '/').split())} |"
        print(f"{verdict:10} {what} ({time.monotonic() - begin:.1f} s): {detail}", flush=True)
    machine = f"{names}, driver API {version}"
    (folder / "table.md").write_text("\n".join([f"On {machine}, {time.strftime('%Y-%m-%d')}:", "", "| what | verdict | measured |", "| --- | --- | --- |", *rows.values()]) + "\n")
    print(f"table: {folder / 'table.md'}")
    page = arguments.page or PAGE
    if arguments.page or (PAGE.exists() and not are_mocks()):
        write_page(page, machine, rows)
        print(f"page: {page}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
