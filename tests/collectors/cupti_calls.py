#!/usr/bin/env python3
"""The table of launching functions (collectors/cupti_calls.h) against the names in CUPTI's headers.

usage: cupti_calls.py SOURCE_DIR CUDA_INCLUDE_DIR
"""
import re
import sys
from pathlib import Path

source, include = map(Path, sys.argv[1:3])
KINDS = [("K", r"(cudaLaunch(_ptsz)?$|cudaLaunchKernel|cudaLaunchCooperative|__cudaLaunchKernel|cuLaunch(Kernel|Cooperative|Grid|$))"),
         ("G", r"(cudaGraphLaunch|cuGraphLaunch)"),
         ("C", r"(cudaMemcpy|cudaMemset|cudaMemPrefetch|cuMemcpy|cuMemset|cuMemPrefetch)"),
         ("E", r"(cudaEventRecord|cuEventRecord)"),
         ("Q", r"(cudaEventQuery|cuEventQuery)"),
         ("S", r"\w*((Stream|Event|Device|Ctx|Thread)Synchronize|StreamWaitEvent)")]
text = (source / "collectors/cupti_calls.h").read_text()
failed = False
for table, header in (("kRuntimeCalls", "cupti_runtime_cbid.h"), ("kDriverCalls", "cupti_driver_cbid.h")):
    ours = {}
    body = text[text.index(f"constexpr CallRange {table}[]"):]
    for first, last, kind in re.findall(r"\{(\d+), (\d+), k([KGCESQ])\}", body[:body.index(";")]):
        ours.update({number: kind for number in range(int(first), int(last) + 1)})
    theirs = {}
    for name, number in re.findall(r"CUPTI_\w+_TRACE_CBID_(\w+)\s*=\s*(\d+)", (include / header).read_text()):
        kind = next((kind for kind, pattern in KINDS if re.match(pattern, re.sub(r"_v\d+$", "", name))), None)
        if kind:
            theirs[int(number)] = kind
            if ours.get(int(number)) != kind:
                failed = True
                print(f"FAILED: {name} = {number} is {kind}, in {table} {ours.get(int(number))}")
    if len(theirs) < 50:
        failed = True
        print(f"FAILED: only {len(theirs)} functions in {header}: its form has changed")
    newest = max(theirs, default=0)
    for number in ours:
        if number <= newest and number not in theirs:
            failed = True
            print(f"FAILED: {number} in {table} is none of them")
    print(f"{len(theirs)} functions in {header}")
sys.exit(failed)
