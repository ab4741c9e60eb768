#include "analyzer/passes/waited_for.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/change_points.h"
#include "analyzer/passes/axes.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr double kLeastLead = 0.03;      // of the step
constexpr double kLeastLateSteps = 0.8;  // of the steps in question
constexpr size_t kLeastAside = 5;
constexpr double kClearLead = 4;          // after the change against before it
constexpr double kExplained = 0.5;        // of the longer computing, by the bytes
constexpr double kMoreOfSeveralGpus = 2;  // saving of several ranks against that of fewer
// of what a replica loses, at most so much is lost on other axes than its own pipeline
constexpr double kLateItself = 0.5;
constexpr int64_t kSeveralRanks = -1;

enum StepPiece { kComputingPiece, kCopyPiece, kInputPiece, kHostPiece, kIdling, kPieces };
constexpr const char* kPieceNames[kPieces] = {"compute", "copy", "input", "host", "idle"};

/// A step on one rank's GPU.
struct GpuStep {
  int64_t rank = 0, host = 0;
  double comm_ns = 0, duration_ns = 0;  ///< the first: in collectives while nothing computes
  std::array<double, kPieces> parts = {};
  double bytes = 0;    ///< that it sends in all-to-alls
  bool apart = false;  ///< of those that spend least in collectives
};

struct StepOfGpus {
  int64_t number = 0;
  std::vector<GpuStep> ranks;
};

/// By whom ranks are grouped: themselves, their hosts, or those that spend least in collectives and the
/// others one by one.
enum class GroupedBy { kRanks, kHosts, kApart };
int64_t group_of_gpu(const GpuStep& r, GroupedBy by) {
  if (by == GroupedBy::kApart && r.apart) return kSeveralRanks;
  return by == GroupedBy::kHosts ? r.host : r.rank;
}

/// The steps that all of the world's ranks with GPUs have, by number. Among several GPUs of a rank the one that spent
/// most in collectives counts.
std::vector<StepOfGpus> read_gpu_steps(SQLite::Database& db, int64_t world) {
  std::vector<StepOfGpus> steps;
  Query rows(db, R"(
    SELECT g.step, p.rank, p.host, max(g.exposed_comm_ns), g.duration_ns,
           g.compute_ns, g.exposed_copy_ns, g.idle_input_ns,
           g.idle_host_ns + g.idle_launch_ns, g.idle_kernel_ns + g.idle_dep_comm_ns + g.idle_dep_copy_ns + g.idle_other_ns
    FROM gpu_part g
    JOIN process p ON p.id = g.process
    JOIN steady_number n ON n.world = p.world AND n.step = g.step
    WHERE p.world = ? AND p.rank IS NOT NULL
    GROUP BY g.step, p.rank)");
  rows.bind(world);
  size_t most = 0;
  while (rows.next()) {
    if (steps.empty() || steps.back().number != rows.integer(0)) steps.push_back({rows.integer(0), {}});
    GpuStep r{.rank = rows.integer(1), .host = rows.integer(2), .comm_ns = rows.real(3), .duration_ns = rows.real(4)};
    for (int part = 0; part < kPieces; ++part) r.parts[static_cast<size_t>(part)] = rows.real(5 + part);
    steps.back().ranks.push_back(r);
    most = std::max(most, steps.back().ranks.size());
  }
  std::erase_if(steps, [&](const StepOfGpus& s) { return s.ranks.size() < most; });
  return most < 2 ? std::vector<StepOfGpus>() : steps;
}

void read_exchanged(SQLite::Database& db, int64_t world, std::vector<StepOfGpus>& steps) {
  std::map<std::pair<int64_t, int64_t>, double> bytes;  // by step and rank
  Query rows(db, R"(
    SELECT e.step, p.rank, sum(e.bytes)
    FROM collective k
    JOIN event e ON e.id = k.event
    JOIN process p ON p.id = e.process
    JOIN op o ON o.id = e.op
    WHERE p.world = ? AND e.step IS NOT NULL AND lower(o.name) LIKE '%alltoall%'
    GROUP BY e.step, p.rank
    HAVING count(e.bytes) = count(*))");
  rows.bind(world);
  while (rows.next()) bytes[{rows.integer(0), rows.integer(1)}] = rows.real(2);
  for (StepOfGpus& step : steps)
    for (GpuStep& r : step.ranks)
      if (const auto known = bytes.find({step.number, r.rank}); known != bytes.end()) r.bytes = known->second;
}

