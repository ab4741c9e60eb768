// Shared by the files of the NVTX collector. Injected code.
#pragma once

#include "collectors/nvtx_abi.h"
#include "core/nvtx_payload.h"
#include "core/range_names.h"
#include "core/recorder.h"

namespace ddl::nvtx {

constexpr uint32_t kMaxCategories = 32;

/// Returned by nvtxDomainCreate. Never destroyed: a name means one domain for the life of the process.
struct DomainState {
  char name[64];
  /// of its ranges, see kRangeOwners; 0: of a library, or one too many: its ranges are not the program's
  uint32_t owner;
  uint32_t category_count;
  struct {
    uint32_t id;
    uint32_t kind;
  } categories[kMaxCategories];  ///< those that say what a range is
};

/// The domain behind a handle; NULL is the default one.
DomainState* domain_of(Domain handle);
Domain create_domain(const char* name);
void name_category(DomainState* domain, uint32_t id, const char* name);
uint32_t kind_of(const DomainState* domain, uint32_t category);

/// Text that stays; equal texts are one. NULL: no room.
const char* keep_text(const char* text);

/// Reads an event's payload by the schema that the domain registered. Returns how many fields; `schema` is
/// the first payload's.
size_t read_payload(const DomainState* domain, const EventAttributes* event, NvtxField (&fields)[kMaxNvtxFields],
                    uint64_t& schema);
size_t read_payload(const DomainState* domain, const PayloadData* data, size_t count,
                    NvtxField (&fields)[kMaxNvtxFields], uint64_t& schema);

/// Events with nothing but a payload (extension module).
int push_payload(Domain domain, const PayloadData* data, size_t count);
int pop_payload(Domain domain);
void mark_payload(Domain domain, const PayloadData* data, size_t count);
RangeId start_payload(Domain domain, const PayloadData* data, size_t count);
void end_payload(Domain domain, RangeId id);

struct RangePlace {
  uint32_t kind;  ///< 0: nowhere
  uint32_t context;
  uint64_t step;
};

/// The context of a range that the thread opens now. `number`: an integer that came with it; NULL: none. Remembers the
/// layers of forward operators, and finds them for operators of the backward pass.
RangePlace place_range(const Thread* thread, const RangeName& name, const uint64_t* number);

}  // namespace ddl::nvtx
