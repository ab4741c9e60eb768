// ddl mcp, message by message: what it answers is what the other verbs print, and nothing that is asked changes a file
// or leaves the folder.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "cli/mcp_server.h"
#include "tests/cli/ddl_command.h"
#include "tests/support/synthetic_run.h"

namespace ddl::cli {
namespace {

using namespace test::literals;
namespace fs = std::filesystem;

test::SyntheticRun job() {
  return test::run().ranks(4).steps(20).forward("conv1", 20_ms).allreduce(4_MiB, 5_ms).job_json();
}

class Mcp : public testing::Test {
 protected:
  Mcp() {
    job().write(folder_ / "plain.ddl");
    job().slow(2, 25_ms).write(folder_ / "slow.ddl");
  }

  Json ask(const Json& request) {
    const std::optional<std::string> answer = server().answer(request.dump());
    EXPECT_TRUE(answer) << request;
    EXPECT_EQ(answer->find('\n'), std::string::npos) << "one message, one line";
    const Json json = Json::parse(*answer);
    EXPECT_EQ(json["jsonrpc"], "2.0");
    EXPECT_EQ(json["id"], request["id"]);
    return json;
  }
  Json request(const char* method, const Json& params) {
    return {{"jsonrpc", "2.0"}, {"id", ++id_}, {"method", method}, {"params", params}};
  }
  Json call(const char* tool, const Json& arguments) {
    return ask(request("tools/call", {{"name", tool}, {"arguments", arguments}}));
  }
  /// The text of a call that must succeed.
  std::string text(const char* tool, const Json& arguments) {
    const Json answer = call(tool, arguments);
    EXPECT_FALSE(answer["result"]["isError"].get<bool>()) << answer;
    return answer["result"]["content"][0]["text"];
  }
  /// The text of a call that the tool must refuse.
  std::string refusal(const char* tool, const Json& arguments) {
    const Json answer = call(tool, arguments);
    EXPECT_TRUE(answer["result"]["isError"].get<bool>()) << answer;
    return answer["result"]["content"][0]["text"];
  }
  int code_of(const Json& answer) { return answer["error"]["code"]; }

  /// Every file below the scratch folder with what it holds.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      all[entry.path()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return all;
  }

  McpServer& server() {
    if (!server_) server_ = std::make_unique<McpServer>(folder_.path());
    return *server_;
  }

  test::ScratchFolder folder_;

