#include "tui/spool_source.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "store/job.h"

namespace ddl::tui {
namespace {

constexpr uint64_t kJoinBytes = 128 * 1024;  // of a thread's log, when a job is joined that has been running
constexpr uint64_t kJoinAllBytes = 6 << 20;  // of all of them
constexpr uint64_t kLeastJoinBytes = 24 * 1024;
constexpr size_t kStepsAtJoin = 10,
                 kAskedForSteps = 8;             // where that is more than of all: so many steps, as long as those of a few processes
constexpr uint64_t kJoinDeviceBytes = 16 << 20;  // of a process's records of GPUs: some seconds of up to 100,000 each
constexpr uint64_t kJoinAllDeviceBytes = 256 << 20;
constexpr uint64_t kWholeLog = UINT64_MAX / 4;            // more than any log has; multiples of it still fit
constexpr size_t kOtherDescriptors = 64, kLeastOpen = 8;  // terminal, store, /proc, the job's files
constexpr int64_t kFirstFitNs = 1'000'000'000;
constexpr int64_t kMaxFitNs = 60'000'000'000;
constexpr int64_t kSettledNs = 2'000'000'000;    // a directory that has not changed for this long shows all its files
constexpr int64_t kBeingMadeNs = 5'000'000'000;  // a spool that cannot be read may be one that is just being made

int64_t now_realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Field 22 of /proc/PID/stat; 0: no such process, or it is a zombie.
uint64_t start_of_process(uint32_t pid) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", pid).c_str());
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size() || stat[end + 2] == 'Z') return 0;
  size_t at = end;
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(stat.c_str() + at + 1, nullptr, 10);
}

/// A script says more than the interpreter that runs it.
std::string program_name(const SpoolProcess& process) {
  const std::string exe = process.fact("exe"), command = process.fact("command");
  const std::string name = exe.substr(exe.rfind('/') + 1);
  const size_t script = command.find(".py");
  if (!name.starts_with("python") || script == std::string::npos) return name;
  const size_t begin = command.find_last_of(" /", script) + 1;
  return command.substr(begin, script - begin);
}

}  // namespace

size_t SpoolSource::descriptors_for_spools() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastOpen;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return std::max<size_t>(kLeastOpen, limit.rlim_cur - std::min<rlim_t>(limit.rlim_cur, kOtherDescriptors));
}

SpoolSource::SpoolSource(RunDirectory run, std::string shown, Join join, size_t most_open)
    : run_(std::move(run)), shown_(std::move(shown)), join_(join), most_open_(most_open) {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) host_ = name;
  boot_ = first_line("/proc/sys/kernel/random/boot_id");
}

void SpoolSource::look_for_spools() {
  const int64_t changed = changed_ns(run_.directory).value_or(-1);
  const bool settled = changed == directory_changed_ns_ && now_realtime_ns() - changed > kSettledNs;
  if (settled) return;
  directory_changed_ns_ = changed;
  std::set<std::filesystem::path> stems;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(run_.directory, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    std::filesystem::path path = entry->path();
    if (path.extension() == ".spool" || path.extension() == ".live") stems.insert(path.replace_extension());
  }
  for (const std::filesystem::path& stem : stems) {
    if (known_.contains(stem)) continue;
    try {
      processes_.push_back(open(stem));
      release(processes_.size() - 1);
      known_.insert(stem);
      unreadable_.erase(stem.string());
    } catch (const Error& error) {
      directory_changed_ns_ = -1;  // look again: it may become one
      std::filesystem::path spool = stem;
      if (now_realtime_ns() - changed_ns(spool += ".spool").value_or(0) > kBeingMadeNs) unreadable_[stem.string()] = error.what();
    }
  }
}

/// Closes the spool of a process that is read in turns.
void SpoolSource::release(size_t process) {
  if (process >= most_open_) processes_[process]->release();
}

std::unique_ptr<SpoolProcess> SpoolSource::open(const std::filesystem::path& stem) {
  const std::string spool = stem.string() + ".spool", live = stem.string() + ".live";
  std::unique_ptr<SpoolProcess> process;
  std::error_code error;
  if (std::filesystem::exists(live, error)) {
    try {
      process = std::make_unique<SpoolProcess>(numbering_, sizes_, live);
    } catch (const Error&) {  // of a process that ended before it was written
    }
  }
  if (process != nullptr && process->boot_id() != boot_) return process;
  try {
    return std::make_unique<SpoolProcess>(numbering_, sizes_, spool);
  } catch (const Error&) {
    if (process == nullptr) throw;
    return process;
  }
}

