#!/usr/bin/env python3
"""ddl tune --in-run, on a job whose best value is known (tuned_job.c): what it finds, that all ranks have the same values in every step, and what it says where a
job does not take part. With `soak` as argument what takes minutes: drift, nothing to gain, short budgets, and our trainer's background runtime."""
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import job

BUILD = pathlib.Path(os.environ["DDL_BUILD"])
DDL, TRAIN = BUILD / "bin/ddl", BUILD / "bin/train"
JOB = BUILD / "tests/programs/tuned_job"
TWO = ["mpirun", "-np", "2", JOB]
KNOB = ["--tunable", "x=1,4,8,32"]


def tune(directory, *arguments, check, **env):
    began = time.time()
    run = subprocess.run([DDL, "tune", *map(str, arguments)], cwd=directory, capture_output=True, text=True, env=job.environment(**job.ALONE, **env), timeout=600)
    if run.returncode != check:
        raise AssertionError(f"ddl tune {arguments}: exit code {run.returncode}, expected {check}\n{run.stdout}\n{run.stderr}")
    run.took_s = time.time() - began
    return run


def manifest(directory):
    return json.loads((directory / "manifest.json").read_text())


def choices(directory):
    return {choice["name"]: choice["value"] for choice in manifest(directory)["choices"]}


def values_of(log, rank):
    """Step -> what the rank itself says it ran with."""
    return {int(step): values for step, *values in (line.split() for line in pathlib.Path(f"{log}.{rank}").read_text().splitlines() if line.count(" ") == 2)}


def same_on_all_ranks(directory, log, ranks):
    """In every step, by their own word, and as the schedule says. A rank that was ended may lack what it had not written yet."""
    logs = [values_of(log, rank) for rank in range(ranks)]
    steps = set.intersection(*(set(values) for values in logs))
    assert len(steps) > 100, f"only {len(steps)} steps to compare"
    different = [step for step in steps if any(values[step] != logs[0][step] for values in logs)]
    assert not different, f"ranks differ in steps {different[:5]}"
    with (directory / "trials/schedule.csv").open() as file:
        blocks = list(csv.DictReader(file))
    assert {block["made_by"] for block in blocks} == {"tuner", "rank"}, "nobody went on by itself"
    for block in blocks:
        told = dict(pair.split("=") for pair in block["values"].split())
        end = int(block["end_step"]) if block["end_step"] else max(steps) + 1
        for step in range(int(block["first_step"]), end):
            assert step not in steps or logs[0][step][0] == told["x"], f"step {step}: {logs[0][step]}, {block}"
    switches = sum(logs[0][step] != logs[0].get(step - 1, logs[0][step]) for step in steps)
    print(f"{len(steps)} steps of {ranks} ranks, {switches} switches, {len(blocks)} blocks: the same on all ranks")


def finds_the_best(folder):
    """x=8 is four times as fast as x=1; y and Horovod's cycle do nothing; nobody confirms by launching."""
    log = folder / "values"
    ran = tune(folder, "-o", "best", "--in-run", "--end-job", "--trials", "30", *KNOB, "--tunable", "HOROVOD_CYCLE_TIME=1,5", "--tunable", "z=1,2", "--", *TWO, "--ms", "6",
               "--steps", "100000", "--x", "{x}", "--log", log, check=0)
    said = manifest(folder / "best")
    assert choices(folder / "best") == {"x": "8", "HOROVOD_CYCLE_TIME": "1", "z": "1"}, ran.stdout + ran.stderr
    assert said["measured"] == "in_run" and said["kept"] is None and said["gain"]["lo"] > 1, said
    for part in ("paired blocks of steps in one run", "measured in one run, by blocks of its steps",
                 "HOROVOD_CYCLE_TIME cannot change while the job runs, and stays at 1: Horovod reads HOROVOD_CYCLE_TIME once, when it starts",
                 "z cannot change while the job runs, and stays at 1: the job does not ask for it, only for x, y"):
        assert part in " ".join(ran.stdout.split()), f"{part}\n{ran.stdout}"
    assert "blocks of steps of one run" in (folder / "best/tuned.env").read_text().replace("\n#        ", " ")
    assert len(list((folder / "best/trials").glob("*.ddl"))) == 1 and not list((folder / "best/trials").glob("schedule.[0-9]*"))
    same_on_all_ranks(folder / "best", log, 2)
    print(f"x=8: {said['gain']} in {ran.took_s:.1f} s")
    return said


