#!/usr/bin/env python3
"""The CUPTI collector against mocks of CUDA, one process: every way in which CUPTI fails. What is recorded is known to the nanosecond, the job must print the same
whatever happens, the report must say what is missing, and what is left must be right. (All versions of records, with two ranks: gpu_ranks.py.)

usage: gpu.py GPU_JOB GPU_JOB_MPI DOUBLES_DIR
"""
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import job
from gpu_truth import Job, idling, layers, parts
from job import check

PROGRAM, MPI_PROGRAM, MOCKS = sys.argv[1:4]
STEPS, LAUNCHES = 3, 14
VIRTUAL = {"FAKE_CUDA_CLOCK": "virtual", "DDL_CLOCK": "monotonic", "LD_LIBRARY_PATH": MOCKS}
OUTPUT = job.run([PROGRAM, STEPS], LD_LIBRARY_PATH=MOCKS).stdout
number, report = 0, ""


def open_store(run_dir):
    global report
    report = " ".join(job.report(run_dir).stdout.split())
    return sqlite3.connect(f"file:{run_dir}/run.sqlite?mode=ro", uri=True)


def record(*arguments, noise="", **knobs):
    """A run that must end as without us, and say on stderr what `noise` says, in one line, or nothing."""
    global number
    number += 1
    run_dir = f"run{number}.ddl"
    done = job.run([PROGRAM, STEPS, *arguments], **{"LD_PRELOAD": job.LIBRARY, "DDL_OUT": run_dir, **VIRTUAL, **knobs})
    check(done.returncode == 0 and done.stdout == OUTPUT, f"{arguments} {knobs}: the job ended with {done.returncode} and printed {done.stdout!r}")
    lines = done.stderr.splitlines()
    check((len(lines) == 1 and noise in lines[0]) if noise else not lines, f"{arguments} {knobs}: stderr is {done.stderr!r}, not {noise!r}")
    return open_store(run_dir)


def rows(db, where="kind <> 'overhead'"):
    return sorted(db.execute(f"SELECT kind, name, phase, layer, step, stream, start_ns, duration_ns, bytes FROM v_gpu WHERE {where}"), key=str)


def losses(db):
    return {kind: count for kind, count in db.execute("SELECT kind, sum(count) FROM loss GROUP BY kind")}


def expect(found, expected, what):
    missing, extra = [r for r in expected if r not in found], [r for r in found if r not in expected]
    check(len(found) == len(expected) and not missing and not extra, f"{what}: {len(missing)} missing, {len(extra)} not expected: {missing[:2]} {extra[:2]}")


def expect_left(found, truth, what):
    """What is left of the truth is as true, and so is what is made of it."""
    check(all(row in truth.rows for row in found), f"{what}: {[row for row in found if row not in truth.rows][:2]} is not true")
    truth.rows = [row for row in truth.rows if row in found]


def expect_numbers(db, truth, what):
    for columns, expected in (("duration_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns, idle_ns", parts(truth)),
                              ("idle_input_ns, idle_host_ns, idle_launch_ns, idle_kernel_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns", idling(truth))):
        made = list(db.execute(f"SELECT step, {columns} FROM v_gpu_part WHERE device = 0 AND step IS NOT NULL ORDER BY step"))
        check(made == (expected if truth.rows else []), f"{what}: {columns}: {made}, not {expected}")
    made = {row[:3]: row[3:] for row in db.execute("SELECT step, phase, layer, compute_ns, comm_ns, copy_ns, exposed_comm_ns FROM v_gpu_layer_part")}
    check(made == (layers(truth) if truth.rows else {}), f"{what}: layers: {made}")


def test_columns_of_copies(_):
    db = record()
    check(list(db.execute("SELECT kind, bytes, source, destination, peer_device, sum(duration_ns) FROM v_memcpy GROUP BY 1 ORDER BY 1")) ==
          [("DtoH", 50000, "device", "pageable", None, 10000 * STEPS), ("HtoD", 200000, "pinned", "device", None, 20000 * STEPS),
           ("PtoP", 1000, "device", "device", 1, 100 * STEPS), ("memset", 50000, None, "device", None, 500 * STEPS)], "copies")
    check(db.execute("SELECT count(DISTINCT thread) FROM v_kernel").fetchone()[0] == 2, "kernels of two threads")
    check(list(db.execute("SELECT DISTINCT launch_duration_ns FROM v_kernel")) == [(1000,)], "launches")


