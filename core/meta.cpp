// Meta chunks: the low-rate, variable-length entries of the spool, one writer at a time.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/lost_pages.h"
#include "core/recorder_internal.h"

namespace ddl {
namespace internal {

SpoolFile g_file;

namespace {

ChunkHeader* g_meta_chunk = nullptr;
uint32_t g_meta_used = 0;
uint64_t g_meta_bytes = 0;  // in all chunks

// A job may make communicators, name them and start threads for weeks. What describes them is bounded; what comes and
// goes is cut first.
constexpr uint64_t kMaxMetaBytes = 32u << 20;
constexpr uint64_t kMaxFleetingBytes = kMaxMetaBytes / 4;

uint64_t room_for(MetaKind kind) {
  if (kind == MetaKind::kClock || kind == MetaKind::kDeviceClock) return UINT64_MAX;  // a few thousand in a week
  const bool fleeting = kind == MetaKind::kThread || kind == MetaKind::kCommName || kind == MetaKind::kGraphNode;
  return fleeting ? kMaxFleetingBytes : kMaxMetaBytes;
}

}  // namespace

void reset_meta() {
  g_meta_chunk = nullptr;
  g_meta_used = 0;
  g_meta_bytes = 0;
}

MetaInUse meta_in_use() { return {g_meta_chunk, g_meta_used}; }

bool write_meta(MetaKind kind, const Bytes* parts, int count) {
  if (!g_file.header()) return false;
  size_t total = sizeof(MetaHeader);
  for (int i = 0; i < count; ++i) total += parts[i].size;
  total = (total + 7) & ~size_t{7};
  if (g_meta_bytes + total > room_for(kind)) {
    count_loss(kLossMeta);
    return false;
  }
  if (!g_meta_chunk || g_meta_used + total > g_meta_chunk->bytes) {
    const size_t needed = (sizeof(ChunkHeader) + total + kPageBytes - 1) / kPageBytes * kPageBytes;
    uint32_t bytes = static_cast<uint32_t>(needed > kMinChunkBytes ? needed : kMinChunkBytes);
    ChunkHeader* chunk = needed > kMaxChunkBytes ? nullptr : grow_spool(ChunkKind::kMeta, &bytes, UINT32_MAX);
    if (!chunk) {
      count_loss(kLossMeta);
      return false;
    }
    if (g_meta_chunk) {
      publish_before_unmap(nullptr);
      SpoolFile::unmap(g_meta_chunk);
    }
    g_meta_chunk = chunk;
    g_meta_used = sizeof(ChunkHeader);
  }
  char* start = reinterpret_cast<char*>(g_meta_chunk) + g_meta_used;
  char* to = start + sizeof(MetaHeader);
  for (int i = 0; i < count; ++i) {
    if (parts[i].size > 0) memcpy(to, parts[i].data, parts[i].size);
    to += parts[i].size;
  }
  __atomic_store_n(&reinterpret_cast<MetaHeader*>(start)->word, meta_word(kind, total), __ATOMIC_RELEASE);
  g_meta_used += static_cast<uint32_t>(total);
  g_meta_bytes += total;
  return true;
}

}  // namespace internal

namespace {

void write_locked(MetaKind kind, const internal::Bytes* parts, int count) {
  const int saved_errno = errno;
  {
    const Lock lock;
    if (!lock) {
      count_loss(kLossMeta);
    } else {
      internal::write_meta(kind, parts, count);
    }
  }
  errno = saved_errno;
}

}  // namespace

void write_operation(uint32_t op, OpClass op_class, bool nonblocking, const char* name) {
  const OperationMeta meta = {op, static_cast<uint32_t>(op_class), nonblocking ? 1u : 0u,
                              static_cast<uint32_t>(strlen(name))};
  const internal::Bytes parts[] = {{&meta, sizeof meta}, {name, meta.name_length}};
  write_locked(MetaKind::kOperation, parts, 2);
}

void write_communicator(const CommunicatorMeta& meta, const RankRun* runs) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}, {runs, meta.runs * sizeof(RankRun)}};
  write_locked(MetaKind::kCommunicator, parts, 2);
}

namespace {

void write_communicator_text(MetaKind kind, uint32_t index, const char* text) {
  const CommNameMeta meta = {index, internal::intern_string(text, strlen(text), nullptr)};
  const internal::Bytes parts[] = {{&meta, sizeof meta}};
  write_locked(kind, parts, 1);
}

}  // namespace

