#!/usr/bin/env python3
"""Keeps "who may include whom" of the house (CONTRIBUTING.md): code injected into jobs and code of the tools share core/ and nothing else.

    check_includes.py [ROOT]       exit code 1 and one line per include that goes the wrong way
    check_includes.py --self-test  breaks every rule once in a small tree and sees that it is noticed
"""
import pathlib
import re
import sys
import tempfile

# folder -> folders, or single files, that it may include besides itself. One row per folder of the house; "include" is ddl/annotate.h.
HOUSE = {
    "include": [],
    "core": [],
    "interpose": ["core", "include", "collectors/collectors.h"],  # one library; the lifecycle starts collectors
    "collectors": ["core", "interpose", "include"],
    "store": ["core"],
    "analyzer": ["core", "store"],
    "history": ["core", "store"],
    "reports": ["core", "store", "analyzer", "history"],
    "tui": ["core", "store", "analyzer", "reports"],  # safe_text.h, format.h
    "autotuner": ["core", "store", "analyzer"],
    "cli": ["core", "store", "analyzer", "history", "reports", "tui", "autotuner", "collectors/collectors.def"],
    "workloads": ["include"],
    "bench": ["core", "store", "analyzer", "autotuner", "collectors", "include", "tests", "tui"],
}
SOURCES = {".c", ".cpp", ".h", ".def", ".inc", ".in"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def target_folder(root, source, path, quoted):
    """The folder of the house that an include names, None if it is not ours."""
    if quoted:  # relative to the file comes first, as for the compiler
        beside = (source.parent / path).resolve()
        if beside.exists() and root in beside.parents:
            return beside.relative_to(root).parts[0]
    first = pathlib.PurePosixPath(path).parts[0]
    if first == "ddl":
        return "include"
    return first if first in HOUSE or first == "tests" else None


def wrong_includes(root):
    root = root.resolve()
    for folder, others in HOUSE.items():
        for source in sorted((root / folder).rglob("*")):
            if source.suffix not in SOURCES or not source.is_file():
                continue
            for number, line in enumerate(source.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = target_folder(root, source, match[2], match[1] == '"')
                if target not in (None, folder, *others) and match[2] not in others:
                    allowed = ", ".join([folder, *others])
                    yield f"{source.relative_to(root)}:{number}: {folder} may not include {match[2]} (only {allowed})"


def sources_outside(root):
    """A folder that no rule covers would not be checked in silence."""
    for path in sorted(root.iterdir()):
        known = path.name in HOUSE or path.name.startswith(".") or path.name in ("tests", "docs", "tools", "cmake", "share", "build")
        if path.is_dir() and not known and not path.name.endswith(".ddl") and any(p.suffix in SOURCES for p in path.rglob("*")):
            yield f"{path.name}/: no rule says what it may include; add it to HOUSE in tests/check_includes.py"


def self_test():
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        expected = 0
        for folder, others in HOUSE.items():
            (root / folder).mkdir()
            lines = ["#include <vector>", "#include <mpi.h>", "// #include \"tests/x.h\"", f'#include "{folder}/own.h"']
            lines += ["#include <ddl/annotate.h>" if other == "include" else f'#include "{other if "." in other else other + "/x.h"}"' for other in others]
            (root / folder / "good.cpp").write_text("\n".join(lines))
            for number, other in enumerate([*HOUSE, "tests"]):
                if other != folder and other not in others:
                    (root / folder / f"bad{number}.h").write_text(f'  #  include "{"ddl/annotate.h" if other == "include" else other + "/x.h"}"\n')
                    expected += 1
        (root / "cli" / "x.h").write_text("")
        (root / "core" / "relative.cpp").write_text('#include "../cli/x.h"\n')
        (root / "extension").mkdir()
        (root / "extension" / "new.cpp").write_text("")
        wrong = list(wrong_includes(root))
        assert len(wrong) == expected + 1, (len(wrong), expected, wrong)
        assert not any("good.cpp" in line for line in wrong), wrong
        assert any(line.startswith("core/relative.cpp:1:") for line in wrong), wrong
        assert len(list(sources_outside(root))) == 1
    print(f"all {expected + 1} includes that go the wrong way were noticed")


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    wrong = [*wrong_includes(root), *sources_outside(root)]
    print("\n".join(wrong) if wrong else "all includes go the right way")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
