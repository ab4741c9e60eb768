#include "workloads/train/test_aids.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "workloads/train/error.h"
#include "workloads/train/random.h"

namespace ddl::train {

namespace {

constexpr double kLongestDelayMs = 3.6e6;

/** Reads the colon-separated fields of one option value. */
class Fields {
 public:
  Fields(const char* option, const char* form, const std::string& text)
      : option_(option), form_(form), text_(text), at_(text_.data()), end_(at_ + text_.size()) {}

  int rank() { return number<int>(); }
  uint64_t step() { return number<uint64_t>(); }
  double ms() {
    const auto value = number<double>();
    if (!(value <= kLongestDelayMs)) fail();  // also refuses nan and inf
    return value;
  }
  bool more() const { return at_ != end_; }
  void finish() const {
    if (more()) fail();
  }

 private:
  template <typename T>
  T number() {
    if (!first_ && (at_ == end_ || *at_++ != ':')) fail();
    first_ = false;
    T value{};
    const auto [next, error] = std::from_chars(at_, end_, value);
    if (error != std::errc() || value < T{}) fail();
    at_ = next;
    return value;
  }
  [[noreturn]] void fail() const { throw UsageError(std::string(option_) + " '" + text_ + "': expected " + form_); }

  const char* option_;
  const char* form_;
  std::string text_;
  const char* at_;
  const char* end_;
  bool first_ = true;
};

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

/** Returns the ns that it took. */
int64_t sleep_ms(double ms) {
  if (ms <= 0.0) return 0;
  const auto start = Clock::now();
  std::this_thread::sleep_for(Milliseconds(ms));
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

void spin_ms(double ms) {
  const auto end = Clock::now() + Milliseconds(ms);
  while (Clock::now() < end) {
  }
}

}  // namespace

SlowRank parse_slow_rank(const std::string& text) {
  Fields fields("--slow-rank", "RANK:MS or RANK:MS:FROM_STEP", text);
  SlowRank slow{.rank = fields.rank(), .ms = fields.ms()};
  if (fields.more()) slow.from_step = fields.step();
  fields.finish();
  return slow;
}

DelayOnce parse_delay_once(const std::string& text) {
  Fields fields("--delay-once", "RANK:STEP:MS", text);
  const DelayOnce delay{.rank = fields.rank(), .step = fields.step(), .ms = fields.ms()};
  fields.finish();
  return delay;
}

HangRank parse_hang_rank(const std::string& text) {
  Fields fields("--hang-rank", "RANK:STEP", text);
  const HangRank hang{.rank = fields.rank(), .step = fields.step()};
  fields.finish();
  return hang;
}

void FaultPlan::check_ranks(int ranks) const {
  const auto check = [ranks](const char* option, const auto& faults) {
    for (const auto& fault : faults) {
      if (fault.rank < ranks) continue;
      throw UsageError(std::string(option) + " names rank " + std::to_string(fault.rank) + ", but the job has " +
                       std::to_string(ranks) + " rank(s), counted from 0");
    }
  };
  check("--slow-rank", slow);
  check("--delay-once", delays);
  check("--hang-rank", hangs);
}

double Faults::forward_ms(uint64_t step) const {
  double ms = 0.0;
  for (const SlowRank& slow : plan_.slow) {
    if (slow.rank == rank_ && step >= slow.from_step) ms += slow.ms;
  }
  if (plan_.jitter_ms > 0.0) {
    Random random(seed_, Draw::kJitter, static_cast<uint64_t>(rank_), step);
    ms += plan_.jitter_ms * static_cast<double>(random.uniform());
  }
  return ms;
}

int64_t Faults::stretch_forward(uint64_t step) const {
  if (!plan_.slow_spins) return sleep_ms(forward_ms(step));
  spin_ms(forward_ms(step));
  return 0;
}

int64_t Faults::before_first_reduction(uint64_t step) const {
  int64_t slept_ns = 0;
  for (const DelayOnce& delay : plan_.delays) {
    if (delay.rank == rank_ && delay.step == step) slept_ns += sleep_ms(delay.ms);
  }
  for (const HangRank& hang : plan_.hangs) {
    if (hang.rank != rank_ || hang.step != step) continue;
    for (;;) pause();  // until a signal ends the process
  }
  return slept_ns;
}

CallLog::~CallLog() {
  if (file_ >= 0) close(file_);
}

void CallLog::open(const std::string& path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) throw DataError(path + ": " + std::strerror(errno));
  write();
}

void CallLog::returned(MpiCall call) noexcept {
  ++counts_[static_cast<std::size_t>(call)];
  if (file_ >= 0) write();
}

void CallLog::write() noexcept {
  std::array<char, 512> text;  // 11 lines of at most 15 + 1 + 20 + 1 characters
  std::size_t size = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const int length = std::snprintf(text.data() + size, text.size() - size, "%s %llu\n", kMpiCallNames[i],
                                     static_cast<unsigned long long>(counts_[i]));
    size += static_cast<std::size_t>(length);
  }
  // Counts only grow, and so does the text: nothing of an older one can be left behind it.
  if (pwrite(file_, text.data(), size, 0) != static_cast<ssize_t>(size)) failed_ = true;
}

}  // namespace ddl::train
