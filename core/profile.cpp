// The per-thread profile: an open-addressing hash table inside the spool, doubled when it fills. See ProfileEntry in format.h.
#include <string.h>

#include "core/recorder_internal.h"

namespace ddl {

namespace {

constexpr uint32_t kMaxProfileCapacity = 16384;  // 2 MiB per thread

ProfileEntry* entries_of(ChunkHeader* chunk) { return reinterpret_cast<ProfileEntry*>(reinterpret_cast<char*>(chunk) + kProfileOffset); }

uint32_t chunk_bytes_for(uint32_t capacity) {
  const uint32_t bytes = kProfileOffset + capacity * static_cast<uint32_t>(sizeof(ProfileEntry));
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

ProfileEntry* free_slot(ProfileEntry* entries, uint32_t capacity, uint64_t hash) {
  for (uint32_t i = static_cast<uint32_t>(hash) & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
    if (entries[i].op == 0) return &entries[i];
  }
}

uint64_t hash_of(const ProfileEntry& e) {
  // Must be the hash of profile_entry() in recorder.h.
  const uint64_t key =
      (static_cast<uint64_t>(e.context) << 32 | e.comm) * 0x9e3779b97f4a7c15ull ^ (static_cast<uint32_t>(e.op) << 8 | e.size_class);
  return (key ^ key >> 29) * 0xbf58476d1ce4e5b9ull >> 20;
}

/// Copies the table into one twice as large. The new one names the old in `replaces`, so that a kill in between counts nothing twice.
bool grow(Thread* thread) {
  FileHeader* header = internal::g_file.header();
  if (__atomic_load_n(&header->flags, __ATOMIC_RELAXED) & kDiskFull) return false;  // do not ask again at every call
  const internal::Lock lock;
  if (!lock) return false;
  ChunkHeader* old_chunk = thread->profile_chunk;
  ProfileEntry* old_entries = thread->profile;
  const uint32_t old_capacity = thread->profile_capacity;
  const uint32_t capacity = 2 * old_capacity;
  ChunkHeader* chunk = internal::g_file.add_chunk(ChunkKind::kFree, chunk_bytes_for(capacity), thread->index);
  if (!chunk) {
    __atomic_fetch_or(&header->flags, kDiskFull, __ATOMIC_RELAXED);
    return false;
  }
  ProfileEntry* entries = entries_of(chunk);
  for (uint32_t i = 0; i < old_capacity; ++i) {
    if (old_entries[i].op != 0) *free_slot(entries, capacity, hash_of(old_entries[i])) = old_entries[i];
  }
  chunk->replaces = 1 + old_chunk->index;
  __atomic_store_n(&chunk->kind, static_cast<uint32_t>(ChunkKind::kProfile), __ATOMIC_RELEASE);
  __atomic_store_n(&old_chunk->kind, static_cast<uint32_t>(ChunkKind::kFree), __ATOMIC_RELEASE);
  thread->profile_chunk = chunk;
  thread->profile = entries;
  thread->profile_capacity = capacity;
  SpoolFile::unmap(old_chunk);
  return true;
}

}  // namespace

namespace internal {

bool add_profile_table(Thread* thread, uint32_t capacity) {
  ChunkHeader* chunk = g_file.add_chunk(ChunkKind::kProfile, chunk_bytes_for(capacity), thread->index);
  if (!chunk) return false;
  thread->profile_chunk = chunk;
  thread->profile = entries_of(chunk);
  thread->profile_capacity = capacity;
  thread->profile_used = 0;
  return true;
}

}  // namespace internal

ProfileEntry* new_profile_entry(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint32_t size_class, uint64_t hash) {
  const uint32_t used_limit = thread->profile_capacity / 4 * 3;
  const bool other = context == 0 && comm == kNoComm && size_class == 0;
  if (thread->profile_used >= used_limit && !other) {
    if (thread->profile_capacity < kMaxProfileCapacity && grow(thread)) {
      return new_profile_entry(thread, context, comm, op, size_class, hash);
    }
    // Full: book it under the operation alone. Those keys are few (one per operation), so the last quarter of the table holds them.
    count_loss(kLossProfileKeys);
    return profile_entry(thread, 0, kNoComm, op, 0);
  }
  ProfileEntry* entry = free_slot(thread->profile, thread->profile_capacity, hash);
  entry->context = context;
  entry->comm = comm;
  entry->size_class = static_cast<uint8_t>(size_class);
  entry->min_ticks = UINT64_MAX;
  __atomic_store_n(&entry->op, static_cast<uint16_t>(op), __ATOMIC_RELEASE);
  ++thread->profile_used;
  return entry;
}

}  // namespace ddl
