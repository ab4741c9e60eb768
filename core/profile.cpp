// The per-thread profile: entries in the order of their first use, in tables inside the spool that are added as they
// fill, and an index over them in anonymous memory. Entries never move, so that a call may keep a pointer to its own
// while it runs. See ProfileEntry in format.h.
#include <string.h>

#include <algorithm>

#include "core/recorder_internal.h"

namespace ddl {
namespace internal {

namespace {

constexpr uint32_t kMaxProfileEntries = 16384;  // 2 MiB per thread
constexpr uint32_t kFirstIndexSlots = 512;

uint32_t chunk_bytes_for(uint32_t entries) {
  const uint32_t bytes = kProfileOffset + entries * static_cast<uint32_t>(sizeof(ProfileEntry));
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

uint32_t hash_of(uint32_t context, uint32_t comm, uint32_t op, uint32_t size_class) {
  const uint64_t key = (static_cast<uint64_t>(context) << 32 | comm) * 0x9e3779b97f4a7c15ull ^ (op << 8 | size_class);
  return static_cast<uint32_t>((key ^ key >> 29) * 0xbf58476d1ce4e5b9ull >> 32);
}

/// The place in the index of the entry, or the free one where it belongs. The index is never full.
ProfileEntry** find(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint32_t size_class) {
  const uint32_t mask = thread->profile_index_slots - 1;
  for (uint32_t i = hash_of(context, comm, op, size_class) & mask;; i = (i + 1) & mask) {
    const ProfileEntry* e = thread->profile_index[i];
    if (!e || (e->op == op && e->context == context && e->comm == comm && e->size_class == size_class))
      return &thread->profile_index[i];
  }
}

bool grow_index(Thread* thread, uint32_t slots) {
  ProfileEntry** old = thread->profile_index;
  const uint32_t old_slots = thread->profile_index_slots;
  ProfileEntry** index = static_cast<ProfileEntry**>(take_pages(slots * sizeof(ProfileEntry*)));
  if (!index) return false;
  thread->profile_index = index;
  thread->profile_index_slots = slots;
  for (uint32_t i = 0; i < old_slots; ++i) {
    if (const ProfileEntry* e = old[i]) *find(thread, e->context, e->comm, e->op, e->size_class) = old[i];
  }
  give_back_pages(old, old_slots * sizeof(ProfileEntry*));
  return true;
}

/// As many entries again as there are.
bool grow(Thread* thread) {
  if (thread->profile_capacity >= kMaxProfileEntries || !may_grow()) return false;
  const Lock lock;
  return lock && add_profile_table(thread, thread->profile_capacity);
}

}  // namespace

bool add_profile_table(Thread* thread, uint32_t entries) {
  const uint32_t capacity = thread->profile_capacity + entries;
  if (2 * capacity > thread->profile_index_slots &&
      !grow_index(thread, 2 * capacity > kFirstIndexSlots ? 2 * capacity : kFirstIndexSlots))
    return false;
  uint32_t bytes = chunk_bytes_for(entries);
  ChunkHeader* chunk = grow_spool(ChunkKind::kProfile, &bytes, thread->index);
  if (!chunk) return false;
  thread->profile_next = reinterpret_cast<ProfileEntry*>(reinterpret_cast<char*>(chunk) + kProfileOffset);
  thread->profile_end = thread->profile_next + entries;
  thread->profile_capacity = capacity;
  return true;
}

void drop_profile(Thread* thread) {
  give_back_pages(thread->profile_index, thread->profile_index_slots * sizeof(ProfileEntry*));
  if (thread->profile_next)
    SpoolFile::unmap(reinterpret_cast<ChunkHeader*>(reinterpret_cast<char*>(thread->profile_next) - kProfileOffset));
}

ProfileEntry* profile_entry_of_class(Thread* thread, uint32_t context, uint32_t comm, uint32_t op,
                                     uint32_t size_class) {
  ProfileEntry** place = find(thread, context, comm, op, size_class);
  if (*place) return *place;
  // An eighth of the room is for entries of an operation alone: where other keys are booked when there is no room for
  // more. Those are few.
  const bool other = context == 0 && comm == kNoComm && size_class == 0;
  const uint32_t reserve = other ? 0 : thread->profile_capacity / 8;
  if (thread->profile_end - thread->profile_next <= static_cast<ptrdiff_t>(reserve)) {
    if (grow(thread)) return profile_entry_of_class(thread, context, comm, op, size_class);
    count_loss(kLossProfileKeys);
    return other ? &thread->nowhere : profile_entry_of_class(thread, 0, kNoComm, op, 0);
  }
  ProfileEntry* entry = thread->profile_next++;
  entry->context = context;
  entry->comm = comm;
  entry->size_class = static_cast<uint8_t>(size_class);
  entry->min_ticks = entry->usual_ticks = UINT64_MAX;  // nothing is usual yet
  __atomic_store_n(&entry->op, static_cast<uint16_t>(op), __ATOMIC_RELEASE);
  *place = entry;
  return entry;
}

}  // namespace internal

ProfileEntry* profile_entry(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint64_t bytes) {
  return internal::profile_entry_of_class(thread, context, comm, op, size_class_of(bytes));
}

void make_usual(ProfileEntry* entry, uint64_t duration_ticks) {
  const uint8_t bucket = histogram_bucket(duration_ticks);
  entry->bucket = bucket;
  if (duration_ticks < entry->min_ticks) entry->min_ticks = duration_ticks;
  if (duration_ticks > entry->max_ticks) entry->max_ticks = duration_ticks;
  const uint64_t from = std::max<uint64_t>(bucket == 0 ? 0 : 256ull << bucket, entry->min_ticks);
  const uint64_t to = std::min<uint64_t>(bucket == kHistogramBuckets - 1 ? kMaxDurationTicks : (512ull << bucket) - 1,
                                         entry->max_ticks);
  entry->usual_ticks = from <= to ? from : UINT64_MAX;
  entry->usual_span = from <= to ? static_cast<uint32_t>(std::min<uint64_t>(to - from, UINT32_MAX)) : 0;
}

ProfileEntry* entry_of_other_size(const OpenCall& call, uint64_t bytes) {
  ProfileEntry* before = call.entry;
  if (before->context != call.context) return before;  // it stands for others, of any size
  ProfileEntry* entry = profile_entry(call.thread, before->context, before->comm, before->op, bytes);
  // Calls made from inside this one may have taken its slot. And what stands for others is asked for each
  // time: that is counted.
  if (call.slot->entry == before && entry->context == call.context) call.slot->entry = entry;
  return entry;
}

}  // namespace ddl
