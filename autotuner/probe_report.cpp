#include "autotuner/probe_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "autotuner/openmpi_allreduce.h"
#include "autotuner/openmpi_rules.h"
#include "core/error.h"
#include "core/regular_file.h"
#include "store/text.h"

namespace ddl::tune {

namespace fs = std::filesystem;

namespace {

class Parser {
 public:
  explicit Parser(const fs::path& path) : path_(path), stream_(read_regular_file(path.string(), NamedBy::kFolder)) {}

  ProbeFile parse() {
    ProbeFile file;
    file.name = path_.filename().string();
    if (line() != "ddl-probe-openmpi 1") fail("this is not a file of libddl-probe-openmpi.so, version 1");
    file.library = clean_name(after("library "));
    std::istringstream rank(after("rank "));
    std::string of;
    if (!(rank >> file.rank >> of >> file.size) || of != "of") fail("expected 'rank R of N'");
    file.symbols = number("symbols ") != 0;
    file.lost = number("lost ");
    for (std::string text = line(); text != "end"; text = line()) {
      std::istringstream cells(text);
      ProbeRow row;
      std::string rest;
      if (!(cells >> row.ranks >> row.elements >> row.bytes >> row.asked >> row.ran >> row.segment_bytes >>
            row.commutative >> row.calls) ||
          cells >> rest || row.ranks < 1 || row.elements < 0 || row.bytes < 0 || row.calls < 0)
        fail("not a row of eight numbers");
      file.rows.push_back(row);
    }
    return file;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(fmt::format("{}:{}: {}", path_.string(), line_, why));
  }
  std::string line() {
    std::string text;
    ++line_;
    if (!std::getline(stream_, text) || stream_.eof()) fail("the file ends here, without its last line");
    return text;
  }
  std::string after(const char* key) {
    const std::string text = line();
    if (!text.starts_with(key)) fail(fmt::format("expected '{}'", key));
    return text.substr(std::string_view(key).size());
  }
  int64_t number(const char* key) {
    std::istringstream text(after(key));
    int64_t value = 0;
    if (!(text >> value)) fail("expected a number");
    return value;
  }

  fs::path path_;
  std::istringstream stream_;
  int line_ = 0;
};

std::string with_segments(int64_t algorithm, int64_t segment_bytes) {
  const std::string name = openmpi_algorithm(algorithm);
  return algorithm == kSegmentedRing && segment_bytes > 0
             ? fmt::format("{} in segments of {} bytes", name, segment_bytes)
             : name;
}

bool has_rule(const OpenMpiRules& rules, int64_t ranks) {
  std::set<int64_t> sizes;
  for (const auto& communicator : rules.allreduce) {
    for (const auto& message : communicator.messages) sizes.insert(message.from_bytes);
  }
  return std::any_of(sizes.begin(), sizes.end(),
                     [&](int64_t bytes) { return ruled(rules, ranks, bytes).algorithm != kIgnore; });
}

/// Rows that are alike in all processes, as one.
std::vector<ProbeRow> added_up(const std::vector<ProbeFile>& files) {
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool>, ProbeRow> sums;
  for (const ProbeFile& file : files) {
    for (const ProbeRow& row : file.rows) {
      ProbeRow& sum =
          sums[{row.ranks, row.bytes, row.elements, row.asked, row.ran, row.segment_bytes, row.commutative}];
      const int64_t calls = sum.calls + row.calls;
      sum = row;
      sum.calls = calls;
    }
  }
  std::vector<ProbeRow> rows;
  for (const auto& [key, row] : sums) rows.push_back(row);
  return rows;
}

ProofRow compared(const ProbeRow& calls, const OpenMpiRules& rules) {
  using Match = ProofRow::Match;
  ProofRow row{calls, Match::kNotRuled, "", with_segments(calls.asked, calls.segment_bytes)};
  if (calls.ran != calls.asked) row.ran += fmt::format(", gave way to {}", openmpi_algorithm(calls.ran));
  const OpenMpiDecision rule = ruled(rules, calls.ranks, calls.bytes);
  const int64_t fixed = openmpi_fixed_allreduce(calls.ranks, calls.bytes);
  if (rule.algorithm == kIgnore) {
    row.expected = fmt::format("Open MPI's own choice ({})", openmpi_algorithm(fixed));
    return row;
  }
  row.expected = with_segments(rule.algorithm, rule.segment_bytes);
  const int64_t element_bytes = calls.elements > 0 ? calls.bytes / calls.elements : 0;
  const int64_t runs = openmpi_allreduce_that_runs(rule.algorithm, rule.segment_bytes, calls.ranks, calls.elements,
                                                   element_bytes, calls.commutative);
  if (runs != rule.algorithm) row.expected += fmt::format(", gives way to {}", openmpi_algorithm(runs));
  const bool segments_matter = rule.algorithm == kSegmentedRing;
  const bool asked = calls.asked == rule.algorithm && (!segments_matter || calls.segment_bytes == rule.segment_bytes);
  const bool default_too = fixed == rule.algorithm && !(segments_matter && rule.segment_bytes > 0);
  row.match = !asked ? Match::kOtherwise : default_too ? Match::kSameAsDefault : Match::kAsRuled;
  return row;
}

int64_t calls_of(const std::vector<ProofRow>& rows, ProofRow::Match match, int64_t ranks = 0) {
  int64_t calls = 0;
  for (const ProofRow& row : rows) {
    if (row.match == match && (ranks == 0 || row.calls.ranks == ranks)) calls += row.calls.calls;
  }
  return calls;
}

int64_t wrong_calls(const std::vector<ProofRow>& rows) {
  int64_t calls = 0;
  for (const ProofRow& row : rows) {
    if (!row.calls.commutative && openmpi_needs_commutative(row.calls.ran)) calls += row.calls.calls;
  }
  return calls;
}

std::vector<std::string> notes_on(const std::vector<ProbeFile>& files, const std::vector<ProofRow>& rows) {
  std::vector<std::string> notes;
  const int64_t wrong = wrong_calls(rows);
  int64_t gave_way = 0, lost = 0, size = -1;
  std::set<int64_t> ranks;
  for (const ProofRow& row : rows) {
    if (row.calls.ran != row.calls.asked && row.match != ProofRow::Match::kNotRuled) gave_way += row.calls.calls;
  }
  for (const ProbeFile& file : files) {
    lost += file.lost;
    size = std::max(size, file.size);
    if (file.rank >= 0) ranks.insert(file.rank);
  }
  if (wrong > 0)
    notes.push_back(fmt::format(
        "{} calls ran a ring with an operation that does not commute: their results are WRONG. Do not use these rules",
        wrong));
  if (gave_way > 0)
    notes.push_back(
        fmt::format("{} calls gave way to another algorithm than the rule's: too few elements for it", gave_way));
  if (lost > 0) notes.push_back(fmt::format("{} calls were not counted", lost));
  if (size > 0 && static_cast<int64_t>(ranks.size()) < size)
    notes.push_back(
        fmt::format("{} of {} ranks left a count: the others were killed or ended by _exit", ranks.size(), size));
  return notes;
}

}  // namespace

std::vector<ProbeFile> read_probe_files(const fs::path& directory) {
  std::vector<ProbeFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".probe") files.push_back(Parser(entry->path()).parse());
  }
  if (error) throw Error(fmt::format("cannot read {}: {}", directory.string(), error.message()));
  std::sort(files.begin(), files.end(), [](const ProbeFile& a, const ProbeFile& b) { return a.name < b.name; });
  return files;
}

