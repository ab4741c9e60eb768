// NVTX: what programs and frameworks say about themselves. Every library that uses it brings its own copy of
// NVTX, and each copy asks InitializeInjectionNvtx2() at its first call, at any time from the first constructor
// to the last destructor.
//
//   ranges     push and pop nest per thread and domain, and go onto the region stack that annotate.h uses
//              (core/ranges.cpp) start and end may be on different threads: they are timed, nothing is booked to them
//              (core/started_ranges.cpp)
//              start and end may be on different threads: they are timed, nothing is booked to them
//              (core/started_ranges.cpp)
//   marks      values with their moment, without a number if they bring none
//   domains    the default one and those of the program are the program's; those of libraries (NCCL) go to whoever
//              listens
//   (core/nvtx_payload.h)
//
// The hot path is push and pop by the same pointer as before: one look into the thread's NameSlot, one
// comparison of the text.
#include "collectors/nvtx.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "interpose/process.h"

namespace ddl {

NvtxLibraryListener g_nvtx_library_listener = nullptr;

namespace nvtx {

namespace {

constexpr size_t kMaxParsedBytes = 4096;  // sizes of tensors make long names
// NameSlot::meaning: beyond annotate.h's; plus the kind that the category gives
constexpr uint32_t kFirstMeaning = 16;
constexpr uint32_t kFirstStartMeaning = 32;  // the same, for ranges that are started
constexpr uint32_t kNoSlot = UINT32_MAX;     // the text does not stay
constexpr RangeId kUntracked = UINT64_MAX;   // of a start that was not recorded
constexpr size_t kWideBytes = 4 * (kMaxRangeNameBytes + 1);

struct SavedErrno {
  const int saved = errno;
  ~SavedErrno() { errno = saved; }
};

/// A program without MPI is recorded from its first range on.
inline Thread* recording_thread() {
  if (__builtin_expect(!g_process.active, 0) && !start_recorder(false)) return nullptr;
  return this_thread();
}

/// The text of an event, if need be in `narrowed`; `meaning` becomes kNoSlot then.
const char* text_of(const EventAttributes* event, char (&narrowed)[kWideBytes], uint32_t& meaning) {
  const char* text = nullptr;
  if (event->message_type == kMessageAscii) text = event->message.ascii;
  if (event->message_type == kMessageRegistered) text = static_cast<const char*>(event->message.registered);
  if (event->message_type == kMessageUnicode && event->message.unicode) {
    narrow(event->message.unicode, narrowed, sizeof narrowed);
    text = narrowed;
    meaning = kNoSlot;
  }
  return text && text[0] ? text : "(unnamed)";
}

/// False: it has no number. `whole`: set if it is an integer.
bool number_of(const EventAttributes* event, double& number, const uint64_t** whole) {
  switch (event->payload_type) {
    case kPayloadUint64:
      number = static_cast<double>(event->payload.u64);
      *whole = &event->payload.u64;
      return true;
    case kPayloadInt64:
      number = static_cast<double>(event->payload.i64);
      if (event->payload.i64 >= 0) *whole = &event->payload.u64;
      return true;
    case kPayloadDouble:
      number = event->payload.d;
      return true;
    case kPayloadUint32:
      number = event->payload.u32;
      return true;
    case kPayloadInt32:
      number = event->payload.i32;
      return true;
    case kPayloadFloat:
      number = static_cast<double>(event->payload.f);
      return true;
    default:
      return false;
  }
}

/// The event's own number as a value of its name, or the members of its structure as values of theirs.
void record_number(const RangeName& name, const EventAttributes* event, const DomainState* domain) {
  double number = 0;
  const uint64_t* whole = nullptr;
  if (number_of(event, number, &whole)) return record_value(name.text, name.length, number);
  if (event->payload_type != kPayloadExtended) return;
  NvtxField fields[kMaxNvtxFields];
  uint64_t schema = 0;
  const size_t count = read_payload(domain, event, fields, schema);
  for (size_t i = 0; i < count; ++i) {
    double value;
    memcpy(&value, &fields[i].bits, sizeof value);
    if (!fields[i].is_double) value = static_cast<double>(static_cast<int64_t>(fields[i].bits));
    record_value(fields[i].name, value);
  }
}

void tell_listener(NvtxLibraryEvent::Kind kind, const DomainState* domain, const EventAttributes* event) {
  const NvtxLibraryListener listener = __atomic_load_n(&g_nvtx_library_listener, __ATOMIC_ACQUIRE);
  if (!listener) return;
  const SavedErrno keep_errno;
  NvtxField fields[kMaxNvtxFields];
  NvtxLibraryEvent told = {kind, domain->name, nullptr, 0, fields, 0};
  char narrowed[kWideBytes];
  uint32_t meaning = 0;
  if (event) {
    told.name = text_of(event, narrowed, meaning);
    told.field_count = read_payload(domain, event, fields, told.schema);
  }
  listener(told);
}

RangeName parse(const char* text, uint32_t kind) {
  static const char* step_names = setting("DDL_STEP_NAMES");
  RangeName name = parse_range_name(text, strnlen(text, kMaxParsedBytes), step_names);
  if (kind != 0) name.kind = kind;
  return name;
}

/// Opens a range with a name that this thread has not just used in this place. Returns nothing: see open_ranges().
__attribute__((noinline)) void push_new(Thread* thread, const DomainState* domain, const char* text, uint32_t kind,
                                        uint32_t meaning, const EventAttributes* event) {
  const SavedErrno keep_errno;
  const RangeName name = parse(text, kind);
  double number = 0;
  const uint64_t* whole = nullptr;
  if (event) number_of(event, number, &whole);
  const RangePlace place = place_range(thread, name, whole);
  const bool is_step = place.kind == static_cast<uint32_t>(ContextKind::kStep);
  ProfileEntry* entry = place.kind ? own_profile_entry(thread, place.context, place.kind) : nullptr;
  if (meaning != kNoSlot && !is_step && !name.numbers.has_seq && !name.numbers.has_op_id) {
    if (const char* ours = keep_text(text))
      *name_slot(thread, text, meaning) = {text, ours, thread->context, meaning, place.kind, place.context, entry};
  }
  open_range(thread, domain->owner, place.kind, place.context, entry, place.step, name.numbers);
  if (event && event->payload_type != kPayloadNone && !is_step) record_number(name, event, domain);
}

/// Returns the depth at which the range lies, as NVTX wants it.
inline int push(const DomainState* domain, const char* text, uint32_t kind, uint32_t meaning,
                const EventAttributes* event) {
  Thread* thread = recording_thread();
  if (__builtin_expect(!thread, 0)) return kNoPushPopTracking;
  const NameSlot* slot = name_slot(thread, text, meaning);
  if (__builtin_expect(
          meaning != kNoSlot && is_hit(thread, *slot, text, meaning) && (!event || event->payload_type == kPayloadNone),
          1)) {
    open_range(thread, domain->owner, slot->kind, slot->context, slot->entry, 0, {});
  } else {
    push_new(thread, domain, text, kind, meaning, event);
  }
  return static_cast<int>(open_ranges(thread, domain->owner)) - 1;
}

int push_text(const char* text) {
  if (__builtin_expect(!text || !text[0], 0)) text = "(unnamed)";
  return push(domain_of(nullptr), text, 0, kFirstMeaning, nullptr);
}

bool is_whole(const EventAttributes* event) { return event && event->size >= sizeof(EventAttributes); }

int push_event(DomainState* domain, const EventAttributes* event) {
  if (!is_whole(event)) return domain->owner ? push_text(nullptr) : kNoPushPopTracking;
  if (domain->owner == 0) {
    tell_listener(NvtxLibraryEvent::kBegin, domain, event);
    return kNoPushPopTracking;
  }
  const uint32_t kind = event->category != 0 ? kind_of(domain, event->category) : 0;
  uint32_t meaning = kFirstMeaning + kind;
  char narrowed[kWideBytes];
  const char* text = text_of(event, narrowed, meaning);
  return push(domain, text, kind, meaning, event);
}

int pop(DomainState* domain) {
  if (domain->owner == 0) {
    tell_listener(NvtxLibraryEvent::kEnd, domain, nullptr);
    return kNoPushPopTracking;
  }
  Thread* thread = recording_thread();
  if (!thread) return kNoPushPopTracking;
  const SavedErrno keep_errno;
  return close_range(thread, domain->owner) ? static_cast<int>(open_ranges(thread, domain->owner)) : -1;
}

/// Steps remain steps; anything else is a phase outside the tree: it may overlap with all.
__attribute__((noinline)) RangeId start_new(Thread* thread, const DomainState* domain, const char* text, uint32_t kind,
                                            uint32_t meaning, const EventAttributes* event) {
  const RangeName name = parse(text, kind);
  double number = 0;
  const uint64_t* whole = nullptr;
  if (event) number_of(event, number, &whole);
  if (name.kind == static_cast<uint32_t>(ContextKind::kStep)) {
    const RangePlace place = place_range(thread, name, whole);
    return start_range(thread, place.kind, place.context, place.step, name.numbers);
  }
  if (event && event->payload_type != kPayloadNone) record_number(name, event, domain);
  const uint32_t context = range_context(0, ContextKind::kPhase, intern_name(name.text, name.length));
  if (meaning != kNoSlot && !name.numbers.has_seq && !name.numbers.has_op_id) {
    if (const char* ours = keep_text(text))
      *name_slot(thread, text, meaning) = {
          text, ours, thread->context, meaning, static_cast<uint32_t>(ContextKind::kPhase), context, nullptr};
  }
  return start_range(thread, static_cast<uint32_t>(ContextKind::kPhase), context, 0, name.numbers);
}

RangeId start(const DomainState* domain, const char* text, uint32_t kind, uint32_t meaning,
              const EventAttributes* event) {
  Thread* thread = recording_thread();
  if (!thread) return kUntracked;
  const SavedErrno keep_errno;
  const NameSlot* slot = name_slot(thread, text, meaning);
  const bool known =
      meaning != kNoSlot && is_hit(thread, *slot, text, meaning) && (!event || event->payload_type == kPayloadNone);
  const RangeId id = known ? start_range(thread, slot->kind, slot->context, 0, {})
                           : start_new(thread, domain, text, kind, meaning, event);
  return id ? id : kUntracked;
}

void end(DomainState* domain, RangeId id) {
  if (domain->owner == 0) return tell_listener(NvtxLibraryEvent::kEnd, domain, nullptr);
  Thread* thread = id == kUntracked ? nullptr : recording_thread();
  if (!thread) return;
  const SavedErrno keep_errno;
  end_range(thread, id);
}

void mark(DomainState* domain, const char* text, const EventAttributes* event) {
  if (!recording_thread()) return;
  const SavedErrno keep_errno;
  const RangeName name = parse(text, 0);
  if (event && event->payload_type != kPayloadNone) return record_number(name, event, domain);
  record_value(name.text, name.length, static_cast<double>(NAN));
}

// ------------------------------------------------------------------------------------------------ what NVTX calls

void on_mark_a(const char* text) { mark(domain_of(nullptr), text ? text : "", nullptr); }
void on_domain_mark_ex(Domain handle, const EventAttributes* event) {
  DomainState* domain = domain_of(handle);
  if (!is_whole(event)) return;
  if (domain->owner == 0) return tell_listener(NvtxLibraryEvent::kMark, domain, event);
  char narrowed[kWideBytes];
  uint32_t meaning = 0;
  mark(domain, text_of(event, narrowed, meaning), event);
}
void on_mark_ex(const EventAttributes* event) { on_domain_mark_ex(nullptr, event); }

int on_push_a(const char* text) { return push_text(text); }
int on_domain_push_ex(Domain handle, const EventAttributes* event) { return push_event(domain_of(handle), event); }
int on_push_ex(const EventAttributes* event) { return push_event(domain_of(nullptr), event); }
int on_domain_pop(Domain handle) { return pop(domain_of(handle)); }
int on_pop() { return pop(domain_of(nullptr)); }

RangeId on_start_a(const char* text) {
  return start(domain_of(nullptr), text && text[0] ? text : "(unnamed)", 0, kFirstStartMeaning, nullptr);
}
RangeId start_wide(const char* text) {
  return start(domain_of(nullptr), text && text[0] ? text : "(unnamed)", 0, kNoSlot, nullptr);
}
RangeId on_domain_start_ex(Domain handle, const EventAttributes* event) {
  DomainState* domain = domain_of(handle);
  if (!is_whole(event)) return kUntracked;
  if (domain->owner == 0) {
    tell_listener(NvtxLibraryEvent::kBegin, domain, event);
    return kUntracked;
  }
  const uint32_t kind = event->category != 0 ? kind_of(domain, event->category) : 0;
  uint32_t meaning = kFirstStartMeaning + kind;
  char narrowed[kWideBytes];
  const char* text = text_of(event, narrowed, meaning);
  return start(domain, text, kind, meaning, event);
}
RangeId on_start_ex(const EventAttributes* event) { return on_domain_start_ex(nullptr, event); }
void on_end(RangeId id) { end(domain_of(nullptr), id); }
void on_domain_end(Domain handle, RangeId id) { end(domain_of(handle), id); }

void on_domain_category_a(Domain handle, uint32_t id, const char* name) {
  if (name) name_category(domain_of(handle), id, name);
}
void on_category_a(uint32_t id, const char* name) { on_domain_category_a(nullptr, id, name); }
void on_thread_a(uint32_t tid, const char* name) {
  if (name && recording_thread()) name_thread(tid, name);
}
const void* on_register_a(Domain, const char* text) { return text ? keep_text(text) : nullptr; }
Domain on_create_a(const char* name) { return create_domain(name ? name : ""); }
void on_destroy(Domain) {}

EventAttributes payload_event(const PayloadData* data, size_t count) {
  EventAttributes event = {};
  event.version = kVersion;
  event.size = sizeof event;
  event.payload_type = kPayloadExtended;
  event.reserved0 = static_cast<int32_t>(count);
  event.payload.u64 = reinterpret_cast<uintptr_t>(data);
  return event;
}

/// The wide form of a handler: the text converted, and then the same.
template <auto handler, class... First>
struct Wide {
  template <class Result>
  static Result call(First... first, const wchar_t* wide) {
    char text[kWideBytes];
    if (wide) narrow(wide, text, sizeof text);
    return handler(first..., wide ? text : nullptr);
  }
};
int push_wide(const char* text) {
  return push(domain_of(nullptr), text && text[0] ? text : "(unnamed)", 0, kNoSlot, nullptr);
}

using Function = nvtx::Function;
template <class F>
Function pointer(F* function) {
  return reinterpret_cast<Function>(function);
}

struct Slot {
  unsigned slot;
  Function function;
};
const Slot kCoreSlots[] = {{kMarkEx, pointer(on_mark_ex)},
                           {kMarkA, pointer(on_mark_a)},
                           {kMarkW, pointer(&Wide<on_mark_a>::call<void>)},
                           {kRangeStartEx, pointer(on_start_ex)},
                           {kRangeStartA, pointer(on_start_a)},
                           {kRangeStartW, pointer(&Wide<start_wide>::call<RangeId>)},
                           {kRangeEnd, pointer(on_end)},
                           {kRangePushEx, pointer(on_push_ex)},
                           {kRangePushA, pointer(on_push_a)},
                           {kRangePushW, pointer(&Wide<push_wide>::call<int>)},
                           {kRangePop, pointer(on_pop)},
                           {kNameCategoryA, pointer(on_category_a)},
                           {kNameCategoryW, pointer(&Wide<on_category_a, uint32_t>::call<void>)},
                           {kNameOsThreadA, pointer(on_thread_a)},
                           {kNameOsThreadW, pointer(&Wide<on_thread_a, uint32_t>::call<void>)}};
const Slot kCore2Slots[] = {{kDomainMarkEx, pointer(on_domain_mark_ex)},
                            {kDomainRangeStartEx, pointer(on_domain_start_ex)},
                            {kDomainRangeEnd, pointer(on_domain_end)},
                            {kDomainRangePushEx, pointer(on_domain_push_ex)},
                            {kDomainRangePop, pointer(on_domain_pop)},
                            {kDomainNameCategoryA, pointer(on_domain_category_a)},
                            {kDomainNameCategoryW, pointer(&Wide<on_domain_category_a, Domain, uint32_t>::call<void>)},
                            {kDomainRegisterStringA, pointer(on_register_a)},
                            {kDomainRegisterStringW, pointer(&Wide<on_register_a, Domain>::call<const void*>)},
                            {kDomainCreateA, pointer(on_create_a)},
                            {kDomainCreateW, pointer(&Wide<on_create_a>::call<Domain>)},
                            {kDomainDestroy, pointer(on_destroy)}};

template <size_t N>
void install(const Callbacks* callbacks, int module, const Slot (&slots)[N]) {
  FunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks->get_module_function_table(module, &table, &size) || !table) return;
  for (const Slot& slot : slots) {
    if (slot.slot < size && table[slot.slot]) *table[slot.slot] = slot.function;
  }
}

}  // namespace

int push_payload(Domain domain, const PayloadData* data, size_t count) {
  const EventAttributes event = payload_event(data, count);
  return on_domain_push_ex(domain, &event);
}
int pop_payload(Domain domain) { return on_domain_pop(domain); }
void mark_payload(Domain domain, const PayloadData* data, size_t count) {
  const EventAttributes event = payload_event(data, count);
  on_domain_mark_ex(domain, &event);
}
RangeId start_payload(Domain domain, const PayloadData* data, size_t count) {
  const EventAttributes event = payload_event(data, count);
  return on_domain_start_ex(domain, &event);
}
void end_payload(Domain domain, RangeId id) { on_domain_end(domain, id); }

}  // namespace nvtx
}  // namespace ddl

/// NVTX calls this, once per copy of NVTX in the process. 0: this copy does without us.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    ddl::nvtx::GetExportTable get_export_table) {
  using namespace ddl::nvtx;
  if (ddl::is_on("DDL_DISABLE") || !ddl::collector_wanted("nvtx")) return 0;
  const auto* callbacks = static_cast<const Callbacks*>(get_export_table(kCallbacksTable));
  if (!callbacks || callbacks->struct_size < sizeof(Callbacks)) return 0;
  install(callbacks, kCore, kCoreSlots);
  install(callbacks, kCore2, kCore2Slots);
  return 1;
}
