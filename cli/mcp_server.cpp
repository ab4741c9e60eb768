#include "cli/mcp_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "analyzer/metrics/metrics.h"
#include "analyzer/run_diff.h"
#include "cli/mcp_runs.h"
#include "cli/options.h"
#include "core/error.h"
#include "reports/csv.h"
#include "reports/diff.h"
#include "reports/json.h"
#include "reports/overview.h"
#include "reports/rows.h"
#include "reports/text.h"
#include "store/job.h"

namespace ddl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRevisions[] = {"2025-11-25", "2025-06-18", "2024-11-05"};  // newest first
constexpr double kQuerySeconds = 10;
constexpr size_t kMostRows = 1000;

// Codes of JSON-RPC 2.0.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kNoMethod = -32601, kInvalidParameters = -32602;

struct ProtocolError {
  int code;
  std::string message;
};

/// One line, and valid UTF-8 whatever a run holds.
std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json error_answer(const Json& id, const ProtocolError& error) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", error.code}, {"message", error.message}}}};
}

std::string bounded(std::string text) {
  if (text.size() <= kMcpMostAnswerBytes) return text;
  const size_t all = text.size();
  size_t end = text.rfind('\n', kMcpMostAnswerBytes);
  if (end == std::string::npos || end == 0) end = kMcpMostAnswerBytes;
  text.resize(end);
  return text + fmt::format("\n(the first {} of {} bytes: ask for a section, or for fewer rows)", end, all);
}

/// JSON has one type of numbers: 5.0 is an integer (JSON Schema draft 6 and later, which MCP uses).
bool is_integer(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

std::string text_of(const reports::Document& document) { return render_text(document, {.width = 120, .color = false}); }

}  // namespace

/// One argument of a tool.
struct Parameter {
  const char* name;
  const char* type;  ///< of JSON Schema
  bool required;
  const char* text;
  std::vector<std::string> values = {};  ///< no others; empty: any
};

/// What a tool was asked with. Throws ProtocolError for what its parameters do not allow.
class Asked {
 public:
  Asked(const std::vector<Parameter>& parameters, const Json& given) : given_(given) {
    if (!given.is_object()) throw ProtocolError{kInvalidParameters, "arguments are an object"};
    for (const auto& [key, value] : given.items()) {
      const auto p = std::find_if(parameters.begin(), parameters.end(),
                                  [&name = key](const Parameter& each) { return each.name == name; });
      if (p == parameters.end()) throw ProtocolError{kInvalidParameters, fmt::format("unknown argument '{}'", key)};
      const bool fits =
          p->type == std::string_view("integer") ? is_integer(value) && value.get<double>() >= 0 : value.is_string();
      if (!fits) throw ProtocolError{kInvalidParameters, fmt::format("argument '{}' must be of type {}", key, p->type)};
      if (!p->values.empty() &&
          std::find(p->values.begin(), p->values.end(), value.get<std::string>()) == p->values.end())
        throw ProtocolError{kInvalidParameters,
                            fmt::format("argument '{}' must be one of: {}", key, fmt::join(p->values, ", "))};
    }
    for (const Parameter& p : parameters)
      if (p.required && !given.contains(p.name))
        throw ProtocolError{kInvalidParameters, fmt::format("argument '{}' is missing", p.name)};
  }

  std::string text(const char* name) const { return given_.value(name, std::string()); }
  /// At most `most`: a number of JSON may be larger than any integer.
  uint64_t number(const char* name, uint64_t otherwise, uint64_t most) const {
    return static_cast<uint64_t>(
        std::min(given_.value(name, static_cast<double>(otherwise)), static_cast<double>(most)));
  }

 private:
  const Json& given_;
};

namespace {

std::vector<std::string> tables_of_the_report() {
  std::vector<std::string> names;
  for (const reports::Section& section : reports::sections()) names.emplace_back(section.name);
  return names;
}

std::string explain_metric(const std::string& name) {
  std::string text;
  std::vector<std::string> names;
  for (const Metric& metric : all_metrics()) {
    if (metric.id == name) return reports::describe_metric(metric) + "\n" + metric.sql;
    names.push_back(metric.id);
    text += fmt::format("{}: {}\n", metric.id, metric.name);
  }
  if (name.empty()) return text;
  throw Error(fmt::format("there is no metric '{}'", name), did_you_mean(name, names, "leave the name out to list all"),
              ExitCode::kUsage);
}

}  // namespace