void write_communicator_name(uint32_t index, const char* name) {
  write_communicator_text(MetaKind::kCommName, index, name);
}
void write_communicator_topology(uint32_t index, const char* topology) {
  write_communicator_text(MetaKind::kCommTopology, index, topology);
}

void write_communicator_name(const CommNameMeta& meta) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}};
  write_locked(MetaKind::kCommName, parts, 1);
}
void write_communicator_split(const CommSplitMeta& meta) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}};
  write_locked(MetaKind::kCommSplit, parts, 1);
}

void write_fact(const char* key, const char* value) {
  const FactMeta meta = {static_cast<uint32_t>(strlen(key)), static_cast<uint32_t>(strlen(value))};
  const internal::Bytes parts[] = {{&meta, sizeof meta}, {key, meta.key_length}, {value, meta.value_length}};
  write_locked(MetaKind::kFact, parts, 3);
}

namespace {

uint64_t g_clock_due_ticks = 0;  // the live file is written more often than the clocks are read
uint64_t g_publish_due_ticks = 0;
uint64_t g_sample_due_ticks = UINT64_MAX;
uint64_t (*g_take_sample)(Thread* caller, uint64_t now_ticks) = nullptr;

/// refresh_clock() is to be called again when the first of the three is due.
void wait_for_first_due() {
  uint64_t due = __atomic_load_n(&g_clock_due_ticks, __ATOMIC_RELAXED);
  const uint64_t sample = __atomic_load_n(&g_sample_due_ticks, __ATOMIC_RELAXED);
  const uint64_t publish =
      internal::g_live.is_on() ? __atomic_load_n(&g_publish_due_ticks, __ATOMIC_RELAXED) : UINT64_MAX;
  if (sample < due) due = sample;
  if (publish < due) due = publish;
  __atomic_store_n(&g_process.refresh_at_ticks, due, __ATOMIC_RELAXED);
}

void publish_now(uint64_t now_ticks) {
  __atomic_store_n(&g_publish_due_ticks, now_ticks + second_ticks(), __ATOMIC_RELAXED);
  internal::publish_live();
}

/// What the caller has computed so far, as ticks of a clock that stands still while it has no CPU: a sample takes
/// system calls, in which it is often told to make room.
double own_cpu_ticks() {
  timespec cpu = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return (static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9) *
         static_cast<double>(second_ticks());
}

void take_sample(uint64_t now_ticks) {
  const int saved_errno = errno;
  const NoCancel no_cancel;
  const double begin = own_cpu_ticks();
  __atomic_store_n(&g_sample_due_ticks, g_take_sample(t_thread, now_ticks), __ATOMIC_RELAXED);
  __atomic_fetch_add(&internal::g_file.header()->overhead_ticks, static_cast<uint64_t>(own_cpu_ticks() - begin),
                     __ATOMIC_RELAXED);
  errno = saved_errno;
}

void read_clocks() {
  const internal::OwnTime own_time;
  const ClockPair pair = read_clock_pair();
  if (t_thread) settle_account(t_thread, pair.ticks);
  const internal::Bytes parts[] = {{&pair, sizeof pair}};
  write_locked(MetaKind::kClock, parts, 1);
  // A reader may look in between: without ticks the pair does not count.
  ClockPair& latest = internal::g_file.header()->latest;
  __atomic_store_n(&latest.ticks, uint64_t{0}, __ATOMIC_RELEASE);
  __atomic_store_n(&latest.monotonic_ns, pair.monotonic_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&latest.realtime_ns, pair.realtime_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&latest.ticks, pair.ticks, __ATOMIC_RELEASE);
  if (const Lock lock; lock) internal::g_file.keep_header();
  const uint64_t due_ticks = pair.ticks + __atomic_load_n(&g_process.refresh_ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&g_clock_due_ticks, due_ticks, __ATOMIC_RELAXED);
}

}  // namespace

void write_clock() {
  if (!g_process.active) return;
  __atomic_store_n(&internal::g_file.header()->loss[kLossPages], lost_pages(), __ATOMIC_RELAXED);
  read_clocks();
  publish_now(ticks());
  wait_for_first_due();
}

void write_clock_sync(const ClockSyncMeta& meta) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}};
  write_locked(MetaKind::kClockSync, parts, 1);
}

void write_device_clock(const DeviceClockMeta& meta) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}};
  write_locked(MetaKind::kDeviceClock, parts, 1);
}

void write_graph_node(const GraphNodeMeta& meta) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}};
  write_locked(MetaKind::kGraphNode, parts, 1);
}

