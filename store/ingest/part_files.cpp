#include "store/ingest/part_files.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <regex>
#include <span>

#include "core/regular_file.h"
#include "store/database.h"
#include "store/insert.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

template <class Kept>
void keep_as(SQLite::Database& db, const char* kind, Kept& kept) {
  Archive archive;
  archive(kept);
  const std::string& bytes = archive.bytes();
  Insert(db, "INSERT INTO kept VALUES (?, ?, ?)")
      .row(kind, DDL_VERSION, std::span(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

template <class Kept>
Kept read_kept(const fs::path& path, const char* kind, const std::string& hint) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) throw unusable(path, "there is no such file", hint);
  try {
    SQLite::Database db = open_store(path, Access::kRead, kPartsApplicationId);
    SQLite::Statement row(db, "SELECT version, content FROM kept WHERE kind = ?");
    row.bind(1, kind);
    if (!row.executeStep()) throw unusable(path, fmt::format("it is not a {}", kind), hint);
    if (const std::string version = row.getColumn(0).getString(); version != DDL_VERSION)
      throw unusable(path, fmt::format("ddl {} made it, and this is {}", version, DDL_VERSION), hint);
    const SQLite::Column content = row.getColumn(1);
    Archive archive(
        std::string_view(static_cast<const char*>(content.getBlob()), static_cast<size_t>(content.getBytes())));
    Kept kept;
    archive(kept);
    return kept;
  } catch (const SQLite::Exception& error) {
    throw unusable(path, error.what(), hint);
  } catch (const Error& error) {
    throw Error(error.what(), hint, error.code());
  }
}

}  // namespace

std::vector<ListedSpool> files_of(const std::vector<fs::path>& spools) {
  std::vector<ListedSpool> files;
  for (const fs::path& spool : spools) {
    struct stat status {};
    stat(spool.c_str(), &status);
    files.push_back({spool.filename().string(), static_cast<uint64_t>(status.st_size),
                     int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec});
  }
  return files;
}

void make_parts_folder(const RunDirectory& run) {
  make_folder(parts_folder(run).string(),
              "parts are written into the run; if it is read-only, use ddl report, which reads it in one process",
              0700);
}

SQLite::Database create_parts_file(const fs::path& path) {
  SQLite::Database db = create_store(path);
  db.exec(fmt::format(
      "PRAGMA application_id = {}; CREATE TABLE kept (kind TEXT PRIMARY KEY, version TEXT NOT NULL, content BLOB NOT NULL)",
      kPartsApplicationId));
  return db;
}

void keep(SQLite::Database& db, Plan& plan) { keep_as(db, "plan", plan); }
void keep(SQLite::Database& db, PartState& part) { keep_as(db, "part", part); }

Error unusable(const fs::path& path, const std::string& why, const std::string& hint) {
  return Error(fmt::format("cannot use {}: {}", path.string(), why), hint, ExitCode::kDataMissing);
}

Plan read_plan(const RunDirectory& run) {
  Plan plan = read_kept<Plan>(plan_file(run), "plan", kPlanAgain);
  if (plan.spools != files_of(run.spools()))
    throw unusable(plan_file(run), "the run has changed since, or it is the plan of another run", kPlanAgain);
  return plan;
}

PartState read_part(const RunDirectory& run, PartNumber number, const Plan& plan) {
  const fs::path path = part_file(run, number);
  const std::string again =
      fmt::format("make it: ddl analyze {} --part {}/{}", run.directory.string(), number.number, number.of);
  PartState part = read_kept<PartState>(path, "part", again);
  if (part.plan != plan.id) throw unusable(path, "it was made by another plan", again);
  if (part.number != number.number || part.of != number.of)
    throw unusable(path, fmt::format("it is part {} of {}", part.number, part.of), again);
  return part;
}

std::optional<PartNumber> number_in(const std::string& name) {
  static const std::regex kPart("part-([1-9][0-9]{0,5})-of-([1-9][0-9]{0,5})\\.sqlite");
  std::smatch match;
  if (!std::regex_match(name, match, kPart)) return std::nullopt;
  return PartNumber{static_cast<unsigned>(std::stoul(match[1])), static_cast<unsigned>(std::stoul(match[2]))};
}

}  // namespace ddl::store
