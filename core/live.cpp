// What goes into the live file (live_file.h), and when: about once a second, with the clocks; before a chunk of the log
// or of descriptions is given up; at the begin and the end of the process.
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/recorder_internal.h"

namespace ddl {
namespace internal {

LiveFile g_live;

namespace {

constexpr uint32_t kRingBytes = 256 * 1024;
constexpr uint64_t kRingSlots = (kRingBytes - sizeof(ChunkHeader)) / sizeof(Record);

struct {
  const ChunkHeader* chunk;  ///< of descriptions that is in use
  uint64_t offset;           ///< of its copy
  uint32_t used;             ///< of it that is written
} g_meta = {};
uint64_t g_missed;  // records that were gone before they could be written

ChunkHeader header_of(ChunkKind kind, uint32_t bytes, uint32_t thread) {
  ChunkHeader h = {};
  h.kind = static_cast<uint32_t>(kind);
  h.bytes = bytes;
  h.thread = thread;
  h.begin_ticks = g_file.header()->begin.ticks;
  h.begin_monotonic_ns = g_file.header()->begin.monotonic_ns;
  return h;
}

void write_descriptions() {
  const MetaInUse meta = meta_in_use();
  if (!meta.chunk || meta.chunk->bytes == 0) return;  // 0: its page was lost
  if (meta.chunk != g_meta.chunk) {
    ChunkHeader h = header_of(ChunkKind::kMeta, meta.chunk->bytes, UINT32_MAX);
    g_meta.offset = g_live.add_chunk(&h);
    g_meta.chunk = meta.chunk;
    g_meta.used = sizeof h;
  }
  const char* bytes = reinterpret_cast<const char*>(meta.chunk);
  if (meta.used > g_meta.used &&
      g_live.write(g_meta.offset + g_meta.used, bytes + g_meta.used, meta.used - g_meta.used))
    g_meta.used = meta.used;
}

uint64_t word_of(const Record* record) { return __atomic_load_n(&record->word, __ATOMIC_ACQUIRE); }

/// Writes `count` records, of which only the last kRingSlots have room.
void write_records(LivePart* live, const Record* records, uint64_t count) {
  const uint64_t skipped = count > kRingSlots ? count - kRingSlots : 0;
  for (uint64_t at = skipped; at < count;) {
    const uint64_t slot = (live->written + at) % kRingSlots;
    const uint64_t fit = kRingSlots - slot < count - at ? kRingSlots - slot : count - at;
    g_live.write(live->offset + sizeof(ChunkHeader) + slot * sizeof(Record), records + at, fit * sizeof(Record));
    at += fit;
  }
  live->written += count;
}

/// What has come to the log, up to the first call that has not returned. That one is shown, too, in the slot in which
/// it will be written when it has returned. Returns 1 if there is one.
uint64_t write_log(Thread* thread) {
  LivePart* live = &thread->live;
  if (live->log_begin != thread->log_begin) {
    live->log_begin = thread->log_begin;
    live->log_read = 0;
  }
  const Record* begin = thread->log_begin + live->log_read;
  const Record* end = __atomic_load_n(&thread->log_next, __ATOMIC_RELAXED);
  const Record* record = begin;
  uint64_t word = 0;
  while (record < end && (word = word_of(record)) != 0 && record_kind(word) != RecordKind::kOpen) ++record;
  write_records(live, begin, static_cast<uint64_t>(record - begin));
  live->log_read += static_cast<uint64_t>(record - begin);
  if (record >= end || word == 0) return 0;
  const Record open = *record;
  if (record_kind(word_of(record)) != RecordKind::kOpen) return 0;  // it has just returned: next time
  const uint64_t slot = live->written % kRingSlots;
  g_live.write(live->offset + sizeof(ChunkHeader) + slot * sizeof open, &open, sizeof open);
  return 1;
}

/// What the log did not take, of the thread that is running: nobody else writes it meanwhile.
void write_ring(Thread* thread) {
  LivePart* live = &thread->live;
  const uint64_t slots = static_cast<uint64_t>(thread->ring_end - thread->ring_begin);
  const uint64_t written = thread->ring_chunk->ring_written;
  if (written > slots && live->ring_read < written - slots) {
    g_missed += written - slots - live->ring_read;
    live->ring_read = written - slots;
  }
  while (live->ring_read < written) {
    const Record* record = thread->ring_begin + live->ring_read % slots;
    if (record_kind(word_of(record)) == RecordKind::kOpen || word_of(record) == 0) return;
    const uint64_t until_edge = slots - live->ring_read % slots;
    uint64_t count = 1;
    while (count < until_edge && live->ring_read + count < written && word_of(record + count) != 0 &&
           record_kind(word_of(record + count)) != RecordKind::kOpen)
      ++count;
    write_records(live, record, count);
    live->ring_read += count;
  }
}

void write_thread(Thread* thread) {
  LivePart* live = &thread->live;
  ChunkHeader h = header_of(ChunkKind::kRing, kRingBytes, thread->index);
  if (live->offset == 0) live->offset = g_live.add_chunk(&h);
  if (live->offset == 0) return;
  if (thread == t_thread) write_ring(thread);
  const uint64_t open = thread->log_begin ? write_log(thread) : 0;
  const uint64_t shown = live->written + open;
  // last: what it counts is there
  g_live.write(live->offset + offsetof(ChunkHeader, ring_written), &shown, sizeof shown);
}

void write_header() {
  alignas(FileHeader) static char page[kPageBytes];  // stacks may be small; guarded by the lock
  FileHeader* h = reinterpret_cast<FileHeader*>(page);
  memcpy(h, g_file.header(), sizeof *h);
  h->loss[kLossLive] = g_missed;
  g_live.write(0, page, sizeof page);
}

}  // namespace

void begin_live() {
  const int saved_errno = errno;
  g_meta = {};
  g_missed = 0;
  g_file.begin_live(&g_live);
  if (g_live.open()) {
    write_header();
    g_live.close();
  }
  errno = saved_errno;
}

void publish_live() {
  if (!g_live.is_on() || !g_process.active) return;
  const int saved_errno = errno;
  {
    const OwnTime own_time;
    const Lock lock;
    if (lock && g_live.open()) {
      write_descriptions();
      for (Thread* thread = all_threads(); thread; thread = thread->next) write_thread(thread);
      write_header();
      g_live.close();
    }
  }
  errno = saved_errno;
}

void publish_before_unmap(Thread* thread) {
  if (!g_live.is_on()) return;
  const int saved_errno = errno;
  if (g_live.open()) {
    write_descriptions();
    if (thread) write_thread(thread);
    g_live.close();
  }
  errno = saved_errno;
}

}  // namespace internal
}  // namespace ddl
