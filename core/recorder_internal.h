// Shared by the recorder's own files. Not for wrappers and collectors, which have lock_and_pages.h.
#pragma once

#include <stddef.h>

#include "core/lock_and_pages.h"
#include "core/recorder.h"

namespace ddl::internal {

extern SpoolFile g_file;
extern LiveFile g_live;

/// One part of a meta entry.
struct Bytes {
  const void* data;
  size_t size;
};
/// Appends an entry. The caller holds the lock. False: counted as lost.
bool write_meta(MetaKind kind, const Bytes* parts, int count);
void reset_meta();
/// The chunk for descriptions, and its used part; NULL: none yet. The caller holds the lock.
struct MetaInUse {
  const ChunkHeader* chunk;
  uint32_t used;
};
MetaInUse meta_in_use();

/// When clocks are read again, and the live file written, for the first time.
void reset_clocks(uint64_t first_ticks);

/// See live.cpp. No effect if other hosts cannot read. The caller holds the lock.
void begin_live();
/// Must be called without the lock.
void publish_live();
/// The thread's log chunk, or (NULL) the chunk of descriptions is about to be given up. The caller holds the lock.
void publish_before_unmap(Thread* thread);
/// The first thread; Thread::next leads on. The caller holds the lock.
Thread* all_threads();

/// Ids of interned strings and contexts. `find_or_add` take the lock only for what is new.
uint32_t intern_string(const char* text, size_t length, const char** ours);
uint32_t intern_context(uint32_t parent, ContextKind kind, uint32_t name, uint64_t site);
void reset_contexts();
/// The node of a context. For 0: kind 0.
struct ContextNode {
  uint32_t parent, kind, name;
};
ContextNode context_node(uint32_t context);

/// Adds a chunk to the spool; NULL: it cannot grow now, which the header notes. The next attempt is then a second away:
/// until a full disk has room again, calls must not cost system calls. `bytes`: in: at most; out: actual size. The
/// caller holds the lock.
ChunkHeader* grow_spool(ChunkKind kind, uint32_t* bytes, uint32_t thread);
/// False: the last attempt failed a moment ago.
bool may_grow();

/// A chunk of the log: counted against the cap, half of which is for everything and the rest for ever fewer units.
/// NULL: the log is full, or the spool cannot grow now. The caller holds the lock.
ChunkHeader* grow_log(ChunkKind kind, uint32_t* bytes, uint32_t thread);
/// The size of the chunk after one of `bytes`.
uint32_t next_log_chunk_bytes(uint32_t bytes);
bool is_log_full();
/// Forgets the device chunk of an earlier recording.
void reset_device();

/// Gives a thread its first or one more profile table; false: no space. The caller holds the lock.
bool add_profile_table(Thread* thread, uint32_t entries);
/// Undoes the first one of a thread that cannot be set up.
void drop_profile(Thread* thread);
ProfileEntry* profile_entry_of_class(Thread* thread, uint32_t context, uint32_t comm, uint32_t op, uint32_t size_class);

/// See counters.cpp. The range is about to be the thread's innermost; has ended.
extern const CounterSource* g_counters __attribute__((visibility("hidden")));
DDL_HOT bool has_counters(uint32_t kind) {
  return __builtin_expect(g_counters != nullptr, 0) && kind >= 1 && kind <= 3;
}
void begin_counting(Thread* thread, uint32_t depth);
void end_counting(Thread* thread, uint32_t depth, const OpenRange& range, uint64_t duration_ticks);
void forget_counters(Thread* thread);

/// Writes a range that ends now, and its share of the profile.
void write_ended(Thread* thread, const OpenRange& range, uint64_t now);

/// See budget.cpp. `budget`: share of a thread's time; 0 = no limit. Before the first thread is attached.
void set_budget(double budget, double ticks_per_ns);
void open_account(Thread* thread);
/// True: `thread` has used up its savings, and the window is to be coarsened.
bool over_budget(Thread* thread);

/// Accounts rare work: adds the time from its construction to its destruction to
/// FileHeader::overhead_ticks. Not nested.
class OwnTime {
 public:
  explicit OwnTime(Thread* payer = nullptr) : payer_(payer), begin_(ticks()) {}
  ~OwnTime();
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  Thread* payer_;  ///< its log is charged
  uint64_t begin_;
};

/// At the begin of a step: decides whether the window keeps its events. Returns whether the step itself is kept: steps
/// are few, so the window of --steps does not drop them, only a full log thins them.
bool enter_step(uint64_t step);
void leave_step();
void reset_started_ranges();

}  // namespace ddl::internal