class McpServer::Tools {
 public:
  explicit Tools(const std::filesystem::path& folder) : runs_(folder) {
    const Parameter run = {"run", "string", false,
                           "Name of a run, as list_runs gives it. The newest if it is left out."};
    tools_ = {
        {"list_runs",
         "Runs that ddl has recorded, newest first: name, command, when, how it ended.",
         {},
         [this](const Asked&) { return list(); }},
        {"report",
         "Where the time of a run went: what to fix first, step time, computing, exposed transfer and waiting, ranks, collectives, layers, what "
         "is missing. All on one screen, or one section whole. n/a is never 0: the reason stands beside it.",
         {run, {"section", "string", false, "One table or block instead of the overview.", tables_of_the_report()}},
         [this](const Asked& asked) { return report(asked.text("run"), asked.text("section")); }},
        {"findings",
         "What slows a run down, most important first, as JSON: sentence, rank, saving_ns per step (what a replay without the fault saves; bound: at least or at most), "
         "confidence, evidence, what to try.",
         {run},
         [this](const Asked& asked) { return findings(asked.text("run")); }},
        {"query",
         fmt::format(
             "One SELECT on a run's SQLite store, as JSON rows. Times are ns. Views v_* are stable: list_tables names them. Ends after {} s.",
             kQuerySeconds),
         {run,
          {"sql", "string", true, "SELECT rank, sum(wait_ns) FROM v_collective GROUP BY rank"},
          {"limit", "integer", false, "Rows at most; 100 if it is left out, 1000 at most."}},
         [this](const Asked& asked) {
           return query(asked.text("run"), asked.text("sql"), asked.number("limit", 100, kMostRows));
         }},
        {"list_tables",
         "Views and tables of a run with their columns, for query.",
         {run},
         [this](const Asked& asked) { return reports::list_tables(runs_.open(asked.text("run")).db); }},
        {"diff",
         "What changed from one run to another: findings that are new or gone, every metric with its change and the interval of that.",
         {{"before", "string", true, "Name of a run."}, {"after", "string", true, "Name of a run."}},
         [this](const Asked& asked) { return diff(asked.text("before"), asked.text("after")); }},
        {"explain_metric",
         "What a metric says, its unit, its definition and how it is computed (SQL).",
         {{"name", "string", false, "e.g. ccr_xfer. Lists all metrics if it is left out."}},
         [](const Asked& asked) { return explain_metric(asked.text("name")); }},
    };
  }

