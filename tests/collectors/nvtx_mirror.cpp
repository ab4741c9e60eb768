// Our copy of NVTX's interface against the real headers: this file compiles or it does not.
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSync.h>

#include "collectors/nvtx_abi.h"

namespace nv = ddl::nvtx;

#define SAME_FIELD(ours, our_field, theirs, their_field)                                               \
  static_assert(offsetof(nv::ours, our_field) == offsetof(theirs, their_field), #ours "." #our_field); \
  static_assert(sizeof(nv::ours::our_field) == sizeof(theirs::their_field), #ours "." #our_field " size")
#define SAME_SIZE(ours, theirs) static_assert(sizeof(nv::ours) == sizeof(theirs), #ours)
#define SAME_NUMBER(ours, theirs) \
  static_assert(static_cast<long long>(nv::ours) == static_cast<long long>(theirs), #ours)

static_assert(NVTX_VERSION == nv::kVersion);
SAME_SIZE(EventAttributes, nvtxEventAttributes_t);
SAME_FIELD(EventAttributes, version, nvtxEventAttributes_t, version);
SAME_FIELD(EventAttributes, size, nvtxEventAttributes_t, size);
SAME_FIELD(EventAttributes, category, nvtxEventAttributes_t, category);
SAME_FIELD(EventAttributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_FIELD(EventAttributes, reserved0, nvtxEventAttributes_t, reserved0);
SAME_FIELD(EventAttributes, payload, nvtxEventAttributes_t, payload);
SAME_FIELD(EventAttributes, message_type, nvtxEventAttributes_t, messageType);
SAME_FIELD(EventAttributes, message, nvtxEventAttributes_t, message);
SAME_NUMBER(kMessageAscii, NVTX_MESSAGE_TYPE_ASCII);
SAME_NUMBER(kMessageUnicode, NVTX_MESSAGE_TYPE_UNICODE);
SAME_NUMBER(kMessageRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME_NUMBER(kPayloadUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME_NUMBER(kPayloadInt64, NVTX_PAYLOAD_TYPE_INT64);
SAME_NUMBER(kPayloadDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME_NUMBER(kPayloadUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME_NUMBER(kPayloadInt32, NVTX_PAYLOAD_TYPE_INT32);
SAME_NUMBER(kPayloadFloat, NVTX_PAYLOAD_TYPE_FLOAT);
SAME_NUMBER(kPayloadExtended, NVTX_PAYLOAD_TYPE_EXT);
SAME_NUMBER(kNoPushPopTracking, NVTX_NO_PUSH_POP_TRACKING);

SAME_NUMBER(kCore, NVTX_CB_MODULE_CORE);
SAME_NUMBER(kCore2, NVTX_CB_MODULE_CORE2);
#define SAME_CORE(name) SAME_NUMBER(k##name, NVTX_CBID_CORE_##name)
#define SAME_CORE2(name) SAME_NUMBER(k##name, NVTX_CBID_CORE2_##name)
SAME_CORE(MarkEx);
SAME_CORE(MarkA);
SAME_CORE(MarkW);
SAME_CORE(RangeStartEx);
SAME_CORE(RangeStartA);
SAME_CORE(RangeStartW);
SAME_CORE(RangeEnd);
SAME_CORE(RangePushEx);
SAME_CORE(RangePushA);
SAME_CORE(RangePushW);
SAME_CORE(RangePop);
SAME_CORE(NameCategoryA);
SAME_CORE(NameCategoryW);
SAME_CORE(NameOsThreadA);
SAME_CORE(NameOsThreadW);
SAME_CORE2(DomainMarkEx);
SAME_CORE2(DomainRangeStartEx);
SAME_CORE2(DomainRangeEnd);
SAME_CORE2(DomainRangePushEx);
SAME_CORE2(DomainRangePop);
SAME_CORE2(DomainNameCategoryA);
SAME_CORE2(DomainNameCategoryW);
SAME_CORE2(DomainRegisterStringA);
SAME_CORE2(DomainRegisterStringW);
SAME_CORE2(DomainCreateA);
SAME_CORE2(DomainCreateW);
SAME_CORE2(DomainDestroy);
SAME_CORE2(Initialize);

SAME_NUMBER(kCallbacksTable, NVTX_ETID_CALLBACKS);
SAME_SIZE(Callbacks, NvtxExportTableCallbacks);
SAME_FIELD(Callbacks, struct_size, NvtxExportTableCallbacks, struct_size);
SAME_FIELD(Callbacks, get_module_function_table, NvtxExportTableCallbacks, GetModuleFunctionTable);

SAME_SIZE(ExtensionSegment, nvtxExtModuleSegment_t);
SAME_FIELD(ExtensionSegment, slot_count, nvtxExtModuleSegment_t, slotCount);
SAME_FIELD(ExtensionSegment, slots, nvtxExtModuleSegment_t, functionSlots);
SAME_SIZE(ExtensionModule, nvtxExtModuleInfo_t);
SAME_FIELD(ExtensionModule, module_id, nvtxExtModuleInfo_t, moduleId);
SAME_FIELD(ExtensionModule, segment_count, nvtxExtModuleInfo_t, segmentsCount);
SAME_FIELD(ExtensionModule, segments, nvtxExtModuleInfo_t, segments);
SAME_NUMBER(kPayloadModule, NVTX_EXT_PAYLOAD_MODULEID);
SAME_NUMBER(kSchemaRegister, NVTX3EXT_CBID_nvtxPayloadSchemaRegister);
SAME_NUMBER(kEnumRegister, NVTX3EXT_CBID_nvtxPayloadEnumRegister);
SAME_NUMBER(kMarkPayload, NVTX3EXT_CBID_nvtxMarkPayload);
SAME_NUMBER(kRangePushPayload, NVTX3EXT_CBID_nvtxRangePushPayload);
SAME_NUMBER(kRangePopPayload, NVTX3EXT_CBID_nvtxRangePopPayload);
SAME_NUMBER(kRangeStartPayload, NVTX3EXT_CBID_nvtxRangeStartPayload);
SAME_NUMBER(kRangeEndPayload, NVTX3EXT_CBID_nvtxRangeEndPayload);

SAME_SIZE(PayloadData, nvtxPayloadData_t);
SAME_FIELD(PayloadData, schema_id, nvtxPayloadData_t, schemaId);
SAME_FIELD(PayloadData, size, nvtxPayloadData_t, size);
SAME_FIELD(PayloadData, payload, nvtxPayloadData_t, payload);
SAME_SIZE(SchemaEntry, nvtxPayloadSchemaEntry_t);
SAME_FIELD(SchemaEntry, flags, nvtxPayloadSchemaEntry_t, flags);
SAME_FIELD(SchemaEntry, type, nvtxPayloadSchemaEntry_t, type);
SAME_FIELD(SchemaEntry, name, nvtxPayloadSchemaEntry_t, name);
SAME_FIELD(SchemaEntry, detail, nvtxPayloadSchemaEntry_t, arrayOrUnionDetail);
SAME_FIELD(SchemaEntry, offset, nvtxPayloadSchemaEntry_t, offset);
SAME_SIZE(SchemaAttributes, nvtxPayloadSchemaAttr_t);
SAME_FIELD(SchemaAttributes, field_mask, nvtxPayloadSchemaAttr_t, fieldMask);
SAME_FIELD(SchemaAttributes, type, nvtxPayloadSchemaAttr_t, type);
SAME_FIELD(SchemaAttributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME_FIELD(SchemaAttributes, entry_count, nvtxPayloadSchemaAttr_t, numEntries);
SAME_FIELD(SchemaAttributes, pack_align, nvtxPayloadSchemaAttr_t, packAlign);
SAME_FIELD(SchemaAttributes, id, nvtxPayloadSchemaAttr_t, schemaId);
SAME_NUMBER(kFieldEntries, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES);
SAME_NUMBER(kFieldCount, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES);
SAME_NUMBER(kFieldPackAlign, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT);
SAME_NUMBER(kFieldId, NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID);
SAME_SIZE(EnumAttributes, nvtxPayloadEnumAttr_t);
SAME_FIELD(EnumAttributes, field_mask, nvtxPayloadEnumAttr_t, fieldMask);
SAME_FIELD(EnumAttributes, size, nvtxPayloadEnumAttr_t, sizeOfEnum);
SAME_FIELD(EnumAttributes, id, nvtxPayloadEnumAttr_t, schemaId);
SAME_NUMBER(kEnumFieldSize, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE);
SAME_NUMBER(kEnumFieldId, NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID);
SAME_NUMBER(kSchemaStatic, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
static_assert(nv::kFirstDynamicSchema == NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
