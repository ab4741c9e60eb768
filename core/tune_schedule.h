// The schedule of an in-run tuning (`ddl tune --in-run`): which values hold in which steps, the same on every rank of a running job, without a
// message between ranks.
//
// DDL_TUNE_FILE names the beginning of a file name. The schedule is a chain of files, DDL_TUNE_FILE.0, .1, .2 ...: each is a block of steps with its
// values, and begins at the step at which the one before ends. A block is never changed: it is written aside and given its name by link(2), which
// fails where the name is there. So of all who would say what comes next - the tuner, and every rank that reaches the end of what is known -
// exactly one does, and the others read what that one wrote. A rank that has come to the end does not wait for the tuner: it makes the next
// block itself, with the same values for a few more steps, and the tuner's values come after that one.
//
// That is agreement by test-and-set, where the file system is what is shared. Rejected: one file that is extended "well ahead" of all ranks. Two
// ranks that read it before and after its extension hold different values for the same step, and nobody can tell how far a rank has come: what
// the tuner sees of it is old, and either of the two may be stopped in between.
//
// A tuner that is gone (SIGKILL) leaves a job that goes on: a rank that has heard nothing of it for `patience_s` makes a block that is the last, with
// the values of block 0, which are those that the job was started with.
//
// Code of this file runs inside the job (docs/injected-code.md): libc only, nothing is allocated. Threads: one at a time per object.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ddl {

constexpr uint64_t kTuneNoEnd = UINT64_MAX;
constexpr size_t kTuneTextBytes = 4096;
constexpr size_t kTunePathBytes = 2048;

struct TuneBlock {
  uint64_t number = 0;             ///< of the file
  uint64_t begin = 0;              ///< the first step
  uint64_t end = 0;                ///< the first step behind it; kTuneNoEnd: it holds as long as the job runs
  uint64_t filler_steps = 1;       ///< of a block that a rank makes because nothing follows
  uint64_t patience_s = 0;         ///< how long ranks wait for the tuner before they make the last block
  bool of_rank = false;            ///< a rank made it
  char text[kTuneTextBytes] = {};  ///< lines NAME=VALUE, each with its end

  bool holds(uint64_t step) const { return step >= begin && step < end; }
  /// Copies the value of a name to `value`, which is cut at `bytes`; false: it has none.
  bool value_of(const char* name, char* value, size_t bytes) const;
};

/// Reads and writes blocks.
class TuneFiles {
 public:
  /// False: the name is too long. `base` is copied.
  bool begin(const char* base);
  /// 0, or why not: ENOENT, EILSEQ (not a block, or not that one), another errno.
  int read(uint64_t number, TuneBlock* block);
  /// 0, or why not: EEXIST where the number is taken, another errno. What is there is whole.
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
  /// Brings `now()` to the block that holds the step: any but kTuneNoEnd, also an earlier one. Costs nothing while the block goes on. 0, or an
  /// errno, which stays: from then on this rank cannot know what the others do.
  int follow(uint64_t step);
  const TuneBlock& now() const { return now_; }

 private:
  int next();  ///< reads the block behind `now_`

  TuneFiles files_;
  TuneBlock now_, next_;
  int64_t heard_ns_ = 0;  ///< CLOCK_MONOTONIC, when a block of the tuner was read last
  bool begun_ = false;
  int failed_ = 0;
};

}  // namespace ddl
