#!/usr/bin/env python3
"""Keeps docs/specification.md and those who cite it together: every id and heading that code, schema, metrics and pages cite is there, and nothing
cites documents that are not in the repository.

    check_specification.py [ROOT]       exit code 1 and one line per mistake
    check_specification.py --self-test  makes every mistake once in a small tree and sees that it is noticed
"""
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
sys.dont_write_bytecode = True
from citations import CITATION, PAGE_OF_OURS, anchor_of, cited_in  # noqa: E402

SPECIFICATION = "docs/specification.md"
SUFFIXES = {"", ".c", ".cpp", ".h", ".def", ".inc", ".in", ".sql", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".csv", ".js", ".css", ".F90"}
SELF = {"tests/check_specification.py", "tools/citations.py"}
UP = "../"  # spelled so that a search for references to the outside does not find this file
EXTRA = f"needs {UP}shared, skipped without it"  # what a test says that looks for data outside
# Ways to cite what only its authors have: other worktrees, working documents, numbers of an index.
OUTSIDE = re.compile(r"\.\./shared|\"shared\"\s*/|\bshared/\w+\.md|(?<![\w/-])metrics\.md (?:section )?[A-Z]?[0-9]|\bseed \d{3}\b|\bstored (?:on )?GitHub")
DOCUMENT = re.compile(r"(?<![\w/.-])(?:design|capture|peers|tuning|screens|sources|style|frameworks)\.md")
NO_CITATION = re.compile(r'specification\.md (?=[A-Z]-?[0-9]|section\b|")')
LINK = re.compile(r"\]\(((?:[^)#]*/)?specification\.md)?#([\w-]+)\)")


def files_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("build", "node_modules", "__pycache__") and not f.endswith(".ddl"))
        for name in sorted(names):
            path = pathlib.Path(folder) / name
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            try:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def headings_of(text):
    inside = False
    for line in text.splitlines():
        inside ^= line.startswith("```")
        if not inside and re.match(r"#{1,6} ", line):
            yield re.sub(r"<[^>]*>", "", line.lstrip("#")).strip()


def anchors_of(text):
    """With repetitions."""
    return re.findall(r'<a id="([^"]+)"></a>', text) + [anchor_of(heading) for heading in headings_of(text)]


def wrong_in(name, text, anchors, titles, pages):
    is_markdown, extra = name.endswith(".md"), name.startswith("tests/") and EXTRA in text
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{name}:{number}"
        for cited in cited_in(line):
            if cited.startswith('"') and cited.strip('"') not in titles:
                yield f"{place}: {SPECIFICATION} has no heading {cited}"
            elif anchor_of(cited) not in anchors:
                yield f"{place}: {SPECIFICATION} has no id {cited}"
        for miss in NO_CITATION.finditer(line):
            if not CITATION.match(line, miss.start()):
                yield f"{place}: no id or heading of {SPECIFICATION}: {line[miss.start():miss.start() + 40].strip()}"
        if not is_markdown and re.search(r"(?<!docs/)\bspecification\.md$", line):
            yield f"{place}: what is cited stands on the next line, where nobody finds it"
        for page, anchor in LINK.findall(line) if is_markdown else ():
            if (page or name == SPECIFICATION) and anchor not in anchors:
                yield f"{place}: {SPECIFICATION} has no anchor #{anchor}"
        if OUTSIDE.search(line) and not extra:
            yield f"{place}: not in the repository: {OUTSIDE.search(line)[0]} (a test of an extra says: {EXTRA})"
        for document in DOCUMENT.findall(line):
            if document not in pages:
                yield f"{place}: not in the repository: {document}"


def wrong_source(root, name, text):
    """Every metric says where it is defined: in the specification, or on another page of ours, under a heading that is there."""
    source = re.search(r"^-- source: (.*)$", text, re.M)
    page = PAGE_OF_OURS.search(source[1]) if source else None
    if not source or not (cited_in(source[1]) or page):
        yield f"{name}: its source is neither in {SPECIFICATION} nor on a page of docs/"
    elif page:
        path = root / page[0]
        if not path.exists():
            yield f"{name}: there is no {page[0]}"
        elif set(re.findall(r'"([^"]+)"', source[1])) - set(headings_of(path.read_text(encoding="utf-8"))):
            yield f"{name}: {page[0]} has no such heading"


