// What tests of the reader share: a spool put together in memory, written, and read.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/reader.h"
#include "tests/support/synthetic_run.h"
#include "tests/support/synthetic_run_spool.h"

namespace ddl {

using test::ScratchFolder;
using test::SpoolBuilder;

constexpr uint32_t kOp = 20;  // any operation

inline Record call(uint64_t start, uint64_t duration = 10) {
  return {start, record_word(RecordKind::kCall, kOp, duration), record_payload(64, 14, 1), 1, 2, 3, -1};
}

struct Texts : MetaVisitor {
  void on_string(uint32_t id, std::string_view text) override { strings[id] = text; }
  void on_fact(std::string_view key, std::string_view value) override { facts[std::string(key)] = value; }
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> r) override {
    communicators[meta.index] = meta;
    runs.assign(r.begin(), r.end());
  }
  std::map<uint32_t, std::string> strings;
  std::map<std::string, std::string> facts;
  std::map<uint32_t, CommunicatorMeta> communicators;
  std::vector<RankRun> runs;
};

class ReaderTest : public ::testing::Test {
 protected:
  ReaderTest() {
    builder_.header().begin = {1000, 1000, 5000};
    builder_.header().latest = {100000, 100000, 104000};
  }

  std::string path() const { return (folder_ / "n0.1.1.spool").string(); }
  SpoolReader read() {
    builder_.write(path());
    return SpoolReader(path());
  }
  SpoolReader read(const std::vector<unsigned char>& image) {
    test::write_bytes(path(), image);
    return SpoolReader(path());
  }
  std::vector<uint64_t> starts(const SpoolReader& reader, std::vector<Skip>* skips = nullptr,
                               ChunkKind kind = ChunkKind::kEvents) {
    std::vector<uint64_t> found;
    std::vector<Record> records;
    for (const SpoolChunk& chunk : reader.chunks(kind)) {
      reader.read_records(chunk, records, skips);
      for (const Record& record : records) found.push_back(record.start_ticks);
    }
    return found;
  }
  Error refusal() {
    try {
      SpoolReader reader(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataMissing);
      return error;
    }
    ADD_FAILURE() << "was read";
    return Error("");
  }
  Error refusal_of(const std::vector<unsigned char>& image) {
    test::write_bytes(path(), image);
    return refusal();
  }

  ScratchFolder folder_;
  SpoolBuilder builder_;
};

}  // namespace ddl
