#include "workloads/train/step_log.h"

#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <ctime>

#include "workloads/train/error.h"

namespace ddl::train {

namespace {

int64_t clock_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }
int64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

void StepLog::open(const std::string& path) {
  file_.reset(std::fopen(path.c_str(), "we"));
  if (!file_) throw DataError(path + ": " + std::strerror(errno));
  std::fputs("step,begin_ns,end_ns,input_ns,compute_ns,blocked_ns,slept_ns,cpu_ns,handed_over_ns,hidden_ns\n",
             file_.get());
  std::fflush(file_.get());
}

void StepLog::write(const StepTimes& t) {
  if (!file_) return;
  std::fprintf(file_.get(),
               "%" PRIu64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
               ",%" PRId64 ",%s\n",
               t.step, t.begin_ns, t.end_ns, t.input_ns, t.compute_ns, t.blocked_ns, t.slept_ns, t.cpu_ns,
               t.handed_over_ns, t.hidden_ns ? std::to_string(*t.hidden_ns).c_str() : "");
  std::fflush(file_.get());
}

void StepLog::write(const Tallies& tallies) {
  if (!file_) return;
  for (std::size_t purpose = 0; purpose < tallies.size(); ++purpose) {
    for (std::size_t call = 0; call < tallies[purpose].size(); ++call) {
      const Tally& tally = tallies[purpose][call];
      if (tally.calls == 0) continue;
      std::fprintf(file_.get(), "# %s %s calls %" PRIu64 " bytes %" PRIu64 "\n", kPurposeNames[purpose],
                   kMpiCallNames[call], tally.calls, tally.bytes);
    }
  }
  std::fflush(file_.get());
}

}  // namespace ddl::train
