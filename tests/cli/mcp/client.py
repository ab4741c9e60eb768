#!/usr/bin/env python3
"""ddl mcp spoken to by the protocol's own client (npm ci --prefix tests/cli/mcp), which checks every answer against the protocol's schema; and by hand."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

from job import BUILD, DDL, check, main

HERE = Path(__file__).parent


def by_hand(folder):
    shutil.copytree(BUILD / "share" / "ddl" / "demo" / "train.ddl", "job.ddl", ignore=shutil.ignore_patterns("run.sqlite*"))
    messages = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": {"name": "findings", "arguments": {}}}]
    text = "\n".join(map(json.dumps, messages)) + "\n\n" + "x" * (3 << 20) + "\n" + json.dumps({"jsonrpc": "2.0", "id": 4, "method": "ping"}) + "\n"
    done = subprocess.run([DDL, "mcp", "."], input=text, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and done.stderr == "", f"{done.returncode}: {done.stderr}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    check([a["id"] for a in answers] == [1, "two", None, 4], f"{[a['id'] for a in answers]}: one line per request; a line of 3 MiB is refused, once")
    check(json.loads(answers[1]["result"]["content"][0]["text"])[0]["rank"] == 2, "the slow rank of the shipped run")
    check(not list(Path("job.ddl").glob("run.sqlite*")), "the run is left as it was")


def the_protocols_own_client(folder):
    if not shutil.which("node") or not (HERE / "node_modules").exists():
        print(f"skipped: no client (npm ci --prefix {HERE})")
        return
    done = subprocess.run(["node", HERE / "client.mjs", DDL, folder], capture_output=True, text=True, timeout=60)
    print(done.stdout, end="")
    check(done.returncode == 0, done.stderr)


if __name__ == "__main__":
    main(by_hand, the_protocols_own_client)
