#!/usr/bin/env python3
"""Nothing that a person reads uses the words of docs/style-words.txt: pages, messages, help, comments, expectations of tests.

    check_words.py [ROOT]       exit code 1 and one line per place, with what to write instead
    check_words.py --self-test  every rule finds an example of what it forbids
"""
import bisect
import itertools
import pathlib
import re
import sys

import check_named_files

READ = check_named_files.SOURCES | {".md", ".json", ".yml", ".yaml", ".html"}
RULES = "docs/style-words.txt"
# What is old stays as it was said; this test and its rules name what they forbid.
LEFT_OUT = {RULES, "tests/check_words.py"}
EXAMPLES = ["the step is foretold", "left without a goodbye", "jobs that nobody changed", "tested over doubles", "a test double", "this is no file", "'90x' is no time",
            "more is better", "the one to tune by", "the interval of its gain holds none", "what repeats in the sequence of collectives", "Of none.",
            "known. Of a rank only", "dropped without a word", "utilize", "a blacklist", "slave ranks", "heretofore"]


def rules_of(text):
    for line in text.splitlines():
        if line and not line.startswith("#"):
            forbidden, _, instead = line.partition(" => ")
            if not instead:
                sys.exit(f"{RULES}: no replacement in '{line}'")
            yield re.compile(forbidden), instead


def forbidden_in(text, rules):
    """(line, words, what to write instead). A sentence may go on in the next line: behind the marks that begin a line of a comment."""
    lines = re.split(r"\n[ \t]*(?://[/<!]*|\*(?!/)|#|--|\"(?=\w))?[ \t]*", text)
    begins = [0, *itertools.accumulate(len(line) + 1 for line in lines)]
    joined = " ".join(lines)
    for pattern, instead in rules:
        for found in pattern.finditer(joined):
            yield bisect.bisect_right(begins, found.start()), found[0], instead


def check(root):
    rules = list(rules_of((root / RULES).read_text()))
    wrong = 0
    for path in check_named_files.files_of(root):
        name = path.relative_to(root).as_posix()
        if path.suffix in READ and path.is_file() and name not in LEFT_OUT:
            for line, words, instead in sorted(forbidden_in(path.read_text(errors="replace"), rules)):
                print(f"{name}:{line}: '{words}': {instead}")
                wrong += 1
    return 1 if wrong else 0


def self_test():
    rules = list(rules_of((pathlib.Path(__file__).resolve().parent.parent / RULES).read_text()))
    assert len(rules) == len(EXAMPLES), (len(rules), len(EXAMPLES))
    for rule, example in zip(rules, EXAMPLES):
        assert list(forbidden_in(f"/// Says: {example} x\n", [rule])), example
    assert list(forbidden_in("// it is\n// no file\n", rules)) and [found[0] for found in forbidden_in("a\nb is no\n  * file\n", rules)] == [2]
    assert not list(forbidden_in("there is no such file, which is not a table\n", rules))
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if "--self-test" in sys.argv else check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