def test_gpus_are_described(_):
    check(list(record().execute("SELECT device, name, bus, link FROM gpu")) ==
          [(0, "Fake GPU 0", "ffff:ab:00.0", None), (1, "Fake GPU 1", "ffff:ab:00.1", None)], "table gpu")
    for device in sorted(Path("/sys/bus/pci/devices").glob("*/max_link_width")):  # of this machine, where any tells its link
        speed = (device.parent / "max_link_speed").read_text().split()[0]
        if device.read_text().strip() in ("0", "255") or speed == "Unknown":
            continue
        link = record(FAKE_CUDA_BUS=device.parent.name.upper()).execute("SELECT link FROM gpu WHERE device = 0").fetchone()[0]
        check(link is not None and link.startswith("PCIe "), f"{device.parent.name}: {link}")
        return


def test_the_report_shows_them(_):
    record()
    text = job.report(f"run{number}.ddl", "gpu").stdout
    line = next(line.split() for line in text.splitlines() if line.endswith("relu"))
    check(line[1:6] == ["15.000us", "3", "5.0000us", "5.0000us", "5.0000us"], f"gpu: {text}")
    layers = {(line.split()[-2], line.split()[-1]): line.split() for line in job.report(f"run{number}.ddl", "gpu_layers").stdout.splitlines() if line.endswith(("fc1", "fc2", "load_batch"))}
    check(layers["backward", "fc1"][1:6] == ["480.00us", "6", "210.00us", "270.00us", "0ns"], f"layers: {layers}")
    check(layers["forward", "load_batch"][1:6] == ["60.000us", "0", "0ns", "0ns", "60.000us"], f"layers: {layers}")
    links = job.report(f"run{number}.ddl", "links").stdout
    check("10.0GB/s" in links and "5.00GB/s" in links and "pageable" in links, f"links: {links}")


def test_buffers_come_as_they_like(_):
    truth = Job(STEPS).rows
    for knobs in ({"FAKE_CUPTI_BUFFER": 1000}, {"FAKE_CUPTI_BUFFER": 1000, "FAKE_CUPTI_LATE": 1}, {"FAKE_CUPTI_BUFFER": 1000, "FAKE_CUPTI_THREAD": 1},
                  {"FAKE_CUPTI_REFUSE": "timestamps"}, {"FAKE_CUDA_NESTED_OWN_ID": 1}, {"FAKE_CUPTI_NO_V2": 1}):
        db = record(**knobs)
        expect(rows(db), truth, knobs)
        check(losses(db) == {}, f"{knobs}: {losses(db)}")


def test_overhead_is_told_apart(_):
    db = record(FAKE_CUPTI_OVERHEAD=1)
    check(rows(db, "kind = 'overhead'") == [("overhead", "[CUPTI overhead: instrumentation]", None, None, 0, None, 5000, 500, None)], "overhead")
    expect(rows(db), Job(STEPS).rows, "the rest")
    check("CUPTI's own overhead in the whole run, summed over ranks: 500ns" in report, f"overhead: {report}")


