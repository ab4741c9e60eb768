#!/usr/bin/env python3
"""libnccl-tuner-ddl.so: every shape of rule by every version of the plugin's interface, against the documented grammar written down here a second time; what it
says of wrong files; and by the real libnccl's own loaders and adapters, as far as that goes without a GPU."""
import itertools
import random
import re
import subprocess
import sys
from pathlib import Path

import job

PLUGIN = job.BUILD / "lib" / "libnccl-tuner-ddl.so"
DRIVER = job.BUILD / "tests" / "programs" / "nccl_driver"
SAMPLE = job.BUILD / "tests" / "programs" / "emit_sample"
LIBNCCL = sys.argv[1] if len(sys.argv) > 1 else ""
FUNCTIONS = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"]
ALGORITHMS = ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"]
PROTOCOLS = ["ll", "ll128", "simple"]


def ask(folder, text, calls, version=5, ranks=4, nodes=2, real=(), **env):
    """Answers of the plugin with these rules: (pair or None, channels) per call; and what it wrote to stderr."""
    path = folder / "rules.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    lines = "".join(" ".join(map(str, call)) + "\n" for call in calls)
    done = subprocess.run([DRIVER, PLUGIN, str(version), str(ranks), str(nodes), *real], input=lines, capture_output=True, text=True, timeout=60,
                          env=job.environment(NCCL_TUNER_CONFIG_FILE=path, **env), errors="replace")
    job.check(done.returncode == 0, f"driver v{version}: {done.returncode} {done.stderr[-500:]}")
    name, *answers = done.stdout.splitlines()
    job.check(name == "ddl" and len(answers) == len(calls), f"v{version}: {name}, {len(answers)} answers to {len(calls)} calls")
    result = []
    for answer in answers:
        pair, chosen, channels = map(int, answer.split())
        result.append((pair if chosen else None, channels))
    return result, done.stderr


def expected(text, call, version, ranks, nodes):
    """What the grammar says: the first rule that matches."""
    function, size, pipe_ops, registered, impossible = call
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        cells = line.split(",")
        low, high, channels, want_nodes, want_ranks, want_pipe, want_registered = (int(c) for c in (cells[1], cells[2], *cells[5:], *["-1"] * (10 - len(cells))))
        registered_now = registered if version >= 4 else None
        if (FUNCTIONS[function] != cells[0] or size < low or (high != -1 and size > high) or want_nodes not in (-1, nodes) or want_ranks not in (-1, ranks)
                or want_pipe not in (-1, pipe_ops) or want_registered not in (-1, registered_now)):
            continue
        algorithm, protocol = ALGORITHMS.index(cells[3]), PROTOCOLS.index(cells[4])
        if version == 2:  # no table: the network's and the switch's algorithms by their flags, and PAT did not exist
            possible = impossible < 0 if 2 <= algorithm <= 5 else algorithm != 6
        else:
            possible = algorithm * 3 + protocol != impossible
        return (algorithm * 3 + protocol, max(channels, 0)) if possible else (None, 0)
    return None, 0


def random_rules(source):
    lines = ["# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks", ""]
    for _ in range(source.randint(1, 12)):
        low = source.choice([0, 1, 1000, 65536])
        cells = [source.choice(FUNCTIONS), low, source.choice([-1, low, low + 5000, 4294967295, (1 << 63) - 1]), source.choice(ALGORITHMS), source.choice(PROTOCOLS),
                 source.choice([-1, 1, 2, 32, 64]), source.choice([-1, 2, 3]), source.choice([-1, 4, 8])]
        cells += [[], [source.choice([-1, 1, 4])], [source.choice([-1, 1]), source.choice([-1, 0, 1])]][source.randrange(3)]
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + source.choice(["\n", ""])


def all_calls(source, count=60):
    sizes = [0, 1, 999, 1000, 1001, 6000, 6001, 65535, 65536, 70536, 70537, 4294967295, 4294967296, 1 << 40]
    return [(source.randrange(5), source.choice(sizes), source.choice([1, 4]), source.randrange(2), source.choice([-1, -1, source.randrange(21)])) for _ in range(count)]


