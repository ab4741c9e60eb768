#!/usr/bin/env python3
"""Puts `call count_call('MPI_X')` in front of every `call MPI_X(...)` of a Fortran source: the program's own count of what it called.

    insert_counts.py IN OUT

Line numbers stay as they are. Calls that are the rest of a one-line `if` are refused: the count would not be conditional. Not counted are
calls with a comment "answered by ...": the MPI library's Fortran layer returns without the C call that it stands for, so nobody can record it.
"""
import re
import sys

source, target = sys.argv[1:]
CALL = re.compile(r"^(\s*)(call (MPIX?_[A-Z]\w*).*)$")

lines = []
for number, line in enumerate(open(source), 1):
    match = CALL.match(line.rstrip("\n"))
    if match and "! answered by" not in line:
        line = f"{match[1]}call count_call('{match[3]}'); {match[2]}\n"
    elif not match and re.search(r"^[^!']*\bcall MPIX?_", line, re.I):
        sys.exit(f"{source}:{number}: not at the begin of a statement, so it cannot be counted: {line.strip()}")
    lines.append(line)
open(target, "w").write(f'#line 1 "{source}"\n' + "".join(lines))
