// What `ncclras -f json` says of a job: of each communicator how many operations of each kind each rank launched, and who did not answer. Read
// as src/ras/client_support.cc of NCCL writes it, since 2.28.7; 2.28.9 leaves out a comma.
//
//   rank         a GPU of a process (host, pid, cuda_dev). Its number is that in the largest communicator; others follow behind
//   counts       ranks that launched more than the least of a communicator are taken to wait in the first operation that the others lack: RAS does
//                not say what completed. In a job that goes on, too, counts differ in most moments
//   missing      ranks of a communicator that answered nowhere: dead, or unresponsive
//   text         the answer without -f json names no rank but a few outliers, and of most communicators not whose they are: refused, with
//                the way to JSON
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/error.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"
#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;
using Id = PlainData::Id;

constexpr uint64_t kMostRasBytes = 128 << 20;
constexpr int64_t kMostLaunched = int64_t{1} << 53;

struct RasGpu {
  std::string host;
  int64_t pid, device;
  auto operator<=>(const RasGpu&) const = default;
};

struct RasRank {
  int64_t number;
  RasGpu gpu;
  std::map<std::string, int64_t> launched;  // by operation
};

struct RasCommunicator {
  std::string hash;
  int64_t size = 0;
  std::vector<RasRank> ranks, missing;
};

class RasFile {
 public:
  RasFile(ImportedRun& run, const fs::path& path) : run_(run), path_(path) {}