def test_every_shape_of_rule(folder):
    matched = set()
    for seed, version in itertools.product(range(12), (2, 3, 4, 5)):
        source = random.Random(1000 + seed)
        text, calls = random_rules(source), all_calls(source)
        answers, errors = ask(folder, text, calls, version)
        for call, answer in zip(calls, answers):
            want = expected(text, call, version, 4, 2)
            job.check(answer == want, f"seed {seed} v{version} {call}: {answer}, expected {want} of\n{text}")
            matched.add((version, answer[0] is not None, answer[1] > 0))
        job.check("not used" not in errors, f"seed {seed}: {errors}")
    job.check(len(matched) == 12, f"cases seen: {matched}")  # no rule or not possible; a rule without and with channels; per version


def test_what_was_emitted(folder):
    directory = folder / "tuned"
    job.run([SAMPLE, "tuned", directory], check_rc=0)
    text = (directory / "nccl_tuner.csv").read_text()
    calls = [(4, 100, 1, 0, -1), (4, 65535, 1, 0, -1), (4, 65536, 1, 0, -1), (4, 1 << 50, 1, 0, -1), (0, 100, 1, 0, -1)]
    answers, errors = ask(folder, text, calls)
    job.check(answers == [(0, 2), (0, 2), (5, 0), (5, 0), (None, 0)], f"{answers}")
    job.check("LOG 3 64 ddl tuner: 2 rules for 4 ranks on 2 nodes" in errors and "ddl tuner: rule 1 for 100 bytes: applied" in errors, errors)
    for ranks, nodes in ((3, 2), (5, 2), (4, 1), (8, 4)):
        answers, _ = ask(folder, text, calls, ranks=ranks, nodes=nodes)
        job.check(answers == [(None, 0)] * 5, f"{ranks} ranks on {nodes} nodes: {answers}")
    directory = folder / "default"
    job.run([SAMPLE, "default", directory], check_rc=0)
    job.check(ask(folder, (directory / "nccl_tuner.csv").read_text(), calls)[0] == [(None, 0)] * 5, "the default is kept, and rules apply")


def test_wrong_files_are_not_used(folder):
    good = "allreduce,0,-1,tree,ll,-1,-1,-1\n"
    words = {"collective": FUNCTIONS, "algorithm": ALGORITHMS, "protocol": PROTOCOLS}

    def unknown(what, cell):
        return f"unknown {what} '{cell}'; known: {', '.join(words[what])}"

    wrong = {"allreduce,0,-1,rnig,ll,-1,-1,-1": unknown("algorithm", "rnig"), "AllReduce,0,-1,ring,ll,-1,-1,-1": unknown("collective", "AllReduce"),
             "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks": unknown("collective", "collective_type"),
             "allreduce,0,-1,ring,ll256,-1,-1,-1": unknown("protocol", "ll256"), "allreduce,x,-1,ring,ll,-1,-1,-1": "invalid smallest size 'x'; 0 or more bytes",
             "allreduce,0,5k,ring,ll,-1,-1,-1": "invalid largest size '5k'; not below the smallest size, or -1: no limit",
             "allreduce,9,8,ring,ll,-1,-1,-1": "invalid largest size '8'; not below", "allreduce,-1,8,ring,ll,-1,-1,-1": "invalid smallest size '-1'",
             "allreduce,0,99999999999999999999,ring,ll,-1,-1,-1": "invalid largest size '99999999999999999999'",
             "allreduce,0,-1,ring,ll,0,-1,-1": "invalid channels '0'; 1 to 64, or -1: NCCL's choice", "allreduce,0,-1,ring,ll,65,-1,-1": "invalid channels '65'",
             "allreduce,0,-1,ring,ll,-1,-2,-1": "invalid nodes '-2'; 1 or more, or -1: any", "allreduce,0,-1,ring,ll,-1,-1,0": "invalid ranks '0'",
             "allreduce,0,-1,ring,ll,-1,-1": "not 8 to 10 cells", "allreduce,0,-1,ring,ll,-1,-1,-1,-1,-1,-1": "not 8 to 10 cells",
             "allreduce,0,-1,ring,ll,-1,-1,-1,0": "invalid pipe_ops '0'", "allreduce,0,-1,ring,ll,-1,-1,-1,-1,2": "invalid registered '2'; 0, 1, or -1: any",
             "allreduce,0,-1,,ll,-1,-1,-1": unknown("algorithm", ""), "x" * 2000: "longer than", "allreduce,0,-1,\x1b[31m,ll,-1,-1,-1": unknown("algorithm", "?[31m")}
    for line, what in wrong.items():
        answers, errors = ask(folder, good + "# comment\n" + line + "\n" + good, [(4, 100, 1, 0, -1)])
        said = [text for text in errors.splitlines() if not text.startswith("LOG")]
        job.check(answers == [(None, 0)] and len(said) == 1 and f"rules.csv:3: {what}" in said[0] and "rules are not used" in said[0], f"{line[:60]!r}: {answers} {said}")
    job.check(ask(folder, b"allreduce,0,-1,tree\0,ll,-1,-1,-1\n", [(4, 1, 1, 0, -1)])[0] == [(None, 0)], "a NUL in the file")
    quiet = [text for text in ask(folder, "x\n", [], OMPI_COMM_WORLD_RANK=3)[1].splitlines() if not text.startswith("LOG")]
    job.check(quiet == [], f"rank 3 speaks: {quiet}")
    (folder / "rules.csv").unlink()
    done = subprocess.run([DRIVER, PLUGIN, "5", "4", "2"], input="4 1 1 0 -1\n", capture_output=True, text=True, env=job.environment(NCCL_TUNER_CONFIG_FILE=folder / "missing.csv"))
    job.check("cannot read" in done.stderr and "missing.csv: No such file" in done.stderr and done.stdout == "ddl\n0 0 0\n", f"{done}")
    done = subprocess.run([DRIVER, PLUGIN, "5", "4", "2"], input="4 1 1 0 -1\n", capture_output=True, text=True, env=job.environment())
    job.check(done.stdout == "ddl\n0 0 0\n" and "not used" not in done.stderr, f"without NCCL_TUNER_CONFIG_FILE: {done}")