void write_sample(const SampleMeta& meta, const SampleValue* values) {
  const internal::Bytes parts[] = {{&meta, sizeof meta}, {values, meta.count * sizeof(SampleValue)}};
  write_locked(MetaKind::kSample, parts, 2);
}

namespace {
void (*g_each_clock)() = nullptr;
}

void each_clock(void (*call)()) { g_each_clock = call; }

void internal::reset_clocks(uint64_t first_ticks) {
  g_clock_due_ticks = g_publish_due_ticks = first_ticks;
  g_sample_due_ticks = UINT64_MAX;
  g_take_sample = nullptr;
  wait_for_first_due();
}

void sample_threads(uint64_t (*take)(Thread* caller, uint64_t now_ticks)) {
  g_take_sample = take;
  __atomic_store_n(&g_sample_due_ticks, take ? 0 : UINT64_MAX, __ATOMIC_RELAXED);
  wait_for_first_due();
}

void sample_training_thread() {
  const Thread* caller = this_thread();
  if (!caller || !g_take_sample) return;
  const uint64_t now_ticks = ticks();
  if (__atomic_load_n(&g_process.training_tid, __ATOMIC_RELAXED) != 0) {
    if (now_ticks < __atomic_load_n(&g_sample_due_ticks, __ATOMIC_RELAXED)) return;
  } else if (caller->tid == __atomic_load_n(&g_process.watched_tid, __ATOMIC_RELAXED)) {  // it communicates itself
    return __atomic_store_n(&g_process.watched_tid, 0, __ATOMIC_RELAXED);
    // else the first collective of a background thread: between two that come seldom the training thread may look
    // any number of times
  }
  take_sample(now_ticks);
  wait_for_first_due();
}

void refresh_clock(uint64_t now_ticks) {
  // Every second at first, then every 1/256 of the run's age: a week-long job needs a few thousand pairs, not a
  // million.
  const uint64_t age = now_ticks - internal::g_file.header()->begin.ticks;
  if (age / 256 > __atomic_load_n(&g_process.refresh_ticks, __ATOMIC_RELAXED))
    __atomic_store_n(&g_process.refresh_ticks, age / 256, __ATOMIC_RELAXED);
  if (t_thread && now_ticks >= __atomic_load_n(&g_sample_due_ticks, __ATOMIC_RELAXED)) take_sample(now_ticks);
  if (now_ticks >= __atomic_load_n(&g_clock_due_ticks, __ATOMIC_RELAXED)) {
    write_clock();
    const NoCancel no_cancel;
    if (g_each_clock) g_each_clock();
    return;
  }
  if (internal::g_live.is_on() && now_ticks >= __atomic_load_n(&g_publish_due_ticks, __ATOMIC_RELAXED))
    publish_now(now_ticks);
  wait_for_first_due();
}

namespace {

/// One line of /proc/self/maps: writes it as a module if it is executable file content.
void write_module_line(char* line) {
  unsigned long begin, end, offset;
  char permissions[8];
  int path_at = 0;
  if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &begin, &end, permissions, &offset, &path_at) < 4 || path_at == 0)
    return;
  const char* path = line + path_at;
  if (permissions[2] != 'x' || path[0] != '/') return;
  const ModuleMeta meta = {begin, end, offset, static_cast<uint32_t>(strlen(path)), 0};
  const internal::Bytes parts[] = {{&meta, sizeof meta}, {path, meta.path_length}};
  write_locked(MetaKind::kModule, parts, 2);
}

}  // namespace

void write_modules() {
  const int saved_errno = errno;
  const NoCancel no_cancel;
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    constexpr size_t kBytes = 8192;
    char* buffer = static_cast<char*>(take_pages(kBytes));  // stacks may be small
    size_t used = 0;
    ssize_t got;
    while (buffer && (got = read(fd, buffer + used, kBytes - 1 - used)) > 0) {
      used += static_cast<size_t>(got);
      buffer[used] = 0;
      char* line = buffer;
      while (char* end = strchr(line, '\n')) {
        *end = 0;
        write_module_line(line);
        line = end + 1;
      }
      used -= static_cast<size_t>(line - buffer);
      memmove(buffer, line, used);
      if (used == kBytes - 1) used = 0;  // a line longer than the buffer: give it up
    }
    close(fd);
    give_back_pages(buffer, kBytes);
  }
  errno = saved_errno;
}

}  // namespace ddl