  void read(const BytesRead& progress) {
    InputFile file(path_, progress);
    std::string text;
    while (!file.at_end()) {
      if (text.size() >= kMostRasBytes) file.fail(text.size(), fmt::format("an answer is not larger than {} MiB", kMostRasBytes >> 20));
      if (text.size() % 4096 == 0) file.mark();
      text += file.take();
    }
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos || text[begin] != '{') {
      throw Error(fmt::format("{}, byte 0: not JSON", path_.string()), "ask with: ncclras -f json (NCCL 2.28.7 and later)",
                  ExitCode::kDataMissing);
    }
    try {
      document(read_json_document(text, data_, true));
    } catch (const BadData& bad) {
      file.fail(bad.offset, bad.what);
    } catch (const BadRecord& bad) {
      file.fail(data_.offset(here_), bad.what);
    }
  }

 private:
  std::string_view word(Id dict, std::string_view key) const {
    const auto id = data_.find(dict, key);
    return id ? data_.text(*id) : std::string_view();
  }
  int64_t number(Id dict, std::string_view key, int64_t least, int64_t most) const {
    const auto id = data_.find(dict, key);
    const auto value = id ? data_.integer(*id) : std::nullopt;
    if (!value || *value < least || *value > most) throw BadRecord{fmt::format("{} is missing or out of range", key)};
    return *value;
  }

  void document(Id root) {
    here_ = root;
    const auto communicators = data_.find(root, "communicators");
    if (!communicators || !data_.is_list(*communicators)) throw BadRecord{"no answer of NCCL RAS: it has no communicators"};
    for (const Id id : data_.members(*communicators)) communicators_.push_back(communicator(id));
    std::stable_sort(communicators_.begin(), communicators_.end(), [](const auto& a, const auto& b) { return a.size > b.size; });
    number_ranks();
    std::map<int64_t, size_t> processes;
    for (const auto& [gpu, rank] : ranks_) {
      if (!answered_.contains(gpu)) continue;
      ImportedProcess process;
      process.file = path_.filename().string();
      process.file_bytes = file_bytes(path_);
      process.rank = rank;
      process.host = gpu.host;
      process.pid = gpu.pid;
      process.world_size = next_rank_;
      if (!word(root, "nccl_version").empty()) process.facts.emplace_back("nccl_ras.nccl_version", word(root, "nccl_version"));
      processes[rank] = run_.add_process(std::move(process));
      run_.moment(processes[rank], 0);
    }
    for (const RasCommunicator& c : communicators_) tell(c, processes);
    if (!errors_.empty()) {
      run_.losses().add(
          {}, "ras_errors", errors_.size(),
          fmt::format("ranks of communicators that report an error of NCCL: {}{}", errors_.front(), errors_.size() > 1 ? ", ..." : ""));
    }
    run_.flight_groups(numbers_);
  }

  RasCommunicator communicator(Id id) {
    here_ = id;
    RasCommunicator c;
    c.hash = word(id, "hash");
    c.size = number(id, "size", 1, kMaxRanks);
    const auto read = [&](const char* key, std::vector<RasRank>& ranks, bool answers) {
      const auto list = data_.find(id, key);
      if (!list || !data_.is_list(*list)) return;
      std::set<int64_t> seen;
      for (const Id member : data_.members(*list)) {
        here_ = member;
        ranks.push_back(rank(member, c, answers));
        if (!seen.insert(ranks.back().number).second) throw BadRecord{fmt::format("rank {} is there twice", ranks.back().number)};
        if (answers) answered_.insert(ranks.back().gpu);
      }
    };
    read("ranks", c.ranks, true);
    read("missing_ranks", c.missing, false);
    return c;
  }

  RasRank rank(Id id, const RasCommunicator& c, bool answers) {
    RasRank r;
    r.number = number(id, "rank", 0, c.size - 1);
    r.gpu = {std::string(word(id, "host")), number(id, "pid", -1, INT32_MAX), number(id, "cuda_dev", -1, 1 << 20)};
    if (r.gpu.pid < 0) r.gpu = {"unknown in " + c.hash, -1, r.number};
    if (!answers) return r;
    if (const auto counts = data_.find(id, "collective_counts"); counts && data_.is_dict(*counts)) {
      const std::vector<Id>& members = data_.members(*counts);
      for (size_t i = 1; i < members.size(); i += 2) {
        const auto count = data_.integer(members[i]);
        if (!count || *count < 0 || *count > kMostLaunched) throw BadRecord{"a count of operations is out of range"};
        r.launched[std::string(data_.text(members[i - 1]))] = *count;
      }
    }
    constexpr int64_t kInProgress = 7;  // ncclInProgress
    if (const auto status = data_.find(id, "status")) {
      for (const char* key : {"init_state", "async_error"}) {
        const auto value = data_.find(*status, key);
        const int64_t code = value ? data_.integer(*value).value_or(0) : 0;
        if (code != 0 && code != kInProgress) errors_.push_back(fmt::format("rank {} of {} ({} {})", r.number, c.hash, key, code));
      }
    }
    return r;
  }

  void number_ranks() {
    for (const RasCommunicator& c : communicators_) {
      const bool first = &c == &communicators_.front();
      if (first) next_rank_ = c.size;
      for (const auto* ranks : {&c.ranks, &c.missing})
        for (const RasRank& r : *ranks)
          ranks_.try_emplace(r.gpu, first ? r.number : next_rank_ + (ranks_.contains(r.gpu) ? 0 : numbered_++));
    }
    next_rank_ += numbered_;
    run_.losses().add({}, "ras_ranks", static_cast<uint64_t>(numbered_),
                      "ranks that the largest communicator does not have: numbered behind its own");
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
      const size_t group = numbers_.size();
      numbers_.push_back(
          run_.communicator(c.hash + "/" + op, "communicator " + c.hash, CommunicatorOf::kNccl, static_cast<int64_t>(ranks.size()), ranks));
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
  }

  ImportedRun& run_;
  fs::path path_;
  PlainData data_;
  Id here_ = 0;
  std::vector<RasCommunicator> communicators_;
  std::map<RasGpu, int64_t> ranks_;  // in the job
  std::set<RasGpu> answered_;
  int64_t next_rank_ = 0, numbered_ = 0;
  std::vector<std::string> errors_;
  std::vector<uint32_t> numbers_;
};

}  // namespace

void read_nccl_ras(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  if (files.size() > 1) {
    throw Error(fmt::format("{} files: one answer of NCCL RAS speaks for all ranks", files.size()),
                "import one at a time, and compare with: ddl diff", ExitCode::kUsage);
  }
  RasFile(run, files.front()).read(read);
}

}  // namespace ddl::store