def is_verified_in_a_run(folder):
    gain = finds_the_best(folder)["gain"]
    proved = tune(folder, "--verify", "best", "--in-run", "--rounds", "3", "--", JOB, "--ms", "6", "--steps", "100000", "--x", "{x}", check=0)
    assert ": better than" in proved.stdout and "blocks of steps in one run" in proved.stdout, proved.stdout
    print(gain, proved.stdout.splitlines()[0])


def tells_that_it_was_not_heard(folder):
    deaf = tune(folder, "-o", "deaf", "--in-run", *KNOB, "--", JOB, "--mode", "deaf", "--steps", "100000", check=1)
    assert "without reading DDL_TUNE_FILE" in deaf.stderr and "ddl_tune(k)" in deaf.stderr, deaf.stderr
    assert deaf.took_s < 30, deaf.took_s
    assert not (folder / "deaf/manifest.json").exists()


def tells_what_cannot_be_tuned_in_a_run(folder):
    """Before anything is started."""
    for arguments, said in ((["--tunable", "batch=8,16", "--", JOB, "{batch}"], "no knob can change while the job runs: batch (it changes what is computed"),
                            (["--tunable", "NCCL_ALGO=unset,Ring", "--", JOB], "NCCL reads NCCL_ALGO once"),
                            (["--tunable", "algorithm=default,ring", "--", JOB], "when a communicator is made"),
                            ([*KNOB, "--goal", "elapsed", "--", JOB], "--in-run excludes --metric and --goal elapsed"),
                            ([*KNOB, "--parallel", "2", "--hosts", "a,b", "--", "mpirun", JOB], "--in-run excludes --parallel"),
                            (["--apply", "x", "--", JOB], "--in-run and --apply exclude each other")):
        run = tune(folder, "-o", "refused", "--in-run", *arguments, check=2)
        assert said in run.stderr, run.stderr
    assert "--end-job needs a tuning" in tune(folder, "--end-job", *KNOB, "--", JOB, check=2).stderr
    assert not (folder / "refused/trials").exists()


def claims_nothing_of_a_job_that_ends(folder):
    run = tune(folder, "-o", "short", "--in-run", *KNOB, "--", JOB, "--ms", "4", "--steps", "300", check=0)
    said = manifest(folder / "short")
    assert said["gain"] is None and said["kept"].startswith(("not confirmed: ", "not explored: ")), said
    assert "the job ended after 300 steps, before the tuning was over" in " ".join(run.stdout.split()), run.stdout
    # The exit code is the job's, as where it goes on.
    tune(folder, "-o", "failed", "--in-run", *KNOB, "--", "sh", "-c", f"{JOB} --ms 4 --steps 300 --x {{x}}; exit 3", check=3)


def takes_no_other_job_for_its_own(folder):
    """A script with an mpirun that prepares, the job, and one that comes after it, with steps of the same numbers and the schedule."""
    run = tune(folder, "-o", "three", "--in-run", *KNOB, "--", "sh", "-c",
               f"{JOB} --ms 4 --steps 30 --mode deaf; {JOB} --ms 2 --steps 150 --x {{x}}; {JOB} --ms 4 --steps 150 --flat 1 --x {{x}}; exit 3", check=3)
    assert "the job ended after 150 steps, before the tuning was over" in " ".join(run.stdout.split()), run.stdout
    assert manifest(folder / "three")["gain"] is None


def ends_a_job_that_dead_locks(folder):
    """After a minute in which no rank finished anything, by a fast clock; it ignores SIGTERM, and a script waits for it."""
    word = f"stuck{os.getpid()}"
    run = tune(folder, "-o", "dead", "--in-run", "--trials", "100", *KNOB, "--", "sh", "-c", f"{JOB} --ms 4 --steps 100000 --mode stuck --word {word} --x {{x}}; exit 5", check=143,
               DDL_CLOCK="monotonic", **job.fast_clock(30))
    assert re.search("no step has ended for 6[0-9] s, before the tuning was over", " ".join(run.stdout.split())), run.stdout
    assert "the job hangs, and is ended" in run.stderr and manifest(folder / "dead")["gain"] is None, run.stderr
    assert job.wait_until(lambda: not any(word in command for command in job.processes_of(1).values()), 5), [command for command in job.processes_of(1).values() if word in command]