/// What the suspect's ranks are in collectives less than all others: of both sides the closest.
double lead_in(const StepOfGpus& step, GroupedBy by, int64_t suspect) {
  double own_ns = -1, others_ns = -1;
  for (const GpuStep& r : step.ranks) {
    if (group_of_gpu(r, by) == suspect) {
      own_ns = std::max(own_ns, r.comm_ns);
    } else {
      others_ns = others_ns < 0 ? r.comm_ns : std::min(others_ns, r.comm_ns);
    }
  }
  return own_ns < 0 || others_ns < 0 ? 0 : others_ns - own_ns;
}

/// Who is ahead of all others by most, over the steps; nothing: nobody is.
std::optional<int64_t> most_waited_for(const std::vector<StepOfGpus>& steps, GroupedBy by) {
  std::map<int64_t, double> total_ns;
  for (const StepOfGpus& step : steps) {
    std::map<int64_t, std::pair<double, size_t>> longest;  // time of a suspect's ranks, and how many they are
    for (const GpuStep& r : step.ranks) {
      auto& [comm_ns, ranks] = longest[group_of_gpu(r, by)];
      comm_ns = std::max(comm_ns, r.comm_ns);
      ++ranks;
    }
    const auto least = std::min_element(longest.begin(), longest.end(),
                                        [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    if (longest.size() < 2 || (by != GroupedBy::kRanks && least->second.second < 2)) continue;
    total_ns[least->first] += std::max(0.0, lead_in(step, by, least->first));
  }
  const auto best = std::max_element(total_ns.begin(), total_ns.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == total_ns.end() || best->second <= 0 ? std::nullopt : std::optional(best->first);
}

struct Candidate {
  int64_t suspect = 0;
  size_t first = 0, steps = 0, late_steps = 0;
  double lead_ns = 0, step_ns = 0;
  StepPiece part = kComputingPiece;
  double excess_ns = 0;  ///< of that part
  std::array<double, kPieces> own = {}, others = {};
  double comm_ns = 0, others_comm_ns = 0;
};

double median_over(const std::vector<StepOfGpus>& steps, size_t first, const std::vector<std::vector<double>>& values) {
  std::vector<double> all;
  for (size_t i = first; i < steps.size(); ++i)
    for (const double value : values[i]) all.push_back(value);
  return all.empty() ? 0 : median_of(all);
}

Candidate judge_candidate(const std::vector<StepOfGpus>& steps, GroupedBy by, int64_t suspect, size_t first) {
  Candidate found{.suspect = suspect, .first = first};
  std::vector<double> leads, longest;
  for (size_t i = first; i < steps.size(); ++i) {
    const double lead_ns = lead_in(steps[i], by, suspect);
    leads.push_back(lead_ns);
    ++found.steps;
    found.late_steps += lead_ns > 0 ? 1 : 0;
    double step_ns = 0;
    for (const GpuStep& r : steps[i].ranks) step_ns = std::max(step_ns, r.duration_ns);
    longest.push_back(step_ns);
  }
  if (leads.empty()) return found;
  found.lead_ns = median_of(leads);
  found.step_ns = median_of(longest);
  const auto medians = [&](const auto& value_of) {
    std::vector<std::vector<double>> own(steps.size()), others(steps.size());
    for (size_t i = first; i < steps.size(); ++i)
      for (const GpuStep& r : steps[i].ranks) (group_of_gpu(r, by) == suspect ? own : others)[i].push_back(value_of(r));
    return std::pair(median_over(steps, first, own), median_over(steps, first, others));
  };
  std::tie(found.comm_ns, found.others_comm_ns) = medians([](const GpuStep& r) { return r.comm_ns; });
  for (size_t part = 0; part < kPieces; ++part) {
    std::tie(found.own[part], found.others[part]) = medians([part](const GpuStep& r) { return r.parts[part]; });
    const double excess_ns = found.own[part] - found.others[part];
    if (excess_ns <= found.excess_ns) continue;
    found.excess_ns = excess_ns;
    found.part = static_cast<StepPiece>(part);
  }
  return found;
}

void mark_those_apart(std::vector<StepOfGpus>& steps, size_t all_ranks) {
  std::map<int64_t, double> less_ns;
  for (const StepOfGpus& step : steps)
    for (const GpuStep& r : step.ranks) less_ns[r.rank] -= r.comm_ns;
  const std::vector<int64_t> apart = stand_apart(less_ns, all_ranks);
  for (StepOfGpus& step : steps)
    for (GpuStep& r : step.ranks) r.apart = std::binary_search(apart.begin(), apart.end(), r.rank);
}

std::optional<Candidate> find_among(const std::vector<StepOfGpus>& steps, GroupedBy by) {
  const std::optional<int64_t> suspect = most_waited_for(steps, by);
  if (!suspect) return std::nullopt;
  std::vector<double> leads;
  for (const StepOfGpus& step : steps) leads.push_back(std::max(0.0, lead_in(step, by, *suspect)));
  for (const size_t first : {rise_at(leads, kLeastAside, kClearLead), size_t{0}}) {
    const Candidate found = judge_candidate(steps, by, *suspect, first);
    if (static_cast<int64_t>(found.steps) >= kLeastStepsWaitedFor &&
        static_cast<double>(found.late_steps) >= kLeastLateSteps * static_cast<double>(found.steps) &&
        std::min(found.lead_ns, found.excess_ns) >= kLeastLead * found.step_ns)
      return found;
  }
  return std::nullopt;
}

struct Exchanged {
  double own = 0, others = 0;  ///< medians of a rank and step
  bool explain = false;
};

Exchanged exchanged_by(const std::vector<StepOfGpus>& steps, GroupedBy by, const Candidate& found) {
  std::vector<double> own, others;
  double products = 0, squares = 0;
  for (size_t i = found.first; i < steps.size(); ++i) {
    const auto ranks = static_cast<double>(steps[i].ranks.size());
    double mean_bytes = 0, mean_ns = 0;
    for (const GpuStep& r : steps[i].ranks) {
      mean_bytes += r.bytes / ranks;
      mean_ns += r.parts[kComputingPiece] / ranks;
      (group_of_gpu(r, by) == found.suspect ? own : others).push_back(r.bytes);
    }
    for (const GpuStep& r : steps[i].ranks) {
      products += (r.bytes - mean_bytes) * (r.parts[kComputingPiece] - mean_ns);
      squares += (r.bytes - mean_bytes) * (r.bytes - mean_bytes);
    }
  }
  Exchanged bytes{median_of(own), median_of(others)};
  if (found.part != kComputingPiece || squares <= 0 || bytes.others <= 0) return bytes;
  // No more than all computing grows with the data, and of the bytes only those on the way back tell how much that is.
  const double most_ns = 2 * (bytes.own / bytes.others - 1) * found.others[kComputingPiece];
  bytes.explain = std::min(products / squares * (bytes.own - bytes.others), most_ns) >= kExplained * found.excess_ns;
  return bytes;
}

using ByRankAndAxis = std::map<int64_t, std::map<std::string, double>>;

/// What a rank waits on each axis in the steps from `first_step` on. Where there is a pipeline, waiting of all ranks
/// together is counted on its axis: at the end of a step its stages meet there, some of them later than others by its
/// schedule. On an axis where some waiting is not known, for a member left no record, what ranks are in its
/// collectives: transfers take them about as long, and differences are all that counts.
ByRankAndAxis waits_on_axes(SQLite::Database& db, int64_t world, int64_t first_step, bool pipeline) {
  Query rows(db, R"(
    WITH part AS MATERIALIZED (
      SELECT p.rank, iif(?3 AND (a.axis LIKE '%pipeline%' OR a.axis = 'all ranks'), 'pipeline', a.axis) AS axis, sum(a.exposed_ns) AS exposed_ns,
             iif(count(a.exposed_wait_ns) = count(*), sum(a.exposed_wait_ns), NULL) AS wait_ns
      FROM gpu_axis_part a
      JOIN process p ON p.id = a.process
      JOIN steady_number n ON n.world = p.world AND n.step = a.step
      WHERE p.world = ?1 AND a.step >= ?2 AND a.axis IS NOT NULL AND p.rank IS NOT NULL
      GROUP BY 1, 2
    )
    SELECT rank, axis, iif(axis IN (SELECT axis FROM part WHERE wait_ns IS NULL), exposed_ns, wait_ns)
    FROM part)");
  rows.bind(world, first_step, pipeline);
  ByRankAndAxis waits;
  while (rows.next()) waits[rows.integer(0)][rows.text(1)] = rows.real(2);
  return waits;
}

/// Ranks by the replica of the network that they are a part of: whom named communicators of other axes than that of the
/// data connect. Its number is one of its ranks.
std::map<int64_t, int64_t> replicas_of(SQLite::Database& db, int64_t world) {
  std::map<int64_t, int64_t> replica;
  const auto find = [&](int64_t rank) {
    int64_t root = replica.try_emplace(rank, rank).first->second;
    while (replica[root] != root) root = replica[root];
    return root;
  };
  Query rows(db, R"(
    SELECT min(m.rank) OVER (PARTITION BY m.communicator), m.rank
    FROM communicator_member m
    JOIN communicator_axis a ON a.communicator = m.communicator AND a.source <> 'shape' AND a.axis NOT LIKE '%data%'
    JOIN communicator c ON c.id = m.communicator AND c.world = ?
    WHERE m.rank IS NOT NULL)");
  for (rows.bind(world); rows.next();) {
    const int64_t first = find(rows.integer(0)), other = find(rows.integer(1));
    replica[std::max(first, other)] = std::min(first, other);
  }
  for (auto& [rank, root] : replica) root = find(rank);
  return replica;
}

/// How the others wait for the suspect.
struct WaitingFor {
  std::optional<std::string> axis;  ///< on which they do longest
  double axis_ratio = 0;
  /// of a rank and step; nothing: its whole stage is late, and the schedule hides how much is for it
  std::optional<double> mean_ns;
};

/// Groups of a tensor, of data or of experts make nobody wait in a healthy step, so there everything that a rank waits
/// longer than the suspect is for the suspect. A pipeline's stages wait for each other by their schedule, all ranks of
/// a stage alike: there it is what a rank waits longer than another one of its stage, unless it is the suspect's own,
/// whose ranks wait for it elsewhere. If the whole stage is late, all that the others wait longer is in the pipeline.
/// If suspects are in all replicas, all ranks of a stage wait alike: then it is what a rank is longer in collectives
/// than they are, less what it waits longer on other axes. A suspect may be one that left no record: a replica that
/// lacks a rank, and would wait on another axis (that of the data) for the one that is late if it were in time itself.
WaitingFor waiting_for(SQLite::Database& db, int64_t world, GroupedBy by, const Candidate& found,
                       const std::vector<StepOfGpus>& steps) {
  const StepOfGpus& first_step = steps[found.first];
  const std::map<int64_t, int64_t> stages = places_on_axis(db, world, "%pipeline%");
  ByRankAndAxis waits = waits_on_axes(db, world, first_step.number, !stages.empty());
  const auto is_own = [&](const GpuStep& r) { return group_of_gpu(r, by) == found.suspect; };
  const auto stage_of = [&](const GpuStep& r) {
    const auto known = stages.find(r.rank);
    return known == stages.end() ? int64_t{-1} : known->second;
  };
  // mean of the suspect's ranks; sum over the others, of what they wait longer
  std::map<std::string, double> own_ns, longer_ns;
  std::map<int64_t, double> least_ns;    // in the pipeline, by stage
  std::map<int64_t, double> own_stages;  // ranks of the suspect
  std::set<int64_t> own_replicas;
  const std::map<int64_t, int64_t> replicas = replicas_of(db, world);
  double own_ranks = 0, own_comm_ns = 0;  // the latter a mean, too
  std::map<int64_t, double> comm_ns;
  for (size_t i = found.first; i < steps.size(); ++i)
    for (const GpuStep& r : steps[i].ranks) comm_ns[r.rank] += r.comm_ns;
  for (const GpuStep& r : first_step.ranks) {
    const double ns = waits[r.rank]["pipeline"];
    double& least = least_ns.try_emplace(stage_of(r), ns).first->second;
    least = std::min(least, ns);
    if (!is_own(r)) continue;
    ++own_ranks;
    ++own_stages[stage_of(r)];
    if (const auto replica = replicas.find(r.rank); replica != replicas.end()) own_replicas.insert(replica->second);
  }
  for (const GpuStep& r : first_step.ranks) {
    if (!is_own(r)) continue;
    own_comm_ns += comm_ns[r.rank] / own_ranks;
    for (const auto& [axis, ns] : waits[r.rank]) own_ns[axis] += ns / own_ranks;
  }
  // those that lack a rank: lost on other axes than the pipeline, and on all
  std::map<int64_t, std::pair<double, double>> of_replica;
  for (const auto& [rank, replica] : replicas)
    if (!comm_ns.contains(rank)) of_replica.try_emplace(replica, 0.0, 0.0);
  for (const GpuStep& r : first_step.ranks) {
    const auto replica = replicas.find(r.rank);
    const auto lacking = is_own(r) || replica == replicas.end() ? of_replica.end() : of_replica.find(replica->second);
    if (lacking == of_replica.end()) continue;
    lacking->second.second += std::max(0.0, comm_ns[r.rank] - own_comm_ns);
    for (const auto& [axis, ns] : waits[r.rank])
      if (axis != "pipeline") lacking->second.first += std::max(0.0, ns - own_ns[axis]);
  }
  // What comes once a step, such as loading, the schedule may hide from the others.
  for (const auto& [replica, lost] : of_replica)
    if (found.part == kComputingPiece && lost.first < kLateItself * lost.second) own_replicas.insert(replica);
  const bool all_replicas =
      std::ranges::all_of(replicas, [&](const auto& replica) { return own_replicas.contains(replica.second); });
  bool beside_own = false;  // others are in the suspect's stage
  for (const GpuStep& r : first_step.ranks) {
    if (is_own(r)) continue;
    const bool own_stage = own_stages.contains(stage_of(r));
    beside_own = beside_own || own_stage;
    double elsewhere_ns = 0;
    for (const auto& [axis, ns] : waits[r.rank]) {
      if (axis == "pipeline") continue;
      elsewhere_ns += std::max(0.0, ns - own_ns[axis]);
      longer_ns[axis] += std::max(0.0, ns - own_ns[axis]);
    }
    if (stages.empty()) continue;
    if (all_replicas) {
      longer_ns["pipeline"] += std::max(0.0, comm_ns[r.rank] - own_comm_ns - elsewhere_ns);
    } else if (!own_stage || own_stages.size() > 1) {
      longer_ns["pipeline"] += std::max(0.0, waits[r.rank]["pipeline"] - least_ns[stage_of(r)]);
    }
  }
  WaitingFor result;
  if (!beside_own) {
    result.axis = "pipeline";
    result.axis_ratio = 1;
    return result;
  }
  double sum_ns = 0;
  for (const auto& [axis, ns] : longer_ns) sum_ns += ns;
  result.mean_ns =
      sum_ns / (static_cast<double>(first_step.ranks.size()) - own_ranks) / static_cast<double>(found.steps);
  if (sum_ns <= 0) return result;
  const auto worst = std::max_element(longer_ns.begin(), longer_ns.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  result.axis = worst->first;
  result.axis_ratio = worst->second / sum_ns;
  return result;
}

}  // namespace

void find_waited_for(SQLite::Database& db) {
  Query insert(
      db,
      "INSERT INTO waited_for (world, rank, host, since_step, steps, late_steps, lead_ns, cause, own_ns, others_ns, comm_ns, others_comm_ns,"
      " axis, axis_ratio, own_bytes, others_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  Query insert_rank(db, "INSERT INTO waited_for_rank (world, rank) VALUES (?, ?)");
  std::vector<std::pair<int64_t, size_t>> worlds;  // and how many ranks there are
  for (Query row(db,
                 "SELECT world, world_size FROM steady_world WHERE waits_by = 'device' AND annotated ORDER BY world");
       row.next();)
    worlds.emplace_back(row.integer(0), static_cast<size_t>(row.integer(1)));
  for (const auto& [world, all_ranks] : worlds) {
    std::vector<StepOfGpus> steps = read_gpu_steps(db, world);
    mark_those_apart(steps, all_ranks);
    std::optional<Candidate> found;
    GroupedBy by = GroupedBy::kRanks;
    for (const GroupedBy next : {GroupedBy::kRanks, GroupedBy::kHosts, GroupedBy::kApart}) {
      const std::optional<Candidate> more = find_among(steps, next);
      if (!more || (found && more->lead_ns <= kMoreOfSeveralGpus * found->lead_ns)) continue;
      found = more;
      by = next;
    }
    if (found) {
      read_exchanged(db, world, steps);
      const Exchanged bytes = exchanged_by(steps, by, *found);
      const StepOfGpus& first_step = steps[found->first];
      const WaitingFor waiting = waiting_for(db, world, by, *found, steps);
      const auto& ranks = steps.front().ranks;
      const auto part = static_cast<size_t>(found->part);
      std::optional<int64_t> rank, host, since;
      for (const GpuStep& r : ranks) {
        if (group_of_gpu(r, by) != found->suspect) continue;
        insert_rank.run(world, r.rank);
        if (by == GroupedBy::kRanks) rank = r.rank;
        if (by != GroupedBy::kApart) host = r.host;
      }
      if (found->first > 0) since = first_step.number;
      std::optional<double> axis_ratio, own_bytes, others_bytes;
      if (waiting.axis) axis_ratio = waiting.axis_ratio;
      if (bytes.own > 0 || bytes.others > 0) own_bytes = bytes.own, others_bytes = bytes.others;
      const double saving_ns =
          std::min(std::min(found->lead_ns, found->excess_ns), waiting.mean_ns.value_or(found->lead_ns));
      insert.run(world, rank, host, since, static_cast<int64_t>(found->steps), static_cast<int64_t>(found->late_steps),
                 saving_ns, bytes.explain ? "data" : kPieceNames[part], found->own[part], found->others[part],
                 found->comm_ns, found->others_comm_ns, waiting.axis, axis_ratio, own_bytes, others_bytes);
    }
  }
}

}  // namespace ddl
