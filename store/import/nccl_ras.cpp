// An answer of NCCL's RAS about a job: of each communicator how many operations of each kind ranks launched, and who
// did not answer. `ncclras -f json` (NCCL 2.28.7 and later) tells all of that, its text (2.24 and later) as much as a
// person needs: nccl_ras_json.cpp, nccl_ras_text.cpp.
//
//   rank         a GPU of a process (host, pid, cuda_dev). Its number is that in the largest communicator that the
//                answer tells of; others follow behind
//   counts       ranks that launched more than the least of a communicator are taken to wait in the first
//                operation that the others lack: RAS does not say what completed. In a job that goes on, too,
//                counts differ in most moments
//   missing      ranks of a communicator that answered nowhere: dead, or unresponsive
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"
#include "store/import/nccl_ras.h"
#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostRasBytes = 128 << 20;
constexpr size_t kMostRasSaid = 4;  // ranks of which a loss says something

class RasFile {
 public:
  RasFile(ImportedRun& run, const fs::path& path) : run_(run), path_(path) {}

  void read(const BytesRead& progress) {
    InputFile file(path_, progress);
    std::string text;
    while (!file.at_end()) {
      if (text.size() >= kMostRasBytes)
        file.fail(text.size(), fmt::format("larger than {} MiB, the limit for an answer", kMostRasBytes >> 20));
      if (text.size() % 4096 == 0) file.mark();
      text += file.take();
    }
    const size_t begin = text.find_first_not_of(" \t\r\n");
    try {
      answer_ = begin != std::string::npos && text[begin] == '{' ? read_ras_json(text) : read_ras_text(text);
    } catch (const BadData& bad) {
      file.fail(bad.offset, bad.what);
    }
    tell_all();
  }

 private:
  void tell_all() {
    std::vector<RasCommunicator>& communicators = answer_.communicators;
    std::stable_sort(communicators.begin(), communicators.end(),
                     [](const auto& a, const auto& b) { return a.size > b.size; });
    for (const RasCommunicator& c : communicators)
      for (const RasRank& r : c.ranks) answered_.insert(r.gpu);
    number_ranks();
    std::map<int64_t, size_t> processes;
    for (const auto& [gpu, rank] : ranks_) {
      if (!answered_.contains(gpu)) continue;
      ImportedProcess process;
      process.file = path_.filename().string();
      process.file_bytes = file_bytes(path_);
      process.rank = rank;
      process.host = gpu.pid >= 0 ? gpu.host : "not told";
      process.world_size = next_rank_;
      if (gpu.pid >= 0) {
        process.pid = gpu.pid;
        process.facts.emplace_back("nccl_ras.gpu", fmt::to_string(gpu.device));
      }
      if (!answer_.version.empty()) process.facts.emplace_back("nccl_ras.nccl_version", answer_.version);
      processes[rank] = run_.add_process(std::move(process));
      run_.moment(processes[rank], 0);
    }
    for (const RasCommunicator& c : communicators) {
      tell(c, processes);
      tell_status(c);
    }
    tell_losses();
    for (const auto& [key, value] : answer_.facts) run_.fact("nccl_ras." + key, value);
    run_.flight_groups(numbers_);
  }

  static std::string text_of(const std::vector<std::string>& texts) {
    const std::vector<std::string> shown(texts.begin(),
                                         texts.begin() + static_cast<ptrdiff_t>(std::min(texts.size(), kMostRasSaid)));
    return fmt::format("{}{}", fmt::join(shown, ", "), texts.size() > shown.size() ? ", ..." : "");
  }

  void tell_losses() {
    if (!answer_.errors.empty())
      run_.losses().add(
          {}, "ras_errors", answer_.error_count,
          fmt::format("ranks of communicators that report an error of NCCL: {}", text_of(answer_.errors)));
    run_.losses().add({}, "ras_silent", silent_.size(),
                      fmt::format("ranks that do not answer RAS: {}", text_of(silent_)));
    run_.losses().add({}, "ras_status", states_.size(),
                      fmt::format("ranks of communicators that most others are not like: {}", text_of(states_)));
    for (const RasAnswer::Loss& loss : answer_.losses) run_.losses().add({}, loss.kind, loss.count, loss.note);
    if (answer_.gpus > next_rank_)
      run_.losses().add(
          {}, "ras_ranks", static_cast<uint64_t>(answer_.gpus - next_rank_),
          fmt::format("of {} GPUs of the job of which the text says nothing: ranks are those of communicator {}",
                      answer_.gpus, answer_.communicators.front().hash));
  }