def ends_with_its_job_when_told(folder):
    """SIGTERM, by launches and in a run: a job that would take a minute ends too."""
    for name, options in (("told", []), ("told_in_run", ["--in-run"])):
        pid = folder / f"{name}.pid"
        process = subprocess.Popen([DDL, "tune", "-o", name, *options, *KNOB, "--", "sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60", "{x}"], cwd=folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=job.environment(**job.ALONE))
        assert job.wait_until(pid.exists, 30), f"{name}: the job never began"
        process.terminate()
        _, said = process.communicate(timeout=30)
        assert process.returncode == 1 and "interrupted before anything was measured" in said, (name, process.returncode, said)
        assert not pathlib.Path(f"/proc/{pid.read_text().strip()}").exists(), f"{name}: the job is still there"


def tells_of_jobs_that_take_no_proper_part(folder):
    for mode, said in (("unmarked", "but marks no steps"), ("silent", "the job reads DDL_TUNE_FILE, and asks for no value"),
                       ("wrong", "with the values of another step: ddl_tune(k) has to be called before step k")):
        run = tune(folder, "-o", mode, "--in-run", *KNOB, "--", JOB, "--mode", mode, "--steps", "100000", check=2 if mode == "silent" else 1)
        assert said in run.stderr, f"{mode}: {run.stderr}"
    half = tune(folder, "-o", "half", "--in-run", *KNOB, "--", *TWO, "--mode", "half", "--steps", "100000", check=1)
    assert "rank 1 never read DDL_TUNE_FILE" in half.stderr and "rank 0 does" in half.stderr, half.stderr
    few = tune(folder, "-o", "few", "--in-run", *KNOB, "--", JOB, "--steps", "2", check=1)
    assert "the job ended after 2 steps, too few" in few.stderr, few.stderr
    fails = tune(folder, "-o", "fails", "--in-run", *KNOB, "--", JOB, "--log", "/nowhere/log", check=1)
    assert "the job fails with its defaults" in fails.stderr, fails.stderr


def goes_on_with_what_won(folder):
    """Without --end-job, to the job's own end."""
    log = folder / "on"
    tune(folder, "-o", "on_dir", "--in-run", "--budget", "30s", *KNOB, "--", JOB, "--ms", "4", "--steps", "5000", "--x", "{x}", "--log", log, check=0)
    values = values_of(log, 0)
    assert len(values) == 5000 and values[4999][0] == "8", len(values)


def goes_back_without_the_tuner(folder):
    """SIGKILL to ddl tune alone: the job goes on, and a minute later with its defaults."""
    log = folder / "left"
    with (folder / "left.err").open("w") as err:
        process = subprocess.Popen([DDL, "tune", "-o", "left_dir", "--in-run", "--budget", "300s", "--tunable", "x=1,2,3,4,5,6,7,8,9,10,11,12", "--", JOB, "--ms", "10", "--steps", "6000",
                                    "--x", "{x}", "--log", log], cwd=folder, stdout=err, stderr=err, env=job.environment(**job.ALONE))
    trials = lambda: (folder / "left.err").read_text().count("(explore)")
    assert job.wait_until(lambda: trials() >= 4, 60), (folder / "left.err").read_text()
    process.kill()
    process.wait()
    assert job.wait_until(lambda: len(values_of(log, 0)) == 6000, 400)
    assert values_of(log, 0)[5999][0] == "1"
    print("without the tuner the job went back to its defaults")


def drift_is_no_gain(folder, flat, drift, seed):
    """It gets slower, or faster, by half and more while it runs; noise of 8 %."""
    name = f"drift_{flat}_{drift}_{seed}"
    run = tune(folder, "-o", name, "--in-run", "--end-job", "--budget", "60s", "--seed", seed, "--tunable", "x=1,2,4,8,16,32", "--", JOB, "--ms", "6", "--steps", "9000", "--flat", flat, "--drift",
               drift, "--noise", "8", "--seed", seed, "--x", "{x}", check=0)
    said = manifest(folder / name)
    chosen = choices(folder / name)["x"]
    print(f"flat {flat}, drift {drift:+}, seed {seed}: x={chosen}, {said['gain'] and round(said['gain']['ratio'], 3)}, {said['kept']}, {run.took_s:.0f} s")
    if flat:
        return chosen == "1"
    return chosen == "8" and 2 < said["gain"]["ratio"] < 4.2


