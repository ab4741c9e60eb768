// Steps and layers of jobs that mark none: steps from the collectives' repeating sequence (repetition.h), layers from
// the call site and the position in the step.
//
// Steps. Each process goes by the communicator on which it makes most collectives; one member's sequence tells
// where steps begin, and the same collectives, by their numbers, begin them on all members: from leaving the
// collective before the first one of the step to leaving the last one. Of NCCL's collectives what the device did
// counts, not the calls that enqueue it, and so do the steps: the host may be a step ahead. They are rows of
// `step`, as if annotated, of processes that have a row in `inferred_steps`; events carry their number from then
// on, also what GPUs did, by when they did it.
//
// Layers that are all alike (tensor parallelism) repeat several times in a step. So collectives with ranks beyond that
// communicator belong to the sequence, if with them it repeats less often. Where nothing else tells equal collectives
// apart (fences), what is sent between them does, if no two of a step have the same before them. In both cases the
// other members must see it, too.
//
// Layers. The k-th collective of an operation and call site within the step is one layer, "MPI_Allreduce #2
// lmp+0x1a2b"; messages and what completes them are one layer per operation and call site. Regions of kind 'inferred'
// stand for them, in the place of "outside every range". Computing between two calls belongs to the layer of the later
// one, as backward does that leads to a gradient's allreduce. What GPUs do has no layers: which kernels belong to a
// collective its place does not tell.
//
// Background threads that fuse what is ready reduce other batches in each step: there a step is what adds up to the
// same bytes (equal_sums.h).
//
// Groups of ranks that make different numbers of steps and exchange now and then have steps by these exchanges, or none
// (coupled_steps.h).
//
// Worlds with a single annotated step are left alone, and processes whose events were thinned, because a gap in the
// sequence is a shift.
#include "analyzer/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/passes/coupled_steps.h"
#include "analyzer/passes/equal_sums.h"
#include "analyzer/passes/message_operation.h"
#include "analyzer/passes/repetition.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

constexpr int64_t kMaxPosition = 1000;  // of a call site in a step: what comes later has no layer

constexpr size_t kMostByMessages = 16;  // collectives of a step that only the messages between them tell apart
constexpr double kSeenByOthers = 0.9;   // of the steps, or of the collectives

/// Where a collective is in the sequence of any member.
struct SequencePlace {
  int64_t seq = 0;    ///< its number on the communicator that the steps are of, or that of the last one before it
  int64_t after = 0;  ///< it is on another communicator, the how manyth after that
  int64_t op = 0;     ///< then; so that members which make others there do not count as the same

  auto operator<=>(const SequencePlace&) const = default;
};

struct Collectives {
  std::vector<Beat> beats;
  std::vector<SequencePlace> places;
  std::vector<int64_t> threads;
};

/// Collectives of `communicator` in each step.
size_t own_in_step(const Repetition& found, const std::vector<SequencePlace>& places) {
  std::vector<int64_t> own;
  for (const auto& [first, last] : found.steps) {
    const auto begin = places.begin() + static_cast<std::ptrdiff_t>(first),
               end = places.begin() + static_cast<std::ptrdiff_t>(last);
    own.push_back(std::count_if(begin, end, [](const SequencePlace& place) { return place.after == 0; }));
  }
  return static_cast<size_t>(upper_median_of(std::move(own)));
}

int64_t token_of(std::initializer_list<int64_t> parts) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int64_t part : parts) hash = (hash ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15;
  return static_cast<int64_t>(hash);
}

/// Events that tell when a collective ran: MPI's are calls and requests; NCCL's what a device did, not the call
/// that enqueued it.
const char* kinds_of(const CommunicatorInfo& communicator) {
  return communicator.kind == "nccl" ? "kind = 4" : "kind < 3";
}