 private:
  std::unique_ptr<McpServer> server_;
  int id_ = 0;
};

TEST_F(Mcp, AgreesOnARevisionAndSaysWhatItIs) {
  for (const char* known : {"2025-11-25", "2025-06-18", "2024-11-05"}) {
    EXPECT_EQ(ask(request("initialize",
                          {{"protocolVersion", known}, {"capabilities", Json::object()}}))["result"]["protocolVersion"],
              known);
  }
  const Json result = ask(request("initialize", {{"protocolVersion", "1999-01-01"}}))["result"];
  EXPECT_EQ(result["protocolVersion"], "2025-11-25");
  EXPECT_EQ(result["serverInfo"]["name"], "ddl");
  EXPECT_TRUE(result["capabilities"].contains("tools"));
  EXPECT_FALSE(server().answer(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"));
  EXPECT_EQ(ask(request("ping", Json::object()))["result"], Json::object());
}

TEST_F(Mcp, ListsToolsThatOnlyRead) {
  const Json tools = ask(request("tools/list", Json::object()))["result"]["tools"];
  std::vector<std::string> names;
  for (const Json& tool : tools) {
    names.push_back(tool["name"]);
    EXPECT_EQ(tool["inputSchema"]["type"], "object");
    EXPECT_TRUE(tool["annotations"]["readOnlyHint"].get<bool>()) << tool;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"list_runs", "report", "findings", "query", "list_tables", "diff",
                                             "explain_metric"}));
}

TEST_F(Mcp, AnswersWhatTheVerbsPrint) {
  const std::string slow = (folder_ / "slow.ddl").string(), plain = (folder_ / "plain.ddl").string();
  const Json report = Json::parse(ddl_command({"report", slow, "--json"}).out);
  EXPECT_EQ(Json::parse(text("findings", {{"run", "slow.ddl"}})), report["findings"]);
  EXPECT_TRUE(
      has(text("report", {{"run", "slow.ddl"}}), report["findings"][0]["sentence"].get<std::string>().substr(0, 30)));
  EXPECT_EQ(text("report", {{"run", "slow.ddl"}, {"section", "ranks"}}), ddl_command({"report", slow, "ranks"}).out);
  const char* sql = "SELECT rank, sum(wait_ns) AS wait_ns FROM v_collective GROUP BY rank";
  EXPECT_EQ(text("query", {{"run", "slow.ddl"}, {"sql", sql}}), ddl_command({"query", slow, sql, "--json"}).out);
  EXPECT_EQ(text("list_tables", {{"run", "slow.ddl"}}), ddl_command({"query", slow, "--tables"}).out);
  EXPECT_TRUE(has(text("diff", {{"before", "plain.ddl"}, {"after", "slow.ddl"}}), "rank 2"));
  EXPECT_TRUE(has(ddl_command({"diff", plain, slow}).out, "rank 2"));
  EXPECT_EQ(text("explain_metric", {{"name", "ccr_xfer"}}),
            ddl_command({"analyze", "--list", "--metric", "ccr_xfer"}).out);
  EXPECT_TRUE(has(text("explain_metric", Json::object()), "ccr_xfer: "));
  const std::string runs = text("list_runs", Json::object());
  EXPECT_TRUE(has(runs, "\"run\":\"slow.ddl\"") && has(runs, "\"run\":\"plain.ddl\"")) << runs;
}

TEST_F(Mcp, WritesNothingWhateverIsAsked) {
  const std::map<std::string, std::string> before = files();  // spools only: nobody has read these runs yet
  EXPECT_FALSE(has(text("report", {{"run", "slow.ddl"}}), "error"));
  for (const char* sql :
       {"DELETE FROM event", "DROP TABLE event", "PRAGMA user_version = 7", "ATTACH 'other.sqlite' AS other",
        "INSERT INTO meta VALUES ('a', 'b')", "VACUUM INTO 'copy.sqlite'", "SELECT 1; DELETE FROM event",
        "SELECT load_extension('evil.so')", "SELECT writefile('x', 'y')", "CREATE TEMP TABLE t (x)", "", "nonsense"}) {
    EXPECT_FALSE(refusal("query", {{"run", "slow.ddl"}, {"sql", sql}}).empty()) << sql;
  }
  EXPECT_EQ(files(), before);
}

TEST_F(Mcp, SeesNoRunOutsideOfItsFolder) {
  const test::ScratchFolder other;
  job().write(other / "secret.ddl");
  fs::create_directory_symlink(other / "secret.ddl", folder_ / "link.ddl");
  for (const std::string& name :
       {(other / "secret.ddl").string(), "../" + other.path().filename().string() + "/secret.ddl",
        std::string("link.ddl"), std::string("/"), std::string("absent.ddl"), std::string("a\0b.ddl", 7)}) {
    EXPECT_TRUE(has(refusal("report", {{"run", name}}), "there is no run")) << name;
  }
  EXPECT_FALSE(has(text("list_runs", Json::object()), "link.ddl"));
}

TEST_F(Mcp, BoundsItsAnswers) {
  const char* endless =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, hex(zeroblob(400)) AS zeros FROM n";
  const std::string rows = text("query", {{"sql", endless}, {"limit", 1000}});
  EXPECT_LT(rows.size(), kMcpMostAnswerBytes + 200);
  EXPECT_TRUE(has(rows, "(the first ")) << rows.substr(rows.size() - 100);
  EXPECT_TRUE(has(text("query", {{"sql", endless}, {"limit", 3}}), "(the first 3 rows)"));
  EXPECT_TRUE(has(refusal("query", {{"sql", "SELECT zeroblob(2000000000)"}}), "too big"));
}

/// JSON has one type of numbers: some programs write all of theirs with a point.
TEST_F(Mcp, TakesANumberWithAnIntegralValueForAnInteger) {
  const char* endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
  for (const char* limit : {"5", "5.0", "5e0", "50e-1"})
    EXPECT_TRUE(has(text("query", {{"sql", endless}, {"limit", Json::parse(limit)}}), "(the first 5 rows)")) << limit;
  EXPECT_TRUE(has(text("query", {{"sql", endless}, {"limit", 1e300}}), "(the first 1000 rows)"));
  EXPECT_TRUE(has(text("query", {{"sql", endless}, {"limit", 0.0}}), "(the first 1 rows)"));
  for (const double limit : {5.5, -1.0, -0.5})
    EXPECT_EQ(code_of(call("query", {{"sql", endless}, {"limit", limit}})), -32602) << limit;
  EXPECT_EQ(Json::parse(*server().answer(R"({"jsonrpc":"2.0","id":3.0,"method":"ping"})"))["id"], 3);
  EXPECT_EQ(code_of(Json::parse(*server().answer(R"({"jsonrpc":"2.0","id":3.5,"method":"ping"})"))), -32600);
}

TEST_F(Mcp, RefusesWhatIsNoRequest) {
  const auto raw = [&](const std::string& message) { return Json::parse(*server().answer(message)); };
  EXPECT_EQ(code_of(raw("{")), -32700);
  EXPECT_EQ(code_of(raw(std::string(100'000, '['))), -32700);
  EXPECT_EQ(code_of(raw("[]")), -32600);
  EXPECT_EQ(code_of(raw("7")), -32600);
  EXPECT_EQ(code_of(raw(R"({"jsonrpc":"2.0","id":{},"method":"ping"})")), -32600);
  EXPECT_EQ(code_of(raw(std::string(kMcpMostQuestionBytes + 1, ' '))), -32600);
  EXPECT_EQ(code_of(raw("{\"id\":1,\"method\":\"\xff\"}")), -32700);
  EXPECT_EQ(code_of(ask(request("resources/list", Json::object()))), -32601);
  EXPECT_EQ(code_of(ask(request("tools/call", {{"name", "shell"}}))), -32602);
  EXPECT_EQ(code_of(ask(request("tools/call", Json::array()))), -32602);
  EXPECT_EQ(code_of(call("query", Json::object())), -32602);
  EXPECT_EQ(code_of(call("query", {{"sql", 7}})), -32602);
  EXPECT_EQ(code_of(call("query", {{"sql", "SELECT 1"}, {"limit", -1}})), -32602);
  EXPECT_EQ(code_of(call("report", {{"section", "nonsense"}})), -32602);
  EXPECT_EQ(code_of(call("report", {{"path", "x"}})), -32602);
  EXPECT_FALSE(server().answer(R"({"jsonrpc":"2.0","id":4,"result":{}})")) << "an answer to nothing that was asked";
}

TEST_F(Mcp, ReadsARunAgainThatHasGrown) {
  const Json count = {{"run", "plain.ddl"}, {"sql", "SELECT count(*) AS n FROM process"}};
  EXPECT_EQ(Json::parse(text("query", count))[0]["n"], 4);
  fs::remove_all(folder_ / "plain.ddl");
  job().ranks(8).write(folder_ / "plain.ddl");
  EXPECT_EQ(Json::parse(text("query", count))[0]["n"], 8);
}

TEST(McpFolder, MustBeOne) { EXPECT_EQ(ddl_command({"mcp", "/dev/null"}).code, 2); }

}  // namespace
}  // namespace ddl::cli
