#include "analyzer/findings/hang_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr size_t kMostHangs = 3;
constexpr size_t kMostSaid = 3;  // ranks of which it is said what they did

struct HangCall {
  int64_t number = 0;
  std::string op, group, axis;
  std::optional<int64_t> seq, since_ns;

  /// "all_to_all number 45265 on EXPERT_MODEL_PARALLEL_GROUP 72 (expert axis)"
  std::string text() const {
    return fmt::format("{}{} on {}{}", op, seq ? fmt::format(" number {}", *seq) : "", group,
                       axis.empty() ? "" : fmt::format(" ({})", axis));
  }
};

class HangWords {
 public:
  explicit HangWords(const FindingInput& input) : input_(input) {}

  std::optional<HangCall> call(int64_t number) {
    Query row(
        input_.db,
        "SELECT h.op, h.seq, h.since_ns, c.label, a.axis, a.source FROM hang_call h JOIN communicator c ON c.id = h.comm"
        " LEFT JOIN communicator_axis a ON a.communicator = c.id WHERE h.world = ? AND h.call = ?");
    row.bind(input_.world, number);
    if (!row.next()) return std::nullopt;
    HangCall call{number, row.text(0), row.text(3), row.text(4), row.maybe_integer(1), row.maybe_integer(2)};
    if (!call.axis.empty() && row.text(5) != "shape") call.axis += " axis";
    return call;
  }
  std::vector<int64_t> ranks(std::string_view sql, int64_t number) {
    std::vector<int64_t> found;
    Query row(input_.db, sql);
    row.bind(input_.world, number);
    while (row.next()) found.push_back(row.integer(0));
    return found;
  }
  std::vector<int64_t> members(int64_t call, const char* part) {
    return ranks(
        fmt::format("SELECT rank FROM hang_member WHERE world = ? AND call = ? AND part = '{}' ORDER BY rank", part),
        call);
  }
  std::vector<int64_t> causes(int64_t fault) {
    return ranks("SELECT rank FROM hang_rank WHERE world = ? AND fault = ? ORDER BY rank", fault);
  }

  /// What a rank was last seen to do, and from where.
  std::string last_of(int64_t rank) {
    Query row(
        input_.db,
        "SELECT f.op, coalesce(f.p2p_seq, f.seq), c.label, f.state, k.frames, p.rank FROM hang_rank r JOIN process p ON p.world = r.world"
        " AND p.rank = r.rank LEFT JOIN flight_entry f ON f.id = r.entry LEFT JOIN communicator c ON c.id = f.comm"
        " LEFT JOIN flight_stack k ON k.id = f.stack WHERE r.world = ? AND r.rank = ?");
    row.bind(input_.world, rank);
    if (!row.next()) return fmt::format("rank {} left no information", rank);
    const std::string who = name_of(rank);
    if (row.is_null(0)) return fmt::format("{} has no operation in its recorder", who);
    std::string text =
        fmt::format("the last that {} enqueued is {}{} on {} ({})", who, row.text(0),
                    row.is_null(1) ? "" : fmt::format(" number {}", row.integer(1)), row.text(2), row.text(3));
    if (!row.is_null(4)) text += ", from " + shortened(row.text(4));
    return text;
  }

  /// "rank 2"; of RAS, which numbers ranks by a communicator, with what finds the process: "rank 2 (process 702 on
  /// 10.0.0.1, GPU 0)".
  std::string name_of(int64_t rank) {
    Query row(
        input_.db,
        "SELECT p.pid, h.name, f.value FROM process p JOIN host h ON h.id = p.host JOIN process_fact f ON f.process = p.id AND f.key ="
        " 'nccl_ras.gpu' WHERE p.world = ? AND p.rank = ?");
    row.bind(input_.world, rank);
    if (!row.next()) return fmt::format("rank {}", rank);
    return fmt::format("rank {} (process {} on {}, GPU {})", rank, row.integer(0), row.text(1), row.text(2));
  }