/// Calls on `communicator`, and on `others` in between.
Collectives read(SQLite::Database& db, const Catalog& catalog, int64_t process, const CommunicatorInfo& communicator,
                 const std::set<int64_t>& others, bool by_size) {
  std::string all = std::to_string(communicator.id);
  for (const int64_t other : others) all += fmt::format(", {}", other);
  Query rows(
      db,
      fmt::format(
          "SELECT op, site, bytes, start_ns, start_ns + duration_ns, seq, comm, thread FROM event WHERE process = ?1 AND +comm IN ({})"
          " AND seq IS NOT NULL AND {} AND id NOT IN (SELECT event FROM coordination) ORDER BY start_ns, seq",
          all, kinds_of(communicator)));
  rows.bind(process);
  Collectives result;
  SequencePlace place;
  while (rows.next()) {
    const bool own = rows.integer(6) == communicator.id;
    place = own ? SequencePlace{rows.integer(5), 0, 0} : SequencePlace{place.seq, place.after + 1, rows.integer(0)};
    // Each member has others of its own: they are alike by their size.
    const int64_t size = own ? 0 : catalog.communicators.at(rows.integer(6)).size;
    result.beats.push_back(
        {token_of({rows.integer(0), rows.maybe_integer(1).value_or(-1), by_size ? rows.integer(2) : 0, size}),
         rows.integer(3), rows.integer(4)});
    result.places.push_back(place);
    result.threads.push_back(rows.integer(7));
  }
  return result;
}

/// What the process sends, receives or moves one-sidedly before each of `beats`, as their tokens. How often does not
/// count: that may depend on who comes first.
std::vector<Beat> told_by_messages(SQLite::Database& db, const Catalog& catalog, int64_t process,
                                   std::vector<Beat> beats) {
  Query rows(db,
             "SELECT op, site, start_ns FROM event WHERE process = ?1 AND kind = 1 AND seq IS NULL ORDER BY start_ns");
  rows.bind(process);
  const auto moves = [&] {
    const Operation& operation = catalog.operation(rows.integer(0));
    const MessageRole role = message_operation(operation).role;
    return role == MessageRole::kSend || role == MessageRole::kReceive || role == MessageRole::kExchange ||
           operation.op_class == OpClass::kRequestStart || operation.op_class == OpClass::kOneSided;
  };
  bool more = rows.next();
  for (Beat& beat : beats) {
    std::set<std::pair<int64_t, int64_t>> before;
    for (; more && rows.integer(2) < beat.enter_ns; more = rows.next())
      if (moves()) before.emplace(rows.integer(0), rows.maybe_integer(1).value_or(-1));
    beat.token = 0;
    for (const auto& [op, site] : before) beat.token = token_of({beat.token, op, site});
  }
  return beats;
}

/// Share of the collectives that are as the one `lag` before.
double agreement_at(const std::vector<Beat>& beats, size_t lag) {
  if (beats.size() <= lag) return 0;
  size_t same = 0;
  for (size_t i = lag; i < beats.size(); ++i) same += beats[i].token == beats[i - lag].token ? 1 : 0;
  return static_cast<double>(same) / static_cast<double>(beats.size() - lag);
}

/// No two collectives of a step are alike, in nearly all steps.
bool are_all_different(const Repetition& found, const std::vector<Beat>& beats) {
  const auto different = std::count_if(found.steps.begin(), found.steps.end(), [&](const auto& step) {
    std::set<int64_t> tokens;
    for (size_t i = step.first; i < step.second; ++i) tokens.insert(beats[i].token);
    return tokens.size() == step.second - step.first;
  });
  return static_cast<double>(different) >= kSeenByOthers * static_cast<double>(found.steps.size());
}

/// The communicators of a world on which collectives repeat.
struct Communicators {
  /// Each process's of two or more members on which it made most collectives, or its background threads most that move
  /// data: communicator -> processes.
  std::map<int64_t, std::vector<int64_t>> main;
  std::map<int64_t, std::set<int64_t>> used;  ///< by process
};

