// NVTX's payload extension: libraries describe their own structures once (schemas) and send them with events.
// NCCL sends every call's arguments so, to whoever listens, also where it was linked statically and no wrapper
// of ours sees the call.
//
// The names of members are kept and handed on with their values: what a member means changes between versions of the
// library, its name less.
#include <stdint.h>
#include <string.h>

#include "collectors/nvtx.h"
#include "core/lock_and_pages.h"
#include "interpose/process.h"

namespace ddl::nvtx {

namespace {

constexpr uint32_t kMaxSchemas = 512;
constexpr uint64_t kFirstStatic = 1u << 24;
enum class Number : uint8_t { kNone, kSigned, kUnsigned, kFloat };

struct Member {
  const char* name;
  uint32_t offset;
  uint8_t size;
  Number number;
};
struct Schema {
  const DomainState* domain;
  uint64_t id;
  uint32_t enum_bytes;  ///< enumerations: size of a value; else 0
  uint32_t count;
  Member members[kMaxNvtxFields];
};
Schema* g_schemas = nullptr;
uint32_t g_schema_count = 0;

struct Type {
  uint64_t type;
  uint8_t size;
  Number number;
};
constexpr Type kTypes[] = {
    {1, 1, Number::kSigned},    {2, 1, Number::kUnsigned},  {3, 2, Number::kSigned},    {4, 2, Number::kUnsigned},
    {5, 4, Number::kSigned},    {6, 4, Number::kUnsigned},  {7, 8, Number::kSigned},    {8, 8, Number::kUnsigned},
    {9, 8, Number::kSigned},    {10, 8, Number::kUnsigned}, {11, 1, Number::kSigned},   {12, 1, Number::kUnsigned},
    {13, 2, Number::kSigned},   {14, 2, Number::kUnsigned}, {15, 4, Number::kSigned},   {16, 4, Number::kUnsigned},
    {17, 8, Number::kSigned},   {18, 8, Number::kUnsigned}, {19, 4, Number::kFloat},    {20, 8, Number::kFloat},
    {21, 16, Number::kNone},    {22, 8, Number::kUnsigned}, {23, 8, Number::kUnsigned}, {24, 4, Number::kNone},
    {32, 1, Number::kUnsigned}, {33, 16, Number::kNone},    {34, 16, Number::kNone},    {42, 2, Number::kNone},
    {43, 4, Number::kFloat},    {44, 8, Number::kFloat},    {45, 16, Number::kNone},    {50, 2, Number::kNone},
    {52, 4, Number::kNone},     {68, 4, Number::kUnsigned}, {69, 4, Number::kUnsigned}, {70, 8, Number::kUnsigned},
    {71, 4, Number::kUnsigned}, {72, 8, Number::kUnsigned}, {73, 4, Number::kUnsigned}, {74, 8, Number::kUnsigned},
    {75, 8, Number::kNone},     {76, 8, Number::kNone},     {77, 8, Number::kNone},     {78, 8, Number::kNone},
    {80, 8, Number::kNone}};
constexpr uint64_t kPointerFlags = 1u << 1;
constexpr uint64_t kArrayFlags = 7u << 4;
constexpr uint64_t kFixedArray = 1u << 4;

const Schema* find(const DomainState* domain, uint64_t id) {
  for (uint32_t i = __atomic_load_n(&g_schema_count, __ATOMIC_ACQUIRE); i-- > 0;) {
    if (g_schemas[i].id == id && g_schemas[i].domain == domain) return &g_schemas[i];
  }
  return nullptr;
}

/// Size 0: of no known type. An enumeration may be described after the structures that use it (NCCL's is): where it
/// lies at a given place it is taken for C's.
Type type_of(const DomainState* domain, const SchemaEntry& entry) {
  for (const Type& known : kTypes) {
    if (known.type == entry.type) return known;
  }
  const Schema* schema = entry.type >= kFirstStatic ? find(domain, entry.type) : nullptr;
  const uint32_t size = schema ? schema->enum_bytes : entry.type >= kFirstStatic && entry.offset ? sizeof(int) : 0;
  return {entry.type, static_cast<uint8_t>(size), Number::kUnsigned};
}

void describe(const DomainState* domain, const SchemaAttributes& attributes, Schema& schema) {
  uint64_t next = 0;
  for (size_t i = 0; i < attributes.entry_count && schema.count < kMaxNvtxFields; ++i) {
    const SchemaEntry& entry = attributes.entries[i];
    Type type = type_of(domain, entry);
    uint64_t bytes = type.size;
    uint64_t natural = type.size ? type.size : 1;
    if (entry.flags & kPointerFlags) {
      type.number = Number::kNone;
      bytes = natural = sizeof(void*);
    } else if (entry.flags & kArrayFlags) {
      // what follows lies nobody knows where
      if ((entry.flags & kArrayFlags) != kFixedArray || entry.detail > UINT16_MAX) return;
      type.number = Number::kNone;
      bytes = type.size * entry.detail;
    }
    if (bytes == 0) return;
    const uint64_t alignment = attributes.pack_align ? attributes.pack_align : natural;
    const uint64_t offset = entry.offset ? entry.offset : (next + alignment - 1) / alignment * alignment;
    if (offset > UINT16_MAX) return;
    next = offset + bytes;
    if (type.number == Number::kNone) continue;
    const char* name = keep_text(entry.name ? entry.name : "");
    schema.members[schema.count++] = {name ? name : "", static_cast<uint32_t>(offset), type.size, type.number};
  }
}

/// The caller holds the lock. NULL: no room.
Schema* new_schema(const DomainState* domain, uint64_t id) {
  if (!g_schemas) g_schemas = static_cast<Schema*>(take_pages(kMaxSchemas * sizeof(Schema)));
  if (!g_schemas || g_schema_count == kMaxSchemas) return nullptr;
  Schema* schema = &g_schemas[g_schema_count];
  schema->domain = domain;
  schema->id = id ? id : kFirstDynamicSchema + g_schema_count;
  return schema;
}

/// `fill` says what is in it. Returns the number under which payloads will name it.
template <class Fill>
uint64_t add_schema(const DomainState* domain, uint64_t id, Fill fill) {
  Schema made = {};
  fill(made);  // before the lock is taken: names take it, too
  const Lock lock;
  Schema* schema = lock ? new_schema(domain, id) : nullptr;
  if (!schema) return 0;
  schema->enum_bytes = made.enum_bytes;
  schema->count = made.count;
  memcpy(schema->members, made.members, sizeof made.members);
  __atomic_store_n(&g_schema_count, g_schema_count + 1, __ATOMIC_RELEASE);
  return schema->id;
}

uint64_t bits_of(const Member& member, const unsigned char* at, bool& is_double) {
  uint64_t bits = 0;
  memcpy(&bits, at, member.size);
  is_double = member.number == Number::kFloat;
  if (is_double && member.size == 4) {
    float single;
    memcpy(&single, at, sizeof single);
    const double number = static_cast<double>(single);
    memcpy(&bits, &number, sizeof bits);
  }
  const unsigned unused = 64 - 8u * member.size;
  if (member.number == Number::kSigned) bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  return bits;
}

// ------------------------------------------------------------------------------------------------ what NVTX calls

uint64_t on_schema_register(Domain handle, const SchemaAttributes* attributes) {
  const DomainState* domain = domain_of(handle);
  if (!attributes || !(attributes->field_mask & kFieldEntries) || !(attributes->field_mask & kFieldCount) ||
      !attributes->entries)
    return 0;
  SchemaAttributes known = *attributes;
  if (!(known.field_mask & kFieldPackAlign)) known.pack_align = 0;
  const uint64_t id = known.field_mask & kFieldId ? known.id : 0;
  return add_schema(domain, id, [&](Schema& schema) {
    if (known.type == kSchemaStatic) describe(domain, known, schema);
  });
}

uint64_t on_enum_register(Domain handle, const EnumAttributes* attributes) {
  if (!attributes) return 0;
  const size_t size = attributes->field_mask & kEnumFieldSize ? attributes->size : sizeof(int);
  const uint64_t id = attributes->field_mask & kEnumFieldId ? attributes->id : 0;
  return add_schema(domain_of(handle), id, [&](Schema& schema) {
    schema.enum_bytes = size == 1 || size == 2 || size == 4 || size == 8 ? static_cast<uint32_t>(size) : 0;
  });
}

int on_push_payload(Domain handle, const PayloadData* data, size_t count) { return push_payload(handle, data, count); }
int on_pop_payload(Domain handle, const PayloadData*, size_t) { return pop_payload(handle); }
void on_mark_payload(Domain handle, const PayloadData* data, size_t count) { mark_payload(handle, data, count); }
RangeId on_start_payload(Domain handle, const PayloadData* data, size_t count) {
  return start_payload(handle, data, count);
}
void on_end_payload(Domain handle, RangeId id, const PayloadData*, size_t) { end_payload(handle, id); }

}  // namespace

size_t read_payload(const DomainState* domain, const PayloadData* data, size_t count,
                    NvtxField (&fields)[kMaxNvtxFields], uint64_t& schema_id) {
  size_t used = 0;
  schema_id = count > 0 && data ? data[0].schema_id : 0;
  for (size_t i = 0; data && i < count && i < 64; ++i) {
    const Schema* schema = data[i].payload ? find(domain, data[i].schema_id) : nullptr;
    for (uint32_t m = 0; schema && m < schema->count && used < kMaxNvtxFields; ++m) {
      const Member& member = schema->members[m];
      if (data[i].size != SIZE_MAX && (member.offset > data[i].size || data[i].size - member.offset < member.size))
        continue;
      NvtxField& field = fields[used++];
      field.name = member.name;
      field.bits = bits_of(member, static_cast<const unsigned char*>(data[i].payload) + member.offset, field.is_double);
    }
  }
  return used;
}

size_t read_payload(const DomainState* domain, const EventAttributes* event, NvtxField (&fields)[kMaxNvtxFields],
                    uint64_t& schema) {
  schema = 0;
  if (event->payload_type != kPayloadExtended || event->reserved0 <= 0) return 0;
  const auto* data = reinterpret_cast<const PayloadData*>(static_cast<uintptr_t>(event->payload.u64));
  return read_payload(domain, data, static_cast<size_t>(event->reserved0), fields, schema);
}

}  // namespace ddl::nvtx

/// NVTX calls this once per extension and copy of it; 0: that extension stays without us.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    ddl::nvtx::ExtensionModule* module) {
  using namespace ddl::nvtx;
  if (!module || module->module_id != kPayloadModule || module->segment_count < 1 || ddl::is_on("DDL_DISABLE") ||
      !ddl::collector_wanted("nvtx"))
    return 0;
  const ExtensionSegment& segment = module->segments[0];
  const auto set = [&](size_t slot, intptr_t function) {
    if (slot < segment.slot_count) segment.slots[slot] = function;
  };
  set(kSchemaRegister, reinterpret_cast<intptr_t>(&on_schema_register));
  set(kEnumRegister, reinterpret_cast<intptr_t>(&on_enum_register));
  set(kRangePushPayload, reinterpret_cast<intptr_t>(&on_push_payload));
  set(kRangePopPayload, reinterpret_cast<intptr_t>(&on_pop_payload));
  set(kMarkPayload, reinterpret_cast<intptr_t>(&on_mark_payload));
  set(kRangeStartPayload, reinterpret_cast<intptr_t>(&on_start_payload));
  set(kRangeEndPayload, reinterpret_cast<intptr_t>(&on_end_payload));
  return 1;
}