Proof prove_openmpi(const std::vector<ProbeFile>& files, std::string_view rules_text, int64_t ranks) {
  using Match = ProofRow::Match;
  using Verdict = Proof::Verdict;
  const OpenMpiRules rules = read_openmpi_rules(rules_text);
  Proof proof;
  for (const ProbeRow& row : added_up(files)) proof.rows.push_back(compared(row, rules));
  proof.wrong_results = wrong_calls(proof.rows) > 0;
  proof.notes = notes_on(files, proof.rows);
  const auto say = [&](Verdict verdict, std::string sentence) {
    proof.verdict = verdict;
    proof.sentence = std::move(sentence);
    return proof;
  };

  if (!rules.dropped.empty())
    return say(Verdict::kNotInForce, fmt::format("Open MPI ignores the rules, all of them: {}", rules.dropped));
  if (!has_rule(rules, ranks))
    return say(Verdict::kNotInForce, fmt::format("the file has no rule for {} ranks", ranks));
  const int64_t otherwise = calls_of(proof.rows, Match::kOtherwise);
  if (otherwise > 0)
    return say(
        Verdict::kNotInForce,
        fmt::format("not in force: {} calls of MPI_Allreduce ran another algorithm than their rule's", otherwise));
  if (const int64_t calls = calls_of(proof.rows, Match::kAsRuled, ranks); calls > 0)
    return say(
        Verdict::kInForce,
        fmt::format("in force: {} calls of MPI_Allreduce on {} ranks ran by their rule, which the default would not "
                    "have chosen, and none otherwise",
                    calls, ranks));
  if (calls_of(proof.rows, Match::kSameAsDefault, ranks) > 0)
    return say(Verdict::kCannotTell,
               "cannot be told: every call that was seen would have run the same algorithm by default");
  if (!proof.rows.empty())
    return say(Verdict::kCannotTell,
               fmt::format("cannot be told: no call of MPI_Allreduce on {} ranks that has a rule was seen", ranks));
  if (files.empty())
    return say(
        Verdict::kCannotTell,
        "cannot be checked here: no process left a count; it was not preloaded, or none was an MPI program that ended well");
  const ProbeFile& first = files.front();
  if (!first.library.starts_with("Open MPI"))
    return say(Verdict::kCannotTell, fmt::format("cannot be checked here: the job runs {}", first.library));
  if (!first.symbols)
    return say(
        Verdict::kCannotTell,
        fmt::format("cannot be checked here: {} does not show its algorithms to a preloaded library", first.library));
  return say(
      Verdict::kCannotTell,
      "cannot be told: no blocking MPI_Allreduce ran by coll_tuned: the job made none, or another component (HAN, hcoll, UCC) took them");
}

}  // namespace ddl::tune
