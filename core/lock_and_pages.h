// What all injected code may use of the recorder's own: its lock and its memory.
#pragma once

#include <stddef.h>

namespace ddl {

/// The calling thread is not cancelled before this goes: open, read and others are where pthread_cancel() takes
/// effect, and in a function that the job thinks has no such place it may hold what nobody else will then release,
/// its own locks or ours.
class NoCancel {
 public:
  NoCancel();
  ~NoCancel();
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = 0;
};

/// Taking it again on the thread that holds it (a signal handler) fails instead of hanging.
class OwnedLock {
 public:
  /// NULL: free. One word, so that a signal handler never finds a lock without its owner
  explicit OwnedLock(const void** owner);
  ~OwnedLock();
  OwnedLock(const OwnedLock&) = delete;
  OwnedLock& operator=(const OwnedLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  NoCancel no_cancel_;  // a thread that is cancelled in a system call would keep it for ever
  const void** owner_;
  bool held_ = false;
};

/// Guards the spool file, the meta chunk and the insertions into tables, those of wrappers and collectors too. Held for
/// microseconds, never across a call out of the library. Where it fails what was to be written is counted as lost.
class Lock : public OwnedLock {
 public:
  Lock();
  static void reset();  ///< in a forked child
};

/// Anonymous memory, zero; NULL if there is none.
void* take_pages(size_t bytes);
void give_back_pages(void* pages, size_t bytes);

}  // namespace ddl
