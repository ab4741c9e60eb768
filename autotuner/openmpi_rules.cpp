#include "autotuner/openmpi_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>

#include "autotuner/openmpi_allreduce.h"
#include "core/error.h"

namespace ddl::tune {
namespace {

constexpr int kCollectives = 22;  // COLLCOUNT of Open MPI 4.1
constexpr int kAllreduce = 2;

/// The library's tokenizer, on the same fscanf: what it makes of odd input is what glibc makes of it.
class Numbers {
 public:
  explicit Numbers(std::string_view text)
      : text_(text), file_(fmemopen(text_.data(), text_.size(), "r"), &std::fclose) {}

  /// False at the end of the file.
  bool next(long& value) {
    while (file_ != nullptr) {
      const int found = std::fscanf(file_.get(), "%li", &value);
      if (found == 1) return true;
      if (found == EOF) return false;
      if (std::getc(file_.get()) == '#') skip_line();
    }
    return false;
  }
  size_t line() const {
    const long at = file_ == nullptr ? 0 : std::ftell(file_.get());
    return 1 + static_cast<size_t>(std::count(text_.begin(), text_.begin() + std::max(0L, at), '\n'));
  }

 private:
  void skip_line() {
    int c;
    do c = std::getc(file_.get());
    while (c != EOF && c != '\n');
  }
  std::string text_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : numbers_(text) {}

  OpenMpiRules read() {
    const int collectives = number("the number of collectives");
    if (collectives > kCollectives) drop(fmt::format("{} collectives, and there are {}", collectives, kCollectives));
    for (int i = 0; i < collectives && good(); ++i) collective();
    if (!good()) rules_.allreduce.clear();
    return std::move(rules_);
  }

 private:
  bool good() const { return rules_.dropped.empty(); }
  void drop(const std::string& why) {
    if (good()) rules_.dropped = fmt::format("line {}: {}", numbers_.line(), why);
  }
  /// The library takes most numbers as int.
  int number(const char* what) { return static_cast<int>(size(what, true)); }
  long size(const char* what, bool as_int = false) {
    long value = -1;
    if (!good()) return -1;
    if (!numbers_.next(value)) {
      drop(fmt::format("the file ends where {} should be", what));
    } else if (as_int ? static_cast<int>(value) < 0 : value < 0) {
      drop(fmt::format("{} is {}", what, value));
    }
    return value;
  }
  void collective() {
    const int id = number("the id of a collective");
    if (id >= kCollectives) drop(fmt::format("collective {}, and the last is {}", id, kCollectives - 1));
    const int count = number("the number of communicator sizes");
    std::vector<OpenMpiRules::Communicator> communicators;
    for (int i = 0; i < count && good(); ++i) communicators.push_back(communicator());
    if (id == kAllreduce) rules_.allreduce = std::move(communicators);
  }
  OpenMpiRules::Communicator communicator() {
    OpenMpiRules::Communicator rule;
    rule.ranks = number("the size of a communicator");
    const int count = number("the number of message sizes");
    for (int i = 0; i < count && good(); ++i) {
      OpenMpiRules::Message message;
      message.from_bytes = size("a message size");
      message.algorithm = number("an algorithm");
      message.fan = number("a fan in/out");
      message.segment_bytes = size("a segment size");
      if (i == 0 && message.from_bytes > 0)
        drop(fmt::format("the first rule for {} ranks begins at {} bytes, not at 0", rule.ranks, message.from_bytes));
      rule.messages.push_back(message);
    }
    return rule;
  }

  Numbers numbers_;
  OpenMpiRules rules_;
};

void check(int64_t ranks, const std::vector<AllreduceRule>& rules) {
  if (ranks < 2)
    throw Error(fmt::format("rules of MPI_Allreduce for {} ranks", ranks),
                "Open MPI's rules are for communicators of at least 2");
  if (rules.empty() || rules[0].from_bytes != 0) throw Error("rules of MPI_Allreduce that do not begin at 0 bytes");
  for (size_t i = 0; i < rules.size(); ++i) {
    if (i > 0 && rules[i].from_bytes <= rules[i - 1].from_bytes)
      throw Error(fmt::format("rules of MPI_Allreduce that do not ascend: {} bytes after {}", rules[i].from_bytes,
                              rules[i - 1].from_bytes));
    if (rules[i].algorithm < 0 || rules[i].segment_bytes < 0)
      throw Error(fmt::format("a rule of MPI_Allreduce with algorithm {} and segments of {} bytes", rules[i].algorithm,
                              rules[i].segment_bytes));
  }
}

}  // namespace

std::vector<AllreduceRule> preset_rules(std::string_view name, const std::map<std::string, int64_t>& ids) {
  constexpr int64_t kGlooRingBytes = 4'000'000;
  const auto ring = ids.find("ring"), halving = ids.find("rabenseifner");
  if (ring == ids.end()) return {};
  if (name == "baidu_ring") return {{0, ring->second, "ring", 0}};
  if (name != "gloo" || halving == ids.end()) return {};
  return {{0, halving->second, "rabenseifner", 0}, {kGlooRingBytes, ring->second, "ring", 0}};
}

std::string write_openmpi_rules(int64_t ranks, const std::vector<AllreduceRule>& rules) {
  check(ranks, rules);
  std::string text = fmt::format("1  # collectives\n{}  # allreduce\n3  # communicator sizes\n", kAllreduce);
  text += "0 1  # guard: fewer ranks are left to Open MPI\n0 0 0 0\n";
  text += fmt::format("{} {}  # ranks, rules: from bytes, algorithm, fan, segment bytes\n", ranks, rules.size());
  for (size_t i = 0; i < rules.size(); ++i) {
    const AllreduceRule& rule = rules[i];
    const std::optional<int64_t> below = i + 1 < rules.size() ? std::optional(rules[i + 1].from_bytes) : std::nullopt;
    text += fmt::format("{} {} 0 {}  # {}", rule.from_bytes, rule.algorithm, rule.segment_bytes,
                        openmpi_algorithm(rule.algorithm));
    text += rule.algorithm == 0
                ? "\n"
                : fmt::format("; the default would have used {}\n", openmpi_default(ranks, rule.from_bytes, below));
  }
  return text + fmt::format("{} 1  # guard: more ranks are left to Open MPI\n0 0 0 0\n", ranks + 1);
}

bool serves_any(const std::vector<AllreduceRule>& rules, const std::set<int64_t>& size_classes) {
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].algorithm == 0) continue;
    const int64_t end = i + 1 < rules.size() ? rules[i + 1].from_bytes : std::numeric_limits<int64_t>::max();
    for (const int64_t k : size_classes) {
      const int64_t least = k == 0 ? 0 : int64_t{1} << (k - 1), most = k == 0 ? 0 : (int64_t{1} << k) - 1;
      if (rules[i].from_bytes <= most && least < end) return true;
    }
  }
  return false;
}

OpenMpiRules read_openmpi_rules(std::string_view text) { return Reader(text).read(); }

OpenMpiDecision ruled(const OpenMpiRules& rules, int64_t ranks, int64_t bytes) {
  if (rules.allreduce.empty()) return {};
  auto communicator = rules.allreduce.begin();
  for (auto next = communicator; next != rules.allreduce.end() && next->ranks <= ranks; ++next) communicator = next;
  if (communicator->messages.empty()) return {};
  auto message = communicator->messages.begin();
  for (auto next = message; next != communicator->messages.end() && next->from_bytes <= bytes; ++next) message = next;
  return {message->algorithm, message->segment_bytes};
}

}  // namespace ddl::tune