  Json list_of_tools() const {
    Json list = Json::array();
    for (const Tool& tool : tools_) {
      Json properties = Json::object(), required = Json::array();
      for (const Parameter& p : tool.parameters) {
        properties[p.name] = {{"type", p.type}, {"description", p.text}};
        if (!p.values.empty()) properties[p.name]["enum"] = p.values;
        if (p.required) required.push_back(p.name);
      }
      Json schema = {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
      if (!required.empty()) schema["required"] = required;
      list.push_back(
          {{"name", tool.name},
           {"description", tool.text},
           {"inputSchema", schema},
           {"annotations",
            {{"readOnlyHint", true}, {"destructiveHint", false}, {"idempotentHint", true}, {"openWorldHint", false}}}});
    }
    return list;
  }

  Json call(const Json& parameters) {
    const auto name = parameters.find("name");
    if (name == parameters.end() || !name->is_string())
      throw ProtocolError{kInvalidParameters, "params.name is missing"};
    const auto tool = std::find_if(tools_.begin(), tools_.end(),
                                   [&](const Tool& each) { return each.name == name->get<std::string>(); });
    if (tool == tools_.end())
      throw ProtocolError{kInvalidParameters, fmt::format("unknown tool '{}'", name->get<std::string>())};
    const Json arguments = parameters.value("arguments", Json::object());
    const auto content = [](const std::string& text, bool error) {
      return Json{{"content", Json::array({{{"type", "text"}, {"text", text}}})}, {"isError", error}};
    };
    try {
      return content(bounded(tool->run(Asked(tool->parameters, arguments))), false);
    } catch (const Error& error) {
      return content(error.hint().empty() ? error.what() : fmt::format("{}\nhint: {}", error.what(), error.hint()),
                     true);
    } catch (const std::exception& error) {
      return content(error.what(), true);
    }
  }

 private:
  struct Tool {
    std::string name, text;
    std::vector<Parameter> parameters;
    std::function<std::string(const Asked&)> run;
  };

  std::string list() const {
    std::string text;
    for (const std::filesystem::path& path : runs_.all()) {
      const Job job = read_job(path / "job.json");
      Json row = {{"run", path.filename().string()}, {"command", fmt::format("{}", fmt::join(job.command, " "))}};
      row["started_realtime_ns"] = job.started_realtime_ns ? Json(*job.started_realtime_ns) : Json();
      row["ended_realtime_ns"] = job.ended_realtime_ns ? Json(*job.ended_realtime_ns) : Json();
      row["exit_code"] = job.exit_code ? Json(*job.exit_code) : Json();
      text += one_line(row) + "\n";
    }
    return text.empty() ? "there are no runs in this folder: ddl record -- COMMAND makes one\n" : text;
  }

  std::string report(const std::string& name, const std::string& section) {
    Run& run = runs_.open(name);
    const reports::RunView view(run.db, std::nullopt);
    return text_of(section.empty() ? reports::build_overview(view, run.shown) : reports::build_section(view, section));
  }

  std::string findings(const std::string& name) {
    Run& run = runs_.open(name);
    const reports::RunView view(run.db, std::nullopt);
    const Json all = Json::parse(reports::render_json(reports::build_section(view, "findings")));
    return all.at("findings").dump(1, ' ', false, Json::error_handler_t::replace);
  }

  std::string query(const std::string& name, const std::string& sql, uint64_t limit) {
    reports::Rows rows(runs_.open(name).db, sql);
    if (const auto parameter = rows.parameter())
      throw Error(fmt::format("SQL: {} has no value", *parameter), "write the value itself: world = 0",
                  ExitCode::kUsage);
    rows.limit_time(kQuerySeconds);
    const size_t most = std::max<uint64_t>(limit, 1);
    rows.limit_rows(most);
    const std::string text = reports::render_json(reports::to_table(rows));
    return rows.cut() ? text + fmt::format("(the first {} rows)\n", most) : text;
  }

  std::string diff(const std::string& before_name, const std::string& after_name) {
    Run& before = runs_.open(before_name);
    Run& after = runs_.open(after_name);
    const reports::RunView before_view(before.db, std::nullopt), after_view(after.db, std::nullopt);
    const std::vector<MetricChange> metrics = compare_metrics(before.db, before_view.world, after.db, after_view.world);
    return text_of(reports::build_diff({before_view, before.shown}, {after_view, after.shown}, metrics));
  }

  McpRuns runs_;
  std::vector<Tool> tools_;
};

McpServer::McpServer(const std::filesystem::path& folder) : tools_(std::make_unique<Tools>(folder)) {}
McpServer::~McpServer() = default;

std::optional<std::string> McpServer::answer(std::string_view message) {
  if (message.size() > kMcpMostQuestionBytes)
    return one_line(error_answer(
        nullptr, {kInvalidRequest, fmt::format("a message of more than {} bytes", kMcpMostQuestionBytes)}));
  const Json request = Json::parse(message, nullptr, false);
  if (request.is_discarded()) return one_line(error_answer(nullptr, {kParseError, "this is not JSON"}));
  const bool named = request.is_object() && request.contains("method") && request["method"].is_string();
  const Json id = request.is_object() && request.contains("id") ? request["id"] : Json();
  if (!named || !(id.is_null() || id.is_string() || is_integer(id))) {
    if (request.is_object() && !id.is_null() && (request.contains("result") || request.contains("error")))
      return std::nullopt;  // of nothing we asked
    return one_line(error_answer(nullptr, {kInvalidRequest, "this is not a request of JSON-RPC 2.0"}));
  }
  if (id.is_null()) return std::nullopt;
  const std::string method = request["method"];
  const Json parameters = request.value("params", Json::object());
  try {
    if (!parameters.is_object()) throw ProtocolError{kInvalidParameters, "params is not an object"};
    Json result;
    if (method == "initialize") {
      const std::string wanted = parameters.contains("protocolVersion") && parameters["protocolVersion"].is_string()
                                     ? parameters["protocolVersion"]
                                     : "";
      const bool known = std::find(std::begin(kRevisions), std::end(kRevisions), wanted) != std::end(kRevisions);
      result = {
          {"protocolVersion", known ? wanted : std::string(kRevisions[0])},
          {"capabilities", {{"tools", Json::object()}}},
          {"serverInfo", {{"name", "ddl"}, {"version", DDL_VERSION}}},
          {"instructions",
           "ddl tells where the time of a distributed training job goes. Begin with report: its findings say what to fix, with the "
           "saving per step and how sure that is. Waiting (for a late rank) and transfer (moving data) are told apart: waiting is cured "
           "by balancing ranks, never by a faster network."}};
    } else if (method == "ping") {
      result = Json::object();
    } else if (method == "tools/list") {
      result = {{"tools", tools_->list_of_tools()}};
    } else if (method == "tools/call") {
      result = tools_->call(parameters);
    } else {
      throw ProtocolError{kNoMethod, fmt::format("unknown method '{}'", method)};
    }
    return one_line({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
  } catch (const ProtocolError& error) {
    return one_line(error_answer(id, error));
  }
}

}  // namespace ddl::cli
