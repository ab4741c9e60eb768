// Reads synthetic runs back through SpoolReader, for the tests of the generator.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/reader.h"
#include "tests/support/synthetic_run.h"

namespace ddl::test {

/// Everything that one spool holds.
struct Contents : MetaVisitor {
  explicit Contents(const std::string& path) : reader(path) {
    std::vector<Skip> skips;
    reader.read_meta(*this, &skips);
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
      std::vector<Record> some;
      reader.read_records(chunk, some, &skips);
      records.insert(records.end(), some.begin(), some.end());
      ++log_chunks;
    }
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kRing)) {
      reader.read_records(chunk, ring, &skips);
      ring_written += chunk.header.ring_written;
    }
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) {
      std::vector<ProfileEntry> some;
      reader.read_profile(chunk, some, &skips);
      profile.insert(profile.end(), some.begin(), some.end());
    }
    EXPECT_TRUE(skips.empty()) << skips.front().reason;
    EXPECT_TRUE(reader.skipped().empty()) << reader.skipped().front().reason;
  }

  void on_string(uint32_t id, std::string_view text) override { strings[id] = text; }
  void on_context(const ContextMeta& c) override { contexts[c.id] = c; }
  void on_communicator(const CommunicatorMeta& c, std::span<const RankRun> r) override {
    communicators[c.index] = c;
    runs[c.index] = {r.begin(), r.end()};
  }
  void on_communicator_name(const CommNameMeta& n) override { comm_names[n.index] = strings.at(n.name); }
  void on_operation(const OperationMeta& o, std::string_view name) override { ops[o.op] = name; }
  void on_clock(const ClockPair& pair) override { clocks.push_back(pair); }
  void on_fact(std::string_view key, std::string_view value) override { facts[std::string(key)] = value; }

  std::string region(uint32_t context) const {
    if (context == 0) return "";
    const ContextMeta& c = contexts.at(context);
    if (c.kind == static_cast<uint32_t>(ContextKind::kSite)) return region(c.parent);
    const std::string outer = region(c.parent),
                      name = c.kind == static_cast<uint32_t>(ContextKind::kStep) ? "step" : strings.at(c.name);
    return outer.empty() ? name : outer + "/" + name;
  }
  std::string op_name(uint32_t op) const {
    static const char* const kRanges[] = {"", "step", "phase", "layer"};
    return op < kFirstCallOp ? kRanges[op] : ops.at(op);
  }
  std::string comm_name(uint32_t comm) const {
    return comm == kNoComm ? "" : comm == 1 ? "MPI_COMM_WORLD" : comm_names.at(comm);
  }
  std::vector<Record> of_kind(RecordKind kind) const {
    std::vector<Record> found;
    for (const Record& r : records) {
      if (record_kind(r.word) == kind) found.push_back(r);
    }
    return found;
  }
  int64_t ns(uint64_t ticks) const { return static_cast<int64_t>(ticks - reader.header().begin.ticks); }

  SpoolReader reader;
  std::vector<Record> records, ring;
  std::vector<ProfileEntry> profile;
  uint64_t ring_written = 0;
  int log_chunks = 0;
  std::map<uint32_t, std::string> strings, ops, comm_names;
  std::map<uint32_t, ContextMeta> contexts;
  std::map<uint32_t, CommunicatorMeta> communicators;
  std::map<uint32_t, std::vector<RankRun>> runs;
  std::vector<ClockPair> clocks;
  std::map<std::string, std::string> facts;
};

struct WrittenRun {
  explicit WrittenRun(const SyntheticRun& run) : truth(run.write(folder.path())) {
    for (const std::string& spool : truth.spools) {
      ranks.push_back(spool.empty() ? nullptr : std::make_unique<Contents>((folder / spool).string()));
    }
  }
  ScratchFolder folder;  // first: the others are made from what is in it
  Truth truth;
  std::vector<std::unique_ptr<Contents>> ranks;
};

/// Compares all that the spools say with the truth. For CLOCK_MONOTONIC, where ticks are ns.
inline void expect_same(const WrittenRun& job) {
  std::map<std::tuple<int, std::string, std::string, std::string>, std::tuple<int64_t, int64_t, int64_t>> expected,
      found;
  for (const ProfileTruth& p : job.truth.profile) {
    if (job.ranks[static_cast<size_t>(p.rank)])
      expected[{p.rank, p.op, p.comm, p.region}] = {p.calls, p.bytes, p.time_ns};
  }
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (!job.ranks[r]) continue;
    const Contents& c = *job.ranks[r];
    EXPECT_EQ(c.reader.header().rank, static_cast<int>(r));
    for (const ProfileEntry& e : c.profile) {
      auto& [calls, bytes, ns] =
          found[{static_cast<int>(r), c.op_name(e.op), c.comm_name(e.comm), c.region(e.context)}];
      calls += static_cast<int64_t>(all_calls(e));
      bytes += static_cast<int64_t>(e.bytes);
      ns += static_cast<int64_t>(e.ticks);
      EXPECT_EQ(e.untimed_calls, 0U);
      EXPECT_LE(e.min_ticks, e.max_ticks);
    }
    EXPECT_EQ(job.truth.records[r], c.records.size() + c.ring_written);
  }
  EXPECT_EQ(expected, found);

  using Key = std::tuple<RecordKind, std::string, std::string, uint32_t>;
  std::vector<std::map<Key, std::vector<Record>>> index(job.ranks.size());
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (!job.ranks[r]) continue;
    const Contents& c = *job.ranks[r];
    for (const std::vector<Record>* records : {&c.records, &c.ring}) {
      for (const Record& record : *records) {
        const RecordKind kind = record_kind(record.word);
        if (kind > RecordKind::kRequest) continue;
        index[r][{kind, c.op_name(record_op(record.word)), c.comm_name(record.comm), record.sequence}].push_back(
            record);
      }
    }
  }
  for (const InstanceTruth& instance : job.truth.instances) {
    for (const MemberTruth& m : instance.members) {
      const size_t r = static_cast<size_t>(m.rank);
      if (!job.ranks[r]) continue;
      const RecordKind kind = instance.nonblocking ? RecordKind::kRequest
                              : m.leave_ns         ? RecordKind::kCall
                                                   : RecordKind::kOpen;
      const std::vector<Record>& found_records = index[r][{kind, instance.op, instance.comm, instance.seq}];
      // A request that was never completed leaves no record but its post.
      ASSERT_EQ(found_records.size(), m.leave_ns || !instance.nonblocking ? 1u : 0u)
          << instance.op << " " << instance.seq << " rank " << r;
      for (const Record& record : found_records) {
        const CommunicatorMeta& comm = job.ranks[r]->communicators.at(record.comm);
        EXPECT_EQ(comm.uid, instance.comm_uid);
        EXPECT_EQ(comm.rank, m.comm_rank);
        EXPECT_EQ(job.ranks[r]->ns(record.start_ticks), m.enter_ns);
        EXPECT_EQ(payload_bytes(record.payload), static_cast<uint64_t>(m.payload_bytes));
        if (m.leave_ns) {
          EXPECT_EQ(static_cast<int64_t>(record_duration_ticks(record.word)), *m.leave_ns - m.enter_ns);
        }
      }
    }
  }
}

}  // namespace ddl::test