def test_the_library_is_inert(folder):
    exported = {line.split()[-1] for line in job.run(["nm", "-D", "--defined-only", PLUGIN], check_rc=0).stdout.splitlines()}
    job.check(exported == {f"ncclTunerPlugin_v{v}" for v in (2, 3, 4, 5)}, f"exported: {exported}")
    job.check(re.findall(r"\(NEEDED\).*\[(.*)\]", job.run(["readelf", "-dW", PLUGIN], check_rc=0).stdout) == ["libc.so.6"], "NEEDED")
    undefined = job.run(["nm", "-D", "--undefined-only", PLUGIN], check_rc=0).stdout
    newer = [v for v in re.findall(r"@GLIBC_([\d.]+)", undefined) if tuple(map(int, v.split("."))) > (2, 28)]
    job.check(not newer, f"needs glibc {newer}")


def test_by_the_real_library(folder):
    """Its loaders and adapters are local functions, callable without a GPU where the library has its symbol table."""
    if not LIBNCCL or not Path(LIBNCCL).exists():
        print("no libnccl here: the plugin was driven by our own program only")
        return
    table = job.run(["nm", LIBNCCL]).stdout
    loaders = {int(v): offset for offset, v in re.findall(r"^([0-9a-f]+) t _Z15getNcclTuner_v(\d)Pv$", table, re.M)}
    if not loaders:
        print(f"{LIBNCCL} has no symbol table: the plugin was driven by our own program only")
        return
    for version in sorted(v for v in loaders if v <= 5):
        source = random.Random(2000 + version)
        for _ in range(5):
            text, calls = random_rules(source), all_calls(source)
            # The adapter of version 2 turns what the plugin chose into costs: what the table says is impossible stays so.
            calls = [(*call[:4], -1) for call in calls] if version == 2 else calls
            answers, errors = ask(folder, text, calls, version, real=(LIBNCCL, loaders[version]))
            for call, answer in zip(calls, answers):
                want = expected(text, call, version, 4, 2)
                if version == 2 and want[0] is not None and 2 <= want[0] // 3 <= 5:
                    continue  # whether these are possible the adapter derives from the table
                job.check(answer == want, f"libnccl's loader of v{version}, {call}: {answer}, expected {want} of\n{text}")
    print(f"loaded, started, asked and ended by the loaders and adapters {sorted(v for v in loaders if v <= 5)} of {LIBNCCL}; without a GPU no communicator comes to be, so NCCL itself asked nothing")


if __name__ == "__main__":
    job.main(test_the_library_is_inert, test_every_shape_of_rule, test_what_was_emitted, test_wrong_files_are_not_used, test_by_the_real_library)
