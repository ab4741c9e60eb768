// NVTX's interface between a program and a tool, written down again: the product includes no header of NVIDIA's.
// tests/collectors/nvtx_mirror.cpp compares every size, offset and number with the real headers where they are. Stable
// since NVTX 3.0: each program brings its own copy of the other side.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl::nvtx {

constexpr uint16_t kVersion = 3;
constexpr int kNoPushPopTracking = -2;

enum MessageType : int32_t { kMessageNone = 0, kMessageAscii = 1, kMessageUnicode = 2, kMessageRegistered = 3 };
enum PayloadType : int32_t {
  kPayloadNone = 0,
  kPayloadUint64 = 1,
  kPayloadInt64 = 2,
  kPayloadDouble = 3,
  kPayloadUint32 = 4,
  kPayloadInt32 = 5,
  kPayloadFloat = 6,
};
constexpr int32_t kPayloadExtended = static_cast<int32_t>(0xDFBD0009);

union Payload {
  uint64_t u64;
  int64_t i64;
  double d;
  uint32_t u32;
  int32_t i32;
  float f;
};
union Message {
  const char* ascii;
  const wchar_t* unicode;
  const void* registered;
};

struct EventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved0;  ///< with kPayloadExtended: how many PayloadData `payload.u64` points to
  Payload payload;
  int32_t message_type;
  Message message;
};

using Domain = const void*;
using RangeId = uint64_t;

enum Module : int { kCore = 1, kCore2 = 5 };
enum CoreSlot : unsigned {
  kMarkEx = 1,
  kMarkA,
  kMarkW,
  kRangeStartEx,
  kRangeStartA,
  kRangeStartW,
  kRangeEnd,
  kRangePushEx,
  kRangePushA,
  kRangePushW,
  kRangePop,
  kNameCategoryA,
  kNameCategoryW,
  kNameOsThreadA,
  kNameOsThreadW,
};
enum Core2Slot : unsigned {
  kDomainMarkEx = 1,
  kDomainRangeStartEx,
  kDomainRangeEnd,
  kDomainRangePushEx,
  kDomainRangePop,
  kDomainResourceCreate,
  kDomainResourceDestroy,
  kDomainNameCategoryA,
  kDomainNameCategoryW,
  kDomainRegisterStringA,
  kDomainRegisterStringW,
  kDomainCreateA,
  kDomainCreateW,
  kDomainDestroy,
  kInitialize,
};

using Function = void (*)();
using FunctionTable = Function**;
constexpr uint32_t kCallbacksTable = 1;
struct Callbacks {
  size_t struct_size;
  int (*get_module_function_table)(int module, FunctionTable* table, unsigned* size);
};
using GetExportTable = const void* (*)(uint32_t id);

// ------------------------------------------------------------------------------------------------ extensions

constexpr uint16_t kPayloadModule = 2;
enum PayloadSlot : size_t {
  kSchemaRegister = 0,
  kEnumRegister = 1,
  kMarkPayload = 2,
  kRangePushPayload = 3,
  kRangePopPayload = 4,
  kRangeStartPayload = 5,
  kRangeEndPayload = 6,
};

struct ExtensionSegment {
  size_t segment_id;
  size_t slot_count;
  intptr_t* slots;
};
struct ExtensionModule {
  uint16_t nvtx_version;
  uint16_t struct_size;
  uint16_t module_id;
  uint16_t compat_id;
  size_t segment_count;
  ExtensionSegment* segments;
  intptr_t (*get_export_function)(uint32_t id);
  const void* info;
};

struct PayloadData {
  uint64_t schema_id;
  size_t size;  ///< SIZE_MAX: as the schema says
  const void* payload;
};
struct SchemaEntry {
  uint64_t flags;
  uint64_t type;
  const char* name;
  const char* description;
  uint64_t detail;
  uint64_t offset;
  const void* semantics;
  const void* reserved;
};
enum SchemaField : uint64_t {
  kFieldEntries = 1 << 4,
  kFieldCount = 1 << 5,
  kFieldPackAlign = 1 << 7,
  kFieldId = 1 << 8
};
struct SchemaAttributes {
  uint64_t field_mask;
  const char* name;
  uint64_t type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t static_size;
  size_t pack_align;
  uint64_t id;
  void* extension;
};
enum EnumField : uint64_t { kEnumFieldSize = 1 << 4, kEnumFieldId = 1 << 5 };
struct EnumAttributes {
  uint64_t field_mask;
  const char* name;
  const void* entries;
  size_t entry_count;
  size_t size;
  uint64_t id;
  void* extension;
};
constexpr uint64_t kSchemaStatic = 1;
constexpr uint64_t kFirstDynamicSchema = uint64_t{1} << 32;

}  // namespace ddl::nvtx
