#!/usr/bin/env python3
"""ddl mcp spoken to by hand, and by the protocol's own client (npm ci --prefix tests/cli/mcp), which checks every answer
against the protocol's schema.

With DDL_MCP_SCHEMA (folder schema of a checkout of modelcontextprotocol/modelcontextprotocol) and Python's jsonschema,
answers are also checked against the schema files themselves.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from job import BUILD, DDL, check, main

HERE = Path(__file__).parent


def by_hand(folder):
    shutil.copytree(
        BUILD / "share" / "ddl" / "demo" / "train.ddl", "job.ddl", ignore=shutil.ignore_patterns("run.sqlite*")
    )
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "two", "method": "tools/call", "params": {"name": "findings", "arguments": {}}},
    ]
    text = (
        "\n".join(map(json.dumps, messages))
        + "\n\n"
        + "x" * (3 << 20)
        + "\n"
        + json.dumps({"jsonrpc": "2.0", "id": 4, "method": "ping"})
        + "\n"
    )
    done = subprocess.run([DDL, "mcp", "."], input=text, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and done.stderr == "", f"{done.returncode}: {done.stderr}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    check(
        [a["id"] for a in answers] == [1, "two", None, 4],
        f"{[a['id'] for a in answers]}: one line per request; a line of 3 MiB is refused, once",
    )
    check(json.loads(answers[1]["result"]["content"][0]["text"])[0]["rank"] == 2, "the slow rank of the shipped run")
    check(not list(Path("job.ddl").glob("run.sqlite*")), "the run is left as it was")


def answers_fit_the_schema(folder):
    """Of each revision that ddl speaks: definitions of the results, and of what goes around them."""
    schemas = os.environ.get("DDL_MCP_SCHEMA")
    try:
        import jsonschema
    except ImportError:
        jsonschema = None
    if not schemas or not jsonschema:
        print("skipped: no DDL_MCP_SCHEMA, or no module jsonschema")
        return
    asked = [
        ("InitializeResult", "initialize", None),
        ("ListToolsResult", "tools/list", {}),
        ("EmptyResult", "ping", {}),
    ]
    asked += [
        ("CallToolResult", "tools/call", {"name": name, "arguments": arguments})
        for name, arguments in (
            ("list_runs", {}),
            ("report", {}),
            ("report", {"section": "ranks"}),
            ("report", {"run": "absent.ddl"}),
            ("findings", {}),
            ("list_tables", {}),
            ("query", {"sql": "SELECT 1 AS one"}),
            ("query", {"sql": "DROP TABLE event"}),
            ("diff", {"before": "job.ddl", "after": "job.ddl"}),
            ("explain_metric", {"name": "ccr_xfer"}),
        )
    ]
    asked += [(None, "tools/call", {"name": "shell"}), (None, "resources/list", {})]
    for revision in ("2025-11-25", "2025-06-18", "2024-11-05"):
        schema = json.loads(Path(schemas, revision, "schema.json").read_text())
        place = "$defs" if "$defs" in schema else "definitions"
        error = next(name for name in ("JSONRPCErrorResponse", "JSONRPCError") if name in schema[place])
        response = next(name for name in ("JSONRPCResultResponse", "JSONRPCResponse") if name in schema[place])

        def fits(message, name):
            checker = jsonschema.validators.validator_for(schema)(
                {"$schema": schema["$schema"], place: schema[place], "$ref": f"#/{place}/{name}"}
            )
            for wrong in checker.iter_errors(message):
                check(False, f"{revision}: {name}: {wrong.message}")

        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        messages = [
            {"jsonrpc": "2.0", "id": i, "method": method, "params": hello if parameters is None else parameters}
            for i, (_, method, parameters) in enumerate(asked)
        ]
        done = subprocess.run(
            [DDL, "mcp", folder],
            input="\n".join(map(json.dumps, messages)) + "\n",
            capture_output=True,
            text=True,
            timeout=60,
        )
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        check(
            [answer["id"] for answer in answers] == list(range(len(asked))),
            f"{revision}: {len(answers)} answers to {len(asked)} requests",
        )
        for (name, _, _), answer in zip(asked, answers):
            fits(answer, response if name else error)
            if name:
                fits(answer["result"], name)
        check(answers[0]["result"]["protocolVersion"] == revision, answers[0])
        print(f"{revision}: {len(answers)} answers fit")


def the_protocols_own_client(folder):
    if not shutil.which("node") or not (HERE / "node_modules").exists():
        print(f"skipped: no client (npm ci --prefix {HERE})")
        return
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = subprocess.run(["node", HERE / "client.mjs", DDL, folder], capture_output=True, text=True, timeout=60)
    print(done.stdout, end="")
    check(done.returncode == 0, done.stderr)
    check(
        {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before,
        "what was asked has changed a file",
    )


if __name__ == "__main__":
    main(by_hand, answers_fit_the_schema, the_protocols_own_client)
