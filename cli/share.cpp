#include "cli/share.h"

#include <SQLiteCpp/Exception.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "analyzer/query.h"
#include "cli/scratch_folder.h"
#include "core/error.h"
#include "store/database.h"
#include "store/text.h"

namespace ddl::cli {
namespace {

namespace fs = std::filesystem;
using HostNames = std::vector<std::pair<std::string, std::string>>;

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_of_path(char c) { return c != '\0' && std::strchr(" \t\n\"'`()<>,;|*?", c) == nullptr; }

/// Length of a dotted quad at the begin of `text`; 0: none.
size_t address_at(std::string_view text) {
  size_t at = 0;
  for (int part = 0; part < 4; ++part) {
    const size_t begin = at;
    while (at < text.size() && at - begin < 4 && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
    if (at == begin || at - begin > 3) return 0;
    if (part < 3 && (at == text.size() || text[at++] != '.')) return 0;
  }
  return at < text.size() && (is_of_word(text[at]) || text[at] == '.') ? 0 : at;
}

/// Length of an IPv6 address with a digit at the begin of `text`, which names of C++ have not; 0: none.
size_t address6_at(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789abcdefABCDEF:."), text.size());
  const std::string word(text.substr(0, end));
  in6_addr address;
  const bool is_one =
      word.find_first_of("0123456789") != std::string::npos && inet_pton(AF_INET6, word.c_str(), &address) == 1;
  return is_one && (end == text.size() || !is_of_word(text[end])) ? end : 0;
}

/// Full and short names, longest first: node12 is not node1.
HostNames host_names(SQLite::Database& db) {
  HostNames names;
  for (Query row(db, "SELECT name, id FROM host ORDER BY id"); row.next();) {
    const std::string name = row.text(0), shown = fmt::format("host{}", row.integer(1));
    if (name.empty()) continue;
    names.emplace_back(name, shown);
    const std::string first = name.substr(0, name.find('.'));
    if (first.size() >= 3 && first != name) names.emplace_back(first, shown);
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  return names;
}

void clean_cell(sqlite3_context* context, int, sqlite3_value** values) {
  const auto* hosts = static_cast<const HostNames*>(sqlite3_user_data(context));
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(values[0]));
  try {
    const std::string text = shareable({bytes, static_cast<size_t>(sqlite3_value_bytes(values[0]))}, hosts);
    sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  } catch (const std::exception& error) {
    sqlite3_result_error(context, error.what(), -1);
  }
}

void clean_all_texts(SQLite::Database& db, const HostNames* hosts) {
  sqlite3_create_function(db.getHandle(), "ddl_shareable", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                          const_cast<HostNames*>(hosts), clean_cell, nullptr, nullptr);
  std::vector<std::string> updates;
  for (Query table(db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'");
       table.next();) {
    std::string columns;
    Query column(db, "SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT'");
    column.bind(table.text(0));
    while (column.next())
      columns +=
          fmt::format("{0}\"{1}\" = CASE typeof(\"{1}\") WHEN 'text' THEN ddl_shareable(\"{1}\") ELSE \"{1}\" END",
                      columns.empty() ? "" : ", ", column.text(0));
    if (!columns.empty()) updates.push_back(fmt::format("UPDATE \"{}\" SET {}", table.text(0), columns));
  }
  for (const std::string& update : updates) db.exec(update);
  if (hosts != nullptr) {
    db.exec("UPDATE host SET boot_id = ''");
    db.exec(
        "UPDATE meta SET value = '(left out)' WHERE key LIKE 'env.%NODE%' OR key LIKE 'env.%HOST%' OR (key = 'host' AND value NOT LIKE 'host%')");
    db.exec("UPDATE process_fact SET value = '(left out)' WHERE key LIKE 'env.%NODE%' OR key LIKE 'env.%HOST%'");
    for (const char* table : {"meta", "process_fact"})  // PBS: 4711.server.example.org
      db.exec(fmt::format(
          "UPDATE {} SET value = substr(value, 1, instr(value, '.') - 1)"
          " WHERE (key = 'job_id' OR key LIKE 'env.%JOBID' OR key LIKE 'env.%JOB_ID') AND instr(value, '.') > 0",
          table));
  }
}

}  // namespace

void add_share_options(VerbOptions& options) {
  options.add("for others")("share", "let others read the files, with secrets masked once more")(
      "anonymous", "with --share: leave out host names, addresses and paths");
}

Readers readers(const VerbOptions& options) {
  if (options.has("anonymous") && !options.has("share"))
    throw Error("--anonymous needs --share", "add --share", ExitCode::kUsage);
  return options.has("share") ? Readers::kAll : Readers::kOwner;
}

std::string shareable(std::string_view text, const HostNames* hosts) {
  const std::string masked = without_secrets(text);
  if (hosts == nullptr) return masked;
  std::string shown;
  for (size_t at = 0; at < masked.size();) {
    const std::string_view rest = std::string_view(masked).substr(at);
    const char before = at == 0 ? ' ' : masked[at - 1];
    if (rest.starts_with("://")) {
      shown += "://...";
      for (at += 3; at < masked.size() && std::strchr(" \t\n\"'`<>()", masked[at]) == nullptr;) ++at;
      continue;
    }
    if (rest[0] == '/' && !is_of_word(before) && before != '.' && rest.size() > 1 && is_of_path(rest[1])) {
      size_t end = 0, last = 0;
      for (; end < rest.size() && is_of_path(rest[end]) && rest[end] != ':' && rest[end] != '='; ++end)
        if (rest[end] == '/' && end + 1 < rest.size() && is_of_path(rest[end + 1])) last = end + 1;
      at += std::min(last, end);  // the last part may hold a host's name
      if (last == 0) ++at;
      if (last > 0) {
        const std::string name = shareable(masked.substr(at, end - last), hosts);
        shown += name;
        at += end - last;
      }
      continue;
    }
    if (!is_of_word(before)) {
      const auto host = std::find_if(hosts->begin(), hosts->end(), [&](const auto& h) {
        return rest.starts_with(h.first) && (rest.size() == h.first.size() || !is_of_word(rest[h.first.size()]));
      });
      if (host != hosts->end()) {
        shown += host->second;
        at += host->first.size();
        continue;
      }
      if (const size_t address = before == '.' ? 0 : std::max(address_at(rest), address6_at(rest))) {
        shown += "(address)";
        at += address;
        continue;
      }
    }
    shown += masked[at++];
  }
  return shown;
}

void share(Run& run, const VerbOptions& options) {
  if (readers(options) == Readers::kOwner) return;
  const ScratchFolder scratch;
  const fs::path copy = scratch.path() / "run.sqlite";
  const HostNames names = host_names(run.db);
  const HostNames* hosts = options.has("anonymous") ? &names : nullptr;
  try {
    SQLite::Statement(run.db, fmt::format("VACUUM INTO '{}'", copy.string())).exec();
    SQLite::Database db = open_store(copy, Access::kReadWrite);
    db.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE");
    clean_all_texts(db, hosts);
    run.db = std::move(db);
  } catch (const SQLite::Exception& error) {
    throw CannotWrite(fmt::format("cannot make a copy to share in {}: {}", scratch.path().string(), error.what()),
                      "set TMPDIR to a place with room");
  }
  if (hosts == nullptr) return;
  fs::path name = run.directory.filename();
  if (name.empty()) name = run.directory.parent_path().filename();
  run.shown = shareable(name.string(), hosts);
  run.directory = run.shown;
}

}  // namespace ddl::cli