def mistakes(root):
    specification = (root / SPECIFICATION).read_text(encoding="utf-8")
    all_anchors = anchors_of(specification)
    anchors, titles = set(all_anchors), set(headings_of(specification))
    for anchor in sorted(a for a in anchors if all_anchors.count(a) > 1):
        yield f"{SPECIFICATION}: #{anchor} is there {all_anchors.count(anchor)} times"
    files = [(name, text) for name, text in files_of(root) if name not in SELF]
    pages = {pathlib.PurePosixPath(name).name for name, _ in files}
    for name, text in files:
        yield from wrong_in(name, text, anchors, titles, pages)
        if re.fullmatch(r"analyzer/metrics/\w+\.sql", name):
            yield from wrong_source(root, name, text)


GOOD = {
    SPECIFICATION: '# Numbers\n\n## Bandwidths\n\n### <a id="w5"></a>W5 Late sender\n\n### <a id="b1"></a>B1 Bubble\n\n### <a id="g-b"></a>G-B Traces\n\nsee [W5](#w5)\n',
    "docs/performance.md": "# Cost\n\n## What a run says\n",
    "docs/screens/colours.md": "# Colours\n",
    "docs/how-to/x.md": "[W5](../specification.md#w5), [late](../specification.md#w5-late-sender), [here](#elsewhere), colours.md, ../reference/metrics.md\n",
    "core/x.h": '// specification.md W5, B1; (specification.md "Bandwidths"); docs/specification.md says more. specification.md B1 - W5 to G-B\n',
    "analyzer/metrics/late.sql": "-- source: specification.md W5 (variant)\nSELECT 1\n",
    "analyzer/metrics/cost.sql": '-- source: docs/performance.md, "What a run says"\nSELECT 1\n',
    "tests/x.py": f'# extra: {EXTRA}\nTRACES = ".." / "shared" / "{UP}shared"\n',
}
BAD = {
    "core/id.h": "// specification.md W6\n",
    "core/range.h": "// specification.md W5 to W9\n",
    "core/unknown.h": "// specification.md X9\n",
    "core/section.h": "// specification.md section 7\n",
    "core/heading.h": '// specification.md "Bandwidth"\n',
    "core/torn.h": "// as specification.md\n// W5\n",
    "core/other.h": f"// ({'design'}.md)\n",
    "core/old.h": f"// {'metrics'}.md W5\n",
    "core/outside.h": f"// {UP}shared/notes\n",
    "core/folder.h": f"// shared/{'tuning'}.md\n",
    "tests/extra.py": 'T = "shared" / "traces"\n',
    "tests/numbers.csv": "1,seed 004 lines 1-2\n",
    "docs/link.md": "[x](specification.md#w6)\n",
    "store/schema.sql": "-- waits (specification.md W7)\n",
    "analyzer/metrics/none.sql": "SELECT 1\n",
    "analyzer/metrics/vague.sql": "-- source: common sense\nSELECT 1\n",
    "analyzer/metrics/page.sql": "-- source: docs/nowhere.md\nSELECT 1\n",
    "analyzer/metrics/title.sql": '-- source: docs/performance.md, "What nobody says"\nSELECT 1\n',
}


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)

        def write(files):
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")

        write(GOOD)
        assert not list(mistakes(root)), list(mistakes(root))
        write(BAD)
        found = list(mistakes(root))
        for path in BAD:
            assert sum(line.startswith(f"{path}:") for line in found) >= 1, f"{path} was not noticed"
        assert {line.split(":")[0] for line in found} == set(BAD), found
        write({SPECIFICATION: GOOD[SPECIFICATION] + '### <a id="w5"></a>Twice\n\n[nowhere](#w99)\n'})
        found = [line for line in mistakes(root) if line.startswith(SPECIFICATION)]
        assert len(found) == 2, found
    print(f"all {len(BAD) + 2} mistakes were noticed")


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    wrong = list(mistakes(root))
    print("\n".join(wrong) if wrong else f"everything that is cited is in {SPECIFICATION}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
