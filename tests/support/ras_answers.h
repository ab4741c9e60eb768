// A job as NCCL's RAS sees it, and what it answers about that job: as JSON, and as text of several versions.
// Written from the format.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddl::test {

enum class RasState { kInit = 2, kRunning = 4, kFinalize = 8, kAbort = 16, kNoMember = 1, kSilent = 0 };

struct RasMember {
  /// in the job: 8 processes of one GPU on each node, unless gpus_per_process says otherwise
  int64_t gpu = 0;
  std::map<std::string, int64_t> launched;  ///< by operation
  RasState state = RasState::kRunning;
  bool async_error = false;
};

struct RasJobCommunicator {
  uint64_t hash = 0;
  std::vector<RasMember> members;
};

struct RasJob {
  int64_t gpus = 8, per_node = 8;
  std::vector<RasJobCommunicator> communicators;

  std::string host(int64_t gpu) const {
    return fmt::format("10.0.{}.{}", gpu / per_node / 250, gpu / per_node % 250 + 1);
  }
  int64_t pid(int64_t gpu) const { return 1000 + gpu; }

  RasJobCommunicator& add(uint64_t hash, const std::vector<int64_t>& members, const std::string& op, int64_t launched) {
    communicators.push_back({hash, {}});
    for (const int64_t gpu : members) communicators.back().members.push_back({gpu, {{"Broadcast", 2}, {op, launched}}});
    return communicators.back();
  }
  bool is_silent(int64_t gpu) const {
    for (const RasJobCommunicator& c : communicators)
      for (const RasMember& m : c.members)
        if (m.gpu == gpu && m.state == RasState::kSilent) return true;
    return false;
  }
};

inline std::string ras_json(const RasJob& job) {
  std::string text = "{\n  \"nccl_version\": \"2.30.7\",\n  \"communicators\": [\n";
  for (const RasJobCommunicator& c : job.communicators) {
    std::string there, missing;
    for (size_t r = 0; r < c.members.size(); ++r) {
      const RasMember& m = c.members[r];
      const std::string who =
          fmt::format("{{\"rank\": {}, \"host\": \"{}\", \"pid\": {}, \"cuda_dev\": {}, \"status\": ", r,
                      job.host(m.gpu), job.pid(m.gpu), m.gpu % job.per_node);
      if (m.state == RasState::kSilent || m.state == RasState::kNoMember) {
        missing += fmt::format("{}{}{{\"unresponsive\": {}, \"considered_dead\": false}}}}",
                               missing.empty() ? "" : ",\n", who, m.state == RasState::kSilent);
        continue;
      }
      std::string counts;
      for (const auto& [op, count] : m.launched)
        counts += fmt::format("{}\"{}\": {}", counts.empty() ? "" : ", ", op, count);
      there += fmt::format(
          "{}{}{{\"init_state\": {}, \"async_error\": {}, \"finalize_called\": {}, \"destroy_flag\": false, \"abort_flag\": {}}}, "
          "\"collective_counts\": {{{}}}}}",
          there.empty() ? "" : ",\n", who, m.state == RasState::kInit ? 7 : 0, m.async_error ? 6 : 0,
          m.state == RasState::kFinalize, m.state == RasState::kAbort, counts);
    }
    text += fmt::format("{}{{\"hash\": \"0x{:x}\", \"size\": {}, \"ranks\": [\n{}\n], \"missing_ranks\": [\n{}\n]}}",
                        &c == &job.communicators.front() ? "" : ",\n", c.hash, c.members.size(), there, missing);
  }
  return text + "\n]}\n";
}

/// What `ncclras` prints. `minor`: 24 to 30 of 2.x; 24 and 25 count all operations of a communicator together.
class RasTextWriter {
 public:
  RasTextWriter(const RasJob& job, int minor, bool verbose) : job_(job), minor_(minor), verbose_(verbose) {}

  std::string text() {
    out_ = fmt::format(
        "NCCL version 2.{}.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\n", minor_);
    const int64_t nodes = (job_.gpus + job_.per_node - 1) / job_.per_node;
    out_ += fmt::format(
        "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n"
        "{:7}  {:9}  {:11}  {:9}  {:7}\n",
        nodes, std::min(job_.per_node, job_.gpus), 1, job_.gpus, job_.gpus);
    out_ += fmt::format("\nCommunicators... ({:.{}f}s)\n=============\n\n", 0.0123, minor_ < 28 ? 2 : 3);
    table();
    out_ += "\nErrors\n======\n\n";
    silent_processes();
    each([&](const RasJobCommunicator& c, const std::string& name) { errors(c, name); });
    out_ += "Warnings\n========\n\n";
    if (silent_ > 0)
      out_ += fmt::format("TIMEOUT\n  Encountered {} communication timeout{} while gathering communicator data\n\n",
                          silent_, silent_ > 1 ? "s" : "");
    each([&](const RasJobCommunicator& c, const std::string& name) { warnings(c, name); });
    return out_;
  }

