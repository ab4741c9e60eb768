// Device chunks: what GPUs did. Writers are whoever reads the buffers of CUPTI or of NCCL's profiler; they take turns
// here, and the job's own threads never meet them.
#include <sched.h>
#include <string.h>

#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr size_t kMaxNameBytes = 2000;  // of a kernel: templates have long names, and half a mangled one cannot be read
constexpr uint32_t kNameCache = 1024;

int g_turn = 0;
class Turn {
 public:
  Turn() {
    while (__atomic_exchange_n(&g_turn, 1, __ATOMIC_ACQUIRE)) sched_yield();
  }
  ~Turn() { __atomic_store_n(&g_turn, 0, __ATOMIC_RELEASE); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

ChunkHeader* g_chunk = nullptr;
DeviceRecord* g_next = nullptr;
DeviceRecord* g_end = nullptr;
uint32_t g_chunk_bytes = kMinChunkBytes;

/// A kernel's name is at the same place each time it is told; another module's may come there later, so the
/// text is compared.
struct {
  const char* name;
  const char* ours;
  uint32_t id;
} g_names[kNameCache];
bool g_names_used = false;

bool add_chunk() {
  if (internal::is_log_full() || !internal::may_grow()) return false;
  const Lock lock;
  uint32_t bytes = g_chunk_bytes;
  ChunkHeader* chunk = lock ? internal::grow_log(ChunkKind::kDevice, &bytes, UINT32_MAX) : nullptr;
  if (!chunk) return false;
  if (g_chunk) SpoolFile::unmap(g_chunk);
  g_chunk = chunk;
  g_next = reinterpret_cast<DeviceRecord*>(chunk + 1);
  g_end = g_next + (bytes - sizeof(ChunkHeader)) / sizeof(DeviceRecord);
  g_chunk_bytes = internal::next_log_chunk_bytes(g_chunk_bytes);
  return true;
}

}  // namespace

namespace internal {

void reset_device() {
  g_turn = 0;
  g_chunk = nullptr;
  g_next = g_end = nullptr;
  g_chunk_bytes = kMinChunkBytes;
  if (g_names_used) memset(g_names, 0, sizeof g_names);
  g_names_used = false;
}

}  // namespace internal

void write_device_record(const DeviceRecord& record) {
  const Turn turn;
  if (g_next == g_end && !add_chunk()) {
    count_loss(kLossDeviceNotKept);
    return;
  }
  DeviceRecord* to = g_next++;
  const uint32_t what = record.what;
  memcpy(to, &record, offsetof(DeviceRecord, what));
  memcpy(&to->device, &record.device, sizeof record - offsetof(DeviceRecord, device));
  __atomic_store_n(&to->what, what, __ATOMIC_RELEASE);
}

uint32_t intern_name(const char* name) {
  const Turn turn;
  auto& entry = g_names[(reinterpret_cast<uintptr_t>(name) * 0x9e3779b97f4a7c15ull) >> 54];
  static_assert(kNameCache == 1 << (64 - 54));
  if (entry.name == name && strcmp(entry.ours, name) == 0) return entry.id;
  const size_t length = strnlen(name, kMaxNameBytes);
  const char* ours = nullptr;
  g_names_used = true;
  const uint32_t id = internal::intern_string(name, length, &ours);
  if (id != 0 && name[length] == 0) entry = {name, ours, id};
  return id;
}

}  // namespace ddl