Communicators communicators_of(SQLite::Database& db, const Catalog& catalog,
                               const std::map<int64_t, BackgroundProcess>& background, int64_t world) {
  std::map<int64_t, std::pair<int64_t, int64_t>> most;  // by process: calls, communicator
  Query rows(db, "SELECT process, comm, op, sum(calls) FROM profile WHERE comm IS NOT NULL GROUP BY process, comm, op");
  std::map<std::pair<int64_t, int64_t>, int64_t> calls;
  const auto usable = [&](int64_t id) {
    const auto communicator = catalog.communicators.find(id);
    return communicator != catalog.communicators.end() && communicator->second.size >= 2 &&
           communicator->second.world == world;
  };
  while (rows.next()) {
    if (!usable(rows.integer(1)) || background.contains(rows.integer(0))) continue;
    const Operation& operation = catalog.operation(rows.integer(2));
    if (operation.numbered && !operation.on_device) calls[{rows.integer(0), rows.integer(1)}] += rows.integer(3);
  }
  // Cycles go on everywhere, also where the data of another process set is moved.
  Query moved(db, R"(
    SELECT e.process, e.comm, count(*)
    FROM event e
    JOIN background_process b ON b.process = e.process
    JOIN op o ON o.id = e.op
    WHERE e.kind < 3 AND e.seq IS NOT NULL AND e.comm IS NOT NULL AND e.thread IS NOT b.thread AND o.class = 'all_to_all'
      AND e.id NOT IN (SELECT event FROM coordination)
    GROUP BY e.process, e.comm)");
  while (moved.next())
    if (usable(moved.integer(1))) calls[{moved.integer(0), moved.integer(1)}] += moved.integer(2);
  // Of NCCL's those of which it is known when they ran.
  Query on_devices(db, "SELECT e.process, e.comm FROM nccl_collective n CROSS JOIN event e ON e.id = n.event");
  while (on_devices.next()) {
    if (usable(on_devices.integer(1))) ++calls[{on_devices.integer(0), on_devices.integer(1)}];
  }
  for (const auto& [key, count] : calls) {
    auto& best = most[key.first];
    if (count > best.first) best = {count, key.second};
  }
  Communicators result;
  for (const auto& [process, best] : most) result.main[best.second].push_back(process);
  for (const auto& [key, count] : calls) result.used[key.first].insert(key.second);
  return result;
}

bool marks_no_step(SQLite::Database& db, int64_t world) {
  Query any(db, "SELECT 1 FROM step s JOIN process p ON p.id = s.process WHERE p.world = ? LIMIT 1");
  any.bind(world);
  return !any.next();
}

class Inference {
 public:
  Inference(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background)
      : db_(db),
        catalog_(catalog),
        background_(background),
        insert_step_(
            db, "INSERT INTO step (process, thread, step, start_ns, duration_ns, mpi_ns) VALUES (?, ?, ?, ?, ?, NULL)"),
        insert_process_(db, "INSERT INTO inferred_steps (process, comm, period, agreement) VALUES (?, ?, ?, ?)"),
        events_(
            db,
            "SELECT id, thread, kind, op, site, region, start_ns, duration_ns, seq FROM event WHERE process = ?1 AND start_ns >= ?2"
            " AND start_ns < ?3 ORDER BY start_ns, kind"),
        update_(db, "UPDATE event SET step = ?2, region = ?3 WHERE id = ?1"),
        update_gpu_(db, "UPDATE gpu_event SET step = ?2 WHERE process = ?1 AND start_ns >= ?3 AND start_ns < ?4"),
        insert_layer_(
            db, "INSERT INTO inferred_layer (process, region, calls, compute_ns, exposed_ns) VALUES (?, ?, ?, ?, ?)") {
    Query last(db, "SELECT max(id) FROM region");
    next_region_ = last.next() ? last.integer(0) + 1 : 1;
    Query sites(db, "SELECT id, module, offset FROM site");
    while (sites.next()) {
      const std::string module = sites.text(1);
      sites_[sites.integer(0)] = fmt::format("{}+{:#x}", module.substr(module.rfind('/') + 1), sites.integer(2));
    }
  }

  /// `used`: by process, the communicators of its collectives.
  void infer(const CommunicatorInfo& communicator, const std::vector<int64_t>& processes,
             const std::map<int64_t, std::set<int64_t>>& used) {
    if (std::optional<Group> found = find(communicator, processes, used)) groups_.push_back(std::move(*found));
  }

  /// Marks what was inferred, if groups that exchange agree on their steps.
  void mark_groups() {
    if (!join_groups()) return;
    for (const Group& group : groups_) mark_all(group);
  }

 private:
  /// When, and on which thread, a process left a collective: by process and number.
  struct Leave {
    int64_t at_ns, thread;
  };
  using Leaves = std::unordered_map<int64_t, std::map<SequencePlace, Leave>>;

  /// Processes with one main communicator, and what repeats on it.
  struct Group {
    const CommunicatorInfo* communicator;
    std::vector<int64_t> processes;
    Repetition found;
    std::vector<SequencePlace> places;
    Leaves leaves;
    std::vector<int64_t> numbers = {};  ///< of the steps; none: as they come
  };

