#!/usr/bin/env python3
"""Checks that files which are compiled together agree on names.

usage: check_batch_names.py ROOT         names what two files of a library or program both declare
       check_batch_names.py --self-test  shows that it notices what it should

The release preset compiles the sources of a library, and of a unit test's program, in batches (CMAKE_UNITY_BUILD), and which files share a batch
changes with every file that is added. So constants, types, aliases and functions (with their parameters' types: overloads are fine) of unnamed
namespaces are unique in a library or program, and none of those types has the name of one that a header of the library's declares.
"""
import collections
import pathlib
import re
import sys

BATCHED = {
    "store": ["store/*.cpp", "store/import/*.cpp", "store/ingest/*.cpp"],
    "analyzer": ["analyzer/*.cpp", "analyzer/passes/*.cpp", "analyzer/metrics/*.cpp", "analyzer/findings/*.cpp", "analyzer/models/*.cpp"],
    "history": ["history/*.cpp"],
    "reports": ["reports/*.cpp", "reports/html/*.cpp", "reports/trace/*.cpp"],
    "tui": ["tui/*.cpp"],
    "autotuner": ["autotuner/*.cpp", "autotuner/emit/*.cpp"],
    "cli": ["cli/*.cpp"],
    "workloads/train": ["workloads/train/*.cpp", "workloads/train/compress/*.cpp"],
    "workloads/network": ["workloads/network/*.cpp"],
    "workloads/allreduce": ["workloads/allreduce/*.cpp"],
    "analyzer_test": ["tests/analyzer/*_test.cpp", "tests/analyzer/models/*_test.cpp"],
    "history_test": ["tests/history/*_test.cpp"],
    "injected_findings": ["tests/analyzer/injected/*.cpp"],
    "autotuner_test": ["tests/autotuner/*_test.cpp"],
    "cli_test": ["tests/cli/*_test.cpp"],
    "import_test": ["tests/import/*_test.cpp"],
    "reports_test": ["tests/reports/*_test.cpp", "tests/reports/html/*_test.cpp"],
    "store_test": ["tests/store/*_test.cpp"],
    "tui_test": ["tests/tui/*_test.cpp"],
    "workloads_test": ["tests/workloads/*_test.cpp"],
}
LAYERS = ["core", "store", "analyzer", "history", "reports", "tui", "autotuner", "cli"]  # a batch of one includes headers of it and of those before it
OPENS = re.compile(r"^namespace(?: ([\w:]+))? \{$")
CLOSES = re.compile(r"^\}  // namespace")
# At column 0: what is indented belongs to something else.
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)\b(?! *;)|^using (\w+) =")
CONSTANT = re.compile(r"^(?:inline )?(?:static )?(?:constexpr|const)\b[^(]*?\b(k[A-Z]\w*)\b")
FUNCTION = re.compile(r"^(?=\S)(?!return|using|struct|class|enum|constexpr \w+ k[A-Z])[\w:<>,&*\[\] ]+? [&*]?(\w+)\(([^()]*)\)(?: const)? \{")
MORE = re.compile(r", (k[A-Z]\w*) =")


def lines_by_namespace(text):
    """(namespaces around, None: unnamed; line) of all lines that neither open nor close one."""
    around = []
    for line in text.splitlines():
        opens = OPENS.match(line)
        if opens:
            around.append(opens.group(1))
        elif CLOSES.match(line) and around:
            around.pop()
        else:
            yield tuple(around), line


def unnamed_names(text):
    """(namespace around, name) of everything declared in unnamed namespaces."""
    names = []
    for around, line in lines_by_namespace(text):
        if not around or around[-1] is not None:
            continue
        scope = "::".join(name for name in around if name)
        declared_type, constant, function = TYPE.match(line), CONSTANT.match(line), FUNCTION.match(line)
        if declared_type:
            names.append((scope, declared_type.group(1) or declared_type.group(2)))
        elif constant:
            names += [(scope, name) for name in [constant.group(1), *MORE.findall(line)]]
        if function:
            types = [re.sub(r"(?<=[\w&*>] )\w+(?: =.*)?$|(?<=[&*])\w+(?: =.*)?$", "", one.strip()).strip() for one in function.group(2).split(",")]
            names.append((scope, f"{function.group(1)}({', '.join(types)})"))
    return names


