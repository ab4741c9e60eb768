// The files of an analysis in parts (store/parts.h): the content of plans and parts beside rows, written and read.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "store/archive.h"
#include "store/ingest/process_load.h"
#include "store/parts.h"

namespace ddl::store {

constexpr const char* kPlanName = "plan.sqlite";
constexpr const char* kPlanAgain = "make the plan, and then all parts: ddl analyze RUN --prepare";

struct ListedSpool {
  std::string name;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;
  bool operator==(const ListedSpool&) const = default;
  void archive(Archive& a) { a(name, bytes, changed_ns); }
};

/// One process in the plan; process.id is its place.
struct PlannedProcess {
  uint64_t spool = 0;  ///< in Plan::spools
  uint64_t bytes = 0;
  int32_t rank = -1, world_size = 0;
  bool became_other = false;
  int64_t host = 0;
  Place place = {};
  ProcessClock clock = {};
  void archive(Archive& a) { a(spool, bytes, rank, world_size, became_other, host, place, clock); }
};

struct Plan {
  std::string id;
  int64_t begun_at_ns = 0;
  int64_t epoch_realtime_ns = 0;
  std::vector<ListedSpool> spools;
  std::vector<PlannedProcess> processes;
  Communicators communicators;
  Operations operations;
  Losses losses;
  void archive(Archive& a) {
    a(id, begun_at_ns, epoch_realtime_ns, spools, processes, communicators, operations, losses);
  }
};

/// A part's content beside rows.
struct PartState {
  std::string plan;  ///< its id
  unsigned number = 0, of = 0;
  uint64_t first = 0, processes = 0, events = 0;
  std::vector<std::string> tables;  ///< that have rows
  Operations operations;
  Regions regions;
  GpuNames gpu_names;
  NcclCollectives nccl;
  Losses losses;
  void archive(Archive& a) {
    a(plan, number, of, first, processes, events, tables, operations, regions, gpu_names, nccl, losses);
  }
};

std::vector<ListedSpool> files_of(const std::vector<std::filesystem::path>& spools);

/// The folder of the files, made if missing. Throws CannotWrite.
void make_parts_folder(const RunDirectory& run);

/// A file of the folder, while being made: with the tables of a store.
SQLite::Database create_parts_file(const std::filesystem::path& path);
void keep(SQLite::Database& db, Plan& plan);
void keep(SQLite::Database& db, PartState& part);

/// "cannot use FILE: why"
Error unusable(const std::filesystem::path& path, const std::string& why, const std::string& hint = kPlanAgain);

/// Throws Error (kDataMissing): no usable plan, or the run has changed since.
Plan read_plan(const RunDirectory& run);
/// Likewise, or if it belongs to another plan.
PartState read_part(const RunDirectory& run, PartNumber number, const Plan& plan);

/// K and N in a part's name; nothing: another file.
std::optional<PartNumber> number_in(const std::string& name);

}  // namespace ddl::store
