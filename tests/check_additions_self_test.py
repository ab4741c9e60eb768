#!/usr/bin/env python3
"""Adds one of each kind without anything else, and sees that check_additions.py names all that is missing then. Nothing is written."""
from check_additions import Tree, missing

# What somebody might add who knows of nothing else: (file, text after which, what is added, how many things are missing then)
ADDITIONS = [
    ("analyzer/metrics/new_metric.sql", "", "-- id: new_metric\n", 2),
    ("analyzer/findings/new_finding.cpp", "", '\nDDL_FINDING(new_finding, kSpeed, "nowhere", "what", "from") {\n', 3),
    ("reports/html/figures.cpp", "kKinds[] = {\n", '      {"new", new_figure},\n', 4),
    ("core/format.h", "enum class OpClass : uint32_t {\n", "  kNewClass = 77,\n", 3),
    ("interpose/calls/messages.def", "", "\nDDL_ROW(MPI_Novel, OpClass::kOther, false)\n", 3),
    ("interpose/calls/collectives.def", "", "\nDDL_COLLECTIVE(Novel, Inovel, OpClass::kScan, (), (), comm, -1, 0)\n", 6),
    ("interpose/nccl_calls.def", "", "\nDDL_NCCL_CALL(ncclNew, OpClass::kOther, (), (), nullptr)\n", 2),
    ("reports/sections.cpp", "kSections[] = {\n", '    {"new", "a new one", new_table, 0},\n', 2),
    ("docs/reference/ddl-report.schema.json", '"properties": {\n', '    "collectives": {},\n', 1),
    ("docs/reference/ddl-report.schema.json", '"properties": {\n', '    "brandnew": {"$ref": "#/definitions/gone"},\n', 1),
    ("cli/verbs.cpp", "kVerbs[] = {\n", '    {"brandnew", "a new one", run_new},\n', 4),
    ("cli/model.cpp", "kModels[] = {\n", '    {"model brandnew", "?", "", model_brandnew},\n', 2),
    ("core/new.cpp", "", 'getenv("DDL_NEW")', 1),
    ("cli/manual_page.cpp", "kEnvironment[] = {\n", '    {"DDL_GONE", "what nobody reads"},\n', 1),
    ("store/import/import.cpp", "kFormats[] = {\n", '    {"new", "", "", store::read_new},\n', 2),
    ("cli/export.cpp", "kFormats[] = {\n", '    {"new", "", {}, nullptr},\n', 2),
    ("autotuner/emit/formats.def", "", '\nFORMAT(brand_new, "brand_new.conf", "#", "nobody", "nothing")\n', 3),
    ("CONTRIBUTING.md", "", "\n`core/gone.cpp`\n", 1),
]


def self_test():
    before = set(missing(Tree()))
    for path, after, added, expected in ADDITIONS:
        text = Tree().text(path)
        assert after in text, f"{path}: no '{after}'"
        at = text.index(after) + len(after) if after else len(text)
        lines = [line for line in missing(Tree({path: text[:at] + added + text[at:]})) if line not in before]
        assert len(lines) == expected, (path, lines)
    print(f"all {sum(expected for *_, expected in ADDITIONS)} things missing after {len(ADDITIONS)} additions were named")


if __name__ == "__main__":
    self_test()
