#!/usr/bin/env python3
"""Steps and layers of jobs that mark none are found: LAMMPS and a trainer of mpi4py, both from Debian, neither changed.

    inferred_steps.py lammps|mpi4py --ddl build/release/bin/ddl --work DIR

lammps: thermodynamic output every 10 of 200 time steps is what repeats: 20 steps, of as many collectives as an output has.
mpi4py: 40 steps of four reductions, and every tenth time another one: steps and bytes of each layer as the program knows them.
Exit code 77: the job is not installed.
"""
import argparse
import csv
import io
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SKIP = 77
STEPS = 40
LAMMPS = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check yes
fix 1 all nve
thermo 10
run 200
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=("lammps", "mpi4py"))
    parser.add_argument("--ddl", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    options = parser.parse_args()
    work = options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    if options.job == "lammps":
        (work / "in.lj").write_text(LAMMPS)
        program, present = ["lmp", "-in", "in.lj"], shutil.which("lmp")
    else:
        program = ["/usr/bin/python3", str(HERE / "mpi4py/trainer.py"), str(STEPS)]
        present = subprocess.run(["/usr/bin/python3", "-c", "import mpi4py, numpy"], stderr=subprocess.DEVNULL).returncode == 0
    if not present:
        print(f"skipped: {options.job} is not installed (tools/setup test)")
        return SKIP
    ddl = str(options.ddl.resolve())
    out = subprocess.run([ddl, "record", "-o", "run.ddl", "--", "mpirun", "-np", "2", *program], cwd=work, timeout=200, check=True,
                         stdout=subprocess.PIPE, text=True).stdout

    def query(sql):
        text = subprocess.run([ddl, "query", "run.ddl", sql, "--csv"], cwd=work, check=True, stdout=subprocess.PIPE, text=True).stdout
        return list(csv.DictReader(io.StringIO(text)))

    def expect(what, seen, wanted):
        if seen not in wanted:
            sys.exit(f"{what}: {seen}, not one of {wanted}")
        print(f"{what}: {seen}")

    ranks = query("SELECT p.rank, i.period, i.agreement, (SELECT count(*) FROM step s WHERE s.process = i.process) AS steps "
                  "FROM inferred_steps i JOIN process p ON p.id = i.process ORDER BY p.rank")
    expect("ranks with inferred steps", [r["rank"] for r in ranks], [["0", "1"]])
    report = subprocess.run([ddl, "report", "run.ddl"], cwd=work, check=True, stdout=subprocess.PIPE, text=True).stdout
    expect("the report says that steps are inferred", "inferred" in report, [True])
    if options.job == "lammps":
        # The first output precedes the first step, and the last collectives of the run are others.
        expect("steps", {r["steps"] for r in ranks}, [{"20"}, {"19"}])
        layers = query("SELECT count(DISTINCT layer) AS n FROM v_layer WHERE inferred AND layer LIKE 'MPI_Allreduce #%'")
        expect("layers that reduce, of an output and the checks of neighbours", int(layers[0]["n"]) >= int(ranks[0]["period"]) - 1, [True])
        return 0
    words = next(line for line in out.splitlines() if line.startswith("tensors")).split()
    expect("collectives in a step", {r["period"] for r in ranks}, [{words[1]}])
    # The first step has nothing before it that could tell where it begins but the broadcast of the weights, which does.
    expect("steps", {r["steps"] for r in ranks}, [{str(STEPS)}])
    layers = query("SELECT layer, count(*) AS calls, min(bytes) AS least, max(bytes) AS most FROM v_collective WHERE rank = 0 AND step IS NOT NULL "
                   "AND op = 'MPI_Allreduce' GROUP BY layer ORDER BY layer")
    numpy_layers = [r for r in layers if r["least"] != "8"]
    expect("bytes of the layers", [r["least"] for r in numpy_layers], [words[3:]])
    expect("each layer has one size", [r["most"] for r in numpy_layers], [words[3:]])
    expect("calls of the layers", {r["calls"] for r in numpy_layers}, [{str(STEPS)}])
    return 0


if __name__ == "__main__":
    sys.exit(main())
