#!/usr/bin/env python3
"""Comments name files that are there: `clock.cpp` or `tests/core/clock_test.cpp` exists, and `keep() in core/budget.cpp` is in that file.
So does docs/architecture.md, whose functions stand behind the file that has them, in the same line: `core/recorder.h`: `keep()`.

    check_named_files.py [ROOT]       exit code 1 and one line per name that leads nowhere
    check_named_files.py --self-test  makes every mistake once in a small tree and sees that it is noticed
"""
import os
import pathlib
import re
import sys
import tempfile

SOURCES = {".c", ".cpp", ".h", ".def", ".inc", ".in", ".py", ".sh", ".cmake", ".sql", ".F90", ".txt"}
COMMENT = re.compile(r"(?:^|\s)(?://+[/<!]*|#+(?!\s*(?:include|if|ifdef|ifndef|define|undef|elif)\b)|/\*+|\*|--|!)\s(.*)")
FILE = re.compile(r"(?<![\w*<>{}$%/.~-])((?:[\w-]+/)*[\w-]+\.(?:cpp|h|c|def|py|cmake|sql|inc|F90))\b(?![\w(/]|\.\w)")
WORD_IN_FILE = re.compile(r"\b(\w+)\(\)(?:,)? in ((?:[\w-]+/)*[\w-]+\.(?:cpp|h|c|def|py))\b")
# Files of others, and names that stand for any.
FOREIGN = {"mpi.h", "mpif.h", "mpif-ext.h", "mpi-ext.h", "nccl.h", "cupti.h", "nvml.h", "x86intrin.h", "coll_tuned_decision_fixed.c"}
SELF = "tests/check_named_files.py"
FOREIGN_FOLDERS = {"torch", "nvtx3", "valgrind"}
ARCHITECTURE = "docs/architecture.md"
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w./-]+\.(?:cpp|h|c|def|py|cmake|sql)")
FUNCTION = re.compile(r"(\w+)\(\)")


def files_of(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("build", "node_modules", "__pycache__") and not f.endswith(".ddl"))
        yield from (pathlib.Path(folder) / name for name in sorted(names))


def comments_of(text):
    """(number of its first line, text) of every comment; those on lines that follow each other are one."""
    begin, words = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = COMMENT.search(line)
        if comment:
            begin = begin or number
            words.append(comment[1])
        elif begin:
            yield begin, " ".join(words)
            begin, words = 0, []


def wrong_in_architecture(root):
    page = root / ARCHITECTURE
    for number, line in enumerate(page.read_text().splitlines() if page.exists() else [], 1):
        text = ""  # of the file named last
        for code in CODE.findall(line):
            if PATH.fullmatch(code):
                file = root / code
                text = file.read_text() if file.is_file() else ""
                if not text:
                    yield f"{ARCHITECTURE}:{number}: there is no {code}"
            elif (function := FUNCTION.fullmatch(code)) and not re.search(rf"\b{function[1]}\(", text):
                yield f"{ARCHITECTURE}:{number}: there is no {code} in the file before it"


def wrong_names(root):
    yield from wrong_in_architecture(root)
    files = list(files_of(root))
    by_name = {}
    for path in files:
        by_name.setdefault(path.name, []).append(path)

    def found(beside, name):
        """The files that a name may mean: a path from the root or from where it stands, or the file of that name wherever it is."""
        if "/" in name:
            return [path for path in by_name.get(name.rsplit("/", 1)[1], []) if path in (root / name, beside / name) or path.as_posix().endswith(f"/{name}")]
        return by_name.get(name, [])

    for path in files:
        if path.suffix not in SOURCES or not path.is_file() or path == root / SELF:
            continue
        for number, comment in comments_of(path.read_text(errors="replace")):
            place = f"{path.relative_to(root)}:{number}"
            for name in FILE.findall(comment):
                mine = name not in FOREIGN and name.split("/")[0] not in FOREIGN_FOLDERS and not re.search("NAME|[A-Z]{3}", name)
                if mine and not found(path.parent, name):
                    yield f"{place}: there is no {name}"
            for word, name in WORD_IN_FILE.findall(comment):
                there = found(path.parent, name)
                if there and not any(re.search(rf"\b{word}\(", file.read_text(errors="replace")) for file in there):
                    yield f"{place}: there is no {word}() in {name}"


def self_test():
    good = "// See good.cpp, core/good.cpp and keep() in\n// good.cpp; nvml.h is not ours, *.cpp no name, model_NAME.cpp any.\nint keep();  // as in\n"
    bad = {"gone.cpp": "// See nowhere.cpp.\n", "folder.h": "/// As tests/good.cpp has it\n", "torn.h": "// drop() in\n// good.cpp\n",
           "script.py": "x = 1  # nowhere.py\n", "CMakeLists.txt": "# like nowhere.def\n", "block.c": "/* nowhere.h */\n"}
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "core").mkdir()
        (root / "core" / "good.cpp").write_text(good)
        for file, text in bad.items():
            (root / "core" / file).write_text(text)
        wrong = sorted(wrong_names(root))
        (root / "docs").mkdir()
        (root / ARCHITECTURE).write_text("`core/good.cpp`: `keep()`, `drop()`\n`core/gone.h`: `keep()`\n`MPI_Init` and `keep()`\n")
        pages = list(wrong_in_architecture(root))
        assert [line.split(":")[1] for line in pages] == ["1", "2", "2", "3"], pages
        assert [line.split(":")[0] for line in wrong] == sorted(f"core/{file}" for file in bad), wrong
    print(f"all {len(bad)} names that lead nowhere were noticed")


def main():
    if "--self-test" in sys.argv[1:]:
        self_test()
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    wrong = list(wrong_names(root))
    print("\n".join(wrong) if wrong else "all files that comments name are there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