def soak_drift(folder):
    for drift in (1.5, -0.6):
        assert drift_is_no_gain(folder, 0, drift, 1)


def soak_nothing_to_gain(folder, seeds=40):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # jobs that sleep
        kept = list(pool.map(lambda seed: drift_is_no_gain(folder, 1, (0, 1.5, -0.6)[seed % 3], seed), range(1, seeds + 1)))
    print(f"nothing to gain: {sum(kept)} of {seeds} kept the default")
    assert all(kept)


def soak_nothing_to_gain_in_half_a_minute(folder, seeds=20):
    """A budget that is too short for a proof proves nothing."""
    def claims(seed):
        name = f"hasty_{seed}"
        tune(folder, "-o", name, "--in-run", "--end-job", "--budget", "30s", "--seed", seed, "--tunable", "x=1,2,4,8,16,32", "--", JOB, "--ms", "6", "--steps", "9000", "--flat", "1",
             "--noise", "8", "--seed", seed, "--x", "{x}", check=0)
        said = manifest(folder / name)
        return said["gain"] is not None or choices(folder / name)["x"] != "1"

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        claimed = sum(pool.map(claims, range(1, seeds + 1)))
    print(f"nothing to gain, 30 s: {claimed} of {seeds} claimed a gain")
    assert claimed == 0


BACKGROUND = ["--runtime", "background", "--width", 128, "--batch", 16, "--bucket-mb", 0.0625, "--print-every", 0, "--cycle-ms", "{cycle_ms}", "--fusion-mb", "{fusion_mb}"]
SPACE = ["--tunable", "cycle_ms=250,100,50,25,10,5,2.5,1", "--tunable", "fusion_mb=0.0625,0.25,1,4,16"]


def soak_background_runtime(folder, budgets=("120s", "30s")):
    """Horovod's way from a poor start. What is confirmed in a run is verified by launches."""
    for budget in budgets:
        name = f"background_{budget}"
        run = tune(folder, "-o", name, "--in-run", "--end-job", "--budget", budget, *SPACE, "--", "mpirun", "-np", "2", TRAIN, *BACKGROUND, "--steps", 1000000, check=0)
        said = manifest(folder / name)
        with job.store(folder / name / "trials/in-run.ddl") as db:  # recorded values of all ranks, step by step
            different = db.execute("select count(*) from (select v.step, v.name from value v where v.name in ('cycle_ms', 'fusion_mb') group by 1, 2 having count(distinct v.value) > 1)").fetchone()[0]
            compared = db.execute("select count(*) from (select v.step from value v where v.name = 'cycle_ms' group by 1 having count(*) = 2)").fetchone()[0]
        print(f"budget {budget}: {choices(folder / name)}, {said['gain']}, {said['kept']}, {run.took_s:.0f} s; {compared} steps of 2 ranks compared, {different} differ")
        assert different == 0 and compared > 50
        assert (said["gain"] is None) == (said["kept"] is not None)
        if said["gain"] is None:
            continue
        assert said["gain"]["lo"] > 1
        verified = tune(folder, "--verify", name, "--rounds", "3", "--", "mpirun", "-np", "2", TRAIN, *BACKGROUND, "--steps", 40, check=0)
        print(verified.stdout.splitlines()[0])


TRUTH_ROUNDS = 8
ALL_GRADIENTS_MB = 0.52  # from there on a fusion buffer holds all 134,794 of them, and its size does nothing more


def alike(cycle, fusion):
    """The point that stands for all those that do the same."""
    return cycle, fusion if float(fusion) < ALL_GRADIENTS_MB else "1"


def step_ms(cycle, fusion):
    """Of a launch of its own, by the trainer's word; long enough for both ways in which cycles of two ranks fall into step."""
    options = [str(word).format(cycle_ms=cycle, fusion_mb=fusion) for word in BACKGROUND]
    ran = subprocess.run(["mpirun", "-np", "2", TRAIN, *options, "--steps", "2000"], capture_output=True, text=True, env=job.environment(**job.ALONE), timeout=120, check=True)
    return float(re.search(r"([0-9.]+) ms/step", ran.stderr)[1])


def measured_truth():
    """Milliseconds a step by (cycle, fusion), medians of interleaved rounds; a longer cycle only makes steps longer."""
    points = [(cycle, fusion) for cycle in ("1", "2.5", "5") for fusion in ("0.0625", "0.25", "1")]
    rounds = [[step_ms(*point) for point in points] for _ in range(TRUTH_ROUNDS)]
    return {point: statistics.median(column) for point, column in zip(points, zip(*rounds))}


