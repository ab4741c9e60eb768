// What NVTX events carry: texts of all kinds, categories, numbers, names of threads, and the structures of libraries.
#include "tests/collectors/nvtx_fixture.h"

#include <sys/syscall.h>

#include <cmath>
#include <thread>

extern "C" int InitializeInjectionNvtxExtension(ddl::nvtx::ExtensionModule*);

namespace ddl {
namespace {

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
    handle.message.registered =
        core2<const void*(Domain, const wchar_t*)>(kDomainRegisterStringW)(mine, L"wide registered");
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
  const std::map<std::string, uint64_t> expected = {
      {"registered:layer", 2}, {"w\xc3\xa9:layer", 1}, {"wide registered:layer", 1}, {"wide:layer", 1},
      {"conv1:layer", 2},      {"conv2:layer", 1},     {"(unnamed):layer", 4}};
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

TEST_F(NvtxTest, NamesOfThreads) {
  record([] {
    push("a");
    core<void(uint32_t, const char*)>(kNameOsThreadA)(static_cast<uint32_t>(getpid()), "main loop");
    std::thread([] {
      core<void(uint32_t, const wchar_t*)>(kNameOsThreadW)(static_cast<uint32_t>(syscall(SYS_gettid)),
                                                           L"autogr\u00e4d");
      core<void(uint32_t, const char*)>(kNameOsThreadA)(4000000, "nobody");
    }).join();
    pop();
  });
  EXPECT_EQ(spool().threads, (std::map<uint32_t, std::string>{{0, "main loop"}, {1, "autogr\xc3\xa4\x64"}}));
}

// ---------------------------------------------------------------------------------------- libraries and their payloads

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
    const SchemaEntry entries[] = {{0, 18, "communicator", nullptr, 0, 0, nullptr, nullptr},
                                   {0, 22, "bytes", nullptr, 0, 0, nullptr, nullptr},
                                   {0, 11, "small", nullptr, 0, 0, nullptr, nullptr},
                                   {1 << 1, 5, "pointer", nullptr, 0, 0, nullptr, nullptr},
                                   {1 << 4, 1, "text", nullptr, 6, 0, nullptr, nullptr},
                                   {0, redop.id, "op", nullptr, 0, 0, nullptr, nullptr}};
    struct {
      uint64_t comm = 0xfedcba9876543210;
      size_t bytes = 4096;
      int8_t small = -2;
      int* pointer = nullptr;
      char text[6] = "hello";
      int op = 3;
    } data;
    SchemaAttributes schema = {kFieldEntries | kFieldCount | kFieldId,
                               "s",
                               kSchemaStatic,
                               0,
                               entries,
                               6,
                               sizeof data,
                               0,
                               (1 << 24) + 5,
                               nullptr};
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
    const RangeId id =
        extension.at<RangeId(Domain, const PayloadData*, size_t)>(kRangeStartPayload)(nullptr, &payload, 1);
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
  // what the default domain started
  EXPECT_EQ(spool().calls, (std::map<std::string, uint64_t>{{"(unnamed):phase", 1}}));
}

}  // namespace
}  // namespace ddl
