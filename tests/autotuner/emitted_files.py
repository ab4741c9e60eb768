#!/usr/bin/env python3
"""The emitted files by their readers, or by readers that follow the readers' grammar: sh, Python, YAML, JSON Schema, sbatch's and NCCL's formats."""
import hashlib
import importlib.util
import json
import os
import subprocess
from pathlib import Path

import job
from emitted import gains, manifests_gain
from json_schema import violations

SAMPLE = job.BUILD / "tests" / "programs" / "emit_sample"
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tuned-manifest.schema.json"
MESSAGE = "a 'b' \"c\" $HOME `id` \\ \x1b[31m\nsecond line;#"
TUNED = {"MESSAGE": MESSAGE, "NCCL_ALGO": "allreduce:tree,ring;broadcast:ring", "NCCL_NTHREADS": "256", "OMPI_MCA_btl_vader_eager_limit": "8192",
         "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "recursive_doubling", "HOROVOD_CYCLE_TIME": "3.5", "EMPTY": "",
         "OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_han_priority": "0", "NCCL_TUNER_PLUGIN": "/opt/ddl/lib/libnccl-tuner-ddl.so"}


def emitted(folder, which):
    directory = folder / which
    if not directory.exists():
        job.run([SAMPLE, which, directory], check_rc=0)
    return directory


def variables(folder, which):
    directory = emitted(folder, which)
    extra = {"OMPI_MCA_coll_tuned_dynamic_rules_filename": f"{directory}/allreduce.rules", "NCCL_TUNER_CONFIG_FILE": f"{directory}/nccl_tuner.csv"}
    return {**TUNED, **extra} if which == "tuned" else {}


def sourced(path):
    """The environment that a shell has after reading the file, without what it had before. /bin/sh is dash here."""
    before = {"PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-euc", f"set -a; . '{path}'; set +a; exec env -0"], env=before, capture_output=True, cwd="/", timeout=20)
    job.check(done.returncode == 0 and not done.stderr, f"sh {path}: {done}")
    pairs = dict(pair.split("=", 1) for pair in done.stdout.decode().split("\0") if pair)
    return {name: value for name, value in pairs.items() if name not in ("PATH", "PWD", "OLDPWD", "_")}


def env0(data):
    """As sbatch reads a file of --export-file: NAME=value, each ended by a NUL."""
    job.check(data == b"" or data.endswith(b"\0"), "tuned.env0 does not end with a NUL")
    return dict(pair.split("=", 1) for pair in data.decode().split("\0")[:-1])


def test_shell(folder):
    for which in ("tuned", "default", "other"):
        want, directory = variables(folder, which), emitted(folder, which)
        job.check(sourced(directory / "tuned.env") == want, f"{which}: tuned.env gave {sourced(directory / 'tuned.env')}")
        job.check(sourced(directory / "slurm.sh") == want, f"{which}: slurm.sh gave {sourced(directory / 'slurm.sh')}")
        job.check(env0((directory / "tuned.env0").read_bytes()) == want, f"{which}: tuned.env0")
        some = {name: value for name, value in want.items() if name.startswith("MPIR_CVAR_")}
        job.check(sourced(directory / "mpich.env") == some, f"{which}: mpich.env")
    horovod = sourced(emitted(folder, "tuned") / "horovod.env")
    job.check(horovod == {"HOROVOD_CYCLE_TIME": "3.5", "HOROVOD_FUSION_THRESHOLD": str(32 << 20)}, f"horovod.env gave {horovod}")
    job.check(not Path("/pwned").exists() and not (folder / "pwned").exists(), "a command within a value was run")


def test_unset(folder):
    """The line of tuned.env that says how to undo does."""
    path = emitted(folder, "tuned") / "tuned.env"
    line = next(line for line in path.read_text().splitlines() if line.startswith("# unset "))
    done = subprocess.run(["sh", "-euc", f"set -a; . '{path}'; {line[2:]}; exec env -0"], env={}, capture_output=True, text=True, timeout=20)
    left = {pair.split("=")[0] for pair in done.stdout.split("\0") if pair} - {"PWD", "OLDPWD", "_"}
    job.check(done.returncode == 0 and not left, f"left after {line}: {left} {done.stderr}")


def test_forwarded(folder):
    """mpirun's words for what it does not take to other nodes by itself."""
    lines = (emitted(folder, "tuned") / "tuned.env").read_text().splitlines()
    words = next(line for line in lines if line.startswith("# mpirun ")).split()[2:]
    want = [name for name in variables(folder, "tuned") if not name.startswith("OMPI_MCA_")]
    job.check(words[::2] == ["-x"] * len(want) and sorted(words[1::2]) == sorted(want), f"mpirun {words}")


def test_json(folder):
    schema = json.loads(SCHEMA.read_text())
    for which in ("tuned", "default", "other"):
        directory = emitted(folder, which)
        manifest = json.loads((directory / "manifest.json").read_text())
        problems = list(violations(schema, manifest, schema))
        job.check(not problems, f"{which}: manifest.json against its schema: {problems[:5]}")
        job.check(list(violations(schema, dict(manifest, schema=2), schema)), "the check of the schema accepts anything")
        job.check({f["name"] for f in manifest["files"]} | {"manifest.json"} == {p.name for p in directory.iterdir()}, f"{which}: files of the manifest")
        for file in manifest["files"]:
            data = (directory / file["name"]).read_bytes()
            job.check(hashlib.sha256(data).hexdigest() == file["sha256"] and len(data) == file["bytes"], f"{which}: hash of {file['name']}")
            job.check(file["changes"] == (which == "tuned"), f"{which}: {file['name']} changes: {file['changes']}")
        job.check(manifest["environment"] == variables(folder, which), f"{which}: environment of the manifest")
        deepspeed = json.loads((directory / "ds_config.json").read_text())
        comment = deepspeed.pop("_comment")
        job.check("ds_config.json" in comment[0], f"comment of ds_config.json: {comment}")
        want = {"zero_optimization": {"reduce_bucket_size": 8 << 20}, "train_micro_batch_size_per_gpu": 64} if which == "tuned" else {}
        job.check(deepspeed == want, f"{which}: ds_config.json: {deepspeed}")