void SpoolSource::read_job(Job& job) {
  const int64_t changed = changed_ns(run_.job()).value_or(-1);
  if (changed == job_changed_ns_) return;
  job_changed_ns_ = changed;
  const ddl::Job file = ddl::read_job(run_.job());
  job.exit_code = file.exit_code;
  job.signal = file.signal;
  job.recorded_end = file.ended_realtime_ns.has_value();
  if (const auto id = file.facts.find("job_id"); id != file.facts.end()) job.job_id = id->second;
}

void SpoolSource::read_told_stalls(Job& job) {
  const int64_t changed = changed_ns(run_.stalls()).value_or(-1);
  if (changed == stalls_changed_ns_) return;
  stalls_changed_ns_ = changed;
  job.told.reset();
  try {
    for (ToldStall& stall : read_stalls(run_.stalls()))
      if (stall.kind == "stall" && !stall.resumed_ns) job.told = std::move(stall);
    unreadable_.erase(run_.stalls().string());
  } catch (const Error& error) {
    unreadable_[run_.stalls().string()] = error.what();
  }
}

/// Ranks that are known by now. Among several worlds the first one with the most ranks stays.
void SpoolSource::choose_world(Job& job) {
  std::map<uint64_t, int> worlds;
  for (const auto& p : processes_) {
    if (p->rank() >= 0) ++worlds[p->header().world_key];
  }
  if (worlds.empty()) {  // as the ingest does it: one process alone that used a GPU is a job
    const auto uses_gpu = [](const auto& p) { return p->uses_gpu(); };
    if (std::count_if(processes_.begin(), processes_.end(), uses_gpu) != 1) return;
    SpoolProcess& alone = **std::find_if(processes_.begin(), processes_.end(), uses_gpu);
    alone.be_alone();
    ++worlds[alone.header().world_key];
  }
  if (!world_key_) {
    const auto most = std::max_element(worlds.begin(), worlds.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    world_key_ = most->first;
  }
  job.other_worlds = static_cast<int32_t>(worlds.size()) - 1;
  for (const auto& p : processes_) {
    const FileHeader& h = p->header();
    if (p->rank() < 0 || h.world_key != *world_key_) continue;
    job.world_size = std::max(job.world_size, p->is_alone() ? 1 : h.rank >= 0 ? h.world_size : h.launch_size);
    if (p->index == kNone) add_rank(job, *p);
    if (job.mpi.empty()) job.mpi = p->fact("mpi");
  }
}

void SpoolSource::add_rank(Job& job, SpoolProcess& process) {
  const int32_t number = process.rank();
  const auto same = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const Rank& r) { return r.rank == number; });
  if (same != job.ranks.end()) return;  // the program that this one was before exec, or a child that inherited the announcement
  process.index = static_cast<uint32_t>(job.ranks.size());
  Rank rank;
  rank.rank = number;
  rank.host = process.host();
  rank.begin_ticks = rank.finished_ticks = process.header().begin.ticks;
  rank.pid = process.header().pid;
  const std::string local_rank = process.fact("local_rank");
  rank.on_host = local_rank.empty() ? -1 : std::atoi(local_rank.c_str());
  job.ranks.push_back(std::move(rank));
  if (job.job_id.empty()) job.job_id = process.fact("job_id");
  if (job.name.empty()) job.name = program_name(process);
}

/// Again whenever the job has become twice as old, and when ranks have come.
void SpoolSource::fit(Job& job) {
  const int64_t now_ns = now_realtime_ns();
  if (now_ns < next_fit_ns_ && fitted_ranks_ == job.ranks.size()) return;
  std::vector<store::ClockEvidence> evidence;
  for (const auto& p : processes_) evidence.push_back(p->clock_evidence());
  const store::Clocks clocks = store::fit_clocks(evidence);
  epoch_realtime_ns_ = clocks.epoch_realtime_ns;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i]->index != kNone) job.ranks[processes_[i]->index].clock = clocks.processes[i];
  }
  fitted_ranks_ = job.ranks.size();
  next_fit_ns_ = now_ns + std::clamp(now_ns - epoch_realtime_ns_, kFirstFitNs, kMaxFitNs);
}

