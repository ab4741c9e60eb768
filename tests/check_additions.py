#!/usr/bin/env python3
"""Says in one message what is missing where something was added: walks the rows (metrics, findings, figures, calls and their classes, sections of the
report, verbs, models, environment variables, formats that are imported, exported and emitted) and looks for the file, the documentation and the
test that belong to each, and for generated pages that are stale. CONTRIBUTING.md has the list of what belongs to what.

usage: check_additions.py       exit code 1 and one line per thing that is missing
"""
import functools
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["metrics_doc", "findings_doc", "schema_doc", "top_doc"]  # tools that write pages, and know --check
VARIABLE = re.compile(r'(?:setting|seconds|is_on|getenv)\("(DDL_\w+)"\)')


@functools.cache
def on_disk(pattern):
    return {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern) if path.is_file()}


@functools.cache
def contents(path):
    return (ROOT / path).read_text(encoding="utf-8", errors="replace") if (ROOT / path).is_file() else ""


@functools.lru_cache(maxsize=64)
def words(text):
    """A set asks of a name in the time that a regular expression takes for one character."""
    return frozenset(re.findall(r"\w+", text))


class Tree:
    """The working tree, or what it would be with other contents in some of its files."""

    def __init__(self, changed=None):
        self.changed = changed or {}

    def text(self, path):
        return self.changed[path] if path in self.changed else contents(path)

    def files(self, pattern):
        return sorted(on_disk(pattern) | {path for path in self.changed if pathlib.PurePath(path).match(pattern.replace("**/", ""))})

    def all(self, *patterns):
        return "\n".join(self.text(path) for pattern in patterns for path in self.files(pattern))


def rows(text, pattern, least):
    """What the pattern finds in a table. A table that is written in another way must not pass as an empty one."""
    found = re.findall(pattern, text, re.M | re.S)
    assert len(found) >= least, f"{len(found)} rows match {pattern}, at least {least} are known"
    return found


def between(text, begin, end):
    return text.partition(begin)[2].partition(end)[0]


def metrics(tree):
    page = tree.text("docs/reference/metrics.md")
    tests = tree.all("tests/analyzer/**/*.*", "tests/import/*.*", "tests/support/*.*")
    for path in tree.files("analyzer/metrics/*.sql"):
        name = pathlib.PurePath(path).stem
        if f"\n## {name}\n" not in page:
            yield f"{path}: not in docs/reference/metrics.md: run tools/metrics_doc"
        if name not in words(tests):
            yield f"{path}: no test in tests/analyzer names {name}"


def findings(tree):
    known = rows(tree.all("analyzer/findings/*.cpp"), r'^DDL_FINDING\(\s*(\w+), \w+,\s*"([\w-]*)"', 17)
    figures = {name for name, _ in figure_rows(tree)}
    page, tests = tree.text("docs/findings.md"), tree.all("tests/analyzer/**/*.*")
    for name, figure in known:
        if figure and figure not in figures:
            yield f"{name}.cpp: no figure '{figure}' in reports/html/figures.cpp"
        if f"| `{name}` |" not in page:
            yield f"{name}.cpp: not in docs/findings.md: run tools/findings_doc"
        if f'"{name}"' not in tests:
            yield f'{name}.cpp: no test in tests/analyzer names "{name}"'


def figure_rows(tree):
    return rows(tree.text("reports/html/figures.cpp"), r'^ *\{"([\w-]+)", (\w+)\}', 11)


def figures(tree):
    page, header = tree.text("docs/how-to/html.md"), tree.text("reports/html/figure.h")
    drawn, tests = tree.all("reports/html/*.cpp"), tree.all("tests/reports/html/*")
    for name, function in figure_rows(tree):
        if f"{function}(const RunView& run);" not in header:
            yield f"figures.cpp: {name}: {function}() is not declared in reports/html/figure.h"
        if f"> {function}(const RunView&" not in drawn:
            yield f"figures.cpp: {name}: no file in reports/html draws it"
        if f"| `{name}` |" not in page:
            yield f"figures.cpp: {name}: no row in docs/how-to/html.md"
        if not re.search(rf'["\'#]{name}["\'-]|\b{function}\b', tests):
            yield f"figures.cpp: {name}: no test in tests/reports/html names it"


def call_classes(tree):
    enum = between(tree.text("core/format.h"), "enum class OpClass", "};")
    page = tree.text("docs/reference/call-classes.md")
    for name in rows(enum, r"^ *k(\w+) = \d", 21):
        word = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        if f"| `{word}` |" not in page:
            yield f"OpClass::k{name}: docs/reference/call-classes.md does not say what it means for the numbers"
        for path in ("store/ingest/operations.cpp", "analyzer/passes/operation.cpp"):
            if f'"{word}"' not in tree.text(path):
                yield f"OpClass::k{name}: {path} has no name '{word}' for it"


