// For tests of the NVTX handler, called as NVTX calls it: through the tables that it fills. Each test records in a
// forked child (the recorder lives once per process) and reads what the child left with the reader, which shares only
// the format with it.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "collectors/nvtx.h"
#include "core/reader.h"

extern "C" int InitializeInjectionNvtx2(ddl::nvtx::GetExportTable);

namespace ddl {

namespace fs = std::filesystem;
using namespace nvtx;

// ------------------------------------------------------------------------------------------ the program's side of NVTX

/// One copy of NVTX, as a library has it.
struct Copy {
  static inline Function core[16], core2[16];
  static inline Function* core_table[16];
  static inline Function* core2_table[16];

  static int table(int module, FunctionTable* out, unsigned* size) {
    if (module != kCore && module != kCore2) return 0;
    for (unsigned i = 1; i < 16; ++i) {
      core_table[i] = &core[i];
      core2_table[i] = &core2[i];
    }
    *out = module == kCore ? core_table : core2_table;
    *size = 16;
    return 1;
  }
  static const void* export_table(uint32_t id) {
    static const Callbacks callbacks = {sizeof(Callbacks), table};
    return id == kCallbacksTable ? &callbacks : nullptr;
  }
  static int attach() { return InitializeInjectionNvtx2(export_table); }
};

template <class F>
F* core(unsigned slot) {
  return reinterpret_cast<F*>(Copy::core[slot]);
}
template <class F>
F* core2(unsigned slot) {
  return reinterpret_cast<F*>(Copy::core2[slot]);
}
inline int push(const char* text) { return core<int(const char*)>(kRangePushA)(text); }
inline int pop() { return core<int()>(kRangePop)(); }
inline int push(Domain d, const EventAttributes& e) {
  return core2<int(Domain, const EventAttributes*)>(kDomainRangePushEx)(d, &e);
}
inline int pop(Domain d) { return core2<int(Domain)>(kDomainRangePop)(d); }
inline Domain domain(const char* name) { return core2<Domain(const char*)>(kDomainCreateA)(name); }
inline EventAttributes event(const char* text) {
  EventAttributes e = {};
  e.version = kVersion;
  e.size = sizeof e;
  e.message_type = kMessageAscii;
  e.message.ascii = text;
  return e;
}
inline EventAttributes event(const char* text, double number) {
  EventAttributes e = event(text);
  e.payload_type = kPayloadDouble;
  e.payload.d = number;
  return e;
}

// ------------------------------------------------------------------------------------------------ what was left

struct Range {
  std::string path;  // "step/forward:phase/conv1:layer"
  RecordKind kind;
  uint64_t start, end;
  uint32_t thread;
  uint64_t step;
  RangeNumbers numbers;
};

class Spool : public MetaVisitor {
 public:
  explicit Spool(const std::string& file) : reader(file) {
    reader.read_meta(*this);
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kEvents)) {
      std::vector<Record> records;
      std::vector<Skip> skips;
      reader.read_records(chunk, records, &skips);
      EXPECT_TRUE(skips.empty());
      for (const Record& r : records) add(chunk.header.thread, r);
    }
    for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) {
      std::vector<ProfileEntry> entries;
      reader.read_profile(chunk, entries);
      for (const ProfileEntry& e : entries) {
        calls[paths.at(e.context)] += all_calls(e);
        ticks[paths.at(e.context)] += e.ticks;
      }
    }
  }
  void on_string(uint32_t id, std::string_view text) override { strings[id] = text; }
  void on_context(const ContextMeta& c) override {
    constexpr const char* kKinds[] = {"", ":step", ":phase", ":layer", ":site", ":operator"};
    paths[c.id] = (c.parent ? paths.at(c.parent) + "/" : "") + (c.name ? strings.at(c.name) : "") + kKinds[c.kind];
  }
  void on_thread(const ThreadMeta& t, std::string_view name) override { threads[t.thread] = name; }
  uint64_t lost(LossKind kind) const { return reader.header().loss[kind]; }
  std::vector<Range> of(const std::string& path) const {
    std::vector<Range> found;
    for (const Range& r : ranges) {
      if (r.path == path && r.kind != RecordKind::kStepBegin) found.push_back(r);
    }
    return found;
  }

  SpoolReader reader;
  std::map<uint32_t, std::string> strings, paths = {{0, ""}}, threads;
  std::vector<Range> ranges;
  std::vector<std::pair<std::string, double>> values;
  std::map<std::string, uint64_t> calls, ticks;

 private:
  void add(uint32_t thread, const Record& r) {
    if (record_kind(r.word) == RecordKind::kValue) {
      double value;
      memcpy(&value, &r.payload, sizeof value);
      values.emplace_back(strings.at(r.context), value);
      return;
    }
    ranges.push_back({paths.at(r.context), record_kind(r.word), r.start_ticks,
                      r.start_ticks + record_duration_ticks(r.word), thread,
                      static_cast<uint64_t>(r.comm) << 32 | r.sequence, range_numbers(r)});
  }
};

class NvtxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "ddl-nvtx-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Runs `job` in a child with the handler attached.
  void record(const std::function<void()>& job) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("DDL_OUT", (folder_ / "run.ddl").c_str(), 1);
      setenv("DDL_STEP_NAMES", "mini_batch", 1);
      if (Copy::attach() != 1) _exit(98);
      job();
      _exit(testing::Test::HasFailure() ? 97 : 0);
    }
    int ended = -1;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    ASSERT_EQ(ended, 0);
  }
  bool has_spool() const { return fs::exists(folder_ / "run.ddl"); }
  Spool spool() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / "run.ddl")) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return Spool(files.at(0).string());
  }

  fs::path folder_;
};

}  // namespace ddl