  /// The innermost frames that are not PyTorch's own.
  static std::string shortened(const std::string& frames) {
    constexpr size_t kShown = 3;
    std::vector<std::string> own;
    size_t all = 0;
    for (size_t at = 0; at <= frames.size();) {
      const size_t end = std::min(frames.find(" < ", at), frames.size());
      const std::string frame = frames.substr(at, end - at);
      ++all;
      const bool torch =
          frame.find("/torch/") != std::string::npos || frame.find("torch/distributed") != std::string::npos;
      if (!torch && own.size() < kShown) own.push_back(frame);
      at = end + 3;
    }
    if (own.empty()) return frames.substr(0, frames.find(" < "));
    std::string text = own.front();
    for (size_t i = 1; i < own.size(); ++i) text += " < " + own[i];
    return text;
  }

 private:
  const FindingInput& input_;
};

std::string ranks_or_none(const std::vector<int64_t>& ranks) { return ranks.empty() ? "nobody" : ranks_text(ranks); }

const char* sit(const std::vector<int64_t>& ranks) { return ranks.size() < 2 ? "sits" : "sit"; }

/// "all_reduce [[8192]] -> [[8192]] Float": who enqueued it.
std::string who_said_what(const FindingInput& input, int64_t call) {
  std::string text;
  Query row(input.db,
            "SELECT rank, said FROM hang_member WHERE world = ? AND call = ? AND said IS NOT NULL ORDER BY said, rank");
  row.bind(input.world, call);
  std::vector<std::pair<std::string, std::vector<int64_t>>> said;
  while (row.next()) {
    if (said.empty() || said.back().first != row.text(1)) said.push_back({row.text(1), {}});
    said.back().second.push_back(row.integer(0));
  }
  std::stable_sort(said.begin(), said.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  for (size_t i = 0; i < std::min(kMostSaid, said.size()); ++i)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", ranks_or_none(said[i].second), said[i].first);
  return text;
}

std::string imported_from(const FindingInput& input) {
  Query row(input.db, "SELECT value FROM meta WHERE key = 'imported_from'");
  return row.next() ? row.text(0) : "";
}

struct HangFault {
  int64_t fault, call, waiting;
  std::string kind;
  bool sure;
};

Finding finding_of(const FindingInput& input, const HangFault& fault) {
  HangWords words(input);
  const HangCall call = *words.call(fault.call);
  const std::vector<int64_t> causes = words.causes(fault.fault), in = words.members(fault.call, "in"),
                             missing = words.members(fault.call, "missing");
  const std::string who = ranks_or_none(causes), where = call.text();
  const auto others = fault.waiting - static_cast<int64_t>(in.size());
  const std::string chain =
      others > 0 ? fmt::format("; {} more {} for that, through other groups", others, others == 1 ? "waits" : "wait")
                 : "";
  Finding finding;
  finding.confidence = fault.sure ? "sure" : "likely";
  if (causes.size() == 1)
    finding.rank = causes.front();
  else
    finding.subject = fmt::format("{}", fmt::join(causes, ","));
  if (fault.kind == "missing") {
    finding.sentence = fmt::format("{} never entered {}: {} {} in it{}", who, where, ranks_or_none(in), sit(in), chain);
    finding.advice = fmt::format(
        "find out what keeps {} from that call: a branch that depends on the rank, a loader without data, a lock, a GPU "
        "that failed; py-spy dump --pid PID shows it while the job hangs",
        who);
  } else if (fault.kind == "ahead") {
    finding.sentence = fmt::format("{} alone entered {}, which {} never did, and these wait for nothing", who, where,
                                   ranks_or_none(missing));
    finding.advice = fmt::format(
        "look for a collective that only {} calls, as behind \"if rank == 0\"; or for what keeps the others", who);
  } else if (fault.kind == "behind") {
    finding.sentence = fmt::format("{} enqueued {} and never got to it: its GPU is stuck before that; {} {} in it{}",
                                   who, where, ranks_or_none(in), sit(in), chain);
    finding.advice = fmt::format(
        "look at the GPU of {} and what it was given before that call: a kernel that does not end, an error (Xid) in dmesg",
        who);
  } else if (fault.kind == "no dump") {
    const bool ras = imported_from(input) == "nccl-ras";
    finding.sentence =
        fmt::format("{} {}: {} {} in {}, which all other members entered{}", who,
                    ras ? "does not answer RAS" : "left no dump", ranks_or_none(in), sit(in), where, chain);
    finding.advice = fmt::format("see whether {} still lives{}", who, ras ? "" : ", and why it wrote no dump");
  } else if (fault.kind == "circle") {
    finding.sentence = fmt::format("{} wait for each other: {} {} in {}", who, ranks_or_none(in), sit(in), where);
    finding.rank = std::nullopt;
    finding.advice =
        "let all ranks enqueue operations on different groups, and sends and receives, in an order that fits";
  } else if (fault.kind == "mismatch") {
    finding.sentence = fmt::format("the ranks disagree on {}: {}", where, who_said_what(input, fault.call));
    finding.advice = "look for a branch, or for data, that depends on the rank around this call";
  } else {
    finding.sentence = fmt::format("{} {} in {}, which all its members entered{}", ranks_or_none(in), sit(in), where,
                                   causes.empty() ? "" : fmt::format("; {} stopped enqueuing before all others", who));
    finding.confidence = causes.empty() ? "maybe" : "likely";
    finding.advice =
        "which GPU or network it is remains unknown: see dmesg and NCCL's own log, and dump with TORCH_NCCL_ENABLE_TIMING=1";
  }
  std::string evidence;
  if (fault.kind != "mismatch" && fault.kind != "circle") {
    for (size_t i = 0; i < std::min(kMostSaid, causes.size()); ++i)
      evidence += fmt::format("{}{}", i == 0 ? "" : "; ", words.last_of(causes[i]));
  }
  if (!in.empty() && fault.kind != "stuck" && fault.kind != "ahead")
    evidence += fmt::format("{}{}", evidence.empty() ? "" : "; ", words.last_of(in.front()));
  if (evidence.empty()) evidence = "what each rank sits in is in section hang";
  evidence[0] = static_cast<char>(evidence[0] >= 'a' && evidence[0] <= 'z' ? evidence[0] - 'a' + 'A' : evidence[0]);
  finding.evidence = evidence + ". Who waits for whom: ddl report hang.";
  if (imported_from(input) == "nccl-ras")
    finding.evidence +=
        " RAS tells what ranks launched, not what completed: ask again, and if the numbers stand still the job hangs.";
  finding.evidence_sql =
      fmt::format("SELECT rank, part, said FROM hang_member WHERE world = {} AND call = {} ORDER BY rank", input.world,
                  call.number);
  return finding;
}

}  // namespace

bool has_flight_recorders(const FindingInput& input) {
  Query any(input.db, "SELECT 1 FROM hang_rank WHERE world = ? LIMIT 1");
  any.bind(input.world);
  return any.next();
}

std::vector<Finding> hang_findings(const FindingInput& input, bool mismatches) {
  std::vector<HangFault> faults;
  Query row(
      input.db,
      "SELECT fault, call, waiting, kind, sure FROM hang_fault WHERE world = ? AND (kind = 'mismatch') = ? ORDER BY fault LIMIT ?");
  row.bind(input.world, mismatches ? 1 : 0, kMostHangs);
  while (row.next())
    faults.push_back({row.integer(0), row.integer(1), row.integer(2), row.text(3), row.integer(4) != 0});
  std::vector<Finding> findings;
  for (const HangFault& fault : faults) findings.push_back(finding_of(input, fault));
  return findings;
}

}  // namespace ddl