def test_what_is_lost_is_counted(_):
    everything = len(Job(STEPS).rows)
    for knobs, kind, lost, events, told in (({"FAKE_CUPTI_DROP": 4}, "gpu_dropped", everything // 4, 0, "GPU activities that CUPTI dropped"),
                                    ({"FAKE_CUPTI_ZERO": 5}, "gpu_times", everything // 5, 0, "GPU activities without time stamps"),
                                    ({"FAKE_CUPTI_OPEN": 5}, "gpu_times", everything // 5, 0, "GPU activities without time stamps"),
                                    ({"FAKE_CUPTI_HOARD": 20}, "gpu_dropped", everything - 20, 1, "GPU activities that CUPTI dropped")):
        db, truth = record(**knobs), Job(STEPS)
        found = rows(db)
        check(len(found) == everything - lost, f"{knobs}: {len(found)} of {everything} left")
        expect_left(found, truth, knobs)
        expect_numbers(db, truth, knobs)
        check(losses(db) == {kind: lost + events} and f"{lost + events} {told}" in report, f"{knobs}: {losses(db)}, told: {report}")
    for knobs in ({"FAKE_CUPTI_BUFFER": 1000, "FAKE_CUPTI_DAMAGE": 1}, {"FAKE_CUPTI_HOARD": 20, "FAKE_CUPTI_VERSION": 26}):  # an old CUPTI must not be refused
        db, truth = record(**knobs), Job(STEPS)
        found = rows(db)
        expect_left(found, truth, knobs)
        expect_numbers(db, truth, knobs)
        check(losses(db) == {"gpu_unread": 1} and "1 buffers of GPU activities that could not be read" in report, f"{knobs}: {losses(db)}, told: {report}")
        check(len(found) == 20 if "FAKE_CUPTI_HOARD" in knobs else 0 < everything - len(found) <= 6, f"{knobs}: {len(found)} of {everything} left")


def test_without_launches_layers_are_unknown(_):
    db = record(FAKE_CUPTI_REFUSE="callbacks")
    expect([(r[0], r[1], *r[5:]) for r in rows(db)], [(r[0], r[1], *r[5:]) for r in Job(STEPS).rows], "times")
    check(db.execute("SELECT count(*) FROM v_gpu WHERE layer IS NOT NULL").fetchone()[0] == 0, "layers that nobody can know")
    check(losses(db) == {"gpu_launches": LAUNCHES * STEPS, "gpu_tracing": 1}, losses(db))
    check("the layers of GPU activities" in report, f"refused callbacks: {report}")
    found = [row[1:] for row in db.execute("SELECT step, duration_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns, idle_ns FROM v_gpu_part WHERE device = 0 AND "
                                           "step IS NOT NULL ORDER BY step")]
    check(found == [row[1:] for row in parts(Job(STEPS))], f"refused callbacks: {found}")
    db = record(FAKE_CUPTI_REFUSE="kernels")
    expect(rows(db), [row for row in Job(STEPS).rows if row[0] != "kernel"], "without kernels")
    check("without kernels (27)" in report, f"refused kernels: {report}")


def test_somebody_else_has_cupti(_):
    for knobs, why in (({"FAKE_CUPTI_SUBSCRIBE": 39, "FAKE_CUPTI_HOLDER": "nsys"}, "CUPTI is in use by nsys"),
                       ({"FAKE_CUPTI_SUBSCRIBE": 39}, "CUPTI is in use by another tool"),
                       ({"FAKE_CUPTI_SUBSCRIBE": 39, "FAKE_CUPTI_NO_V2": 1}, "CUPTI is in use by another tool"),
                       ({"FAKE_CUPTI_SUBSCRIBE": 15}, "is the driver older than CUPTI"),
                       ({"FAKE_CUPTI_SUBSCRIBE": 999}, "cuptiSubscribe failed (999)"),
                       ({"FAKE_CUPTI_VERSION": 12}, "older than CUDA 11.0"),
                       ({"FAKE_CUPTI_REFUSE": "buffers"}, "CUPTI takes no buffers from us"),
                       ({"FAKE_CUPTI_REFUSE": "kinds"}, "CUPTI can trace nothing here"),
                       ({"DDL_CUPTI": "/nonexistent/libcupti.so"}, "libcupti was not found")):
        db = record(noise=f"ddl: GPU tracing is off: {why}" if why.startswith("CUPTI is") else why, **knobs)
        check(losses(db) == {"gpu_tracing": 1} and why in db.execute("SELECT note FROM loss").fetchone()[0], f"{knobs}: {losses(db)}")
        check(db.execute("SELECT count(*) FROM v_step").fetchone()[0] == STEPS and not rows(db), f"{knobs}: the rest is recorded")
        check(why in report, f"{knobs}: the report says so")


def test_the_program_traces_itself(folder):
    """What it asks of CUPTI it gets, as without us; until then its GPUs are recorded, and what they did later is unknown, not idle."""
    program = job.BUILD / "tests" / "programs" / "cupti_client"
    for how, kernels in (([], 25), (["first"], 50), (["never"], 0)):
        run_dir = Path(folder) / f"client{len(how)}{''.join(how)}.ddl"
        plain = job.run([program, *how], LD_LIBRARY_PATH=MOCKS)
        done = job.run([program, *how], LD_PRELOAD=job.LIBRARY, DDL_OUT=run_dir, **VIRTUAL)
        check(done.returncode == 0 and done.stdout == plain.stdout and done.stdout.endswith(f"saw {kernels} kernels\n"), f"{how}: printed {done.stdout!r}, without us {plain.stdout!r}")
        db = open_store(run_dir)
        ours = db.execute("SELECT count(*), max(step) FROM v_kernel").fetchone()
        known = [row[0] for row in db.execute("SELECT DISTINCT step FROM v_gpu_part WHERE step IS NOT NULL ORDER BY step")]
        expected = {"": ((25, 4), [0, 1, 2, 3, 4], {"gpu_tracing": 1}), "first": ((0, None), [], {"gpu_tracing": 1}), "never": ((50, 9), list(range(10)), {})}["".join(how)]
        check((ours, known, losses(db)) == expected, f"{how}: kernels and last step {ours}, steps whose GPUs are known {known}, missing {losses(db)}")
        words = {"": "cupti_client used CUPTI itself", "first": "the program uses CUPTI itself (cupti_client)", "never": ""}["".join(how)]
        check(words in report and done.stderr.count("\n") == (how != ["never"]), f"{how}: {done.stderr!r}; {report}")


def test_hidden_devices_are_not_traced(_):
    """cuInit then fails on a real GPU; the mock goes on, so that it shows whether anybody looked."""
    for hidden in ("", "-1"):
        db = record(CUDA_VISIBLE_DEVICES=hidden)
        told = db.execute("SELECT count(*) FROM process_fact WHERE key IN ('cupti', 'gpu.off')").fetchone()[0]
        check(not rows(db) and told == 0 and losses(db) == {}, f"CUDA_VISIBLE_DEVICES={hidden!r}: {len(rows(db))} activities, {told} facts, missing {losses(db)}")


def test_nobody_asked_for_gpus(_):
    db = record(DDL_COLLECTORS="mpi")
    check(not rows(db) and losses(db) == {} and db.execute("SELECT count(*) FROM v_step").fetchone()[0] == STEPS, "collectors without cuda")
    done = job.run([PROGRAM, STEPS], LD_PRELOAD=job.LIBRARY, DDL_OUT="none.ddl", FAKE_CUDA_NO_DEVICE=1, **VIRTUAL)
    check(done.stdout == "no device\n" and done.stderr == "" and done.returncode == 0, f"no device: {done}")
    check(not Path("none.ddl").exists(), "a process that found no device left a record")
    taken = job.run([PROGRAM, STEPS], LD_PRELOAD=job.LIBRARY, DDL_OUT="taken.ddl", CUDA_INJECTION64_PATH="/opt/nsys/injection.so", **VIRTUAL)
    check(taken.stdout == OUTPUT and "CUDA_INJECTION64_PATH is set to /opt/nsys/injection.so" in taken.stderr, f"taken: {taken}")


def test_the_window_is_that_of_launches(_):
    truth = Job(STEPS)
    db = record(DDL_STEPS="1:1")
    expect(rows(db), [row for row in truth.rows if row[4] == 1], "step 1")
    check(losses(db)["gpu_not_kept"] == LAUNCHES * (STEPS - 1), losses(db))


def test_two_ranks(_):
    done = job.run(["mpirun", "-np", 2, MPI_PROGRAM, STEPS, "exit"], LD_PRELOAD=job.LIBRARY, DDL_OUT="ranks.ddl", **VIRTUAL)
    check(done.stdout.startswith("checksum"), f"mpirun: {done.stdout} {done.stderr}")
    db = open_store("ranks.ddl")
    for rank in (0, 1):
        truth = Job(STEPS, rank=rank)
        expect(rows(db, f"rank = {rank}"), truth.rows, f"rank {rank}, left by _exit after MPI_Finalize")
        found = list(db.execute("SELECT step, duration_ns, compute_ns, comm_ns, copy_ns, exposed_comm_ns, idle_ns FROM v_gpu_part WHERE device = 0 AND "
                                f"step IS NOT NULL AND rank = {rank} ORDER BY step"))
        check(found == parts(truth), f"rank {rank}: {found}, not {parts(truth)}")
    check(list(db.execute("SELECT rank, count(*) FROM v_collective GROUP BY rank")) == [(0, STEPS), (1, STEPS)], "collectives")


def test_which_cupti(folder):
    def chosen(**knobs):
        return record(**knobs).execute("SELECT value FROM process_fact WHERE key = 'cupti'").fetchone()[0].split(" ", 1)[1]

    double = Path(MOCKS, "libcupti.so.13").resolve()
    loader = folder / "loader"  # one of each version where the loader looks, behind the mocks' folder without CUPTI
    others = folder / "others"
    loader.mkdir()
    others.mkdir()
    for name in ("libcuda.so.1", "libcudart.so.13"):
        (others / name).symlink_to(Path(MOCKS, name).resolve())
    for name in ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so.11.2"):
        shutil.copy(double, loader / name)
    path = f"{others}:{loader}"
    # The copies find the mock of libcuda by its soname, which is loaded already.
    for version, name in ((13000, "libcupti.so.13"), (12040, "libcupti.so.12"), (11080, "libcupti.so.11.8")):
        check(chosen(FAKE_CUDA_VERSION=version, LD_LIBRARY_PATH=path) == str(loader / name), f"driver {version}: {number}")
    (loader / "libcupti.so.11.8").unlink()  # of an old version, because this machine may have newer ones itself
    check(chosen(FAKE_CUDA_VERSION=11080, LD_LIBRARY_PATH=path) == str(loader / "libcupti.so.11.2"), "the newest that there is")
    named = folder / "named.so"
    shutil.copy(double, named)
    check(chosen(DDL_CUPTI=named) == str(named), "DDL_CUPTI")
    loaded = folder / "libcupti.so.99"
    shutil.copy(double, loaded)
    check(chosen(LD_LIBRARY_PATH=path, LD_PRELOAD=f"{job.LIBRARY}:{loaded}") == str(loaded), "what is loaded already")
    packages = folder / "site-packages/nvidia"  # as pip unpacks them
    for package in ("cuda_runtime", "cuda_cupti"):
        (packages / package / "lib").mkdir(parents=True)
    for name in ("libcuda.so.1", "libcudart.so.13"):
        shutil.copy(Path(MOCKS, name).resolve(), packages / "cuda_runtime/lib" / name)
    shutil.copy(double, packages / "cuda_cupti/lib/libcupti.so.11.2")
    found = chosen(FAKE_CUDA_VERSION=11080, LD_LIBRARY_PATH=packages / "cuda_runtime/lib")
    check(Path(found).resolve() == packages / "cuda_cupti/lib/libcupti.so.11.2", "beside the runtime of pip")


def test_a_killed_job_loses_the_last_second(_):
    environment = job.environment(LD_PRELOAD=job.LIBRARY, DDL_OUT="killed.ddl", LD_LIBRARY_PATH=MOCKS)
    process = subprocess.Popen([PROGRAM, "100000000"], env=environment)
    try:
        job.wait_until(lambda: any(path.stat().st_size > 1 << 20 for path in Path("killed.ddl").glob("*.spool")))
        time.sleep(2.2)
    finally:
        process.kill()
        process.wait()
    db = open_store("killed.ddl")
    kernels, first, last = db.execute("SELECT count(*), min(step), max(step) FROM v_kernel").fetchone()
    steps = db.execute("SELECT max(step) FROM v_step").fetchone()[0]
    check(kernels > 0 and first == 0 and last <= steps + 1, f"killed: {kernels} kernels of steps {first} to {last} of {steps}")
    check(db.execute("SELECT count(*) FROM v_kernel WHERE layer IS NULL AND name <> 'sgd'").fetchone()[0] == 0, "each in its layer")


def test_no_cupti_leaves_it_to_the_job(_):
    done = job.run([job.DDL, "record", "-o", "left.ddl", "--no-cupti", "--", "sh", "-c", f"echo $CUDA_INJECTION64_PATH; exec {PROGRAM} {STEPS}"], **VIRTUAL)
    check(done.stdout == "\n" + OUTPUT, f"--no-cupti: {done.stdout!r}")
    db = open_store("left.ddl")
    check(not rows(db) and db.execute("SELECT count(*) FROM v_step").fetchone()[0] == STEPS, "--no-cupti: the rest is recorded")


def test_where_time_went(_):
    for graph in (False, True):
        expect_numbers(record(*(["graph"] if graph else [])), Job(STEPS, graph), f"graph {graph}")


def test_ddl_record_needs_no_more(_):
    done = job.record("recorded.ddl", [PROGRAM, STEPS, "graph"], check_rc=0, **VIRTUAL)
    check(done.stdout == OUTPUT, f"output {done.stdout!r}")
    expect(rows(open_store("recorded.ddl")), Job(STEPS, True).rows, "ddl record")


if __name__ == "__main__":
    job.main(*[test for name, test in list(globals().items()) if name.startswith("test_")])
