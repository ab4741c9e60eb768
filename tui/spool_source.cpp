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
                 // where that is more than of all: so many steps, as long as those of a few processes
    kAskedForSteps = 8;
constexpr uint64_t kJoinDeviceBytes = 16 << 20;  // of a process's records of GPUs: some seconds of up to 100,000 each
constexpr uint64_t kJoinAllDeviceBytes = 256 << 20;
constexpr uint64_t kWholeLog = UINT64_MAX / 4;            // more than any log has; multiples of it still fit
constexpr size_t kOtherDescriptors = 64, kLeastOpen = 8;  // terminal, store, /proc, the job's files
constexpr int64_t kFirstFitNs = 1'000'000'000;
constexpr int64_t kMaxFitNs = 60'000'000'000;
constexpr int64_t kSettledNs = 2'000'000'000;  // a directory that has not changed for this long shows all its files
// `ddl record` may have been killed, too: then nobody writes that the job has ended
constexpr int64_t kMayGoOnNs = 300'000'000'000;
constexpr uint64_t kRestartedNs = 10'000'000'000;
constexpr int64_t kHungAtOnceNs = 60'000'000'000;
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

/// What was read of a job that is no longer shown is forgotten, as if this program had begun now.
void SpoolSource::start_afresh(Job& job) {
  const uint32_t generation = job.generation + 1;
  job = Job{};
  job.generation = generation;
  job.run = shown_;
  numbering_ = {};
  sizes_ = {};
  places_.clear();
  worlds_.clear();
  world_.reset();
  world_begin_ns_ = 0;
  numbers_.clear();
  asked_of_ = 0;
  fitted_ranks_ = SIZE_MAX;
  next_fit_ns_ = 0;
  directory_changed_ns_ = job_changed_ns_ = stalls_changed_ns_ = -1;
}

void SpoolSource::look_for_spools(Job& job) {
  const int64_t changed = changed_ns(run_.directory).value_or(-1);
  const bool settled = changed == directory_changed_ns_ && now_realtime_ns() - changed > kSettledNs;
  if (settled) return;
  directory_changed_ns_ = changed;
  std::set<std::filesystem::path> stems;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(run_.directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::filesystem::path path = entry->path();
    if (path.extension() == ".spool" || path.extension() == ".live") stems.insert(path.replace_extension());
  }
  const bool removed = !known_.empty() && std::none_of(known_.begin(), known_.end(),
                                                       [&](const auto& stem) { return stems.contains(stem); });
  const size_t before = processes_.size();
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
      if (now_realtime_ns() - changed_ns(spool += ".spool").value_or(0) > kBeingMadeNs)
        unreadable_[stem.string()] = error.what();
    }
  }
  if (!removed || processes_.size() == before) return;
  // Another recording has taken the directory: what was removed is shown until there is something else.
  processes_.erase(processes_.begin(), processes_.begin() + static_cast<std::ptrdiff_t>(before));
  std::erase_if(known_, [&](const auto& stem) { return !stems.contains(stem); });
  std::erase_if(unreadable_, [&](const auto& entry) { return !std::filesystem::exists(entry.first); });
  start_afresh(job);
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
  job.recording = file.started_realtime_ns && !job.recorded_end;
  if (const auto id = file.facts.find("job_id"); id != file.facts.end()) job.job_id = id->second;
}

void SpoolSource::read_told_stalls(Job& job) {
  const int64_t changed = changed_ns(run_.stalls()).value_or(-1);
  if (changed == stalls_changed_ns_) return;
  stalls_changed_ns_ = changed;
  job.told.reset();
  try {
    for (ToldStall& stall : read_stalls(run_.stalls()))
      if (stall.kind == "stall" && !stall.resumed_ns && stall.told_ns >= world_begin_ns_) job.told = std::move(stall);
    unreadable_.erase(run_.stalls().string());
  } catch (const Error& error) {
    unreadable_[run_.stalls().string()] = error.what();
  }
}

int32_t SpoolSource::world_size(const SpoolProcess& process) {
  const FileHeader& h = process.header();
  return process.is_alone() ? 1 : h.rank >= 0 ? h.world_size : h.launch_size;
}

/// Both have the same rank, but it began while the earlier one was recording: this is no restart.
bool SpoolSource::is_child(size_t process, size_t earlier) const {
  return processes_[earlier]->header().latest.realtime_ns >= processes_[process]->header().begin.realtime_ns;
}