  std::optional<Group> find(const CommunicatorInfo& communicator, const std::vector<int64_t>& processes,
                            const std::map<int64_t, std::set<int64_t>>& used) {
    const int64_t reference = processes.front();
    if (background_.contains(reference)) {
      Collectives sequence;
      const std::optional<Repetition> found = find_batches(reference, communicator, sequence);
      if (!found) return std::nullopt;
      return Group{&communicator, processes, *found, sequence.places, leaves_of(communicator, *found, sequence.places)};
    }
    Collectives own, with_others;
    std::optional<Repetition> found = find_sequence(reference, communicator, {}, own);
    const std::set<int64_t> others = reaching_beyond(communicator, used.at(reference));
    const std::optional<Repetition> beyond =
        others.empty() ? std::nullopt : find_sequence(reference, communicator, others, with_others);
    if (beyond && (!found || own_in_step(*beyond, with_others.places) > own_in_step(*found, own.places))) {
      const Leaves leaves = leaves_in_sequences(communicator, processes, used, *beyond, with_others.places);
      if (are_seen_by_all(processes, *beyond, with_others.places, leaves))
        return Group{&communicator, processes, *beyond, with_others.places, leaves};
    }
    if (!found) return std::nullopt;
    if (found->period == 1) {
      if (std::optional<Repetition> told = find_told_by_messages(communicator, processes, own)) found = std::move(told);
    }
    return Group{&communicator, processes, *found, own.places, leaves_of(communicator, *found, own.places)};
  }

  /// What a process calls with ranks that are not of its group.
  struct Exchanges {
    std::vector<Interval> calls;
    std::map<int64_t, size_t> messages;  ///< by rank
    std::map<int64_t, size_t> together;  ///< by communicator
  };

  Exchanges exchanges_of(int64_t process, const CommunicatorInfo& group) {
    Query rows(db_,
               "SELECT comm, peer, seq IS NOT NULL, start_ns, start_ns + duration_ns FROM event WHERE process = ?1"
               " AND kind IN (1, 2) AND comm IS NOT NULL AND (peer IS NOT NULL OR seq IS NOT NULL) AND id NOT IN"
               " (SELECT event FROM coordination) ORDER BY start_ns");
    rows.bind(process);
    Exchanges result;
    const int64_t rank = catalog_.process(process).rank;
    const auto is_of_group = [&](int64_t other) { return other < 0 || group.comm_rank.contains(other); };
    while (rows.next()) {
      const auto found = catalog_.communicators.find(rows.integer(0));
      if (found == catalog_.communicators.end() || found->first == group.id) continue;
      const std::vector<int64_t>& members = found->second.ranks;
      if (rows.integer(2) != 0) {
        if (std::all_of(members.begin(), members.end(), is_of_group)) continue;
        ++result.together[found->first];
      } else {
        const size_t at = found->second.index_of(rank, rows.integer(1));
        if (at >= members.size() || is_of_group(members[at])) continue;
        ++result.messages[members[at]];
      }
      result.calls.push_back({rows.integer(3), rows.integer(4)});
    }
    return result;
  }

  /// By the clock of `process`.
  static std::vector<Interval> units_of(const Group& group, int64_t process) {
    std::vector<Interval> units(group.found.steps.size());
    const auto own = group.leaves.find(process);
    for (size_t k = 0; k < units.size() && own != group.leaves.end(); ++k) {
      const auto begin = own->second.find(group.places[group.found.steps[k].first - 1]),
                 end = own->second.find(group.places[group.found.steps[k].second - 1]);
      if (begin != own->second.end() && end != own->second.end()) units[k] = {begin->second.at_ns, end->second.at_ns};
    }
    return units;
  }