def test_gains(folder):
    for which in ("tuned", "default", "other"):
        said = gains(emitted(folder, which))
        want = manifests_gain(emitted(folder, which))
        job.check(said and all(gain == want for gain in said.values()), f"{which}: gains that the files tell, {said}; the manifest's: {want}")


def test_yaml(folder):
    try:
        import yaml
    except ImportError:
        print("no Python YAML here: horovod.yaml was not parsed")
        return
    for which in ("tuned", "default", "other"):
        value = yaml.safe_load((emitted(folder, which) / "horovod.yaml").read_text())
        want = {"params": {"cycle_time_ms": 3.5, "fusion_threshold_mb": 32}} if which == "tuned" else {"params": {}}
        job.check(value == want, f"{which}: horovod.yaml: {value}")


class FakeDistributedDataParallel:
    def __init__(self, module, **arguments):
        self.module, self.arguments = module, arguments


def test_ddp(folder):
    """The module imports without torch; with (a double of) torch it passes MiB on."""
    import sys
    import types

    for which, want in (("tuned", {"bucket_cap_mb": 32}), ("default", {})):
        spec = importlib.util.spec_from_file_location("ddp", emitted(folder, which) / "ddp.py")
        ddp = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ddp)
        job.check(ddp.ddp_arguments() == want, f"{which}: {ddp.ddp_arguments()}")
        parallel = types.ModuleType("torch.nn.parallel")
        parallel.DistributedDataParallel = FakeDistributedDataParallel
        sys.modules.update({"torch": types.ModuleType("torch"), "torch.nn": types.ModuleType("torch.nn"), "torch.nn.parallel": parallel})
        wrapped = ddp.wrap("model", gradient_as_bucket_view=True)
        job.check(wrapped.module == "model" and wrapped.arguments == {**want, "gradient_as_bucket_view": True}, f"{which}: {wrapped.arguments}")
        job.check(ddp.wrap("model", bucket_cap_mb=1).arguments == {"bucket_cap_mb": 1}, f"{which}: the caller's bucket_cap_mb does not win")
        for name in ("torch", "torch.nn", "torch.nn.parallel"):
            del sys.modules[name]


def nccl_rows(path):
    """NCCL's documented grammar, strictly: plugins/tuner/example/README.md of NVIDIA/nccl. The example skips comments in column 0 and cuts lines at 255 bytes."""
    collectives = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
    algorithms = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}
    protocols = {"ll", "ll128", "simple"}
    rows = []
    for line in path.read_text().splitlines():
        job.check(len(line.encode()) < 255, f"longer than the example reads at once: {line}")
        if line.startswith("#") or not line:
            continue
        cells = line.split(",")
        job.check(8 <= len(cells) <= 10 and " " not in line, f"cells of {line}")
        job.check(cells[0] in collectives and cells[3] in algorithms and cells[4] in protocols, f"words of {line}")
        low, high, *counts = (int(cells[i]) for i in (1, 2, 5, 6, 7))
        job.check(0 <= low <= high < 1 << 64 and all(n == -1 or n > 0 for n in counts), f"numbers of {line}")
        rows.append((cells[0], low, high, cells[3], cells[4], *counts))
    return rows


def test_nccl(folder):
    rows = nccl_rows(emitted(folder, "tuned") / "nccl_tuner.csv")
    job.check(rows == [("allreduce", 0, 65535, "tree", "ll", 2, 2, 4), ("allreduce", 65536, (1 << 63) - 1, "ring", "simple", -1, 2, 4)], f"nccl_tuner.csv: {rows}")
    job.check(nccl_rows(emitted(folder, "default") / "nccl_tuner.csv") == [], "nccl_tuner.csv of the defaults has rules")
    # nccl.conf: NAME=value, comments in column 0 only, nothing trimmed, nothing quoted.
    lines = [line for line in (emitted(folder, "tuned") / "nccl.conf").read_text().splitlines() if not line.startswith("#")]
    conf = dict(line.split("=", 1) for line in lines)
    job.check(conf == {name: value for name, value in variables(folder, "tuned").items() if name.startswith("NCCL_")}, f"nccl.conf: {conf}")


def test_mca_params(folder):
    """By Open MPI itself, in place of the user's and the machine's files."""
    for which, want in (("tuned", True), ("default", False)):
        directory = emitted(folder, which)
        done = job.run(["ompi_info", "--param", "coll", "tuned", "--level", "9", "--parsable"], check_rc=0, OMPI_MCA_mca_base_param_files=directory / "mca-params.conf")
        values = dict(line.rsplit(":value:", 1) for line in done.stdout.splitlines() if ":value:" in line and ":enumerator:" not in line)
        job.check((values["mca:coll:tuned:param:coll_tuned_use_dynamic_rules"] == "true") == want, f"{which}: {values}")
        name = values["mca:coll:tuned:param:coll_tuned_dynamic_rules_filename"]
        job.check((name == str(directory / "allreduce.rules")) == want, f"{which}: ompi_info has the rules at {name!r}")


if __name__ == "__main__":
    job.main(test_shell, test_unset, test_forwarded, test_json, test_gains, test_yaml, test_ddp, test_nccl, test_mca_params)
