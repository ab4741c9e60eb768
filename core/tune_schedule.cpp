#include "core/tune_schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace ddl {

namespace {

constexpr char kHead[] = "ddl-tune 1 ";
constexpr char kEnd[] = "end\n";
constexpr int kAgain = 100;  // a name that was taken a moment ago, and that this host's cache does not know yet
constexpr long kAgainNs = 20'000'000;

/// Reads a number, and the sign that ends it.
bool take_number(const char** at, char ending, uint64_t* number) {
  if (**at < '0' || **at > '9') return false;
  char* end = nullptr;
  errno = 0;
  *number = strtoull(*at, &end, 10);
  if (errno != 0 || *end != ending) return false;
  *at = end + 1;
  return true;
}

bool take_word(const char** at, const char* word) {
  const size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0) return false;
  *at += length;
  return true;
}

/// `text` ends with a NUL.
bool parse(const char* text, uint64_t number, TuneBlock* block) {
  const size_t length = strlen(text), ending = strlen(kEnd);
  uint64_t own_number = 0;
  if (!take_word(&text, kHead) || length < ending) return false;
  if (take_word(&text, "rank\n"))
    block->of_rank = true;
  else if (take_word(&text, "tuner\n"))
    block->of_rank = false;
  else
    return false;
  if (!take_word(&text, "block ") || !take_number(&text, '\n', &own_number) || own_number != number) return false;
  if (!take_word(&text, "steps ") || !take_number(&text, ' ', &block->begin)) return false;
  if (take_word(&text, "-\n"))
    block->end = kTuneNoEnd;
  else if (!take_number(&text, '\n', &block->end))
    return false;
  if (!take_word(&text, "fillers ") || !take_number(&text, ' ', &block->filler_steps) ||
      !take_number(&text, '\n', &block->patience_s))
    return false;
  const size_t rest = strlen(text);
  if (rest < ending || strcmp(text + rest - ending, kEnd) != 0 || rest - ending >= sizeof block->text) return false;
  memcpy(block->text, text, rest - ending);
  block->text[rest - ending] = 0;
  block->number = number;
  return block->end > block->begin && block->filler_steps > 0 && (rest == ending || text[rest - ending - 1] == '\n');
}

bool write_all(int fd, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (written == 0) errno = ENOSPC;
      return false;
    }
    bytes += written;
    count -= static_cast<size_t>(written);
  }
  return true;
}

int64_t monotonic_ns() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

bool TuneBlock::value_of(const char* name, char* value, size_t bytes) const {
  const size_t length = strlen(name);
  for (const char* line = text; *line != 0;) {
    const char* stop = strchr(line, '\n');
    if (stop == nullptr) return false;
    if (strncmp(line, name, length) == 0 && line[length] == '=') {
      const char* start = line + length + 1;
      size_t count = static_cast<size_t>(stop - start);
      if (count >= bytes) count = bytes - 1;
      memcpy(value, start, count);
      value[count] = 0;
      return true;
    }
    line = stop + 1;
  }
  return false;
}

bool TuneFiles::begin(const char* base) {
  const size_t length = strlen(base);
  if (length == 0 || length >= sizeof base_) return false;
  memcpy(base_, base, length + 1);
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  snprintf(aside_, sizeof aside_, "%s.%s.%ld", base_, host, static_cast<long>(getpid()));
  return true;
}

void TuneFiles::name(uint64_t number) {
  snprintf(path_, sizeof path_, "%s.%llu", base_, static_cast<unsigned long long>(number));
}

int TuneFiles::read(uint64_t number, TuneBlock* block) {
  name(number);
  const int fd = open(path_, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return errno;
  size_t used = 0;
  int failed = 0;
  while (used < sizeof file_ - 1) {
    const ssize_t got = ::read(fd, file_ + used, sizeof file_ - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed = errno;
    if (got <= 0) break;
    used += static_cast<size_t>(got);
  }
  close(fd);
  if (failed != 0) return failed;
  file_[used] = 0;
  return strlen(file_) == used && parse(file_, number, block) ? 0 : EILSEQ;
}

int TuneFiles::write(const TuneBlock& block) {
  name(block.number);
  char end[24] = "-";
  if (block.end != kTuneNoEnd) snprintf(end, sizeof end, "%llu", static_cast<unsigned long long>(block.end));
  const int length =
      snprintf(file_, sizeof file_, "%s%s\nblock %llu\nsteps %llu %s\nfillers %llu %llu\n%s%s", kHead,
               block.of_rank ? "rank" : "tuner", static_cast<unsigned long long>(block.number),
               static_cast<unsigned long long>(block.begin), end, static_cast<unsigned long long>(block.filler_steps),
               static_cast<unsigned long long>(block.patience_s), block.text, kEnd);
  if (length < 0 || static_cast<size_t>(length) >= sizeof file_) return EOVERFLOW;
  unlink(aside_);  // of an earlier process with our number
  const int fd = open(aside_, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  int failed = write_all(fd, file_, static_cast<size_t>(length)) ? 0 : errno;
  if (close(fd) != 0 && failed == 0) failed = errno;
  if (failed == 0 && link(aside_, path_) != 0) failed = errno;
  unlink(aside_);
  return failed;
}

int TuneFollower::next() { return files_.read(now_.number + 1, &next_); }

int TuneFollower::follow(uint64_t step) {
  if (failed_ != 0) return failed_;
  if (!begun_ || step < now_.begin) {
    failed_ = files_.read(0, &now_);
    if (failed_ != 0) return failed_;
    begun_ = true;
  }
  while (step >= now_.end) {
    int error = next();
    // However long the tuner's block took, the tuner may be there: it is missed from the block's end on, and
    // never in that moment.
    if (!now_.of_rank) missed_ns_ = monotonic_ns();
    if (error == ENOENT) {
      if (now_.of_rank && monotonic_ns() - missed_ns_ > static_cast<int64_t>(now_.patience_s) * 1'000'000'000) {
        error = files_.read(0, &next_);
        if (error != 0) return failed_ = error;
        next_.end = kTuneNoEnd;
      } else {
        next_ = now_;
        next_.end = now_.end + now_.filler_steps;
        if (next_.end <= step) next_.end = step + 1;
      }
      next_.number = now_.number + 1;
      next_.begin = now_.end;
      next_.of_rank = true;
      error = files_.write(next_);
      for (int i = 0; error == EEXIST || (error == ENOENT && i > 0); ++i) {
        error = next();
        if (error != ENOENT || i == kAgain) break;
        const timespec pause = {0, kAgainNs};
        nanosleep(&pause, nullptr);
      }
    }
    if (error == 0 && next_.begin != now_.end) error = EILSEQ;
    if (error != 0) return failed_ = error;
    now_ = next_;
  }
  return 0;
}

}  // namespace ddl