 private:
  struct Kind {
    int64_t size, nodes;
    int status, errors;
    auto operator<=>(const Kind&) const = default;
  };
  static int top_bit(int bits) {
    int top = 0;
    while (bits >>= 1) ++top;
    return top;
  }
  static int64_t count_if(const RasJobCommunicator& c, auto&& is) {
    return std::count_if(c.members.begin(), c.members.end(), is);
  }
  static bool is_there(const RasMember& m) { return static_cast<int>(m.state) > 1; }
  static int states(const RasJobCommunicator& c) {
    int bits = 0;
    for (const RasMember& m : c.members) bits |= static_cast<int>(m.state);
    return bits;
  }
  /// Launched by operation; by versions before 2.26 of all kinds together.
  std::map<std::string, int64_t> counts(const RasMember& m) const {
    if (minor_ >= 26) return m.launched;
    int64_t sum = 0;
    for (const auto& [op, count] : m.launched) sum += count;
    return {{"collective", sum}};
  }
  std::vector<std::string> uneven(const RasJobCommunicator& c) const {
    std::vector<std::string> ops;
    std::map<std::string, int64_t> first;
    for (const RasMember& m : c.members) {
      if (!is_there(m)) continue;
      for (const auto& [op, count] : counts(m))
        if (first.try_emplace(op, count).first->second != count && std::find(ops.begin(), ops.end(), op) == ops.end())
          ops.push_back(op);
    }
    return ops;
  }
  Kind kind(const RasJobCommunicator& c) const {
    Kind k{static_cast<int64_t>(c.members.size()), 0, top_bit(states(c)), 0};
    std::map<std::string, int> hosts;
    for (const RasMember& m : c.members)
      if (is_there(m)) hosts[job_.host(m.gpu)] = 1;
    k.nodes = static_cast<int64_t>(hosts.size());
    const int bits = states(c);
    if (!uneven(c).empty() || (bits & (bits - 1)) != 0) k.errors |= 1;
    if (count_if(c, [](const RasMember& m) { return m.async_error; }) > 0) k.errors |= 2;
    if (count_if(c, [](const RasMember& m) { return m.state == RasState::kSilent; }) > 0) k.errors |= 4;
    return k;
  }

  void table() {
    std::map<Kind, std::vector<const RasJobCommunicator*>, std::greater<>> groups;
    for (const RasJobCommunicator& c : job_.communicators) groups[kind(c)].push_back(&c);
    out_ +=
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n";
    static const char* const kStatus[] = {"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"};
    static const char* const kErrors[] = {"OK",
                                          "MISMATCH",
                                          "ERROR",
                                          "ERROR,MISMATCH",
                                          "INCOMPLETE",
                                          "INCOMPLETE,MISMATCH",
                                          "INCOMPLETE,ERROR",
                                          "INCOMPLETE,ERROR,MISMATCH"};
    for (const auto& [k, members] : groups) {
      int64_t there = 0;
      for (const RasJobCommunicator* c : members) there += count_if(*c, is_there);
      out_ += fmt::format("{:5}  {:8}  {:8}  {:>8}  {:8}  {:8}  {:>8}  {:>6}\n", groups_.size(), members.size(),
                          k.nodes, k.size > k.nodes ? "1-4" : "1", k.size, there,
                          minor_ < 26 && k.status == 0 ? "UNKNOWN" : kStatus[k.status], kErrors[k.errors]);
      groups_.push_back(members);
    }
  }
  void each(auto&& tell) {
    for (size_t g = 0; g < groups_.size(); ++g)
      for (size_t i = 0; i < groups_[g].size(); ++i)
        tell(*groups_[g][i], fmt::format("#{}-{} ({:016x})", g, i, groups_[g][i]->hash));
  }

  bool is_outlier(int64_t count, int64_t of = -1) const {
    if (count == 1) return true;
    if (verbose_) return of == -1 || count * 2 < of;
    return count <= 10 && (of == -1 || count * 4 <= of);
  }
  std::string gpu_of(const RasMember& m) const {
    return fmt::format("GPU {} managed by process {} on node {}", m.gpu % job_.per_node, job_.pid(m.gpu),
                       job_.host(m.gpu));
  }
  static const char* s(int64_t count) { return count > 1 ? "s" : ""; }

  void silent_processes() {
    std::vector<int64_t> silent;
    for (int64_t gpu = 0; gpu < job_.gpus; ++gpu)
      if (job_.is_silent(gpu)) silent.push_back(gpu);
    silent_ = static_cast<int64_t>(silent.size());
    if (silent.empty()) return;
    out_ += fmt::format("INCOMPLETE\n  Missing communicator data from {} job process{}\n", silent_,
                        silent_ > 1 ? "es" : "");
    if (is_outlier(silent_))
      for (const int64_t gpu : silent)
        out_ += fmt::format("  Process {} on node {} managing GPU {}\n", job_.pid(gpu), job_.host(gpu),
                            gpu % job_.per_node);
    out_ += "\n";
  }