def clashes(files):
    """[(name, [file, file...])] of what more than one of {file: text} declares."""
    where = collections.defaultdict(list)
    for file, text in sorted(files.items()):
        for name in sorted(set(unnamed_names(text))):
            where[name].append(file)
    same = lambda name, found: len({line for file in found for line in files[file].splitlines() if line.startswith(f"using {name} =")}) == 1
    return [(scope + "::" + name, found) for (scope, name), found in sorted(where.items()) if len(found) > 1 and not same(name, found)]


def header_types(text):
    """(namespace, name) of the types that a header declares."""
    found = [(around, TYPE.match(line)) for around, line in lines_by_namespace(text) if None not in around]
    return [("::".join(around), declares.group(1) or declares.group(2)) for around, declares in found if declares]


def hidden(files, headers):
    """[(name, file, header)] of types in unnamed namespaces that have the name of one that a header declares in the same namespace or one around it."""
    where = {name: header for header, text in sorted(headers.items()) for name in header_types(text)}
    alias = lambda name, text: next((line.split(";")[0] for line in text.splitlines() if line.startswith(f"using {name} =")), None)
    result = []
    for file, text in sorted(files.items()):
        for scope, name in sorted(set(unnamed_names(text))):
            parts = scope.split("::")
            for depth in range(len(parts) + 1):
                header = where.get(("::".join(parts[:depth]), name))
                if header and (alias(name, text) is None or alias(name, text) != alias(name, headers[header])):
                    result.append((scope + "::" + name, file, header))
    return result


def self_test():
    one = "namespace ddl {\nnamespace {\n\nconstexpr double kLeft = 1, kRight = 2;\nstruct Row {\n  int kInside = 0;\n};\nstruct Told;\n\n}  // namespace\n}  // namespace ddl\n"
    assert clashes({"a": one, "b": one}) == [("ddl::Row", ["a", "b"]), ("ddl::kLeft", ["a", "b"]), ("ddl::kRight", ["a", "b"])]
    calls = "namespace {\nint sum(const A& a, int b) {\n}\n}  // namespace\n"
    assert clashes({"a": calls, "b": calls.replace("b)", "c)")}) == [("::sum(const A&, int)", ["a", "b"])]
    assert clashes({"a": calls, "b": calls.replace("int b", "double b")}) == []
    assert clashes({"a": one, "b": one.replace("namespace ddl", "namespace ddl::other")}) == []
    assert clashes({"a": one, "b": "namespace ddl {\nstruct Row {\n};\n}  // namespace ddl\n"}) == []
    header = "namespace ddl {\nstruct Row {\n};\nclass Later;\n}  // namespace ddl\n"
    assert hidden({"a": one}, {"h": header}) == [("ddl::Row", "a", "h")]
    assert hidden({"a": one.replace("namespace ddl", "namespace ddl::other")}, {"h": header}) == [("ddl::other::Row", "a", "h")]
    assert hidden({"a": one}, {"h": header.replace("namespace ddl", "namespace ddl::other")}) == []
    assert hidden({"a": one.replace("Row", "Later")}, {"h": header}) == []
    same = "namespace ddl {\nusing Row = int;  ///< said\n}  // namespace ddl\n"
    assert hidden({"a": "namespace ddl {\nnamespace {\nusing Row = int;\n}  // namespace\n}  // namespace ddl\n"}, {"h": same}) == []
    assert hidden({"a": one}, {"h": same}) == [("ddl::Row", "a", "h")]
    print("check_batch_names: it notices what it should")


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = pathlib.Path(arguments[0])
    found = 0
    for library, patterns in BATCHED.items():
        files = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for pattern in patterns for path in root.glob(pattern)}
        assert files, f"no sources in {patterns}"
        for name, where in clashes(files):
            print(f"{library}: {name} is declared in {' and '.join(where)}: they are compiled together, rename all but one")
            found += 1
        layers = LAYERS[: LAYERS.index(library) + 1] if library in LAYERS else []
        headers = {str(path.relative_to(root)): path.read_text(encoding="utf-8") for folder in layers for path in root.glob(f"{folder}/**/*.h")}
        for name, file, header in hidden(files, headers):
            print(f"{library}: {name} of {file} has the name of a type of {header}: files that are compiled behind it mean that one, rename it")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
