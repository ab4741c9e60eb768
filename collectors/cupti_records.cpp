#include "collectors/cupti.h"

#include <string.h>

namespace ddl::cupti {

namespace {

/// Memory kinds are small numbers; what is larger is of a future that we do not know.
uint32_t memory(uint32_t kind) { return kind <= 0xf ? kind : 0; }

/// What a wait for an event and the event's recording have in common. 0: this CUPTI does not tell.
template <class T>
void take_event(const T& record, uint32_t version, DeviceRecord& to) {
  to.name = record.event;
  const bool told = version >= kNumbersEvents && record.recording != UINT32_MAX && record.recording != UINT64_MAX;
  to.graph_node = told ? record.recording : 0;
}

template <class T>
void take_place(const T& record, DeviceRecord& to) {
  to.device = static_cast<uint16_t>(record.device);
  to.cuda_context = static_cast<uint16_t>(record.context);
  to.stream = record.stream;
  to.correlation = record.correlation;
  to.graph_node = record.graph_node;
}

}  // namespace

Converted convert(const void* record, uint32_t version, uint32_t flags, DeviceRecord& to, const char*& name) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  to = {};
  to.context = kContextOfLaunch;
  name = nullptr;
  switch (kind) {
    case kActivityConcurrentKernel: {
      const auto& r = *static_cast<const Kernel*>(record);
      to.start = r.start;
      to.end = r.end;
      to.what = device_what(DeviceKind::kKernel, 0, 0, 0, flags);
      take_place(r, to);
      name = r.name;
      break;
    }
    case kActivityMemcpy: {
      const auto& r = *static_cast<const Memcpy*>(record);
      to.start = r.start;
      to.end = r.end;
      to.bytes = r.bytes;
      to.what = device_what(DeviceKind::kMemcpy, r.copy, memory(r.source), memory(r.destination), flags);
      take_place(r, to);
      break;
    }
    case kActivityMemcpy2: {
      const auto& r = *static_cast<const PeerMemcpy*>(record);
      to.start = r.start;
      to.end = r.end;
      to.bytes = r.bytes;
      to.what = device_what(DeviceKind::kMemcpy, r.copy, memory(r.source), memory(r.destination), flags);
      take_place(r, to);
      // Either end may do it; with the one that does, the other end makes the pair.
      to.name = r.destination_device != r.device ? r.destination_device : r.source_device;
      break;
    }
    case kActivityMemset: {
      const auto& r = *static_cast<const Memset*>(record);
      to.start = r.start;
      to.end = r.end;
      to.bytes = r.bytes;
      to.what = device_what(DeviceKind::kMemset, 0, 0, memory(r.memory), flags);
      take_place(r, to);
      break;
    }
    case kActivitySynchronization: {
      const auto& r = *static_cast<const Synchronization*>(record);
      to.start = r.start;
      to.end = r.end;
      to.what = device_what(DeviceKind::kSynchronize, r.type, 0, 0, flags);
      to.cuda_context = static_cast<uint16_t>(r.context);
      to.stream = r.stream;
      to.correlation = r.correlation;
      if (r.type == kStreamWaits) take_event(r, version, to);
      break;
    }
    case kActivityCudaEvent: {
      const auto& r = *static_cast<const CudaEvent*>(record);
      to.what = device_what(DeviceKind::kEvent, 0, 0, 0, 0);
      to.cuda_context = static_cast<uint16_t>(r.context);
      to.stream = r.stream;
      to.correlation = r.correlation;
      take_event(r, version, to);
      return Converted::kNow;
    }
    case kActivityOverhead: {
      const auto& r = *static_cast<const Overhead*>(record);
      to.start = r.start;
      to.end = r.end;
      to.what = device_what(DeviceKind::kOverhead, r.overhead >> 16, 0, 0, flags);
      break;
    }
    default:
      return Converted::kNotOurs;
  }
  return to.start == 0 || to.end == 0 || to.end < to.start ? Converted::kNoTimes : Converted::kYes;
}

}  // namespace ddl::cupti
