// What all injected code may use of the recorder's own: its lock and its memory.
#pragma once

#include <stddef.h>

namespace ddl {

/// Guards the spool file, the meta chunk and the insertions into tables, those of wrappers and collectors too. Held for microseconds, never
/// across a call out of the library. Taking it again on the thread that holds it (a signal handler) fails instead of hanging: what was to be
/// written is counted as lost.
class Lock {
 public:
  Lock();
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  explicit operator bool() const { return held_; }
  static void reset();  ///< in a forked child

 private:
  bool held_;
  int cancel_state_ = 0;  ///< of the thread before
};

/// Anonymous memory, zero; NULL if there is none.
void* take_pages(size_t bytes);
void give_back_pages(void* pages, size_t bytes);

}  // namespace ddl