void SpoolSource::read_lives(Job& job) {
  bool all_over = !job.ranks.empty();
  for (const auto& p : processes_) {
    if (p->index == kNone) continue;
    const FileHeader& h = p->header();
    Rank& rank = job.ranks[p->index];
    rank.uses_mpi = (h.flags & kMpiEntered) != 0;
    rank.life = h.flags & kMpiAborted                                                        ? Life::kAborted
                : h.flags & kMpiFinalized                                                    ? Life::kFinalized
                : h.flags & kExited                                                          ? Life::kExited
                : h.flags & (kMpiInitialized | kNcclEntered | kGlooEntered) || p->uses_gpu() ? Life::kRunning
                                                                                             : Life::kStarting;
    const bool here = rank.here = p->host() == host_ && p->boot_id() == boot_;
    if (!is_over(rank.life) && (job.recorded_end || (here && start_of_process(h.pid) != h.process_start))) rank.life = Life::kGone;
    all_over &= is_over(rank.life);
  }
  job.ended = all_over;
}

/// How much of each thread's log is read when a running job is joined. What some processes took for a few steps, and half as much again, is
/// enough where there are so many that the least would be more than all may be.
uint64_t SpoolSource::recent_bytes() {
  const size_t all = processes_.size();
  if (all * kLeastJoinBytes <= kJoinAllBytes) return std::clamp(kJoinAllBytes / all, kLeastJoinBytes, kJoinBytes);
  if (asked_of_ == all) return asked_bytes_;
  uint64_t most = 0;
  for (size_t i = 0; i < kAskedForSteps; ++i) {
    const size_t asked = i * (all - 1) / (kAskedForSteps - 1);
    if (unreadable_.contains(processes_[asked]->path())) continue;
    try {
      most = std::max(most, processes_[asked]->bytes_of_steps(kStepsAtJoin, kLeastJoinBytes));
    } catch (const Error&) {  // reading it tells
    }
    release(asked);
  }
  asked_of_ = all;
  return asked_bytes_ = most == 0 ? kLeastJoinBytes : std::min(most + most / 2, kLeastJoinBytes);
}

void SpoolSource::read_spools(Job& job) {
  const uint64_t recent_bytes = this->recent_bytes();
  const uint64_t join_bytes = join_ == Join::kWhole ? kWholeLog : recent_bytes;
  const uint64_t device_bytes =
      join_ == Join::kWhole ? kWholeLog : std::clamp(kJoinAllDeviceBytes / processes_.size(), kLeastJoinBytes, kJoinDeviceBytes);
  for (int pass = 0; pass < 2; ++pass) {  // once more for those that turn out to be ranks
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (!unreadable_.contains(processes_[i]->path())) processes_[i]->read_devices();
      release(i);
    }
    for (size_t i = 0; i < processes_.size(); ++i) {
      const auto& p = processes_[i];
      if (unreadable_.contains(p->path()) || (pass == 1 && p->index == kNone)) continue;
      try {
        p->read(job, join_bytes, device_bytes);
      } catch (const Error& error) {
        unreadable_[p->path()] = error.what();  // cut off under us; what was read stays
      }
      release(i);
    }
    const size_t before = job.ranks.size();
    choose_world(job);
    if (job.ranks.size() == before) break;
  }
  numbering_.label(job);
}

void SpoolSource::poll(Job& job, double) {
  job.run = shown_;
  look_for_spools();
  if (processes_.empty()) {
    throw Error(
        fmt::format("{} has nothing to show yet", shown_),
        unreadable_.empty() ? "no process of the job has called MPI or NCCL yet: try again in a moment" : unreadable_.begin()->second,
        ExitCode::kDataMissing);
  }
  read_job(job);
  read_told_stalls(job);
  read_spools(job);
  fit(job);
  read_lives(job);
  const int64_t now_ns = now_realtime_ns();
  job.now_ns = now_ns - epoch_realtime_ns_;
  for (const auto& p : processes_) p->join_devices(job);
  job.spools_in_turns = static_cast<int32_t>(processes_.size() - std::min(processes_.size(), most_open_));
  job.unreadable_spools = static_cast<int32_t>(unreadable_.size());
  job.unreadable_why = unreadable_.empty() ? "" : unreadable_.begin()->second;
  job.wall_clock_s = now_ns / 1'000'000'000;
}

}  // namespace ddl::tui