  std::string numbers(const RasJobCommunicator& c) const {
    std::string list;
    for (size_t r = 0; r < c.members.size(); ++r)
      if (!is_there(c.members[r])) list += fmt::format("{}{}", list.empty() ? "" : ",", r);
    return list;
  }

  void errors(const RasJobCommunicator& c, const std::string& name) {
    const Kind k = kind(c);
    if (k.errors & 4) {
      const int64_t missing = count_if(
          c, [&](const RasMember& m) { return m.state == RasState::kSilent || (minor_ < 26 && !is_there(m)); });
      out_ += fmt::format("{} INCOMPLETE\n  Missing communicator data from {} rank{}\n", name, missing, s(missing));
      if (is_outlier(missing)) {
        if (minor_ < 26) out_ += fmt::format("  The missing rank{}: {}\n", s(missing), numbers(c));
        for (size_t r = 0; r < c.members.size() && minor_ >= 26; ++r)
          if (c.members[r].state == RasState::kSilent)
            out_ += fmt::format("  Rank {} -- {}\n", r, gpu_of(c.members[r]));
      }
      out_ += "\n";
    }
    if (k.errors & 2) {
      const int64_t errors = count_if(c, [](const RasMember& m) { return m.async_error; });
      out_ += fmt::format("{} ERROR\n  Asynchronous error{} on {} rank{}\n", name, s(errors), errors, s(errors));
      if (errors > 1) out_ += fmt::format("  {} ranks reported Remote process error\n", errors);
      for (size_t r = 0; r < c.members.size() && is_outlier(errors); ++r)
        if (c.members[r].async_error)
          out_ += fmt::format("  Rank {} {}-- {}\n", r, errors > 1 ? "" : "reported Remote process error ",
                              gpu_of(c.members[r]));
      out_ += "\n";
    }
  }

  /// The most frequent first. `words`: of a class, "have status RUNNING" for several ranks.
  void classes(const RasJobCommunicator& c, const std::map<int64_t, std::vector<size_t>>& by_value, auto&& words,
               bool numbers_only = false) {
    std::vector<std::pair<int64_t, std::vector<size_t>>> sorted(by_value.begin(), by_value.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : a.first > b.first;
    });
    for (const auto& [value, ranks] : sorted) {
      const bool several = ranks.size() > 1;
      if (several) out_ += fmt::format("  {} ranks {}\n", ranks.size(), words(value, true));
      if (!is_outlier(static_cast<int64_t>(ranks.size()), static_cast<int64_t>(c.members.size()))) continue;
      if (numbers_only && value == static_cast<int>(RasState::kNoMember)) {
        out_ += several ? fmt::format("  The unknown ranks: {}\n", numbers(c))
                        : fmt::format("  Rank {} {}\n", numbers(c), words(value, false));
        continue;
      }
      for (const size_t r : ranks)
        out_ += fmt::format("  Rank {} {}-- {}\n", r, several ? "" : words(value, false) + " ", gpu_of(c.members[r]));
    }
  }

  void warnings(const RasJobCommunicator& c, const std::string& name) {
    if ((kind(c).errors & 1) == 0) return;
    out_ += name + " MISMATCH\n";
    const int bits = states(c);
    if ((bits & (bits - 1)) != 0) {
      out_ += "  Communicator ranks have different status\n";
      std::map<int64_t, std::vector<size_t>> by_state;
      for (size_t r = 0; r < c.members.size(); ++r)
        if (c.members[r].state != RasState::kSilent) by_state[static_cast<int>(c.members[r].state)].push_back(r);
      classes(
          c, by_state,
          [&](int64_t state, bool several) {
            static const char* const kNames[] = {"NOCOMM", "INIT", "RUNNING", "FINALIZE", "ABORT"};
            return fmt::format("{} status {}", several ? "have" : "has",
                               minor_ < 26 && state == 1 ? "UNKNOWN" : kNames[top_bit(static_cast<int>(state))]);
          },
          minor_ < 26);
    }
    for (const std::string& op : uneven(c)) {
      out_ += fmt::format("  Communicator ranks have different {} operation counts\n", op);
      std::map<int64_t, std::vector<size_t>> by_count;
      for (size_t r = 0; r < c.members.size(); ++r)
        if (is_there(c.members[r])) by_count[counts(c.members[r]).at(op)].push_back(r);
      classes(c, by_count, [&](int64_t count, bool several) {
        const char* have = several ? "have" : "has";
        return count > 0 || minor_ < 26 ? fmt::format("{} launched up to operation {}", have, count)
                                        : fmt::format("{} not launched any operations", have);
      });
      if (minor_ >= 26) out_ += "\n";
    }
    if (minor_ < 26) out_ += "\n";
  }

  const RasJob& job_;
  int minor_;
  bool verbose_;
  std::string out_;
  std::vector<std::vector<const RasJobCommunicator*>> groups_;
  int64_t silent_ = 0;
};

inline std::string ras_text(const RasJob& job, int minor = 30, bool verbose = true) {
  return RasTextWriter(job, minor, verbose).text();
}

}  // namespace ddl::test
