// First pass over a spool: what must be known about all processes before the first row is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "store/ingest/losses.h"

#include "core/reader.h"
#include "store/archive.h"
#include "store/ingest/clocks.h"

namespace ddl::store {

struct ScannedCommunicator {
  CommunicatorMeta meta;
  std::vector<RankRun> runs;
  std::string name;  ///< last MPI_Comm_set_name or MPI_Win_set_name, or the file's; empty: none
  std::optional<CommSplitMeta> split = {};
  std::string topology;  ///< "cart 4x2 periodic 1,0", "graph", "dist_graph"; may be empty
};

struct ScannedOperation {
  OpClass op_class;
  bool nonblocking;
  std::string name;
  void archive(Archive& a) { a(op_class, nonblocking, name); }
};

constexpr size_t kMaxClockSyncs = 256;  // per process; the writer keeps a few

struct Scan {
  std::unique_ptr<SpoolReader> reader;  ///< knows where the chunks are; their reader acquires and releases it
  std::string file_name;
  uint64_t file_bytes = 0;
  FileHeader header = {};
  int32_t rank = -1;          ///< in its world, if known (identity.cpp); -1: none
  int32_t world_size = 0;     ///< 0: none
  bool used_gpu = false;      ///< it has records of GPU work
  bool became_other = false;  ///< the process became another program (exec), which has a spool of its own
  std::string host;
  std::string boot_id;
  ClockEvidence clock;
  std::vector<ClockSyncMeta> clock_syncs;
  std::vector<ScannedCommunicator> communicators;  ///< in the order of their index
  std::map<uint32_t, ScannedOperation> operations;
};

/// Throws Error if the file is not a readable spool.
Scan scan_spool(const std::filesystem::path& path);

/// Fills Scan::rank, world_size and became_other of all scans, and records headers contradicted by their own spool.
void settle_identities(std::vector<Scan>& scans, Losses& losses);

}  // namespace ddl::store