  // Groups that exchange are those that wait for each other, be it through ranks that reduce nothing.
  bool join_groups() {
    if (groups_.size() < 2 || background_.contains(groups_.front().processes.front())) return true;
    std::vector<GroupSteps> steps;
    for (const Group& group : groups_) steps.push_back({units_of(group, group.processes.front()), {}});
    if (keep_step(steps)) return true;
    std::map<int64_t, int64_t> next;  // from rank to rank of what exchanges, to one that is its own next
    const auto root = [&](int64_t rank) {
      for (auto at = next.try_emplace(rank, rank).first; at->second != rank; at = next.try_emplace(rank, rank).first)
        rank = at->second;
      return rank;
    };
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      const int64_t first = catalog_.process(group.processes.front()).rank;
      const auto join = [&](int64_t rank, size_t calls) {
        if (rank >= 0 && calls >= kMinRepetitions) next[root(rank)] = root(first);
      };
      for (const int64_t process : group.processes) {
        join(catalog_.process(process).rank, kMinRepetitions);
        Exchanges own = exchanges_of(process, *group.communicator);
        for (const auto& [rank, calls] : own.messages) join(rank, calls);
        for (const auto& [comm, calls] : own.together)
          for (const int64_t rank : catalog_.communicators.at(comm).ranks) join(rank, calls);
        if (own.calls.size() > steps[g].exchanges.size()) steps[g] = {units_of(group, process), std::move(own.calls)};
      }
    }
    std::map<int64_t, std::vector<size_t>> joined;
    for (size_t g = 0; g < groups_.size(); ++g)
      joined[root(catalog_.process(groups_[g].processes.front()).rank)].push_back(g);
    return std::all_of(joined.begin(), joined.end(), [&](const auto& part) { return couple(part.second, steps); });
  }

  bool couple(const std::vector<size_t>& groups, const std::vector<GroupSteps>& steps) {
    std::vector<GroupSteps> theirs;
    for (const size_t g : groups) theirs.push_back(steps[g]);
    if (keep_step(theirs)) return true;
    const std::optional<std::vector<CoupledSteps>> coupled = couple_steps(theirs);
    if (!coupled) return false;
    for (size_t i = 0; i < groups.size(); ++i) {
      Group& group = groups_[groups[i]];
      const auto units = std::move(group.found.steps);
      group.found.steps.clear();
      group.found.period *= (*coupled)[i].units;
      for (const CoupledSteps::Step& step : (*coupled)[i].steps) {
        group.found.steps.emplace_back(units[step.first].first, units[step.last - 1].second);
        group.numbers.push_back(step.number);
      }
    }
    return true;
  }

  /// Communicators with a rank that is none of `communicator`, of the same kind.
  std::set<int64_t> reaching_beyond(const CommunicatorInfo& communicator, const std::set<int64_t>& used) const {
    std::set<int64_t> result;
    for (const int64_t id : used) {
      const CommunicatorInfo& other = catalog_.communicators.at(id);
      if (other.kind == "inter" || (other.kind == "nccl") != (communicator.kind == "nccl")) continue;
      const auto is_beyond = [&](int64_t rank) { return rank >= 0 && !communicator.comm_rank.contains(rank); };
      if (std::any_of(other.ranks.begin(), other.ranks.end(), is_beyond)) result.insert(id);
    }
    return result;
  }

  std::optional<Repetition> find_sequence(int64_t process, const CommunicatorInfo& communicator,
                                          const std::set<int64_t>& others, Collectives& sequence) {
    // sizes may change from step to step, if call sites tell collectives apart
    for (const bool by_size : {true, false}) {
      sequence = read(db_, catalog_, process, communicator, others, by_size);
      const auto other = [&](const Beat& beat) { return beat.token != sequence.beats.front().token; };
      if (!by_size && std::none_of(sequence.beats.begin(), sequence.beats.end(), other)) break;
      if (std::optional<Repetition> found = find_repetition(sequence.beats)) return found;
    }
    return std::nullopt;
  }

  std::optional<Repetition> find_told_by_messages(const CommunicatorInfo& communicator,
                                                  const std::vector<int64_t>& processes, const Collectives& sequence) {
    const std::vector<Beat> told = told_by_messages(db_, catalog_, processes.front(), sequence.beats);
    std::optional<Repetition> found = find_repetition(told);
    if (!found || found->period == 1 || found->period > kMostByMessages || !are_all_different(*found, told))
      return std::nullopt;
    for (const int64_t process : processes) {
      const std::vector<Beat> own =
          told_by_messages(db_, catalog_, process, read(db_, catalog_, process, communicator, {}, false).beats);
      const double agreement = agreement_at(own, found->period);
      if (agreement < kSeenByOthers || agreement <= agreement_at(own, 1)) return std::nullopt;
    }
    return found;
  }

  /// What a background thread fuses as it becomes ready differs from step to step; its bytes add up. Its rooted
  /// collectives are no step's.
  std::optional<Repetition> find_batches(int64_t process, const CommunicatorInfo& communicator, Collectives& sequence) {
    Query rows(db_, R"(
      SELECT e.bytes, e.start_ns, e.start_ns + e.duration_ns, e.seq
      FROM event e
      JOIN op o ON o.id = e.op
      WHERE e.process = ?1 AND +e.comm = ?2 AND e.seq IS NOT NULL AND e.kind < 3 AND o.class = 'all_to_all'
        AND e.id NOT IN (SELECT event FROM coordination)
      ORDER BY e.start_ns, e.seq)");
    rows.bind(process, communicator.id);
    std::vector<Batch> batches;
    sequence = {};
    while (rows.next()) {
      batches.push_back({rows.integer(0), rows.integer(1), rows.integer(2)});
      sequence.places.push_back({rows.integer(3), 0, 0});
    }
    return find_equal_sums(batches);
  }

  struct Layer {
    int64_t calls = 0, compute_ns = 0, exposed_ns = 0;
  };

  Leaves leaves_of(const CommunicatorInfo& communicator, const Repetition& found,
                   const std::vector<SequencePlace>& places) {
    std::set<int64_t> wanted;
    for (const auto& [first, last] : found.steps) wanted.insert({places[first - 1].seq, places[last - 1].seq});
    Query rows(db_, fmt::format(
                        "SELECT process, start_ns + duration_ns, thread FROM event WHERE comm = ?1 AND seq = ?2 AND {}",
                        kinds_of(communicator)));
    Leaves leaves;
    for (const int64_t seq : wanted) {
      rows.bind(communicator.id, seq);
      while (rows.next()) leaves[rows.integer(0)][{seq, 0, 0}] = {rows.integer(1), rows.integer(2)};
    }
    return leaves;
  }

  /// The same where the sequences have several communicators.
  Leaves leaves_in_sequences(const CommunicatorInfo& communicator, const std::vector<int64_t>& processes,
                             const std::map<int64_t, std::set<int64_t>>& used, const Repetition& found,
                             const std::vector<SequencePlace>& places) {
    std::set<SequencePlace> wanted;
    for (const auto& [first, last] : found.steps) wanted.insert({places[first - 1], places[last - 1]});
    Leaves leaves;
    for (const int64_t process : processes) {
      const Collectives own =
          read(db_, catalog_, process, communicator, reaching_beyond(communicator, used.at(process)), false);
      for (size_t i = 0; i < own.places.size(); ++i)
        if (wanted.contains(own.places[i])) leaves[process][own.places[i]] = {own.beats[i].leave_ns, own.threads[i]};
    }
    return leaves;
  }

  static bool are_seen_by_all(const std::vector<int64_t>& processes, const Repetition& found,
                              const std::vector<SequencePlace>& places, const Leaves& leaves) {
    return std::all_of(processes.begin(), processes.end(), [&](int64_t process) {
      const auto own = leaves.find(process);
      if (own == leaves.end()) return false;
      const auto is_seen = [&](const auto& step) {
        return own->second.contains(places[step.first - 1]) && own->second.contains(places[step.second - 1]);
      };
      const auto seen = std::count_if(found.steps.begin(), found.steps.end(), is_seen);
      return static_cast<double>(seen) >= kSeenByOthers * static_cast<double>(found.steps.size());
    });
  }

  void mark_all(const Group& group) {
    for (const int64_t process : group.processes) {
      insert_process_.run(process, group.communicator->id, static_cast<int64_t>(group.found.period),
                          group.found.agreement);
      mark(process, group);
    }
  }

  void mark(int64_t process, const Group& group) {
    layers_.clear();
    const Repetition& found = group.found;
    const std::vector<SequencePlace>& places = group.places;
    const auto own = group.leaves.find(process);
    for (size_t k = 0; k < found.steps.size() && own != group.leaves.end(); ++k) {
      const auto begin = own->second.find(places[found.steps[k].first - 1]),
                 end = own->second.find(places[found.steps[k].second - 1]);
      if (begin == own->second.end() || end == own->second.end() || end->second.at_ns <= begin->second.at_ns) continue;
      const int64_t number = group.numbers.empty() ? static_cast<int64_t>(k) : group.numbers[k];
      insert_step_.run(process, end->second.thread, number, begin->second.at_ns,
                       end->second.at_ns - begin->second.at_ns);
      mark_events(process, number, begin->second.at_ns, end->second.at_ns);
      update_gpu_.run(process, number, begin->second.at_ns, end->second.at_ns);
    }
    for (const auto& [region, layer] : layers_)
      insert_layer_.run(process, region, layer.calls, layer.compute_ns, layer.exposed_ns);
  }

  void mark_events(int64_t process, int64_t step, int64_t begin_ns, int64_t end_ns) {
    struct Marked {
      int64_t id, region;
    };
    std::vector<Marked> events;
    std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> positions;  // by kind, operation, call site
    std::map<int64_t, int64_t> left_ns;                                  // by thread
    events_.bind(process, begin_ns, end_ns);
    while (events_.next()) {
      const int64_t thread = events_.integer(1), op = events_.integer(3), start_ns = events_.integer(6),
                    duration_ns = events_.integer(7);
      const bool call = events_.integer(2) == 1;
      int64_t region = events_.integer(5);
      if (region == 0 && events_.integer(2) < 3) {
        const Operation& operation = catalog_.operation(op);
        const std::optional<int64_t> site = events_.maybe_integer(4);
        if (operation.numbered) {
          const int64_t position = ++positions[{events_.integer(2), op, site.value_or(0)}];
          if (position <= kMaxPosition) region = region_of(op, site, position);
        } else if (message_operation(operation).role != MessageRole::kNone) {
          region = region_of(op, site, 0);
        }
      }
      events.push_back({events_.integer(0), region});
      if (!call) continue;
      int64_t& left = left_ns.try_emplace(thread, begin_ns).first->second;
      if (inferred_.contains(region)) {
        Layer& layer = layers_[region];
        ++layer.calls;
        layer.compute_ns += std::max<int64_t>(0, start_ns - left);
        layer.exposed_ns += std::min(duration_ns, std::max<int64_t>(0, end_ns - start_ns));
      }
      left = std::max(left, start_ns + duration_ns);
    }
    events_.reset();
    for (const Marked& e : events) update_.run(e.id, step, e.region);
  }

  int64_t region_of(int64_t op, std::optional<int64_t> site, int64_t position) {
    const auto [entry, is_new] = regions_.try_emplace({op, site.value_or(0), position}, next_region_);
    if (is_new) {
      ++next_region_;
      inferred_.insert(entry->second);
      const auto known = site ? sites_.find(*site) : sites_.end();
      const std::string layer =
          fmt::format("{}{}{}", catalog_.operation(op).name, position > 0 ? fmt::format(" #{}", position) : "",
                      known == sites_.end() ? "" : " " + known->second);
      Query(db_, "INSERT INTO region (id, parent, kind, name, phase, layer) VALUES (?1, 0, 'inferred', ?2, NULL, ?2)")
          .run(entry->second, layer);
    }
    return entry->second;
  }

  SQLite::Database& db_;
  const Catalog& catalog_;
  const std::map<int64_t, BackgroundProcess>& background_;
  Query insert_step_, insert_process_, events_, update_, update_gpu_, insert_layer_;
  int64_t next_region_ = 1;
  std::unordered_map<int64_t, std::string> sites_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> regions_;  ///< by operation, call site, position
  std::set<int64_t> inferred_;
  std::map<int64_t, Layer> layers_;  ///< of the process at hand, by region
  std::vector<Group> groups_;
};

}  // namespace

