// The answer of `ncclras`, or of `echo verbose status | nc localhost 28028`, as src/ras/client_support.cc of NCCL writes it since 2.24.
//
//   table        of groups of communicators that are alike: how many, of how many ranks, what is wrong with
//                them. No hash, no rank
//   sections     one for each communicator with an error or a warning: "#GROUP-NUMBER (HASH) INCOMPLETE". Ranks of
//                which most others differ are named, with GPU, process and node (2.24 and 2.25: of missing ones numbers
//                only), all ranks else by their number
//                with GPU, process and node (2.24 and 2.25: of missing ones numbers only), all ranks else by their
//                number
//   who else     ranks of a communicator are 0 to size - 1: those that no line names are those of the one line without
//                names. Of several such lines it is not known who is meant: if the fewest operations are among them,
//                nothing is told of that kind of operation, and a loss says so
//                is not known who is meant: if the fewest operations are among them, nothing is told of that kind of
//                operation, and a loss says so
//   counts       only those in which ranks differ are printed. Of all others it is known that they are equal (2.24 and
//                2.25: all kinds together)
//   else         a line that is none of these is counted. What contradicts itself is left out, and counted
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/number.h"
#include "store/import/imported_run.h"
#include "store/import/nccl_ras.h"
#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

constexpr int64_t kMostRasRanks = 1 << 18;  // of all communicators with a section together
constexpr const char* kAnyCollective = "collective";
constexpr const char* kAskMore = "ask with ncclras -v, or better -f json";