# Rows that are older than this test. A new one gets its program.
NOT_COUNTED = {"MPI_Abort", "MPI_Comm_accept", "MPI_Comm_connect", "MPI_Comm_join", "MPI_Comm_spawn", "MPI_Comm_spawn_multiple",
               "MPI_File_get_position_shared"}
OF_MPI4 = {"MPI_Comm_idup_with_info", "MPI_Isendrecv", "MPI_Isendrecv_replace"}  # beside the programs of c/mpi4
NOT_IN_NCCL_PROGRAMS = {"ncclGroupSimulateEnd", "ncclCommInitRankScalable", "ncclCommInitAll", "ncclCommRevoke", "ncclCommWindowRegister",
                        "ncclCommWindowDeregister"}


def mpi_calls(tree):
    """Whether a program reaches a row is measured by tests/conformance, where mpirun is; here only that somebody thought of it."""
    table = tree.all("interpose/calls/*.def")
    programs, of_mpi4 = tree.all("tests/conformance/c/*.c", "tests/conformance/c/support/*"), tree.all("tests/conformance/c/mpi4/*.c")
    fortran = tree.all("tests/conformance/fortran/**/*.F90").lower()
    counted = tree.text("tests/third_party/count_pmpi_calls.def")
    names = {f"MPI_{base}" for pair in rows(table, r"^DDL_COLLECTIVE\((\w+), (\w+),", 17) for base in pair}
    names |= set(rows(table, r"^DDL_(?!COLLECTIVE|RMA)\w+\((MPI_\w+)", 150))
    names |= {name for pair in rows(table, r"^DDL_RMA\((\w+), (\w+),", 4) for name in pair}

    exempt = rows(between(tree.text("tests/interpose/table_complete.py"), "EXEMPT = {", "\n}"), r'":\s*r"([^"]+)",$', 15)
    asked = set(re.findall(r"\bP(MPI_\w+)\(", tree.all("tests/conformance/c/**/*")))

    def used(name, text):
        return name in words(text) or name[4:] in words(text)

    for name in sorted(names):
        if any(re.fullmatch(pattern, name[4:]) for pattern in exempt):
            yield f"interpose/calls: {name}: it has a row, take it off EXEMPT in tests/interpose/table_complete.py"
        if name in asked:
            yield f"interpose/calls: {name}: a program of tests/conformance/c calls P{name}, which is recorded as well: CALL({name})"
        if not used(name, programs + of_mpi4):
            yield f"interpose/calls: {name}: no program of tests/conformance/c calls it"
        if name in OF_MPI4 or used(name, of_mpi4) and not used(name, programs):
            continue  # the libraries that most tests run with have no MPI 4
        if name.lower() not in fortran:
            yield f"interpose/calls: {name}: no program of tests/conformance/fortran calls it"
        if not used(re.sub("_(begin|end)$", "", name), counted) and name not in NOT_COUNTED:
            yield f"interpose/calls: {name}: not in tests/third_party/count_pmpi_calls.def, the independent count"


def nccl_calls(tree):
    programs, double = tree.all("tests/nccl/programs/*"), tree.all("tests/mocks/fake_nccl*")
    for name in rows(tree.text("interpose/nccl_calls.def"), r"^DDL_NCCL_\w+\((nccl\w+)", 25):
        if name not in double:
            yield f"interpose/nccl_calls.def: {name}: tests/mocks/fake_nccl.c lacks it"
        if name not in programs and name not in NOT_IN_NCCL_PROGRAMS:
            yield f"interpose/nccl_calls.def: {name}: no program of tests/nccl/programs uses it"


def sections(tree):
    """Columns are known to the program alone: test ReportSchema.KnowsEveryColumnOfEverySection."""
    twice = []

    def unique(pairs):
        keys = [key for key, _ in pairs]
        twice.extend(sorted({key for key in keys if keys.count(key) > 1}))
        return dict(pairs)

    text = tree.text("docs/reference/ddl-report.schema.json")
    schema = json.loads(text, object_pairs_hook=unique)
    for key in twice:
        yield f"docs/reference/ddl-report.schema.json: {key} is twice in one object: a section needs a name of its own"
    for name in sorted(set(re.findall(r'"#/definitions/(\w+)"', text)) - set(schema["definitions"])):
        yield f"docs/reference/ddl-report.schema.json: no definition '{name}'"
    header, tests = tree.text("reports/overview.h"), tree.all("tests/**/*.cpp", "tests/**/*.py")
    sections = between(tree.text("reports/sections.cpp"), "kSections[] = {", "};")
    for name, function, rest in rows(sections, r'\{"(\w+)", "[^"]*", (\w+),([^}]*)', 17):
        if function != "nullptr" and f"Table {function}(const RunView& run);" not in header:
            yield f"sections.cpp: {name}: {function}() is not declared in reports/overview.h"
        if f'"{name}"' not in tests and function not in words(tests):
            yield f"sections.cpp: {name}: no test names it"
        alone = re.search(r"(true|false),\s*true$", rest) is not None  # Section::alone: only where it is asked for
        if (name in schema["required"]) == alone or name not in schema["properties"]:
            yield f"sections.cpp: {name}: not in docs/reference/ddl-report.schema.json, or not required there"


