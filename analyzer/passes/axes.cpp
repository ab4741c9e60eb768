#include "analyzer/passes/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
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
constexpr AxisWord kWords[] = {{"tensor", "tensor"},     {"tp", "tensor"},          {"pipeline", "pipeline"}, {"pipe", "pipeline"},
                               {"pp", "pipeline"},       {"data", "data"},          {"dp", "data"},           {"ddp", "data"},
                               {"fsdp", "data"},         {"hsdp", "data"},          {"context", "context"},   {"cp", "context"},
                               {"sequence", "sequence"}, {"sp", "sequence"},        {"ulysses", "sequence"},  {"expert", "expert"},
                               {"ep", "expert"},         {"embedding", "embedding"}};

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
  if (axes.empty() && words.contains("model") && words.contains("parallel")) axes.insert("model");  // tensor and pipeline together
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

void name_axes(SQLite::Database& db, const Catalog& catalog) {
  std::map<int64_t, int64_t> world_sizes;
  for (const auto& [id, process] : catalog.processes) world_sizes[process.world] = std::max(world_sizes[process.world], process.world_size);
  Query insert(db, "INSERT INTO communicator_axis (communicator, axis, source) VALUES (?, ?, ?)");
  for (const auto& [id, communicator] : catalog.communicators) {
    const bool groups_ranks = communicator.kind == "world" || communicator.kind == "intra" || communicator.kind == "nccl";
    if (!groups_ranks || communicator.size < 2) continue;
    if (const std::string axis = axis_in_name(communicator.label); !axis.empty()) {
      insert.run(id, axis, "name");
    } else if (static_cast<int64_t>(communicator.ranks.size()) == communicator.size) {
      insert.run(id, axis_of_shape(communicator.ranks, world_sizes[communicator.world]), "shape");
    } else if (communicator.size == world_sizes[communicator.world]) {
      insert.run(id, "all ranks", "shape");
    }
  }
}

}  // namespace ddl