/// Takes a line apart from the left.
class RasLine {
 public:
  explicit RasLine(std::string_view text) : rest_(text) {}
  bool word(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  /// "s" of a plural, or nothing.
  bool words(std::string_view one, std::string_view several) { return word(several) || word(one); }
  std::optional<int64_t> number() { return rest_.starts_with('-') ? std::nullopt : take_number<int64_t>(rest_); }
  std::string_view until(std::string_view end) {
    const std::string_view taken = rest_.substr(0, rest_.find(end));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

/// Ranks that are alike: so many, named or not.
struct RasClass {
  int64_t count = 0, value = 0;
  std::string status;
  std::vector<int64_t> named;
};

struct RasSection {
  std::string hash;
  int64_t size = 0;
  int64_t missing = 0;
  std::vector<int64_t> missing_named;
  std::vector<RasClass> states;
  std::map<std::string, std::vector<RasClass>> counts;  // by operation
  std::map<int64_t, RasGpu> gpus;                       // by rank
};

struct RasGroup {
  int64_t communicators = 0, size = 0;
  std::string status, errors;
};

class RasText {
 public:
  explicit RasText(std::string_view text) : text_(text) {}

  RasAnswer read() {
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = std::min(text_.find('\n', begin), text_.size());
      std::string_view line = text_.substr(begin, end - begin);
      const size_t first = line.find_first_not_of(" \t\r");
      here_ = begin;
      if (first == std::string_view::npos) {
        in_table_ = false;
      } else {
        line.remove_prefix(first);
        line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
        take(line);
      }
      begin = end + 1;
    }
    here_ = 0;
    if (!is_answer_) fail("neither JSON nor text of NCCL's RAS (no table of communicators)");
    finish();
    return std::move(answer_);
  }

 private:
  enum class Topic { kNone, kMissing, kStatus, kCounts, kErrors };

  [[noreturn]] void fail(const std::string& what) const { throw BadData{here_, what}; }

  void take(std::string_view line) {
    if (heading(line) || (in_table_ && group(line)) || section(line) || of_job(line)) return;
    if (section_ != nullptr && of_section(line)) return;
    if (in_summary_ && totals(line)) return;
    if (!is_answer_ && ++before_ <= 64) return;  // what a shell or the protocol says before it
    if (++unread_ == 1) first_unread_ = std::string(line.substr(0, 80));
  }

  /// What is the same in each answer, and the words around the tables.
  bool heading(std::string_view line) {
    RasLine l(line);
    if (l.word("NCCL version ")) {
      answer_.version = l.until(" ");
      return true;
    }
    if (line.starts_with("Job summary") || line.starts_with("Communicators...")) {
      in_summary_ = line.front() == 'J';
      return is_answer_ = true;
    }
    if (line.starts_with("Group ") && line.find(" Comms ") != std::string_view::npos) {
      in_table_ = is_answer_ = has_table_ = true;
      return true;
    }
    if (line == "No communicator data collected!") return has_table_ = is_answer_ = true;
    if (line.starts_with("Nodes ") || line.starts_with("Processes ") || line.starts_with("per node") ||
        line == "per process")
      return true;
    if (line.starts_with("(total)")) return totals_follow_ = true;
    if (line == "Errors" || line == "Warnings") {
      section_ = nullptr;
      return true;
    }
    return line.starts_with("# ") || line.find_first_not_of('=') == std::string_view::npos ||
           line.starts_with("CUDA runtime version ") || line == "The outlier node:" || line == "The outlier nodes:" ||
           line.starts_with("Node ");
  }

  /// Nodes, ..., processes, GPUs. Rows that are no totals are not of interest.
  bool totals(std::string_view line) {
    std::vector<int64_t> numbers;
    for (RasLine l(line); !l.at_end(); l.word(" ")) {
      if (l.word(" ")) continue;
      const auto number = l.number();
      if (!number) return false;
      numbers.push_back(*number);
    }
    if (!std::exchange(totals_follow_, false)) return true;
    if (numbers.size() != 3 && numbers.size() != 5) fail("the totals of the job are not three or five numbers");
    const size_t last = numbers.size() - 1;
    answer_.gpus = numbers[last];
    if (answer_.gpus > kMaxRanks) fail(fmt::format("the job's {} GPUs are out of range", answer_.gpus));
    answer_.facts = {{"nodes", fmt::to_string(numbers[0])},
                     {"processes", fmt::to_string(numbers[last - 1])},
                     {"gpus", fmt::to_string(numbers[last])}};
    return true;
  }

  /// "    0         8         4       1-2         4        32   RUNNING      OK"
  bool group(std::string_view line) {
    std::vector<std::string_view> words;
    for (size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
      const size_t end = std::min(line.find_first_of(" \t", at), line.size());
      words.push_back(line.substr(at, end - at));
      at = end;
    }
    const auto number = [&](size_t i) {
      RasLine l(words[i]);
      const auto value = l.number();
      if (!value || !l.at_end() || *value > kMaxRanks)
        fail(fmt::format("column {} of the table of communicators is not a number", i + 1));
      return *value;
    };
    if (words.size() != 8) fail("a row of the table of communicators does not have 8 columns");
    if (number(0) != static_cast<int64_t>(groups_.size()))
      fail("the groups of communicators are not numbered 0, 1, ...");
    if (groups_.size() == kMostCommunicators)
      fail(fmt::format("more than {} groups of communicators", kMostCommunicators));
    groups_.push_back({number(1), number(4), std::string(words[6]), std::string(words[7])});
    return true;
  }

  /// "#0-3 (27a079b828ff1a75) MISMATCH"
  bool section(std::string_view line) {
    RasLine l(line);
    if (!l.word("#")) return false;
    const auto group = l.number();
    const auto number = group && l.word("-") ? l.number() : std::nullopt;
    if (!number || !l.word(" (")) fail("expected a communicator, such as #0-0 (hash)");
    const std::string_view hash = l.until(")");
    if (hash.empty() || hash.size() > 16 || hash.find_first_not_of("0123456789abcdef") != std::string_view::npos ||
        !l.word(") ") || l.at_end()) {
      fail("invalid communicator hash");
    }
    if (*group >= static_cast<int64_t>(groups_.size()) || *number >= groups_[static_cast<size_t>(*group)].communicators)
      fail(fmt::format("communicator #{}-{} is not in the table", *group, *number));
    RasSection& s = sections_.try_emplace({*group, *number}).first->second;
    const size_t digit = std::min(hash.find_first_not_of('0'), hash.size() - 1);
    const std::string name = fmt::format("0x{}", hash.substr(digit));
    if (!s.hash.empty() && s.hash != name) fail(fmt::format("communicator #{}-{} has two hashes", *group, *number));
    s.hash = name;
    s.size = groups_[static_cast<size_t>(*group)].size;
    section_ = &s;
    topic_ = Topic::kNone;
    classes_ = nullptr;
    return true;
  }

  /// Processes that do not answer at all: their ranks are in the sections of their communicators.
  bool of_job(std::string_view line) {
    if (line == "INCOMPLETE" || line == "DEAD" || line == "TIMEOUT") {
      section_ = nullptr;
      return true;
    }
    if (section_ != nullptr) return false;
    RasLine l(line);
    if (l.word("Missing communicator data from ") && l.number() && l.words(" job process", " job processes"))
      return true;
    if (RasLine dead(line);
        dead.number() && dead.words(" job process is", " job processes are") && dead.word(" considered dead"))
      return true;
    if (RasLine process(line); process.word("Process ")) {
      const auto pid = process.number();
      if (!pid || !process.word(" on node ")) fail("a process without number and node");
      const std::string_view node = process.until(" managing ");
      if (silent_processes_.size() < 4) silent_processes_.push_back(fmt::format("process {} on {}", *pid, node));
      ++silent_count_;
      return true;
    }
    if (line.starts_with("[could not find information on ")) return true;
    if (RasLine timeouts(line); timeouts.word("Encountered ")) {
      const auto count = timeouts.number();
      if (!count || !timeouts.word(" communication timeout")) fail("a number of timeouts is missing");
      answer_.losses.push_back(
          {"ras_timeouts", static_cast<uint64_t>(*count), "timeouts while RAS gathered its answer: it may lack ranks"});
      return true;
    }
    return false;
  }

  bool of_section(std::string_view line) {
    if (line.starts_with("Rank ")) {
      rank(RasLine(line));
      return true;
    }
    if (RasLine l(line); l.word("Missing communicator data from ")) {
      section_->missing = count(l);
      if (!l.words(" rank", " ranks") || !l.at_end()) return false;
      topic_ = Topic::kMissing;
      return true;
    }
    if (RasLine l(line); l.words("The missing rank: ", "The missing ranks: "))
      return numbers(l, section_->missing_named);
    if (RasLine l(line); l.word("The unknown ranks: ")) {
      if (topic_ != Topic::kStatus || classes_ == nullptr || classes_->empty())
        fail("unknown ranks without a line that introduces them");
      return numbers(l, classes_->back().named);
    }
    if (RasLine l(line); l.word("Communicator ranks have different ")) {
      if (l.rest() == "status") {
        topic_ = Topic::kStatus;
        classes_ = &section_->states;
        return true;
      }
      const std::string op(l.until(" operation counts"));
      if (op.empty() || op.size() > 64 || !l.word(" operation counts") || !l.at_end()) return false;
      topic_ = Topic::kCounts;
      classes_ = &section_->counts[op];
      if (!classes_->empty()) fail(fmt::format("operation {} occurs twice", op));
      return true;
    }
    RasLine errors(line);
    if (errors.words("Initialization error", "Initialization errors") ||
        errors.words("Asynchronous error", "Asynchronous errors")) {
      if (!errors.word(" on ")) return false;
      answer_.error_count += static_cast<uint64_t>(count(errors));
      topic_ = Topic::kErrors;
      error_.clear();
      return true;
    }
    return several(RasLine(line));
  }

  int64_t count(RasLine& l) const {
    const auto number = l.number();
    if (!number || *number > kMaxRanks) fail("a number of ranks is missing or out of range");
    return *number;
  }

  /// "26 ranks have launched up to operation 6650"
  bool several(RasLine l) {
    RasClass c;
    const auto number = l.number();
    if (!number || !l.word(" ranks ")) return false;
    if (*number > kMaxRanks) fail("a number of ranks is out of range");
    c.count = *number;
    if (topic_ == Topic::kErrors && l.word("reported ")) {
      error_ = l.rest();
      answer_.errors.push_back(fmt::format("{} ranks of {} ({})", c.count, section_->hash, error_));
      return true;
    }
    if (!what(l, c)) return false;
    classes_->push_back(std::move(c));
    return true;
  }

  /// What a class of ranks has in common. False: not the words that this topic has.
  bool what(RasLine& l, RasClass& c) const {
    if (topic_ == Topic::kStatus && (l.word("have status ") || l.word("has status "))) {
      c.status = l.until(" ");
      return !c.status.empty();
    }
    if (topic_ != Topic::kCounts || !(l.word("have ") || l.word("has "))) return false;
    if (l.word("not launched any operations")) return true;
    const auto value = l.word("launched up to operation ") ? l.number() : std::nullopt;
    if (!value || *value > kMostRasLaunched) fail("a number of operations is missing or out of range");
    c.value = *value;
    return true;
  }

  /// "Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node 10.0.0.1", or without its own
  /// words, as one of several.
  void rank(RasLine l) {
    if (section_->size == 0) return;  // of a communicator that is none: NCCL 2.27.3 prints some
    l.word("Rank ");
    const auto number = l.number();
    if (!number || *number > kMaxRanks) fail("a rank without a number");
    l.word(" ");
    if (topic_ == Topic::kErrors && l.word("reported ")) {
      error_ = l.until(" -- ");
      answer_.errors.push_back(fmt::format("rank {} of {} ({})", *number, section_->hash, error_));
    } else if (topic_ == Topic::kStatus || topic_ == Topic::kCounts) {
      RasClass c;
      if (what(l, c)) {
        c.count = 1;
        classes_->push_back(std::move(c));
      } else if (!l.rest().starts_with("--") || classes_->empty()) {
        fail("a rank without a status");
      }
      classes_->back().named.push_back(*number);
    } else if (topic_ == Topic::kMissing) {
      section_->missing_named.push_back(*number);
    }
    l.word(" ");
    if (!l.word("-- GPU ")) return;
    const auto device = l.number();
    l.until(" managed by process ");
    const auto pid = l.word(" managed by process ") ? l.number() : std::nullopt;
    if (!device || *device > 1 << 20 || !pid || *pid > INT32_MAX || !l.word(" on node "))
      fail("a rank without GPU, process or node");
    if (l.rest().size() > 255 || l.at_end()) fail("a node without a name");
    section_->gpus[*number] = {std::string(l.rest()), *pid, *device};
    if (++named_ > kMostRasRanks) fail(fmt::format("more than {} ranks", kMostRasRanks));
  }

  /// "3,5,17": as many as are missing, or NCCL cut the line.
  bool numbers(RasLine l, std::vector<int64_t>& to) {
    do {
      const auto number = l.number();
      if (!number || *number > kMaxRanks) fail("invalid list of ranks");
      to.push_back(*number);
      if (++named_ > kMostRasRanks) fail(fmt::format("more than {} ranks", kMostRasRanks));
    } while (l.word(","));
    return true;
  }

  // ---------------------------------------------------------------------------------------------- what it comes to

  void finish() {
    if (!has_table_) fail("no table of communicators: the text ends before it");
    std::vector<std::string> texts;
    int64_t ranks = 0, cut = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const RasGroup& group = groups_[g];
      if (texts.size() < 64)
        texts.push_back(
            fmt::format("{} of {} ranks {} {}", group.communicators, group.size, group.status, group.errors));
      if (group.errors == "OK") continue;
      const auto of_group = [&](size_t number) { return sections_.lower_bound({static_cast<int64_t>(number), 0}); };
      cut += group.communicators - std::distance(of_group(g), of_group(g + 1));
    }
    answer_.facts.emplace_back("communicators", fmt::format("{}", fmt::join(texts, "; ")));
    lose("ras_cut", cut,
         "communicators with errors of which the text says no more: it was cut, or they are in order by now");
    for (auto& [key, s] : sections_) {
      if ((ranks += s.size) > kMostRasRanks)
        fail(fmt::format("communicators of more than {} ranks in all", kMostRasRanks));
      if (s.size > 0) communicator(s);
    }
    const auto none =
        std::count_if(sections_.begin(), sections_.end(), [](const auto& s) { return s.second.size == 0; });
    lose("ras_odd", none + odd_, "communicators or kinds of operations whose numbers of ranks do not add up: left out");
    lose("not_understood", unread_,
         fmt::format("lines of the text that ddl does not know, the first: {}", first_unread_));
    lose("ras_unnamed", static_cast<int64_t>(unnamed_.size()),
         fmt::format("times ranks lag behind or are missing, and the text does not name them all: {}{}; {}",
                     fmt::join(unnamed_.begin(),
                               unnamed_.begin() + static_cast<ptrdiff_t>(std::min<size_t>(unnamed_.size(), 4)), ", "),
                     unnamed_.size() > 4 ? ", ..." : "", kAskMore));
    if (answer_.communicators.empty()) whole_communicator();
    const bool any = std::any_of(answer_.communicators.begin(), answer_.communicators.end(),
                                 [](const auto& c) { return !c.ranks.empty(); });
    if (!any) {
      fail(silent_processes_.empty() ? fmt::format("the answer names no rank: {}", kAskMore)
                                     : fmt::format("the answer names no rank, only processes that do not answer: {}{}",
                                                   fmt::join(silent_processes_, ", "),
                                                   silent_count_ > silent_processes_.size() ? ", ..." : ""));
    }
  }

  void lose(const char* kind, int64_t count, const std::string& note) {
    if (count > 0) answer_.losses.push_back({kind, static_cast<uint64_t>(count), note});
  }

  /// Nothing is wrong that it speaks of: the ranks of the largest communicator.
  void whole_communicator() {
    const auto largest = std::max_element(groups_.begin(), groups_.end(),
                                          [](const RasGroup& a, const RasGroup& b) { return a.size < b.size; });
    if (largest == groups_.end() || largest->size == 0 || largest->size > kMostRasRanks ||
        largest->errors.find("INCOMPLETE") != std::string::npos)
      return;
    RasCommunicator c;
    c.hash = fmt::format("#{}-0", largest - groups_.begin());
    c.size = largest->size;
    for (int64_t rank = 0; rank < c.size; ++rank) c.ranks.push_back({rank, unknown_gpu(c.hash, rank)});
    answer_.communicators.push_back(std::move(c));
  }

  void communicator(const RasSection& s) {
    RasCommunicator c;
    c.hash = s.hash;
    c.size = s.size;
    std::vector<char> absent(static_cast<size_t>(s.size));
    const auto mark = [&](const std::vector<int64_t>& ranks, std::vector<char>& in) {
      size_t marked = 0;
      for (const int64_t rank : ranks)
        if (rank < s.size && !in[static_cast<size_t>(rank)]) in[static_cast<size_t>(rank)] = 1, ++marked;
      return marked == ranks.size() ? static_cast<int64_t>(marked) : -1;
    };
    // Those that do not answer, and those that answer and know nothing of this communicator.
    int64_t gone = s.missing;
    bool absent_are_named = mark(s.missing_named, absent) == s.missing;
    std::map<int64_t, std::string> status;
    std::vector<int64_t> left;
    for (const RasClass& state : s.states) {
      const bool no_member = state.status == "NOCOMM" || state.status == "UNKNOWN";
      for (const int64_t rank : state.named) (no_member ? left.push_back(rank) : void(status[rank] = state.status));
      if (!no_member) continue;
      gone += state.count;
      absent_are_named &= static_cast<int64_t>(state.named.size()) == state.count;
    }
    absent_are_named &= mark(left, absent) >= 0;
    std::string usual;  // the status of those that no line names, if it is one
    for (const RasClass& state : s.states)
      if (state.named.empty()) usual = usual.empty() ? state.status : "several";
    if (!absent_are_named) unnamed_.push_back(fmt::format("{} of {} do not answer", s.missing, s.hash));
    for (int64_t rank = 0; rank < s.size; ++rank) {
      const auto gpu = s.gpus.find(rank);
      const RasGpu who = gpu != s.gpus.end() ? gpu->second : unknown_gpu(s.hash, rank);
      if (absent[static_cast<size_t>(rank)]) continue;
      if (!absent_are_named && gpu == s.gpus.end()) continue;  // it may be one of those
      RasRank r{rank, who};
      const auto known = status.find(rank);
      r.status = known != status.end() ? known->second : usual == "several" ? "" : usual;
      c.ranks.push_back(std::move(r));
    }
    for (const int64_t rank : s.missing_named) {
      if (rank >= s.size) continue;
      const auto gpu = s.gpus.find(rank);
      c.missing.push_back({rank, gpu != s.gpus.end() ? gpu->second : unknown_gpu(s.hash, rank)});
    }
    c.counts_are_equal = absent_are_named && s.counts.empty();
    for (const auto& [op, classes] : s.counts) {
      int64_t told = 0;
      for (const RasClass& k : classes) told += k.count;
      if (told != s.size - gone) {
        ++odd_;
        continue;
      }
      if (!absent_are_named || !tell(op, classes, absent, c)) {
        const auto least = std::min_element(classes.begin(), classes.end(),
                                            [](const auto& a, const auto& b) { return a.value < b.value; });
        unnamed_.push_back(fmt::format("{} of {} launched up to {} number {}", least->count, s.hash, op, least->value));
      }
    }
    answer_.communicators.push_back(std::move(c));
  }

  /// How many each rank launched. False: it is not known who launched the fewest.
  bool tell(const std::string& op, const std::vector<RasClass>& classes, const std::vector<char>& absent,
            RasCommunicator& c) {
    std::map<int64_t, int64_t> launched;  // by rank
    int64_t least = INT64_MAX, unnamed = 0, least_unnamed = INT64_MAX;
    for (const RasClass& k : classes) {
      least = std::min(least, k.value);
      if (k.named.empty()) {
        ++unnamed;
        least_unnamed = std::min(least_unnamed, k.value);
        continue;
      }
      if (static_cast<int64_t>(k.named.size()) != k.count) return ++odd_, true;
      for (const int64_t rank : k.named)
        if (rank >= c.size || absent[static_cast<size_t>(rank)] || !launched.emplace(rank, k.value).second)
          return ++odd_, true;
    }
    if (unnamed > 1 && least_unnamed == least) return false;
    for (RasRank& r : c.ranks) {
      const auto known = launched.find(r.number);
      if (known == launched.end() && unnamed == 0) return ++odd_, true;
      r.launched[op] = known != launched.end() ? known->second : least_unnamed;
    }
    return true;
  }

  std::string_view text_;
  uint64_t here_ = 0;
  RasAnswer answer_;
  bool is_answer_ = false, in_table_ = false, has_table_ = false, totals_follow_ = false, in_summary_ = false;
  std::vector<RasGroup> groups_;
  std::map<std::pair<int64_t, int64_t>, RasSection> sections_;
  RasSection* section_ = nullptr;
  Topic topic_ = Topic::kNone;
  std::vector<RasClass>* classes_ = nullptr;
  std::string error_;
  std::vector<std::string> silent_processes_, unnamed_;
  size_t silent_count_ = 0;
  int64_t unread_ = 0, before_ = 0, odd_ = 0, named_ = 0;
  std::string first_unread_;
};

}  // namespace

RasAnswer read_ras_text(std::string_view text) { return RasText(text).read(); }

}  // namespace ddl::store