  void number_ranks() {
    for (const RasCommunicator& c : answer_.communicators) {
      const bool first = &c == &answer_.communicators.front();
      if (first) next_rank_ = c.size;
      for (const auto* ranks : {&c.ranks, &c.missing})
        for (const RasRank& r : *ranks)
          ranks_.try_emplace(r.gpu, first ? r.number : next_rank_ + (ranks_.contains(r.gpu) ? 0 : numbered_++));
    }
    next_rank_ += numbered_;
    run_.losses().add(
        {}, "ras_ranks", static_cast<uint64_t>(numbered_),
        "ranks that the largest communicator does not have, or that cannot be told from its own: numbered behind");
  }

  /// Ranks whose status is another than that of most ranks of the communicator.
  void tell_status(const RasCommunicator& c) {
    std::map<std::string, size_t> ranks;
    for (const RasRank& r : c.ranks)
      if (!r.status.empty()) ++ranks[r.status];
    if (ranks.size() < 2) return;
    const auto most = std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
    for (const RasRank& r : c.ranks)
      if (!r.status.empty() && r.status != most)
        states_.push_back(fmt::format("rank {} of {} ({}, not {})", r.number, c.hash, r.status, most));
  }

  /// What ranks of a communicator launched unevenly, and those that wait for one that does not answer.
  void tell(const RasCommunicator& c, const std::map<int64_t, size_t>& processes) {
    std::vector<std::pair<int64_t, int64_t>> members;  // rank in it, rank
    bool silent = false;
    for (const RasRank& r : c.ranks) members.emplace_back(r.number, ranks_.at(r.gpu));
    for (const RasRank& r : c.missing) {
      if (answered_.contains(r.gpu)) continue;  // it answers, and knows nothing of this communicator
      members.emplace_back(r.number, ranks_.at(r.gpu));
      silent = true;
      if (silent_ranks_.insert(ranks_.at(r.gpu)).second) {
        silent_.push_back(fmt::format(
            "{}{}", ranks_.at(r.gpu),
            r.gpu.pid < 0 ? "" : fmt::format(" (process {} on {}, GPU {})", r.gpu.pid, r.gpu.host, r.gpu.device)));
      }
    }
    std::sort(members.begin(), members.end());
    std::vector<int64_t> ranks;
    for (const auto& [number, rank] : members) ranks.push_back(rank);

    std::map<std::string, std::pair<int64_t, int64_t>> range;  // least and most launched, by operation
    std::map<std::string, size_t> told;
    for (const RasRank& r : c.ranks) {
      for (const auto& [op, count] : r.launched) {
        auto& [least, most] = range.try_emplace(op, count, count).first->second;
        least = std::min(least, count);
        most = std::max(most, count);
        ++told[op];
      }
    }
    std::string largest;
    for (const auto& [op, counts] : range)
      if (largest.empty() || counts.second > range[largest].second) largest = op;
    for (const auto& [op, counts] : range) {
      const auto& [least, most] = counts;
      if (told[op] != c.ranks.size()) continue;  // some ranks do not say
      const bool uneven = least != most;
      if (!uneven && !(silent && op == largest && most > 0)) continue;
      const size_t group = add_group(c, op, ranks);
      for (const RasRank& r : c.ranks) {
        FlightEntry e;
        e.group = group;
        e.record = uneven ? 1 : 0;
        e.op = op;
        const int64_t count = r.launched.at(op);
        e.is_open = !uneven || count > least;
        e.seq = uneven && e.is_open ? least + 1 : count;
        e.state = e.is_open ? "launched" : "completed";
        run_.flight(processes.at(ranks_.at(r.gpu)), e);
      }
    }
    if (c.counts_are_equal && silent) {
      const size_t group = add_group(c, "a collective", ranks);
      for (const RasRank& r : c.ranks) {
        FlightEntry e;
        e.group = group;
        e.op = "a collective";
        e.is_open = true;
        e.state = "launched";
        run_.flight(processes.at(ranks_.at(r.gpu)), e);
      }
    }
  }

  size_t add_group(const RasCommunicator& c, const std::string& op, const std::vector<int64_t>& ranks) {
    numbers_.push_back(run_.communicator(c.hash + "/" + op, "communicator " + c.hash, CommunicatorOf::kNccl,
                                         static_cast<int64_t>(ranks.size()), ranks));
    return numbers_.size() - 1;
  }

  ImportedRun& run_;
  fs::path path_;
  RasAnswer answer_;
  std::map<RasGpu, int64_t> ranks_;  // in the job
  std::set<RasGpu> answered_;
  int64_t next_rank_ = 0, numbered_ = 0;
  std::set<int64_t> silent_ranks_;
  std::vector<std::string> silent_, states_;
  std::vector<uint32_t> numbers_;
};

}  // namespace

void read_nccl_ras(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  if (files.size() > 1) {
    throw Error(fmt::format("{} files given, but one NCCL RAS answer covers all ranks", files.size()),
                "import one at a time, and compare the runs with: ddl diff", ExitCode::kUsage);
  }
  RasFile(run, files.front()).read(read);
}

}  // namespace ddl::store
