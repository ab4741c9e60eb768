#include "analyzer/passes/pipelines.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "analyzer/passes/message_events.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr size_t kSampledSteps = 3;
constexpr size_t kMostCandidates = 12;  // some of them may not have been kept

/// When one end of a message saw it.
struct Timed {
  int64_t at_ns;
  StageMessage message;
};

/// The messages that each process posted and completed within one step.
class StepMessages {
 public:
  StepMessages(SQLite::Database& db, const MessageWorld& world, const Catalog& catalog)
      : world_(world),
        catalog_(catalog),
        rows_(
            db,
            "SELECT e.op, e.kind, e.start_ns, e.start_ns + e.duration_ns, e.comm, e.peer, e.bytes FROM step s"
            " JOIN event e ON e.process = s.process AND e.start_ns >= s.start_ns AND e.start_ns < s.start_ns + s.duration_ns"
            " AND e.step = s.step WHERE s.process = ?1 AND s.step = ?2 AND e.kind < 3 ORDER BY e.start_ns") {}

  /// `absent`: numbers of the ranks of this world that have no process.
  std::vector<Timed> read(int32_t process, int64_t step, const std::map<int64_t, int32_t>& absent) {
    std::vector<Timed> all;
    rows_.bind(world_.processes()[static_cast<size_t>(process)]->id, step);
    while (rows_.next()) {
      const MessageOperation& operation = world_.operation(rows_.integer(0));
      const bool request = rows_.integer(1) == 2;
      int32_t peer = world_.peer(process, rows_.integer(4), rows_.maybe_integer(5));
      if (peer == MessageEvent::kMissing && !absent.empty())
        peer = absent_peer(process, rows_.integer(4), rows_.integer(5), absent);
      if (peer < 0 || operation.polls) continue;
      const bool call = !request && !operation.persistent;
      const bool sends = operation.role == MessageRole::kSend ? call || (request && operation.persistent)
                                                              : operation.role == MessageRole::kExchange && call;
      const bool receives = operation.role == MessageRole::kReceive
                                ? request || (call && !operation.posts)
                                : operation.role == MessageRole::kExchange && request;
      if (sends) all.push_back({rows_.integer(2), {false, peer, rows_.integer(6)}});
      if (receives) all.push_back({rows_.integer(3), {true, peer, rows_.integer(6)}});
    }
    return all;
  }

 private:
  int32_t absent_peer(int32_t process, int64_t comm, int64_t peer, const std::map<int64_t, int32_t>& absent) const {
    const auto communicator = catalog_.communicators.find(comm);
    if (communicator == catalog_.communicators.end()) return MessageEvent::kMissing;
    const size_t at = communicator->second.index_of(world_.processes()[static_cast<size_t>(process)]->rank, peer);
    const auto found =
        at < communicator->second.ranks.size() ? absent.find(communicator->second.ranks[at]) : absent.end();
    return found == absent.end() ? MessageEvent::kMissing : found->second;
  }

  const MessageWorld& world_;
  const Catalog& catalog_;
  Query rows_;
};

/// Steps that all ranks of the world ended, but `torn` ones of which the end is missing, evenly spread over the run.
/// Not the first, if there are others: hooks that find the steps themselves open it at the first forward pass, which on
/// all stages but one comes after the first message.
std::vector<int64_t> candidates(SQLite::Database& db, int64_t world, int64_t torn) {
  Query rows(
      db,
      "SELECT s.step FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?1 AND p.rank IS NOT NULL AND s.duration_ns IS "
      "NOT NULL GROUP BY s.step HAVING count(DISTINCT p.rank) >= (SELECT count(*) FROM process WHERE world = ?1 AND rank IS NOT NULL) - ?2"
      " ORDER BY s.step");
  rows.bind(world, torn);
  std::vector<int64_t> all, some;
  while (rows.next()) all.push_back(rows.integer(0));
  if (all.size() > 1) all.erase(all.begin());
  for (size_t i = 0; i < kMostCandidates && i < all.size(); ++i) {
    const size_t at = all.size() <= kMostCandidates ? i : (2 * i + 1) * all.size() / (2 * kMostCandidates);
    some.push_back(all[at]);
  }
  return some;
}

/// The ranks of a world by number: its processes as MessageWorld has them, then the ranks that have none.
struct Numbers {
  std::map<int64_t, int32_t> absent;  ///< by rank
  std::vector<bool> unrecorded;       ///< what they did is told by the other ends of their messages
  int64_t torn = 0;