/// Worlds as the ingest tells them apart (store/ingest/worlds.cpp): the second process with the same key, size and rank
/// is another launch. A process that began while the one before it was still recording is a child that inherited the
/// announcement, and no rank.
void SpoolSource::find_worlds() {
  bool changed = places_.size() != processes_.size();
  places_.resize(processes_.size());
  std::vector<size_t> by_begin;
  for (size_t i = 0; i < processes_.size(); ++i) {
    const SpoolProcess& p = *processes_[i];
    Place& place = places_[i];
    const int32_t rank = p.rank(), size = world_size(p);
    changed |= place.rank != rank || place.size != size || (place.replaces && is_child(i, *place.replaces));
    place.rank = rank;
    place.size = size;
    if (rank >= 0) by_begin.push_back(i);
  }
  if (!changed) return;
  const auto begin_of = [&](size_t i) {
    return std::tie(processes_[i]->header().begin.realtime_ns, processes_[i]->path());
  };
  std::sort(by_begin.begin(), by_begin.end(), [&](size_t a, size_t b) { return begin_of(a) < begin_of(b); });
  std::map<std::tuple<uint64_t, int32_t, int32_t>, size_t> newest;  // process of that key, size and rank
  worlds_.clear();
  for (const size_t i : by_begin) {
    const FileHeader& h = processes_[i]->header();
    Place& place = places_[i];
    place.replaces.reset();
    place.replaced_by.reset();
    const auto [known, is_first] = newest.try_emplace({h.world_key, place.size, place.rank}, i);
    if (!is_first && is_child(i, known->second)) {
      place.world.reset();
      continue;
    }
    size_t launch = 0;
    if (!is_first) {
      Place& earlier = places_[known->second];
      launch = earlier.world->launch + 1;
      earlier.replaced_by = i;
      place.replaces = known->second;
      known->second = i;
    }
    place.world = WorldId{h.world_key, place.size, launch};
    worlds_.try_emplace(*place.world, i);
  }
}

/// Nothing shows that it is over. On another host a later process of its rank shows it, after a while in which a parent
/// would have recorded something too.
bool SpoolSource::runs(const Job& job, size_t process) const {
  const SpoolProcess& p = *processes_[process];
  if (is_over(life_of(p, job.recorded_end))) return false;
  if (!places_[process].replaced_by) return true;
  const SpoolProcess& later = *processes_[*places_[process].replaced_by];
  const FileHeader &h = p.header(), &next = later.header();
  if (is_here(p)) return !(is_here(later) && next.pid == h.pid && next.process_start == h.process_start);  // exec
  // A restart that hangs at once records no more than what it replaces.
  const auto both_silent_ns =
      now_realtime_ns() - static_cast<int64_t>(std::max(h.latest.realtime_ns, next.latest.realtime_ns));
  return next.latest.realtime_ns < h.latest.realtime_ns + kRestartedNs && both_silent_ns < kHungAtOnceNs;
}

/// The world to show: one that runs, of several the one with the most ranks; where all are over the first one, as
/// the report does it.
SpoolSource::WorldId SpoolSource::best_world(const Job& job) const {
  struct Seen {
    size_t ranks = 0;
    bool runs = false;
  };
  std::map<WorldId, Seen> seen;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!places_[i].world) continue;
    Seen& world = seen[*places_[i].world];
    ++world.ranks;
    world.runs = world.runs || runs(job, i);
  }
  const auto order = [&](const auto& entry) {
    const auto& [world, numbers] = entry;
    const SpoolProcess& first = *processes_[worlds_.at(world)];
    return std::tuple(!numbers.runs, numbers.runs ? -static_cast<int64_t>(numbers.ranks) : 0,
                      first.header().begin.realtime_ns, first.path());
  };
  return std::min_element(seen.begin(), seen.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); })
      ->first;
}

/// All ranks of the shown world are over, and a process of another one is not: the next mpirun of a
/// recording, or a restart.
bool SpoolSource::another_world_runs(const Job& job) const {
  if (!world_ || worlds_.size() < 2) return false;
  for (size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i]->index != kNone && runs(job, i)) return false;
  for (size_t i = 0; i < processes_.size(); ++i)
    if (places_[i].world && places_[i].world != world_ && processes_[i]->index == kNone && runs(job, i)) return true;
  return false;
}

/// Among the ranks that are known by now.
void SpoolSource::choose_world(const Job& job) {
  find_worlds();
  if (worlds_.empty()) {  // as the ingest does it: one process alone that used a GPU is a job
    const auto uses_gpu = [](const auto& p) { return p->uses_gpu(); };
    if (std::count_if(processes_.begin(), processes_.end(), uses_gpu) != 1) return;
    (*std::find_if(processes_.begin(), processes_.end(), uses_gpu))->be_alone();
    find_worlds();
  }
  if (world_ && !worlds_.contains(*world_)) {  // its size has become known
    world_.reset();
    for (size_t i = 0; i < processes_.size() && !world_; ++i)
      if (processes_[i]->index != kNone) world_ = places_[i].world;
  }
  if (!world_) {
    world_ = best_world(job);
    world_begin_ns_ = static_cast<int64_t>(processes_[worlds_.at(*world_)]->header().begin.realtime_ns);
  }
}

