#!/usr/bin/env python3
"""The real libraries of CUDA without a driver: nothing crashes, nobody is told more than a line, and the job is as without us.

usage: no_driver.py GPU_JOB DOUBLES_DIR LIBCUPTI
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import job  # noqa: E402
from job import check  # noqa: E402

PROGRAM, MOCKS, CUPTI = sys.argv[1:4]
TOOLKIT = Path(CUPTI).parent


def call(library, expression, **env):
    script = f"import ctypes; l = ctypes.CDLL('{library}'); n = ctypes.c_int(); print({expression})"
    plain = job.run([sys.executable, "-c", script], **env)
    recorded = job.run([sys.executable, "-c", script], LD_PRELOAD=job.LIBRARY, DDL_OUT="inert.ddl", DDL_VERBOSE=1, **env)
    check((recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout), f"{library}: {plain} became {recorded}")
    check(len(recorded.stderr.splitlines()) <= len(plain.stderr.splitlines()) + 1, f"{library}: noise {recorded.stderr!r}")
    check(not Path("inert.ddl").exists(), f"{library}: a process that has no GPU left a record")
    return plain.stdout.strip()


def test_the_real_cupti_refuses(_):
    """The mock of the driver calls us, the real CUPTI finds no driver that it knows."""
    env = {"LD_LIBRARY_PATH": MOCKS, "DDL_CUPTI": CUPTI}
    plain = job.run([PROGRAM, 2], **env)
    done = job.run([PROGRAM, 2], LD_PRELOAD=job.LIBRARY, DDL_OUT="refused.ddl", **env)
    check((done.returncode, done.stdout) == (0, plain.stdout), f"{done}")
    check(done.stderr == "ddl: GPU tracing is off: cuptiSubscribe failed (999)\n", f"stderr {done.stderr!r}")
    notes = [row["note"] for row in job.store("refused.ddl").execute("SELECT note FROM loss WHERE kind = 'gpu_tracing'")]
    check(len(notes) == 1 and "cuptiSubscribe failed (999)" in notes[0], f"{notes}")


def test_the_runtime_without_a_driver(_):
    runtime = next((path for path in sorted(TOOLKIT.glob("libcudart.so.*"))), None)
    if runtime and not any(Path(folder, "libcuda.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")):
        check(call(runtime, "l.cudaGetDeviceCount(ctypes.byref(n))") == "35", "cudaErrorInsufficientDriver was expected")


def test_a_stub_of_the_driver(folder):
    stub = next((path for path in (TOOLKIT / "stubs/libcuda.so", TOOLKIT.parent / "lib64/stubs/libcuda.so") if path.exists()), None)
    if stub:
        (folder / "stubs").mkdir()
        (folder / "stubs/libcuda.so.1").symlink_to(stub.resolve())
        check(call("libcuda.so.1", "l.cuInit(0)", LD_LIBRARY_PATH=folder / "stubs") == "34", "CUDA_ERROR_STUB_LIBRARY was expected")


if __name__ == "__main__":
    job.main(test_the_real_cupti_refuses, test_the_runtime_without_a_driver, test_a_stub_of_the_driver)