def verbs(tree):
    readme, header, built = tree.text("README.md"), tree.text("cli/verbs.h"), tree.all("cli/*.cpp")
    tests = tree.all("tests/cli/*", "tests/tui/*.py", "tests/tui/*.cpp", "tests/autotuner/*.py")
    for name, function in rows(between(tree.text("cli/verbs.cpp"), "kVerbs[] = {", "};"), r'\{"(\w+)", "[^"]*", (\w+)', 14):
        if not re.search(rf"^\|[^|]*`ddl {name}\b", readme, re.M):
            yield f"verbs.cpp: {name}: no row in README.md"
        if f"int {function}(" not in header:
            yield f"verbs.cpp: {name}: {function}() is not declared in cli/verbs.h"
        if f"int {function}(const Arguments&" not in built:
            yield f"verbs.cpp: {name}: no file in cli/ has {function}()"
        if f'"{name}"' not in tests:
            yield f'verbs.cpp: {name}: no test in tests/cli names "{name}"'


def environment(tree):
    described = set(rows(between(tree.text("cli/manual_page.cpp"), "kEnvironment[] = {", "};"), r'\{"(\w+)",', 15))
    read = {}
    for folder in ("core", "interpose", "collectors", "history", "cli"):
        for path in tree.files(f"{folder}/**/*.cpp") + tree.files(f"{folder}/**/*.h"):
            read.update((name, path) for name in VARIABLE.findall(tree.text(path)))
    assert {"DDL_OUT", "DDL_CAP", "DDL_DISABLE"} <= read.keys(), f"the sources were searched: {sorted(read)}"
    for name in sorted(read.keys() - described):
        yield f"{read[name]}: {name}: no row of kEnvironment in cli/manual_page.cpp"
    sources = tree.all("core/*", "interpose/*", "collectors/*", "history/*", "cli/*.cpp")
    for name in sorted(described - read.keys()):
        if name.startswith("DDL_") and sources.count(f'"{name}"') < 2:
            yield f"cli/manual_page.cpp: {name}: nobody reads it"


# Tables of which each name stands in a page and in a test: (file, rows, at least, page, how it stands there, tests, how it stands there)
NAMED = [
    ("cli/model.cpp", r'^    \{"model (\w+)",', 10, "docs/how-to/models.md", "ddl model {}", "tests/cli/*.cpp", '"{}"'),
    ("cli/export.cpp", r'^    \{"([\w-]+)",', 5, "docs/how-to/export.md", "| `{}` |", "tests/**/*_test.cpp", '"export", "{}"'),
    ("store/import/import.cpp", r'^    \{"([\w-]+)", "', 6, "docs/how-to/import.md", "| `{}` |", "tests/import/samples.h", '"{}"'),
]


def named(tree):
    for file, pattern, least, page, written, pattern_of_tests, tested in NAMED:
        for name in rows(tree.text(file), pattern, least):
            if written.format(name) not in tree.text(page):
                yield f"{file}: {name}: {page} has no {written.format(name).strip('| ')}"
            if tested.format(name) not in tree.all(pattern_of_tests):
                yield f"{file}: {name}: no test has {tested.format(name)}: {pattern_of_tests}"


def emitted(tree):
    page, test = tree.text("docs/how-to/tune-files.md"), tree.all("tests/autotuner/*")
    for name, file in rows(tree.text("autotuner/emit/formats.def"), r'^FORMAT\((\w+), "([^"]+)"', 10):
        if not tree.text(f"autotuner/emit/{name}.cpp"):
            yield f"formats.def: {name}: no autotuner/emit/{name}.cpp"
        if f"| `{file}` |" not in page:
            yield f"formats.def: {name}: no row for {file} in docs/how-to/tune-files.md"
        if file not in test:
            yield f"formats.def: {name}: no test in tests/autotuner reads {file}"


def named_files(tree):
    """Files that CONTRIBUTING.md names; NAME, X and * stand for what is added."""
    for name in re.findall(r"`((?:[a-z_]+/)+[\w.*-]*)`", tree.text("CONTRIBUTING.md")):
        if not re.search(r"NAME|\*|^build/", name) and not (ROOT / name).exists():
            yield f"CONTRIBUTING.md: there is no {name}"


RULES = [metrics, findings, figures, call_classes, mpi_calls, nccl_calls, sections, verbs, environment, named, emitted, named_files]


def missing(tree):
    return [line for rule in RULES for line in rule(tree)]


def stale_pages():
    for page in PAGES:
        done = subprocess.run([sys.executable, "-B", ROOT / "tools" / page, "--check"], capture_output=True, text=True)
        if done.returncode != 0:
            yield done.stderr.strip() or done.stdout.strip()


def main(arguments):
    if arguments:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    lines = [*missing(Tree()), *stale_pages()]
    print("\n".join(lines) if lines else "nothing is missing")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