def tuned_and_verified(folder, name, *options, verify=True):
    """The choice of one tuning from the poor start, what it says of the gain, and what launches say of that."""
    run = tune(folder, "-o", name, *options, *SPACE, "--", "mpirun", "-np", "2", TRAIN, *BACKGROUND, "--steps", 1000000 if "--in-run" in options else 40, check=0)
    gain = manifest(folder / name)["gain"]
    chosen = tuple(choices(folder / name)[knob] for knob in ("cycle_ms", "fusion_mb"))
    assert (gain is None) == (chosen == ("250", "0.0625")) and (gain is None or gain["lo"] > 1), gain
    if gain is None or not verify:
        print(f"{name}: {chosen}, {gain and round(gain['ratio'], 2)}, {manifest(folder / name)['kept']}, {run.took_s:.0f} s", flush=True)
        return chosen, gain and (gain["lo"], gain["hi"]), None
    verified = tune(folder, "--verify", name, "--rounds", "3", "--", "mpirun", "-np", "2", TRAIN, *BACKGROUND, "--steps", 40, check=0).stdout
    lo, hi = (1 + float(bound) / 100 for bound in re.search(r"gain .*? \[([+-][0-9.]+)%, ([+-][0-9.]+)%\]", verified).groups())
    print(f"{name}: {chosen}, tuned {gain['ratio']:.2f} [{gain['lo']:.2f}, {gain['hi']:.2f}], verified [{lo:.2f}, {hi:.2f}], {run.took_s:.0f} s", flush=True)
    return chosen, (gain["lo"], gain["hi"]), (lo, hi)


def soak_from_a_poor_start(folder, in_run=10, by_launches=1, hasty=20):
    """250 ms and 64 KiB, in two minutes and five: how far what was chosen is from the best, and whether launches confirm what is said of it."""
    limits = {"in_run": ["--in-run", "--end-job", "--budget", "105s"], "launches": ["--budget", "285s"], "hasty": ["--in-run", "--end-job", "--budget", "30s"]}
    done = {f"{way}_{seed}": tuned_and_verified(folder, f"{way}_{seed}", *limits[way], "--seed", seed, verify=way != "hasty")
            for way, count in (("in_run", in_run), ("launches", by_launches), ("hasty", hasty)) for seed in range(1, count + 1)}
    truth = measured_truth()
    best = min(truth.values())
    for way in limits:
        of_way = {name: result for name, result in done.items() if name.startswith(way)}
        regrets = sorted(100 * (truth.get(alike(*chosen), float("inf")) / best - 1) for chosen, said, _ in of_way.values() if said)
        seen = [(said, launches) for _, said, launches in of_way.values() if launches]
        agree = sum(launches[0] > 1 and said[0] <= launches[1] and launches[0] <= said[1] for said, launches in seen)
        print(f"{way}: {len(regrets)} of {len(of_way)} claim a gain; {agree} of {len(seen)} verified, with intervals that overlap; regrets {', '.join(f'{r:.1f}' for r in regrets)} %")
        assert agree == len(seen)
    print("truth: " + ", ".join(f"{'/'.join(point)} {ms:.2f} ms" for point, ms in sorted(truth.items(), key=lambda item: item[1])))


def main():
    soak = sys.argv[1:2] == ["soak"]
    tests = (is_verified_in_a_run, tells_that_it_was_not_heard, tells_what_cannot_be_tuned_in_a_run, ends_with_its_job_when_told, takes_no_other_job_for_its_own, ends_a_job_that_dead_locks, claims_nothing_of_a_job_that_ends)
    if soak:
        tests = (tells_of_jobs_that_take_no_proper_part, goes_on_with_what_won, soak_drift, soak_nothing_to_gain, soak_nothing_to_gain_in_half_a_minute, soak_background_runtime, goes_back_without_the_tuner)
        if len(sys.argv) > 2:
            tests = [globals()[name] for name in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with concurrent.futures.ThreadPoolExecutor(1 if soak else 2) as pool:  # the job sleeps most of its time
            for test, done in [(test, pool.submit(test, folder)) for test in tests]:
                done.result()
                print(test.__name__.replace("_", " "), flush=True)


if __name__ == "__main__":
    main()