void forget_inferred_steps(SQLite::Database& db) {
  Query any(db, "SELECT 1 FROM inferred_steps LIMIT 1");
  if (!any.next()) return;
  any.reset();
  db.exec(
      "UPDATE event SET step = NULL, region = iif(region IN (SELECT id FROM region WHERE kind = 'inferred'), 0, region)"
      " WHERE process IN (SELECT process FROM inferred_steps);"
      "UPDATE gpu_event SET step = NULL WHERE process IN (SELECT process FROM inferred_steps);"
      "DELETE FROM step WHERE process IN (SELECT process FROM inferred_steps);"
      "DELETE FROM region WHERE kind = 'inferred'; DELETE FROM inferred_layer; DELETE FROM inferred_steps");
}

void infer_steps(SQLite::Database& db, const Catalog& catalog, const std::map<int64_t, BackgroundProcess>& background) {
  std::set<int64_t> worlds;
  for (const auto& [id, process] : catalog.processes)
    if (process.rank >= 0) worlds.insert(process.world);
  for (const int64_t world : worlds) {
    if (!marks_no_step(db, world)) continue;
    Inference inference(db, catalog, background);
    const Communicators communicators = communicators_of(db, catalog, background, world);
    for (const auto& [communicator, processes] : communicators.main) {
      const auto thinned = [&](int64_t process) { return catalog.process(process).thinned; };
      if (std::none_of(processes.begin(), processes.end(), thinned))
        inference.infer(catalog.communicators.at(communicator), processes, communicators.used);
    }
    inference.mark_groups();
  }
}

}  // namespace ddl