  Numbers(const MessageWorld& messages, const Catalog& catalog, int64_t world)
      : unrecorded(messages.processes().size()) {
    for (size_t i = 0; i < unrecorded.size(); ++i) {
      const ProcessInfo& process = *messages.processes()[i];
      unrecorded[i] = process.world == world && catalog.is_unrecorded(world, process.rank);
      torn += unrecorded[i] ? 1 : 0;
    }
    for (const int64_t rank : catalog.unrecorded_ranks(world)) {
      if (catalog.process_of(world, rank) != nullptr) continue;
      absent.emplace(rank, static_cast<int32_t>(unrecorded.size()));
      unrecorded.push_back(true);
    }
  }
};

/// By number, in the order of time.
std::vector<std::vector<StageMessage>> messages_of(StepMessages& reader, const MessageWorld& world,
                                                   const Numbers& numbers, int64_t number, int64_t step) {
  std::vector<std::vector<Timed>> seen(numbers.unrecorded.size());
  for (size_t i = 0; i < world.processes().size(); ++i) {
    if (world.processes()[i]->world != number || numbers.unrecorded[i]) continue;
    seen[i] = reader.read(static_cast<int32_t>(i), step, numbers.absent);
    for (const Timed& timed : seen[i]) {
      const auto other = static_cast<size_t>(timed.message.peer);
      if (numbers.unrecorded[other])
        seen[other].push_back({timed.at_ns, {!timed.message.receive, static_cast<int32_t>(i), timed.message.bytes}});
    }
  }
  std::vector<std::vector<StageMessage>> messages(seen.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    std::stable_sort(seen[i].begin(), seen[i].end(), [](const Timed& a, const Timed& b) { return a.at_ns < b.at_ns; });
    for (const Timed& timed : seen[i]) messages[i].push_back(timed.message);
  }
  return messages;
}

}  // namespace

Pipelines::Pipelines(SQLite::Database& db, const Catalog& catalog) {
  const MessageWorld messages(db, catalog);
  if (!messages.any()) return;
  StepMessages reader(db, messages, catalog);
  std::set<int64_t> worlds;
  for (const auto& [id, process] : catalog.processes) worlds.insert(process.world);
  for (const int64_t world : worlds) {
    std::optional<Places> agreed;
    size_t seen = 0;
    const Numbers numbers(messages, catalog, world);
    for (const int64_t step : candidates(db, world, numbers.torn)) {
      const std::vector<std::vector<StageMessage>> of_step = messages_of(reader, messages, numbers, world, step);
      // its events were not kept
      if (std::all_of(of_step.begin(), of_step.end(), [](const auto& one) { return one.empty(); })) continue;
      const auto found = find_pipelines(of_step);
      Places places;
      std::map<int32_t, int64_t> first;  // process of the first stage that has one, by pipeline
      for (size_t i = 0; i < messages.processes().size(); ++i) {
        if (!found[i]) continue;
        const int64_t id = messages.processes()[i]->id;
        const auto [known, fresh] = first.try_emplace(found[i]->pipeline, id);
        if (!fresh && places.at(known->second).place.stage > found[i]->stage) known->second = id;
        places[id].place = *found[i];
      }
      for (auto& [id, at] : places) at.first = first.at(at.place.pipeline);
      if (agreed && *agreed != places) places.clear();
      agreed = std::move(places);
      if (agreed->empty() || ++seen == kSampledSteps) break;
    }
    if (agreed) places_.insert(agreed->begin(), agreed->end());
  }

  Query insert(db,
               "INSERT INTO pipeline (process, first, stage, stages, micro_batches, chunks) VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto& [process, at] : places_)
    insert.run(process, at.first, at.place.stage, at.place.stages, at.place.micro_batches, at.place.chunks);

  for (const auto& [id, communicator] : catalog.communicators) {
    if (communicator.ranks.size() < 2 || communicator.kind == "inter") continue;
    // A rank that left no record is in it, or it is not: the others tell.
    const ProcessInfo* first = nullptr;
    const bool all = std::all_of(communicator.ranks.begin(), communicator.ranks.end(),
                                 [&, world = communicator.world](int64_t rank) {
                                   const ProcessInfo* member = rank < 0 ? nullptr : catalog.process_of(world, rank);
                                   if (member == nullptr) return rank >= 0 && catalog.is_unrecorded(world, rank);
                                   if (first == nullptr) first = member;
                                   return same(first->id, member->id);
                                 });
    if (all && first != nullptr) communicators_.insert(id);
  }
}

bool Pipelines::same(int64_t process, int64_t other) const {
  const auto a = places_.find(process), b = places_.find(other);
  return a != places_.end() && b != places_.end() && a->second.first == b->second.first;
}

}  // namespace ddl
