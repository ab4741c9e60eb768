// What a spool holds of each operation, one line each: NAME CALLS BYTES EVENTS, for a test that counts itself. Says
// "gap" and fails if the numbers of the collectives on MPI_COMM_WORLD in the log are not 1, 2, 3, ...
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "core/reader.h"

namespace {

struct Names : ddl::MetaVisitor {
  std::map<uint32_t, std::string> ops;
  uint32_t world = 0;
  void on_operation(const ddl::OperationMeta& meta, std::string_view name) override { ops[meta.op] = name; }
  void on_communicator(const ddl::CommunicatorMeta& meta, std::span<const ddl::RankRun>) override {
    if (meta.flags & ddl::kCommWorld) world = meta.index;
  }
};

struct Counts {
  uint64_t calls = 0, bytes = 0, events = 0;
};

int print(const char* path) {
  using namespace ddl;
  const SpoolReader reader(path);
  Names names;
  std::vector<Skip> skips;
  reader.read_meta(names, &skips);
  std::map<std::string, Counts> counts;
  std::vector<ProfileEntry> entries;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) {
    reader.read_profile(chunk, entries, &skips);
    for (const ProfileEntry& e : entries) {
      if (e.op < kFirstCallOp) continue;
      counts[names.ops[e.op]].calls += all_calls(e);
      counts[names.ops[e.op]].bytes += e.bytes;
    }
  }
  uint32_t sequence = 0;
  bool whole = true;
  std::vector<Record> records;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
    reader.read_records(chunk, records, &skips);
    for (const Record& r : records) {
      if (record_kind(r.word) == RecordKind::kCall) ++counts[names.ops[record_op(r.word)]].events;
      if (names.ops[record_op(r.word)] == "MPI_Allreduce" && r.comm == names.world) {
        whole = whole && r.sequence > sequence;
        sequence = r.sequence;
      }
    }
  }
  for (const auto& [name, count] : counts)
    std::printf("%s %llu %llu %llu\n", name.c_str(), static_cast<unsigned long long>(count.calls),
                static_cast<unsigned long long>(count.bytes), static_cast<unsigned long long>(count.events));
  if (!whole) std::printf("gap\n");
  return whole ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try { return argc == 2 ? print(argv[1]) : 2; } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 3;
}
