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

/// The messages that each process posted and completed within one step.
class StepMessages {
 public:
  StepMessages(SQLite::Database& db, const MessageWorld& world)
      : world_(world),
        rows_(db,
              "SELECT e.op, e.kind, e.start_ns, e.start_ns + e.duration_ns, e.comm, e.peer, e.bytes FROM step s"
              " JOIN event e ON e.process = s.process AND e.start_ns >= s.start_ns AND e.start_ns < s.start_ns + s.duration_ns"
              " AND e.step = s.step WHERE s.process = ?1 AND s.step = ?2 AND e.kind < 3 ORDER BY e.start_ns") {}

  std::vector<StageMessage> read(int32_t process, int64_t step) {
    struct Timed {
      int64_t at_ns;
      StageMessage message;
    };
    std::vector<Timed> all;
    rows_.bind(world_.processes()[static_cast<size_t>(process)]->id, step);
    while (rows_.next()) {
      const MessageOperation& operation = world_.operation(rows_.integer(0));
      const bool request = rows_.integer(1) == 2;
      const int32_t peer = world_.peer(process, rows_.integer(4), rows_.maybe_integer(5));
      if (peer < 0 || operation.polls) continue;
      const bool call = !request && !operation.persistent;
      const bool sends = operation.role == MessageRole::kSend ? call || (request && operation.persistent)
                                                              : operation.role == MessageRole::kExchange && call;
      const bool receives = operation.role == MessageRole::kReceive ? request || (call && !operation.posts)
                                                                    : operation.role == MessageRole::kExchange && request;
      if (sends) all.push_back({rows_.integer(2), {false, peer, rows_.integer(6)}});
      if (receives) all.push_back({rows_.integer(3), {true, peer, rows_.integer(6)}});
    }
    std::stable_sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.at_ns < b.at_ns; });
    std::vector<StageMessage> messages;
    for (const Timed& timed : all) messages.push_back(timed.message);
    return messages;
  }

 private:
  const MessageWorld& world_;
  Query rows_;
};

/// Steps that all ranks of the world ended, evenly spread over the run.
std::vector<int64_t> candidates(SQLite::Database& db, int64_t world) {
  Query rows(db,
             "SELECT s.step FROM step s JOIN process p ON p.id = s.process WHERE p.world = ?1 AND p.rank IS NOT NULL AND s.duration_ns IS "
             "NOT NULL GROUP BY s.step HAVING count(DISTINCT p.rank) = (SELECT count(*) FROM process WHERE world = ?1 AND rank IS NOT NULL)"
             " ORDER BY s.step");
  rows.bind(world);
  std::vector<int64_t> all, some;
  while (rows.next()) all.push_back(rows.integer(0));
  for (size_t i = 0; i < kMostCandidates && i < all.size(); ++i) {
    const size_t at = all.size() <= kMostCandidates ? i : (2 * i + 1) * all.size() / (2 * kMostCandidates);
    some.push_back(all[at]);
  }
  return some;
}

}  // namespace

Pipelines::Pipelines(SQLite::Database& db, const Catalog& catalog) {
  const MessageWorld messages(db, catalog);
  if (!messages.any()) return;
  StepMessages reader(db, messages);
  std::set<int64_t> worlds;
  for (const auto& [id, process] : catalog.processes) worlds.insert(process.world);
  for (const int64_t world : worlds) {
    std::optional<Places> agreed;
    size_t seen = 0;
    for (const int64_t step : candidates(db, world)) {
      std::vector<std::vector<StageMessage>> of_step(messages.processes().size());
      bool any = false;
      for (size_t i = 0; i < of_step.size(); ++i) {
        if (messages.processes()[i]->world == world) of_step[i] = reader.read(static_cast<int32_t>(i), step);
        any |= !of_step[i].empty();
      }
      if (!any) continue;  // the events of this step were not kept
      const auto found = find_pipelines(of_step);
      Places places;
      for (size_t i = 0; i < found.size(); ++i) {
        if (found[i]) places[messages.processes()[i]->id] = {messages.processes()[static_cast<size_t>(found[i]->pipeline)]->id, *found[i]};
      }
      if (agreed && *agreed != places) places.clear();
      agreed = std::move(places);
      if (agreed->empty() || ++seen == kSampledSteps) break;
    }
    if (agreed) places_.insert(agreed->begin(), agreed->end());
  }

  Query insert(db, "INSERT INTO pipeline (process, first, stage, stages, micro_batches, chunks) VALUES (?, ?, ?, ?, ?, ?)");
  for (const auto& [process, at] : places_)
    insert.run(process, at.first, at.place.stage, at.place.stages, at.place.micro_batches, at.place.chunks);

  for (const auto& [id, communicator] : catalog.communicators) {
    const auto process_of = [&, world = communicator.world](int64_t rank) { return rank < 0 ? nullptr : catalog.process_of(world, rank); };
    if (communicator.ranks.size() < 2 || communicator.kind == "inter") continue;
    const ProcessInfo* first = process_of(communicator.ranks.front());
    const bool all = first && std::all_of(communicator.ranks.begin(), communicator.ranks.end(), [&](int64_t rank) {
                       const ProcessInfo* member = process_of(rank);
                       return member && same(first->id, member->id);
                     });
    if (all) communicators_.insert(id);
  }
}

bool Pipelines::same(int64_t process, int64_t other) const {
  const auto a = places_.find(process), b = places_.find(other);
  return a != places_.end() && b != places_.end() && a->second.first == b->second.first;
}

}  // namespace ddl
