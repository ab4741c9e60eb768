// The NVTX handler, called as NVTX calls it: through the tables that it fills. Each test records in a forked child (the recorder lives once
// per process) and reads what the child left with the reader, which shares only the format with it.
#include "collectors/nvtx.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/reader.h"

extern "C" int InitializeInjectionNvtx2(ddl::nvtx::GetExportTable);
extern "C" int InitializeInjectionNvtxExtension(ddl::nvtx::ExtensionModule*);

namespace ddl {
namespace {

namespace fs = std::filesystem;
using namespace nvtx;

// ------------------------------------------------------------------------------------------------ the program's side of NVTX

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
int push(const char* text) { return core<int(const char*)>(kRangePushA)(text); }
int pop() { return core<int()>(kRangePop)(); }
int push(Domain d, const EventAttributes& e) { return core2<int(Domain, const EventAttributes*)>(kDomainRangePushEx)(d, &e); }
int pop(Domain d) { return core2<int(Domain)>(kDomainRangePop)(d); }
Domain domain(const char* name) { return core2<Domain(const char*)>(kDomainCreateA)(name); }
EventAttributes event(const char* text) {
  EventAttributes e = {};
  e.version = kVersion;
  e.size = sizeof e;
  e.message_type = kMessageAscii;
  e.message.ascii = text;
  return e;
}
EventAttributes event(const char* text, double number) {
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
        calls[paths.at(e.context)] += e.calls;
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
    ranges.push_back({paths.at(r.context), record_kind(r.word), r.start_ticks, r.start_ticks + record_duration_ticks(r.word), thread,
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

TEST_F(NvtxTest, PushesNestIntoStepsPhasesAndLayers) {
  record([] {
    for (int step = 3; step < 6; ++step) {
      EXPECT_EQ(push(("step " + std::to_string(step)).c_str()), 0);
      EXPECT_EQ(push("forward"), 1);
      for (int again = 0; again < 2; ++again) {
        EXPECT_EQ(push("conv1"), 2);
        EXPECT_EQ(pop(), 2);
      }
      EXPECT_EQ(pop(), 1);
      EXPECT_EQ(pop(), 0);
    }
  });
  const Spool s = spool();
  EXPECT_EQ(s.calls.at(":step"), 3u);
  EXPECT_EQ(s.calls.at(":step/forward:phase"), 3u);
  EXPECT_EQ(s.calls.at(":step/forward:phase/conv1:layer"), 6u);
  EXPECT_EQ(s.calls.size(), 3u);
  const auto steps = s.of(":step");
  ASSERT_EQ(steps.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(steps[i].step, 3 + i);
  const auto forwards = s.of(":step/forward:phase");
  for (const Range& layer : s.of(":step/forward:phase/conv1:layer")) {
    EXPECT_TRUE(
        std::any_of(forwards.begin(), forwards.end(), [&](const Range& f) { return f.start <= layer.start && layer.end <= f.end; }));
  }
  EXPECT_EQ(s.lost(kLossUnbalanced), 0u);
}

TEST_F(NvtxTest, StepsAreNumberedByNamePayloadOrTheirOrder) {
  record([] {
    EventAttributes with_number = event("iteration");
    with_number.payload_type = kPayloadUint64;
    with_number.payload.u64 = 77;
    push(nullptr, with_number);
    pop();
    push("iteration");
    push("ProfilerStep#9");  // inside a step: none
    pop();
    pop();
    push("iteration");
    pop();
    push("mini_batch 5");
    pop();
  });
  const Spool s = spool();
  std::vector<uint64_t> numbers;
  for (const Range& r : s.of(":step")) numbers.push_back(r.step);
  EXPECT_EQ(numbers, (std::vector<uint64_t>{77, 0, 1, 5}));
  EXPECT_EQ(s.calls.at(":step/ProfilerStep:phase"), 1u);
}

TEST_F(NvtxTest, UnbalancedPopsAreCountedAndHarmNothing) {
  record([] {
    EXPECT_EQ(pop(), -1);
    push("a");
    EXPECT_EQ(pop(), 0);
    EXPECT_EQ(pop(), -1);
    EXPECT_EQ(pop(), -1);
    push("a");
    pop();
  });
  const Spool s = spool();
  EXPECT_EQ(s.lost(kLossUnbalanced), 3u);
  EXPECT_EQ(s.calls.at("a:layer"), 2u);
}

TEST_F(NvtxTest, RangesOfTwoDomainsMayCrossAndTheirTimesAddUp) {
  record([] {
    const Domain one = domain("one"), two = domain("two");
    EXPECT_NE(one, two);
    EXPECT_EQ(domain("one"), one);
    EXPECT_EQ(push(one, event("outer")), 0);
    EXPECT_EQ(push(two, event("inner")), 0);
    EXPECT_EQ(push(nullptr, event("innermost")), 0);
    EXPECT_EQ(pop(one), 0);  // below the two others
    usleep(2000);
    EXPECT_EQ(pop(nullptr), 0);
    EXPECT_EQ(pop(two), 0);
    EXPECT_EQ(pop(two), -1);
  });
  const Spool s = spool();
  EXPECT_EQ(s.lost(kLossUnbalanced), 1u);
  const std::set<std::string> expected = {"outer:layer", "outer:layer/inner:layer", "outer:layer/inner:layer/innermost:layer",
                                          "inner:layer", "inner:layer/innermost:layer"};
  std::set<std::string> seen;
  for (const auto& [path, calls] : s.calls) {
    seen.insert(path);
    EXPECT_EQ(calls, 1u) << path;
  }
  EXPECT_EQ(seen, expected);
  EXPECT_LE(s.ticks.at("outer:layer/inner:layer"), s.ticks.at("outer:layer"));
  EXPECT_LE(s.ticks.at("inner:layer/innermost:layer"), s.ticks.at("inner:layer"));
  EXPECT_EQ(s.of("outer:layer")[0].end, s.of("inner:layer")[0].start);  // cut where the outer one ended
}

TEST_F(NvtxTest, TextsOfAllKinds) {
  record([] {
    const Domain mine = domain("mine");
    const auto registered = [&](const char* text) {
      EventAttributes e = event(nullptr);
      e.message_type = kMessageRegistered;
      e.message.registered = core2<const void*(Domain, const char*)>(kDomainRegisterStringA)(mine, text);
      return e;
    };
    push(mine, registered("registered"));
    pop(mine);
    char text[] = "registered";
    push(mine, registered(text));  // the same
    memset(text, 'x', 5);
    pop(mine);
    EventAttributes wide = event(nullptr);
    wide.message_type = kMessageUnicode;
    wide.message.unicode = L"w\u00e9";
    push(mine, wide);
    pop(mine);
    EventAttributes handle = event(nullptr);
    handle.message_type = kMessageRegistered;
    handle.message.registered = core2<const void*(Domain, const wchar_t*)>(kDomainRegisterStringW)(mine, L"wide registered");
    push(mine, handle);
    pop(mine);
    core<int(const wchar_t*)>(kRangePushW)(L"wide");
    pop();
    for (const char* name : {"conv1", "conv2", "conv1"}) {  // one buffer, other texts
      static char buffer[16];
      strcpy(buffer, name);
      push(buffer);
      pop();
    }
    push(nullptr);
    pop();
    push("");
    pop();
    EXPECT_EQ(core<int(const EventAttributes*)>(kRangePushEx)(nullptr), 0);
    pop();
    EventAttributes small = event("small");
    small.size = 8;  // of an NVTX that has fewer fields than any had
    push(nullptr, small);
    pop();
  });
  const Spool s = spool();
  const std::map<std::string, uint64_t> expected = {{"registered:layer", 2}, {"w\xc3\xa9:layer", 1}, {"wide registered:layer", 1},
                                                    {"wide:layer", 1},       {"conv1:layer", 2},     {"conv2:layer", 1},
                                                    {"(unnamed):layer", 4}};
  EXPECT_EQ(s.calls, expected);
}

TEST_F(NvtxTest, CategoriesSayWhatARangeIs) {
  record([] {
    const Domain mine = domain("mine");
    core2<void(Domain, uint32_t, const char*)>(kDomainNameCategoryA)(mine, 5, "phase");
    core2<void(Domain, uint32_t, const wchar_t*)>(kDomainNameCategoryW)(mine, 6, L"step");
    core<void(uint32_t, const char*)>(kNameCategoryA)(5, "something else");
    EventAttributes e = event("warm-up");
    e.category = 5;
    for (int i = 0; i < 2; ++i) {
      push(mine, e);
      pop(mine);
      push(nullptr, e);  // the default domain's category 5 is another
      pop(nullptr);
    }
    e.category = 6;
    push(mine, e);
    pop(mine);
  });
  EXPECT_EQ(spool().calls, (std::map<std::string, uint64_t>{{"warm-up:phase", 2}, {"warm-up:layer", 2}, {":step", 1}}));
}

TEST_F(NvtxTest, MarksAndPayloadsAreValues) {
  record([] {
    core<void(const char*)>(kMarkA)("epoch begins");
    const EventAttributes loss = event("loss", 0.25);
    core<void(const EventAttributes*)>(kMarkEx)(&loss);
    EventAttributes e = event("samples");
    e.payload_type = kPayloadInt32;
    e.payload.i32 = -3;
    core2<void(Domain, const EventAttributes*)>(kDomainMarkEx)(nullptr, &e);
    push(nullptr, event("layer1", 64));
    pop();
    core<void(const wchar_t*)>(kMarkW)(L"w");
  });
  const Spool s = spool();
  ASSERT_EQ(s.values.size(), 5u);
  EXPECT_EQ(s.values[0].first, "epoch begins");
  EXPECT_TRUE(std::isnan(s.values[0].second));
  EXPECT_EQ(s.values[1], (std::pair<std::string, double>{"loss", 0.25}));
  EXPECT_EQ(s.values[2], (std::pair<std::string, double>{"samples", -3}));
  EXPECT_EQ(s.values[3], (std::pair<std::string, double>{"layer1", 64}));
  EXPECT_EQ(s.values[4].first, "w");
}

TEST_F(NvtxTest, StartedRangesEndOnAnyThreadAndTakeNoPartInTheStack) {
  record([] {
    const auto start = core<RangeId(const char*)>(kRangeStartA);
    const auto end = core<void(RangeId)>(kRangeEnd);
    push("outer");
    const RangeId a = start("a"), b = start("b"), step = start("step 4");
    EXPECT_NE(a, b);
    push("inner");
    std::thread([&] {
      end(a);
      end(step);
    }).join();
    pop();
    pop();
    end(b);
    end(a);  // ended already: somebody else may have its place
    end(0);
    end(12345);
    std::vector<RangeId> many;
    for (int i = 0; i < 1100; ++i) many.push_back(start("many"));
    for (const RangeId id : many) end(id);
  });
  const Spool s = spool();
  EXPECT_EQ(s.calls.at("a:phase"), 1u);
  EXPECT_EQ(s.calls.at("b:phase"), 1u);
  EXPECT_EQ(s.calls.at("outer:layer/inner:layer"), 1u);
  EXPECT_EQ(s.calls.at("many:phase"), 1024u);
  EXPECT_EQ(s.lost(kLossRangeDepth), 76u);
  EXPECT_EQ(s.lost(kLossUnbalanced), 3u);
  const auto steps = s.of("outer:layer/:step");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step, 4u);
  EXPECT_EQ(steps[0].kind, RecordKind::kStep);
  EXPECT_EQ(steps[0].thread, s.of("a:phase")[0].thread);
  EXPECT_NE(steps[0].thread, s.of("outer:layer")[0].thread);
}

// Forward under module hooks, backward on autograd's thread: seq joins them.
TEST_F(NvtxTest, BackwardOperatorsFindTheLayerOfTheirForwardOperator) {
  record([] {
    push("ProfilerStep#1");
    push("layer:conv1");
    push("aten::conv2d, seq = 12, op_id = 40");
    push("aten::convolution, seq = 12, op_id = 41");
    push("aten::cudnn_convolution, op_id = 42");
    pop();
    pop();
    pop();
    pop();
    push("aten::relu, seq = 13, op_id = 43");  // no module: the operator is the layer
    pop();
    std::thread([] {
      push("autograd::engine::evaluate_function: ReluBackward0, op_id = 50");
      push("ReluBackward0, seq = 13, op_id = 51");
      pop();
      pop();
      push("autograd::engine::evaluate_function: ConvolutionBackward0, op_id = 52");
      push("ConvolutionBackward0, seq = 12, op_id = 53");
      push("aten::convolution_backward, op_id = 54");
      pop();
      pop();
      pop();
      push("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad, op_id = 55");
      push("torch::autograd::AccumulateGrad, op_id = 56");
      pop();
      pop();
      push("DivBackward0, seq = 99, op_id = 57");  // nobody went forward with 99
      pop();
    }).join();
    pop();
  });
  const Spool s = spool();
  const std::map<std::string, uint64_t> expected = {
      {":step", 1},
      {":step/conv1:layer", 1},
      {":step/conv1:layer/aten::conv2d:operator", 1},
      {":step/conv1:layer/aten::conv2d:operator/aten::convolution:operator", 1},
      {":step/conv1:layer/aten::conv2d:operator/aten::convolution:operator/aten::cudnn_convolution:operator", 1},
      {":step/aten::relu:operator", 1},
      {"backward:phase/aten::relu:layer", 1},
      {"backward:phase/conv1:layer", 1},
      {"backward:phase/conv1:layer/aten::convolution_backward:operator", 1},
      {"backward:phase/torch::autograd::AccumulateGrad:operator", 1},
      {"backward:phase/DivBackward0:operator", 1}};
  EXPECT_EQ(s.calls, expected);
  const Range conv = s.of("backward:phase/conv1:layer").at(0);
  EXPECT_TRUE(conv.numbers.has_seq && conv.numbers.has_op_id);
  EXPECT_EQ(conv.numbers.seq, 12u);
  EXPECT_EQ(conv.numbers.op_id, 53u);
  const Range inner = s.of("backward:phase/conv1:layer/aten::convolution_backward:operator").at(0);
  EXPECT_FALSE(inner.numbers.has_seq);
  EXPECT_EQ(inner.numbers.op_id, 54u);
  EXPECT_EQ(s.lost(kLossForward), 0u);
  for (const auto& [id, text] : s.strings) EXPECT_EQ(text.find("seq ="), std::string::npos) << text;
}

TEST_F(NvtxTest, NoLayerRatherThanAnothersWhereSeqIsAmbiguous) {
  record([] {
    push("layer:main");
    push("aten::mm, seq = 5, op_id = 1");
    pop();
    pop();
    std::thread([] {
      push("layer:other");
      push("aten::mm, seq = 5, op_id = 2");
      pop();
      pop();
    }).join();
    push("MmBackward0, seq = 5, op_id = 3");
    pop();
    push("aten::mm, seq = 65541, op_id = 4");  // the same place in the table
    pop();
    push("MmBackward0, seq = 5, op_id = 5");
    pop();
  });
  const Spool s = spool();
  EXPECT_EQ(s.calls.at("backward:phase/MmBackward0:operator"), 2u);
  EXPECT_EQ(s.lost(kLossForward), 2u);
}

TEST_F(NvtxTest, LargeNumbersOfFrameworksSurvive) {
  record([] {
    push("aten::add, seq = 70368744177663, op_id = 140737488355327");
    pop();
  });
  const auto ranges = spool().of("aten::add:operator");
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].numbers.seq, kMaxRangeSeq);
  EXPECT_EQ(ranges[0].numbers.op_id, kMaxRangeOpId);
}

TEST_F(NvtxTest, NamesOfThreads) {
  record([] {
    push("a");
    core<void(uint32_t, const char*)>(kNameOsThreadA)(static_cast<uint32_t>(getpid()), "main loop");
    std::thread([] {
      core<void(uint32_t, const wchar_t*)>(kNameOsThreadW)(static_cast<uint32_t>(syscall(SYS_gettid)), L"autogr\u00e4d");
      core<void(uint32_t, const char*)>(kNameOsThreadA)(4000000, "nobody");
    }).join();
    pop();
  });
  EXPECT_EQ(spool().threads, (std::map<uint32_t, std::string>{{0, "main loop"}, {1, "autogr\xc3\xa4\x64"}}));
}

TEST_F(NvtxTest, TooDeepIsCountedAndComesBackOutRight) {
  record([] {
    const Domain other = domain("other");
    for (int i = 0; i < 200; ++i) EXPECT_EQ(push("deep"), i);
    EXPECT_EQ(push(other, event("late")), 0);  // no room either
    for (int i = 199; i >= 0; --i) EXPECT_EQ(pop(), i);
    EXPECT_EQ(pop(other), 0);
    push("after");
    pop();
    EXPECT_EQ(pop(), -1);
  });
  const Spool s = spool();
  EXPECT_EQ(s.lost(kLossRangeDepth), 200u - kMaxRangeDepth + 1);
  EXPECT_EQ(s.lost(kLossUnbalanced), 1u);
  EXPECT_EQ(s.calls.at("after:layer"), 1u);
}

// Whatever the bytes, whoever pops: nothing breaks, and every push that had room has its record.
TEST_F(NvtxTest, HostileNamesAndOrders) {
  record([] {
    std::mt19937 random(3);
    const Domain domains[] = {nullptr, domain("a"), domain("b"), domain("NCCL")};
    std::string text;
    for (int i = 0; i < 30000; ++i) {
      text.clear();
      const size_t length = random() % 64 == 0 ? 100000 : random() % 40;
      for (size_t k = 0; k < length; ++k) text += static_cast<char>(random() % 255 + 1);
      if (random() % 2) text += ", seq = " + std::to_string(random() % 4);
      errno = 1234;
      const Domain d = domains[random() % 4];
      if (random() % 2) {
        push(d, event(text.c_str()));
      } else {
        pop(d);
      }
      EXPECT_EQ(errno, 1234);
    }
    for (int i = 0; i < 300; ++i) domain(("domain " + std::to_string(i)).c_str());
    const Domain late = domain("one too many");
    EXPECT_EQ(push(late, event("x")), kNoPushPopTracking);
  });
  const Spool s = spool();
  uint64_t calls = 0;
  for (const auto& [path, n] : s.calls) calls += n;
  EXPECT_GT(calls, 5000u);
  EXPECT_GT(s.lost(kLossUnbalanced), 0u);
  EXPECT_GT(s.lost(kLossContexts), 0u);  // domains
  for (const auto& [id, name] : s.strings) EXPECT_LE(name.size(), kMaxRangeNameBytes);
}

// ------------------------------------------------------------------------------------------------ libraries and their payloads

struct Told {
  NvtxLibraryEvent::Kind kind;
  std::string domain, name;
  uint64_t schema;
  std::map<std::string, int64_t> fields;
};
std::vector<Told> g_told;

void listen(const NvtxLibraryEvent& e) {
  Told told = {e.kind, e.domain, e.name ? e.name : "", e.schema, {}};
  for (size_t i = 0; i < e.field_count; ++i) told.fields[e.fields[i].name] = static_cast<int64_t>(e.fields[i].bits);
  g_told.push_back(told);
}

struct PayloadSlots {
  intptr_t slots[63] = {};
  PayloadSlots() {
    ExtensionSegment segment = {0, 63, slots};
    ExtensionModule module = {3, sizeof(ExtensionModule), kPayloadModule, 0x103, 1, &segment, nullptr, nullptr};
    EXPECT_EQ(InitializeInjectionNvtxExtension(&module), 1);
    module.module_id = 4;  // counters: not ours
    EXPECT_EQ(InitializeInjectionNvtxExtension(&module), 0);
  }
  template <class F>
  F* at(size_t slot) const {
    return reinterpret_cast<F*>(slots[slot]);
  }
};

TEST_F(NvtxTest, PayloadsOfLibrariesGoToTheListenerWithTheirNames) {
  record([] {
    const Domain nccl = domain("NCCL");
    const PayloadSlots extension;
    EXPECT_EQ(push(nccl, event("nobody listens")), kNoPushPopTracking);
    g_nvtx_library_listener = listen;

    EnumAttributes redop = {kEnumFieldSize | kEnumFieldId, "op", nullptr, 0, 4, (1 << 24) + 11, nullptr};
    EXPECT_EQ(extension.at<uint64_t(Domain, const EnumAttributes*)>(kEnumRegister)(nccl, &redop), redop.id);
    // uint64 communicator, size_t bytes, int8 (padding follows), enum; offsets as NVTX allows: not given
    const SchemaEntry entries[] = {
        {0, 18, "communicator", nullptr, 0, 0, nullptr, nullptr}, {0, 22, "bytes", nullptr, 0, 0, nullptr, nullptr},
        {0, 11, "small", nullptr, 0, 0, nullptr, nullptr},        {1 << 1, 5, "pointer", nullptr, 0, 0, nullptr, nullptr},
        {1 << 4, 1, "text", nullptr, 6, 0, nullptr, nullptr},     {0, redop.id, "op", nullptr, 0, 0, nullptr, nullptr}};
    struct {
      uint64_t comm = 0xfedcba9876543210;
      size_t bytes = 4096;
      int8_t small = -2;
      int* pointer = nullptr;
      char text[6] = "hello";
      int op = 3;
    } data;
    SchemaAttributes schema = {
        kFieldEntries | kFieldCount | kFieldId, "s", kSchemaStatic, 0, entries, 6, sizeof data, 0, (1 << 24) + 5, nullptr};
    const auto add = extension.at<uint64_t(Domain, const SchemaAttributes*)>(kSchemaRegister);
    EXPECT_EQ(add(nccl, &schema), schema.id);
    schema.field_mask = kFieldEntries | kFieldCount;
    const uint64_t own_number = add(nccl, &schema);
    EXPECT_GE(own_number, kFirstDynamicSchema);
    schema.entries = nullptr;
    EXPECT_EQ(add(nccl, &schema), 0u);

    PayloadData payload = {schema.id, sizeof data, &data};
    EventAttributes e = event("ncclAllReduce");
    e.payload_type = kPayloadExtended;
    e.reserved0 = 1;
    e.payload.u64 = reinterpret_cast<uintptr_t>(&payload);
    push(nccl, e);
    pop(nccl);
    payload.size = 12;  // cut: what is not there is not read
    push(nccl, e);
    payload = {own_number, SIZE_MAX, &data};
    extension.at<int(Domain, const PayloadData*, size_t)>(kRangePushPayload)(nccl, &payload, 1);
    payload.schema_id = 77;  // nobody described it
    extension.at<void(Domain, const PayloadData*, size_t)>(kMarkPayload)(nccl, &payload, 1);
    const RangeId id = extension.at<RangeId(Domain, const PayloadData*, size_t)>(kRangeStartPayload)(nullptr, &payload, 1);
    extension.at<void(Domain, RangeId, const PayloadData*, size_t)>(kRangeEndPayload)(nullptr, id, &payload, 1);

    const std::map<std::string, int64_t> all = {
        {"communicator", static_cast<int64_t>(data.comm)}, {"bytes", 4096}, {"small", -2}, {"op", 3}};
    ASSERT_EQ(g_told.size(), 5u);
    EXPECT_EQ(g_told[0].kind, NvtxLibraryEvent::kBegin);
    EXPECT_EQ(g_told[0].domain, "NCCL");
    EXPECT_EQ(g_told[0].name, "ncclAllReduce");
    EXPECT_EQ(g_told[0].schema, (1u << 24) + 5);
    EXPECT_EQ(g_told[0].fields, all);
    EXPECT_EQ(g_told[1].kind, NvtxLibraryEvent::kEnd);
    EXPECT_EQ(g_told[2].fields, (std::map<std::string, int64_t>{{"communicator", static_cast<int64_t>(data.comm)}}));
    EXPECT_EQ(g_told[3].fields, all);
    EXPECT_EQ(g_told[3].name, "(unnamed)");
    EXPECT_EQ(g_told[4].kind, NvtxLibraryEvent::kMark);
    EXPECT_TRUE(g_told[4].fields.empty());
  });
  EXPECT_EQ(spool().calls, (std::map<std::string, uint64_t>{{"(unnamed):phase", 1}}));  // what the default domain started
}

// ------------------------------------------------------------------------------------------------ when not

TEST_F(NvtxTest, NotAttachedWhereNotWanted) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("DDL_OUT", (folder_ / "run.ddl").c_str(), 1);
    setenv("DDL_COLLECTORS", "mpi", 1);
    if (Copy::attach() != 0) _exit(1);
    setenv("DDL_COLLECTORS", "mpi,nvtx", 1);
    setenv("DDL_DISABLE", "1", 1);
    if (Copy::attach() != 0) _exit(2);
    unsetenv("DDL_DISABLE");
    if (Copy::attach() != 1) _exit(3);
    if (InitializeInjectionNvtx2([](uint32_t) -> const void* { return nullptr; }) != 0) _exit(4);
    _exit(0);
  }
  int ended = -1;
  ASSERT_EQ(waitpid(child, &ended, 0), child);
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(has_spool());  // attaching records nothing yet
}

TEST_F(NvtxTest, AForkedChildWritesNothing) {
  record([] {
    push("parent");
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 100; ++i) {
        if (push("child") != kNoPushPopTracking) _exit(1);
        pop();
      }
      core<void(RangeId)>(kRangeEnd)(core<RangeId(const char*)>(kRangeStartA)("child"));
      core<void(const char*)>(kMarkA)("child");
      _exit(0);
    }
    int ended = -1;
    waitpid(child, &ended, 0);
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(pop(), 0);
  });
  EXPECT_EQ(spool().calls, (std::map<std::string, uint64_t>{{"parent:layer", 1}}));
}

}  // namespace
}  // namespace ddl