/// Those of the chosen world that are known by now.
void SpoolSource::add_ranks(Job& job) {
  if (!world_) return;
  job.other_worlds = static_cast<int32_t>(worlds_.size()) - 1;
  for (size_t i = 0; i < processes_.size(); ++i) {
    SpoolProcess& p = *processes_[i];
    if (places_[i].world != world_) continue;
    job.world_size = std::max(job.world_size, places_[i].size);
    if (p.index == kNone) add_rank(job, p);
    if (job.mpi.empty()) job.mpi = p.fact("mpi");
  }
}

void SpoolSource::add_rank(Job& job, SpoolProcess& process) {
  const int32_t number = process.rank();
  if (!numbers_.insert(number).second) return;  // it became known after a child that inherited its announcement
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

bool SpoolSource::is_here(const SpoolProcess& process) const {
  return process.host() == host_ && process.boot_id() == boot_;
}

Life SpoolSource::life_of(const SpoolProcess& process, bool recorded_end) const {
  const FileHeader& h = process.header();
  const Life life = h.flags & kMpiAborted                                                             ? Life::kAborted
                    : h.flags & kMpiFinalized                                                         ? Life::kFinalized
                    : h.flags & kExited                                                               ? Life::kExited
                    : h.flags & (kMpiInitialized | kNcclEntered | kGlooEntered) || process.uses_gpu() ? Life::kRunning
                                                                                                      : Life::kStarting;
  const bool is_gone =
      !is_over(life) && (recorded_end || (is_here(process) && start_of_process(h.pid) != h.process_start));
  return is_gone ? Life::kGone : life;
}

void SpoolSource::read_lives(Job& job) {
  bool all_over = !job.ranks.empty();
  for (const auto& p : processes_) {
    if (p->index == kNone) continue;
    Rank& rank = job.ranks[p->index];
    rank.uses_mpi = (p->header().flags & kMpiEntered) != 0;
    rank.here = is_here(*p);
    rank.life = life_of(*p, job.recorded_end);
    all_over &= is_over(rank.life);
  }
  job.ended = all_over;
  if (!all_over) ended_ns_.reset();
  if (all_over && !ended_ns_) ended_ns_ = now_realtime_ns();
  job.may_go_on = all_over && job.recording && now_realtime_ns() - *ended_ns_ < kMayGoOnNs;
}

/// How much of each thread's log is read when a running job is joined. What some processes took for a few steps, and
/// half as much again, is enough where there are so many that the least would be more than all may be.
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
      join_ == Join::kWhole ? kWholeLog
                            : std::clamp(kJoinAllDeviceBytes / processes_.size(), kLeastJoinBytes, kJoinDeviceBytes);
  // Descriptions of other worlds would mix with those of the shown one: a restart may have the same key.
  // Headers name most ranks.
  choose_world(job);
  for (int pass = 0; pass < 2; ++pass) {  // once more for those that turn out to be ranks
    for (size_t i = 0; i < processes_.size(); ++i) {
      if (!unreadable_.contains(processes_[i]->path())) processes_[i]->read_devices();
      release(i);
    }
    for (size_t i = 0; i < processes_.size(); ++i) {
      const auto& p = processes_[i];
      if (unreadable_.contains(p->path()) || (pass == 1 && p->index == kNone)) continue;
      try {
        if (places_[i].world && places_[i].world != world_) {
          p->refresh();
        } else {
          p->read(job, join_bytes, device_bytes);
        }
      } catch (const Error& error) {
        unreadable_[p->path()] = error.what();  // cut off under us; what was read stays
      }
      release(i);
    }
    const size_t before = job.ranks.size();
    choose_world(job);
    add_ranks(job);
    if (job.ranks.size() == before) break;
  }
  numbering_.label(job);
}

void SpoolSource::poll(Job& job, double) {
  job.run = shown_;
  look_for_spools(job);
  read_job(job);
  if (processes_.empty()) {
    if (job.recorded_end)
      throw Error(fmt::format("{} has nothing to show", shown_),
                  unreadable_.empty() ? "the job has ended, and made no call that ddl records: see ddl doctor"
                                      : unreadable_.begin()->second,
                  ExitCode::kDataMissing);
    throw Error(fmt::format("{} has nothing to show yet", shown_),
                unreadable_.empty()
                    ? "no process of the job has made a call that ddl records yet: try again in a moment"
                    : unreadable_.begin()->second,
                ExitCode::kDataMissing);
  }
  read_spools(job);
  if (another_world_runs(job)) {
    processes_.clear();
    known_.clear();
    unreadable_.clear();
    start_afresh(job);
    look_for_spools(job);
    read_job(job);
    if (processes_.empty()) return;  // removed in this moment: the next look tells
    read_spools(job);
  }
  read_told_stalls(job);
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
