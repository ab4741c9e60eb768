"""Manual pages and completion: that they hold what --help says, that man formats them without a warning, and that bash, asked as it asks
when somebody presses Tab, offers verbs, options, values, runs and the commands of jobs. No MPI."""
import os
import re
import shutil
import subprocess

from job import BUILD, DDL, Skip, check, main

SHARE = BUILD / "share"
COMPLETIONS = SHARE / "completions"
OPTION = re.compile(r"(?:-(\w), )?--([\w-]+)(?: ([^\s-]\S*))?")  # -m, --micro-batches M,...


def text(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def commands():
    """Every command and its options, read from what --help prints: {"model fit": [("-m", "--name", takes a value), ...]}"""
    found = {}
    for verb in re.findall(r"^  (\w+) ", text(DDL, "--help").split("RUN is")[0], re.M):
        helped = text(DDL, verb, "--help")
        of_questions = {"model": r"^  .{11}(\w+) ", "history": r"^  (\w+) "}.get(verb)  # of a verb whose first word has options of its own
        questions = re.findall(of_questions, helped.split("example:")[0], re.M) if of_questions else []
        for name in [f"{verb} {question}" for question in questions] or [verb]:
            options = text(DDL, *name.split(), "--help").split("options:")[1].split("\nexample:")[0]
            names = re.findall(r"^  (-.*?)(?:  |$)", options, re.M)  # of a row: options and their values, two spaces, text
            rows = [(f"-{m[1]}" if m[1] else None, f"--{m[2]}", bool(m[3])) for row in names for m in OPTION.finditer(row)]
            check(rows and OPTION.sub("", " ".join(names)).strip() == "", f"{name}: every option of --help was read")
            found[name] = rows
    return found


def pages_are_what_the_program_prints(folder):
    for path, words in {SHARE / "man/man1/ddl.1": ["manual", "ddl"], SHARE / "man/man1/ddl-top.1": ["manual", "ddl-top"],
                        COMPLETIONS / "ddl": ["completion", "bash"], COMPLETIONS / "_ddl": ["completion", "zsh"],
                        COMPLETIONS / "ddl.fish": ["completion", "fish"]}.items():
        check(path.exists() and path.read_text() == text(DDL, *words), f"{path.name} is what `ddl {' '.join(words)}` prints")


def the_manual_has_every_option(folder):
    if not shutil.which("groff"):
        print("no groff: the manual was not formatted")
        return
    shown = {}
    for page in ("ddl", "ddl-top"):
        done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", "-rLL=100n", SHARE / f"man/man1/{page}.1"], capture_output=True, text=True)
        check(done.returncode == 0 and not done.stderr, f"groff warns of {page}.1: {done.stderr}")
        shown[page] = done.stdout
        for line in done.stdout.splitlines():
            check("\\" not in line.replace("\\n", ""), f"{page}.1 shows an escape: {line}")
    sections = re.split(r"^   ddl ", shown["ddl"], flags=re.M)
    for name, options in commands().items():
        section = next((part for part in sections if part.split("\n", 1)[0] == name), "")
        for letter, option, takes in options:
            wanted = (f"{letter}, " if letter else "") + option + (r" \S" if takes else r"\b")
            check(re.search(rf"^ +{wanted}", section, re.M), f"ddl.1, ddl {name}: {option} is missing")
    for letter, option, takes in commands()["top"]:
        check(re.search(rf"^ .*{option}\b", shown["ddl-top"], re.M), f"ddl-top.1: {option} is missing")
    check("wait matrix" in shown["ddl-top"], "ddl-top.1 has the keys")


PATH = {**os.environ, "PATH": f"{DDL.parent}:{os.environ['PATH']}"}


def press_tab(line, folder):
    """What bash offers at the end of the line."""
    words = re.findall(r"=|[^\s=]+", line) + ([""] if line.endswith((" ", "=")) else [])
    script = """
      compopt() { :; }   # complains outside of a completion
      source "$1"; shift
      COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
      _ddl
      printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", COMPLETIONS / "ddl", *words], capture_output=True, text=True, cwd=folder, env=PATH)
    check(done.returncode == 0 and not done.stderr, f"bash, {line!r}: {done.stderr}")
    return [word for word in done.stdout.split("\n") if word]


# What is offered at the end of a line, in a folder with one.ddl/, other/, table.csv and trace.json.
OFFERS = {
    "ddl rec": {"record"},
    "ddl model wh": {"whatif"},
    "ddl top --color ": {"auto", "always", "never"},
    "ddl top --color=a": {"auto", "always"},
    "ddl top --color=": {"auto", "always", "never"},
    "ddl-top --sort l": {"late"},
    "ddl-top -n 5 ": {"one.ddl"},
    "ddl analyze --metric ccr_x": {"ccr_xfer"},
    "ddl report on": {"one.ddl"},
    "ddl report one.ddl colle": {"collectives"},
    "ddl report collectives ": {"one.ddl"},
    "ddl report --csv v_co": {"v_collective", "v_copy_rate", "v_counter"},
    "ddl report --html t": {"table.csv", "trace.json"},
    "ddl import ki": {"kineto"},
    "ddl import kineto tr": {"trace.json"},
    "ddl scaling t": {"table.csv"},
    "ddl record --mpi ": {"openmpi", "mpich"},
    "ddl record --collectors mpi,nv": {"mpi,nvtx"},
    "ddl record -o one": {"one.ddl"},
    "ddl model fit --algorithm ri": {"ring"},
    "ddl completion f": {"fish"},
    "ddl manual ddl-": {"ddl-top"},
    "ddl report one.ddl nonsense": set(),
    "ddl nonsense ": set(),
}


def fill(folder):
    (folder / "one.ddl").mkdir(exist_ok=True)
    (folder / "other").mkdir(exist_ok=True)
    (folder / "table.csv").touch()
    (folder / "trace.json").touch()


def every_option(offers):
    """What `offers` says of the options of every command is what --help has."""
    for name, options in commands().items():
        wanted = {spelling for letter, option, _ in options for spelling in (letter, option) if spelling}
        offered = offers(f"ddl {name} -")
        check(offered == wanted, f"ddl {name} -: {sorted(offered ^ wanted)}")


def bash_offers(folder):
    fill(folder)
    verbs = {name.split()[0] for name in commands()}
    offered = set(press_tab("ddl ", folder))
    check(offered == verbs | {"--help", "--version"}, f"verbs: {sorted(offered ^ verbs)}")
    every_option(lambda line: set(press_tab(line, folder)))
    check(set(press_tab("ddl-top -", folder)) == set(press_tab("ddl top -", folder)), "ddl-top is ddl top")
    for line, wanted in OFFERS.items():
        check(set(press_tab(line, folder)) == wanted, f"{line!r}: {press_tab(line, folder)}")
    check("bash" in press_tab("ddl record -o x -- ba", folder), "the command of a job")
    check("bash" in press_tab("ddl record --steps 1:2 ba", folder), "the command of a job without --")
    check(press_tab("ddl record -- bash tr", folder) == ["trace.json"], "an argument of the job")
    check(press_tab("ddl record -- bash --mpi ", folder) != ["openmpi", "mpich"], "options of the job are its own")


def fish_offers(folder):
    if not shutil.which("fish"):
        raise Skip("fish is not installed")
    fill(folder)
    script = 'source $argv[1]; for line in $argv[2..]; echo "? $line"; complete -C $line; end'
    lines = [*OFFERS, *(f"ddl {name} -" for name in commands()), "ddl-top -", "ddl record -o x -- ba", "ddl record -- bash tr"]
    done = subprocess.run(["fish", "--no-config", "-c", script, COMPLETIONS / "ddl.fish", *lines], capture_output=True, text=True, cwd=folder,
                          env={**PATH, "HOME": str(folder)})
    check(done.returncode == 0 and not done.stderr, f"fish: {done.stderr[:2000]}")
    answers = {}
    for row in done.stdout.splitlines():
        if row.startswith("? "):
            offered = answers.setdefault(row[2:], set())
        else:  # the word, a tab, what it is; of --option=value with the option
            offered.add(row.split("\t")[0].rstrip("/").split("=")[-1])
    for line, wanted in OFFERS.items():  # it does not see what a file is called
        check(wanted <= answers[line] and (line == "ddl scaling t" or answers[line] - {"other"} == wanted), f"fish, {line!r}: {sorted(answers[line])}")
    every_option(answers.get)
    check(answers["ddl-top -"] == answers["ddl top -"], "ddl-top is ddl top")
    check("bash" in answers["ddl record -o x -- ba"] and "trace.json" in answers["ddl record -- bash tr"], "the command of a job")


def zsh_offers(folder):
    """What its script hands to zsh's own functions, which stand here for what they would find."""
    if not shutil.which("zsh"):
        raise Skip("zsh is not installed")
    script = """
      compdef() { :; }
      _files() { print -r -- "files${*:+ $*}"; }
      _normal() { print -r -- "command $CURRENT ${(j: :)words}"; }
      _describe() { print -rl -- "${(@P)2%%:*}"; }
      source "$1"
      for line in "${@[2,-1]}"; do
        print -r -- "? $line"
        words=("${(@s: :)line}") CURRENT=$#words
        _ddl
      done
    """
    lines = [*OFFERS, *(f"ddl {name} -" for name in commands()), "ddl-top -", "ddl record -o x -- ba", "ddl record -- bash tr"]
    done = subprocess.run(["zsh", "-f", "-c", script, "zsh", COMPLETIONS / "_ddl", *lines], capture_output=True, text=True, cwd=folder, env=PATH)
    check(done.returncode == 0 and not done.stderr, f"zsh: {done.stderr[:2000]}")
    answers = {}
    for row in done.stdout.splitlines():
        if row.startswith("? "):
            offered = answers.setdefault(row[2:], set())
        else:
            offered.add(row.split("=")[-1])
    runs, tables = "files -g *.(ddl|sqlite)(-/,-.)", "files -g *.(ddl|csv)"
    found = {"one.ddl": runs, "table.csv": tables, "trace.json": "files"}
    own = {"ddl record -o one": "files -/", "ddl report --html t": "files", "ddl scaling t": tables}  # what is looked for, not the sample
    for line, wanted in OFFERS.items():
        wanted = {own[line]} if line in own else {found.get(word, word) for word in wanted}
        check(answers[line] - ({runs} if line.endswith("nonsense") or "report " in line else set()) == wanted - ({runs} if "report " in line else set()),
              f"zsh, {line!r}: {sorted(answers[line])}")
    check(runs in answers["ddl report on"] and runs in answers["ddl report collectives "], "zsh: runs")
    every_option(answers.get)
    check(answers["ddl-top -"] == answers["ddl top -"], "ddl-top is ddl top")
    check(answers["ddl record -o x -- ba"] == {"command 1 ba"} and answers["ddl record -- bash tr"] == {"command 2 bash tr"}, "the command of a job")


if __name__ == "__main__":
    main(pages_are_what_the_program_prints, the_manual_has_every_option, bash_offers, fish_offers, zsh_offers)
