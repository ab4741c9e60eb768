// A session of the protocol's own client with ddl mcp: node client.mjs DDL FOLDER. The client checks every answer against the protocol's schema.
import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [ddl, folder] = process.argv.slice(2);
const client = new Client({ name: "ddl-test", version: "1" });
await client.connect(new StdioClientTransport({ command: ddl, args: ["mcp", folder] }));
assert.equal(client.getServerVersion().name, "ddl");
await client.ping();
const { tools } = await client.listTools();
assert.equal(tools.length, 7);
const call = async (name, args = {}) => {
  const { content, isError } = await client.callTool({ name, arguments: args });
  return { text: content[0].text, isError };
};
const runs = await call("list_runs");
assert.match(runs.text, /"run":"job.ddl"/);
const report = await call("report", { run: "job.ddl" });
assert.match(report.text, /WHERE IT GOES/);
const findings = JSON.parse((await call("findings")).text);
assert.equal(findings[0].rank, 2);
assert.deepEqual(JSON.parse((await call("query", { sql: "SELECT count(*) AS ranks FROM process" })).text), [{ ranks: 4 }]);
const hostile = ["DELETE FROM event", "DROP TABLE event", "PRAGMA journal_mode = WAL", "PRAGMA writable_schema = 1",
  "ATTACH 'x.sqlite' AS x", "VACUUM INTO 'x.sqlite'", "SELECT 1; DROP TABLE event", "SELECT load_extension('x.so')",
  "SELECT readfile('/etc/passwd')", "BEGIN EXCLUSIVE", "INSERT INTO meta VALUES ('a', 'b')", "CREATE TABLE x (y)", "WITH x AS (SELECT 1) DELETE FROM event"];
for (const sql of hostile) assert.equal((await call("query", { sql })).isError, true, sql);
for (const run of ["../job.ddl", "/etc", "$(touch x)", "; touch x"])
  assert.equal((await call("report", { run })).isError, true, run);
await assert.rejects(client.callTool({ name: "shell", arguments: {} }), /unknown tool/);
await client.close();
console.log(`${tools.length} tools, first finding: ${findings[0].sentence}`);
