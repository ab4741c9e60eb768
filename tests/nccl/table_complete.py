#!/usr/bin/env python3
"""Every function that nccl.h declares is either a row of the table or exempt, for a reason that is written here.

usage: table_complete.py LIBRARY NCCL_H
"""
import re
import subprocess
import sys

library, header = sys.argv[1:]
EXEMPT = {
    "asks: local": r"ncclGetVersion|ncclGetErrorString|ncclGetLastError|ncclCommGetAsyncError|ncclComm(Count|CuDevice|UserRank|QueryProperties)|ncclWinGetUserPtr",
    "makes an id or a reduction operation: local": r"ncclGetUniqueId|ncclRedOp\w+",
    "debugging": r"ncclResetDebugInit",
    "runs on the device, or sets that up": r"nccl(DevComm|Team|Gin|Lsa|Get(Lsa|Multimem|Peer))\w*",
}
with open(header) as file:
    text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
declared = {name for name in re.findall(r"^\s*(?:ncclResult_t|const char\s*\*|void)\s+(nccl\w+)\s*\(", text, re.M)}
shown = {line.split()[-1].split("@")[0] for line in subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()}
rows = {name for name in shown if re.fullmatch(r"nccl[A-Z]\w*", name) and not name.startswith("ncclProfiler_")}
exempt = {name for name in declared if any(re.fullmatch(pattern, name) for pattern in EXEMPT.values())}
wrong = [("neither a row nor exempt", declared - rows - exempt), ("a row and exempt", rows & exempt), ("a row that nccl.h does not declare", rows - declared),
         ("a row without its pncclX", {r for r in rows if "p" + r not in shown}), ("too few functions seen in nccl.h", declared if len(declared) < 40 else set())]
for message, names in wrong:
    if names:
        print(f"FAILED: {message}: {' '.join(sorted(names))}")
print(f"{len(declared)} functions = {len(rows & declared)} rows + {len(exempt)} exempt")
sys.exit(1 if any(names for _, names in wrong) else 0)
