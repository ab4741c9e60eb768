#include "history/history.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "core/error.h"
#include "store/text.h"

namespace ddl::history {
namespace {

// Columns of ddl_run and the members that hold them, by what they are.
template <class Member>
struct RunColumn {
  const char* name;
  Member RunRow::*member;
};
constexpr RunColumn<std::string> kTexts[] = {
    {"run", &RunRow::run}, {"name", &RunRow::name}, {"path", &RunRow::path}, {"added_by", &RunRow::added_by}};
constexpr RunColumn<std::optional<std::string>> kMaybeTexts[] = {
    {"command", &RunRow::command},         {"commit_id", &RunRow::commit_id}, {"job_id", &RunRow::job_id},
    {"job_step_id", &RunRow::job_step_id}, {"verdict", &RunRow::verdict},     {"ddl_version", &RunRow::ddl_version},
    {"analysis", &RunRow::analysis}};
constexpr RunColumn<int64_t> kIntegers[] = {
    {"started_ns", &RunRow::started_ns}, {"world", &RunRow::world},
    {"ranks", &RunRow::ranks},           {"expected_ranks", &RunRow::expected_ranks},
    {"hosts", &RunRow::hosts},           {"gpus", &RunRow::gpus},
    {"steps", &RunRow::steps},           {"bounded", &RunRow::bounded},
    {"findings", &RunRow::findings},     {"lost_events", &RunRow::lost_events},
    {"added_ns", &RunRow::added_ns},     {"updated_ns", &RunRow::updated_ns}};
constexpr RunColumn<std::optional<int64_t>> kMaybeIntegers[] = {{"duration_ns", &RunRow::duration_ns},
                                                                {"exit_code", &RunRow::exit_code},
                                                                {"signal", &RunRow::signal},
                                                                {"step_time_ns", &RunRow::step_time_ns},
                                                                {"step_p99_ns", &RunRow::step_p99_ns}};
constexpr RunColumn<std::optional<double>> kMaybeReals[] = {{"step_lo_ns", &RunRow::step_lo_ns},
                                                            {"step_hi_ns", &RunRow::step_hi_ns},
                                                            {"throughput", &RunRow::throughput},
                                                            {"efficiency", &RunRow::efficiency},
                                                            {"ccr", &RunRow::ccr},
                                                            {"compute_ns", &RunRow::compute_ns},
                                                            {"overlap_ns", &RunRow::overlap_ns},
                                                            {"transfer_ns", &RunRow::transfer_ns},
                                                            {"wait_ns", &RunRow::wait_ns},
                                                            {"unsplit_ns", &RunRow::unsplit_ns},
                                                            {"copy_ns", &RunRow::copy_ns},
                                                            {"idle_ns", &RunRow::idle_ns},
                                                            {"loss", &RunRow::loss}};

/// use(name, member) for each column.
template <class Row, class Use>
void each_column(Row& row, Use use) {
  for (const auto& column : kTexts) use(column.name, row.*column.member);
  for (const auto& column : kMaybeTexts) use(column.name, row.*column.member);
  for (const auto& column : kIntegers) use(column.name, row.*column.member);
  for (const auto& column : kMaybeIntegers) use(column.name, row.*column.member);
  for (const auto& column : kMaybeReals) use(column.name, row.*column.member);
}

// To and from cells. PostgreSQL takes no NUL and nothing that is not text.
Cell to_cell(const std::string& text) { return clean_text(text); }
Cell to_cell(int64_t number) { return std::to_string(number); }
Cell to_cell(double number) { return std::isfinite(number) ? Cell(fmt::format("{}", number)) : std::nullopt; }
template <class Value>
Cell to_cell(const std::optional<Value>& value) {
  return value ? to_cell(*value) : std::nullopt;
}

void from_cell(const Cell& cell, std::string& to) { to = cell.value_or(""); }
void from_cell(const Cell& cell, int64_t& to) { to = cell ? std::strtoll(cell->c_str(), nullptr, 10) : 0; }
void from_cell(const Cell& cell, double& to) { to = cell ? std::strtod(cell->c_str(), nullptr) : 0; }
template <class Value>
void from_cell(const Cell& cell, std::optional<Value>& to) {
  to.reset();
  if (cell) from_cell(cell, to.emplace());
}

std::string numbered(size_t count) {
  std::string text;
  for (size_t i = 1; i <= count; ++i) text += fmt::format("{}${}", i == 1 ? "" : ", ", i);
  return text;
}

/// INSERT INTO table VALUES ($1, ...), all columns in their order.
template <class... Values>
void insert(Connection& connection, const char* table, const Values&... values) {
  connection.run(fmt::format("INSERT INTO {} VALUES ({})", table, numbered(sizeof...(values))),
                 Cells{to_cell(values)...});
}

constexpr const char* kDetails[] = {"ddl_unknown", "ddl_metric", "ddl_axis", "ddl_finding", "ddl_host"};

void write(Connection& connection, const RunRow& row) {
  std::string columns, updates;
  Cells cells;
  each_column(row, [&](const std::string& name, const auto& value) {
    columns += (columns.empty() ? "" : ", ") + name;
    if (name != "run" && name != "added_ns" && name != "added_by")
      updates += fmt::format("{}{} = excluded.{}", updates.empty() ? "" : ", ", name, name);
    cells.push_back(to_cell(value));
  });
  connection.run(fmt::format("INSERT INTO ddl_run ({}) VALUES ({}) ON CONFLICT (run) DO UPDATE SET {}", columns,
                             numbered(cells.size()), updates),
                 cells);
  for (const char* table : kDetails)
    connection.run(fmt::format("DELETE FROM {} WHERE run = $1", table), {to_cell(row.run)});
  for (const auto& [field, why] : row.why) insert(connection, "ddl_unknown", row.run, field, why);
  for (const RunRow::Metric& m : row.metrics)
    insert(connection, "ddl_metric", row.run, m.id, m.value, m.unit, m.why, m.lo, m.hi);
  for (const RunRow::Axis& a : row.axes) insert(connection, "ddl_axis", row.run, a.axis, a.transfer_ns, a.wait_ns);
  int64_t position = 0;
  for (const RunRow::Finding& f : row.found)
    insert(connection, "ddl_finding", row.run, ++position, f.id, f.sentence, f.rank, f.saving_ns, f.share_ratio,
           f.confidence, f.saving_bound);
  for (const RunRow::Host& h : row.on)
    insert(connection, "ddl_host", row.run, h.host, h.ranks, int64_t{h.slow}, h.slow_rank);
}

/// In one transaction: all of it, or nothing.
template <class Do>
void in_transaction(Connection& connection, bool exclusive, Do what) {
  connection.begin(exclusive);
  try {
    what();
    connection.commit();
  } catch (...) {
    connection.rollback();
    throw;
  }
}

int64_t version_of(Connection& connection) {
  const std::vector<Cells> rows = connection.run("SELECT version FROM ddl_schema");
  int64_t version = 0;
  if (!rows.empty()) from_cell(rows[0][0], version);
  return version;
}

/// Adds what a history of an earlier ddl lacks: columns, whose values of earlier runs are not known.
void bring_up_to_date(Connection& connection) {
  in_transaction(connection, true, [&] {
    if (version_of(connection) != 1) return;  // somebody else was quicker
    connection.run("ALTER TABLE ddl_finding ADD COLUMN saving_bound TEXT");
    connection.run("UPDATE ddl_schema SET version = $1", {to_cell(int64_t{kHistoryVersion})});
  });
}

/// Returns the schema's version, the first one only for reading: it may be somebody else's.
int64_t check_version(Connection& connection, const std::string& place, Access access) {
  int64_t version = version_of(connection);
  if (version == 1 && access == Access::kRead) return version;
  if (version == 1) {
    bring_up_to_date(connection);
    version = version_of(connection);
  }
  if (version != kHistoryVersion)
    throw Error(fmt::format("{} is a history of schema {}, but this ddl knows {}", shown_place(place), version,
                            kHistoryVersion),
                version > kHistoryVersion ? "use a newer ddl" : "", ExitCode::kDataMissing);
  return version;
}

}  // namespace

std::string RunRow::why_not(const std::string& column) const {
  const auto reason = why.find(column);
  return reason == why.end() ? "NO_DATA" : reason->second;
}

std::string history_place(const std::optional<std::string>& option) {
  if (option && !option->empty()) return *option;
  if (const char* place = std::getenv("DDL_HISTORY"); place != nullptr && *place != '\0') return place;
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/')
    return std::string(data) + "/ddl/history.sqlite";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    throw Error("no history given: --database, DDL_HISTORY and HOME are all unset", "e.g. --database runs.sqlite",
                ExitCode::kUsage);
  return std::string(home) + "/.local/share/ddl/history.sqlite";
}

std::string shown_place(const std::string& place) { return without_secrets(place); }

bool is_postgres_url(std::string_view where) {
  return where.starts_with("postgresql://") || where.starts_with("postgres://");
}

History::History(const std::string& place, Access access) {
  if (!is_postgres_url(place) && place.find("://") != std::string::npos)
    throw Error(fmt::format("{} is not a history: give a file or postgresql://...", shown_place(place)), "",
                ExitCode::kUsage);
  connection_ = is_postgres_url(place) ? open_postgres(place) : open_sqlite(place, access);
  if (!connection_->has_schema()) {
    if (access == Access::kRead)
      throw Error(fmt::format("there is no history yet in {}", shown_place(place)), "make it: ddl history add RUN...",
                  ExitCode::kDataMissing);
    in_transaction(*connection_, true, [&] {
      if (connection_->has_schema()) return;  // somebody else was quicker
      connection_->make_schema(kHistorySql);
      insert(*connection_, "ddl_schema", int64_t{kHistoryVersion});
    });
  }
  has_bounds_ = check_version(*connection_, place, access) > 1;
}

History::Added History::add(const RunRow& row) {
  Added added = Added::kNew;
  in_transaction(*connection_, false, [&] {
    if (!connection_->run("SELECT 1 FROM ddl_run WHERE run = $1", {to_cell(row.run)}).empty()) added = Added::kAgain;
    write(*connection_, row);
  });
  return added;
}

std::vector<RunRow> History::runs(const std::optional<std::string>& name) {
  std::string columns;
  RunRow empty;
  each_column(empty, [&](const std::string& column, auto&) { columns += (columns.empty() ? "" : ", ") + column; });
  const std::string where = name ? " WHERE name = $1" : "";
  const Cells values = name ? Cells{to_cell(*name)} : Cells{};
  std::vector<RunRow> rows;
  std::map<std::string, size_t> place;
  for (const Cells& cells :
       connection_->run(fmt::format("SELECT {} FROM ddl_run{} ORDER BY started_ns, run", columns, where), values)) {
    RunRow& row = rows.emplace_back();
    size_t column = 0;
    each_column(row, [&](const char*, auto& member) { from_cell(cells[column++], member); });
    place[row.run] = rows.size() - 1;
  }
  // Runs that are added meanwhile are not among them: their details are passed over.
  const auto details = [&](const char* table, const char* wanted, const char* order, auto use) {
    const std::string of = name ? " WHERE run IN (SELECT run FROM ddl_run WHERE name = $1)" : "";
    for (const Cells& cells :
         connection_->run(fmt::format("SELECT run, {} FROM {}{} ORDER BY run, {}", wanted, table, of, order), values))
      if (const auto at = place.find(*cells[0]); at != place.end()) use(rows[at->second], cells);
  };
  details("ddl_unknown", "field, why", "field",
          [](RunRow& row, const Cells& cells) { row.why[*cells[1]] = *cells[2]; });
  details("ddl_axis", "axis, transfer_ns, wait_ns", "axis", [](RunRow& row, const Cells& cells) {
    RunRow::Axis& axis = row.axes.emplace_back();
    from_cell(cells[1], axis.axis), from_cell(cells[2], axis.transfer_ns), from_cell(cells[3], axis.wait_ns);
  });
  details("ddl_finding",
          has_bounds_ ? "id, sentence, rank, saving_ns, share_ratio, confidence, saving_bound"
                      : "id, sentence, rank, saving_ns, share_ratio, confidence, NULL",
          "position", [](RunRow& row, const Cells& cells) {
            RunRow::Finding& finding = row.found.emplace_back();
            from_cell(cells[1], finding.id), from_cell(cells[2], finding.sentence), from_cell(cells[3], finding.rank),
                from_cell(cells[4], finding.saving_ns);
            from_cell(cells[5], finding.share_ratio), from_cell(cells[6], finding.confidence),
                from_cell(cells[7], finding.saving_bound);
          });
  details("ddl_host", "host, ranks, slow, slow_rank", "host", [](RunRow& row, const Cells& cells) {
    RunRow::Host& host = row.on.emplace_back();
    int64_t slow = 0;
    from_cell(cells[1], host.host), from_cell(cells[2], host.ranks), from_cell(cells[3], slow),
        from_cell(cells[4], host.slow_rank);
    host.slow = slow != 0;
  });
  return rows;
}

}  // namespace ddl::history
