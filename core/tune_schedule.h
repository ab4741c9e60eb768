// The schedule of an in-run tuning (`ddl tune --in-run`): the values of each step, the same on every rank of a running
// job, without a message between ranks.
//
// DDL_TUNE_FILE is the beginning of a file name. The schedule is a chain of files, DDL_TUNE_FILE.0, .1, .2 ...: each is
// a block of steps with its values, beginning at the step at which the previous one ends. A block never changes: it is
// written under another name and published by link(2), which fails if the name is taken. The tuner and every rank that
// reaches the end of the chain try to publish the next block: exactly one succeeds, and the others read its block. A
// rank at the end does not wait for the tuner: it publishes the next block itself, with the same values for a few more
// steps, and the tuner's values follow that one.
//
// This is agreement by test-and-set on a shared file system. Rejected: one file that is extended "well ahead" of all
// ranks. Ranks that read it before and after an extension hold different values for the same step, and nobody knows how
// far a rank is: the tuner's view is old, and either may be stopped in between.
//
// If the tuner is gone (SIGKILL), the job goes on: a rank that has missed the tuner's next block for `patience_s`
// publishes the last block, with the values of block 0, those that the job was started with.
//
// This code runs inside the job (docs/injected-code.md): libc only, no allocation. One thread at a time per object.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

constexpr uint64_t kTuneNoEnd = UINT64_MAX;
constexpr size_t kTuneTextBytes = 4096;
constexpr size_t kTunePathBytes = 2048;

struct TuneBlock {
  uint64_t number = 0;        ///< of the file
  uint64_t begin = 0;         ///< first step
  uint64_t end = 0;           ///< first step behind it; kTuneNoEnd: until the job ends
  uint64_t filler_steps = 1;  ///< length of a block that a rank publishes because none follows
  /// how long ranks go on without the tuner's next block before they publish the last one
  uint64_t patience_s = 0;
  bool of_rank = false;            ///< published by a rank
  char text[kTuneTextBytes] = {};  ///< lines NAME=VALUE, each with a line break

  bool holds(uint64_t step) const { return step >= begin && step < end; }
  /// Copies a name's value to `value`, cut at `bytes`; false: no such name.
  bool value_of(const char* name, char* value, size_t bytes) const;
};

/// Reads and writes blocks.
class TuneFiles {
 public:
  /// False: the name is too long. `base` is copied.
  bool begin(const char* base);
  /// 0, or the reason: ENOENT, EILSEQ (not a block, or another number), another errno.
  int read(uint64_t number, TuneBlock* block);
  /// 0, or the reason: EEXIST if the number is taken, another errno. Existing blocks are complete.
  int write(const TuneBlock& block);

 private:
  void name(uint64_t number);

  char base_[kTunePathBytes];
  char path_[kTunePathBytes + 32];
  char aside_[kTunePathBytes + 128];
  char file_[kTuneTextBytes + 256];
};

/// A rank's way through the schedule.
class TuneFollower {
 public:
  bool begin(const char* base) { return files_.begin(base); }
  /// Moves `now()` to the block of the step: any but kTuneNoEnd, also an earlier one. Free within a block. 0, or an
  /// errno, which stays: from then on this rank cannot know the others' values.
  int follow(uint64_t step);
  const TuneBlock& now() const { return now_; }

 private:
  int next();  ///< reads the block behind `now_`

  TuneFiles files_;
  TuneBlock now_, next_;
  int64_t missed_ns_ = 0;  ///< CLOCK_MONOTONIC at the end of the tuner's last block
  bool begun_ = false;
  int failed_ = 0;
};

}  // namespace ddl
