#include "analyzer/passes/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analyzer/query.h"

namespace ddl {
namespace {

// In the order in which several are joined.
constexpr const char* kAxes[] = {"tensor", "pipeline", "data", "context", "sequence", "expert", "embedding", "model"};

struct AxisWord {
  std::string_view word;
  std::string_view axis;
};
constexpr AxisWord kWords[] = {
    {"tensor", "tensor"},   {"tp", "tensor"},  {"pipeline", "pipeline"},  {"pipe", "pipeline"}, {"pp", "pipeline"},
    {"data", "data"},       {"dp", "data"},    {"ddp", "data"},           {"fsdp", "data"},     {"hsdp", "data"},
    {"context", "context"}, {"cp", "context"}, {"sequence", "sequence"},  {"sp", "sequence"},   {"ulysses", "sequence"},
    {"expert", "expert"},   {"ep", "expert"},  {"embedding", "embedding"}};

/// Words of a name in lower case, without numbers at their ends: "mesh_TP0" has mesh and tp.
std::set<std::string> words_of(std::string_view label) {
  std::set<std::string> words;
  std::string word;
  const auto end = [&] {
    word.erase(word.find_last_not_of("0123456789") + 1);
    if (!word.empty()) words.insert(word);
    word.clear();
  };
  for (const char c : label) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if ((lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9')) {
      word += lower;
    } else {
      end();
    }
  }
  end();
  return words;
}

}  // namespace

std::string axis_in_name(std::string_view label) {
  const std::set<std::string> words = words_of(label);
  std::set<std::string_view> axes;
  for (const AxisWord& known : kWords)
    if (words.contains(std::string(known.word))) axes.insert(known.axis);
  // tensor and pipeline together
  if (axes.empty() && words.contains("model") && words.contains("parallel")) axes.insert("model");
  if (axes.size() == 2 && axes.contains("expert") && !words.contains("and")) axes.erase("expert");
  std::vector<std::string_view> ordered;
  for (const char* axis : kAxes)
    if (axes.contains(axis)) ordered.emplace_back(axis);
  return fmt::format("{}", fmt::join(ordered, "+"));
}

std::string axis_of_shape(const std::vector<int64_t>& ranks, int64_t world_size) {
  if (static_cast<int64_t>(ranks.size()) == world_size) return "all ranks";
  const int64_t stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 0;
  for (size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i] - ranks[i - 1] != stride) return "other";
  return stride > 0 ? fmt::format("stride {}", stride) : "other";
}

std::vector<AxisOfCommunicator> axes_of(const std::vector<AxisInput>& communicators) {
  std::vector<AxisOfCommunicator> axes(communicators.size());
  const auto counts = [](const AxisInput& c) { return c.groups_ranks && c.size >= 2; };
  // by parent and number: what those with a name serve
  std::map<std::pair<size_t, int64_t>, std::set<std::string>> of_split;
  for (size_t i = 0; i < communicators.size(); ++i) {
    const AxisInput& c = communicators[i];
    if (!counts(c)) continue;
    if (std::string axis = axis_in_name(c.label); !axis.empty()) axes[i] = {std::move(axis), "name"};
    if (!axes[i].axis.empty() && c.parent && c.split != 0) of_split[{*c.parent, c.split}].insert(axes[i].axis);
  }
  for (size_t i = 0; i < communicators.size(); ++i) {
    const AxisInput& c = communicators[i];
    if (!counts(c) || !axes[i].axis.empty() || !c.parent || c.split == 0) continue;
    const auto beside = of_split.find({*c.parent, c.split});
    if (beside != of_split.end() && beside->second.size() == 1) axes[i] = {*beside->second.begin(), "lineage"};
  }
  std::vector<bool> done(communicators.size());
  std::vector<size_t> path;
  // every communicator is asked once: what is above it hands its answer down
  for (size_t i = 0; i < communicators.size(); ++i) {
    size_t at = i;
    for (path.clear(); !done[at]; at = *communicators[at].parent) {
      done[at] = true;  // a damaged store may lead in circles
      path.push_back(at);
      if (!axes[at].axis.empty() || !communicators[at].parent || communicators[at].split == 0) break;
    }
    std::string above = axes[at].axis;
    for (; !path.empty(); path.pop_back()) {
      AxisOfCommunicator& axis = axes[path.back()];
      if (axis.axis.empty() && counts(communicators[path.back()]) && !above.empty()) axis = {above, "lineage"};
      if (!axis.axis.empty()) above = axis.axis;
    }
  }
  for (size_t i = 0; i < communicators.size(); ++i) {
    const AxisInput& c = communicators[i];
    if (!counts(c) || !axes[i].axis.empty()) continue;
    const bool known = static_cast<int64_t>(c.ranks.size()) == c.size;
    if (known || c.size == c.world_size)
      axes[i] = {known ? axis_of_shape(c.ranks, c.world_size) : "all ranks", "shape"};
  }
  return axes;
}

void name_axes(SQLite::Database& db, const Catalog& catalog) {
  std::map<int64_t, int64_t> world_sizes;
  for (const auto& [id, process] : catalog.processes)
    world_sizes[process.world] = std::max(world_sizes[process.world], process.world_size);
  std::vector<AxisInput> inputs;
  std::vector<int64_t> ids;
  std::map<int64_t, size_t> places;
  for (const auto& [id, communicator] : catalog.communicators) {
    const bool groups_ranks = communicator.kind == "world" || communicator.kind == "intra" ||
                              communicator.kind == "nccl" || communicator.kind == "gloo";
    places[id] = inputs.size();
    ids.push_back(id);
    inputs.push_back({communicator.label,
                      groups_ranks,
                      communicator.size,
                      communicator.ranks,
                      world_sizes[communicator.world],
                      {},
                      0});
  }
  Query splits(
      db,
      "SELECT s.communicator, c.parent, s.split FROM communicator_split s JOIN communicator c ON c.id = s.communicator");
  while (splits.next()) {
    const auto child = places.find(splits.integer(0)), parent = places.find(splits.integer(1));
    if (child == places.end() || parent == places.end()) continue;
    inputs[child->second].parent = parent->second;
    inputs[child->second].split = splits.integer(2);
  }
  const std::vector<AxisOfCommunicator> axes = axes_of(inputs);
  Query insert(db, "INSERT INTO communicator_axis (communicator, axis, source) VALUES (?, ?, ?)");
  for (size_t i = 0; i < axes.size(); ++i)
    if (!axes[i].axis.empty()) insert.run(ids[i], axes[i].axis, axes[i].source);
}

std::map<int64_t, int64_t> places_on_axis(SQLite::Database& db, int64_t world, const std::string& pattern) {
  std::map<int64_t, int64_t> places;
  Query rows(db, R"(
    SELECT m.communicator, m.rank
    FROM communicator_member m
    JOIN communicator_axis a ON a.communicator = m.communicator AND a.axis LIKE ?1
    JOIN communicator c ON c.id = m.communicator AND c.world = ?2
    WHERE m.rank IS NOT NULL
    ORDER BY min(m.rank) OVER (PARTITION BY m.communicator), m.communicator, m.comm_rank)");
  rows.bind(pattern, world);
  int64_t communicator = 0, before = 0;
  while (rows.next()) {
    const bool first = rows.integer(0) != communicator;
    communicator = rows.integer(0);
    int64_t& place = places[rows.integer(1)];
    if (!first) place = std::max(place, before + 1);
    before = place;
  }
  return places;
}

}  // namespace ddl
