#include "analyzer/models/replay_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.h"
#include "store/import/pipeline_ops.h"

namespace ddl::models {
namespace {

using store::Meets;

struct Direction {
  std::string_view name;
  int64_t next;  ///< stage that a send goes to, from the sender's
};
constexpr Direction kDirections[] = {{"forward", 1}, {"backward", -1}};

/// "forward-send" is {forward, "send"}.
std::optional<std::pair<const Direction*, std::string_view>> split(std::string_view type) {
  for (const Direction& direction : kDirections)
    if (type.starts_with(direction.name) && type.substr(direction.name.size()).starts_with("-"))
      return std::pair(&direction, type.substr(direction.name.size() + 1));
  return std::nullopt;
}

using Key = std::tuple<int64_t, int64_t, int64_t, std::string_view, int64_t>;  // replica, stage, step, type, number

class Builder {
 public:
  explicit Builder(const std::vector<PipelineOp>& ops) : ops_(ops) {
    for (const PipelineOp& op : ops) replicas_ = std::max(replicas_, op.replica + 1);
  }

  Replay build() {
    for (const PipelineOp& op : ops_) add(op);
    for (const auto& [meeting, members] : meetings_) meet(meeting, members);
    for (const PipelineOp& op : ops_) order_messages(op);
    order_lanes();
    replay_.finish(false);
    return std::move(replay_);
  }

 private:
  // step, type, number, stage, replica
  using Meeting = std::tuple<int64_t, std::string_view, int64_t, int64_t, int64_t>;

  static Key key(const PipelineOp& op) { return {op.replica, op.stage, op.step, op.type, op.number}; }

  void add(const PipelineOp& op) {
    const auto message = split(op.type);
    const bool is_message = message && message->second != "compute";
    const store::PipelineCollective* collective = store::find_pipeline_collective(op.type);
    const bool meets = is_message || collective != nullptr;
    if (!kinds_.contains(op.type)) {
      // The two ends of a message are of one type: neither is slow without the other.
      const std::string type = is_message ? std::string(message->first->name) + "-messages" : op.type;
      kinds_[op.type] = replay_.add_kind(type, meets);
    }
    const Replay::Op at = replay_.add({.rank = op.rank.value_or(op.stage * replicas_ + op.replica),
                                       .step = op.step,
                                       .kind = kinds_[op.type],
                                       .seconds = op.duration_s});
    if (!at_.emplace(key(op), at).second)
      throw Error(fmt::format("step {}: {} {} of stage {}, replica {} occurs twice", op.step, op.type, op.number,
                              op.stage, op.replica),
                  "", ExitCode::kDataMissing);
    if (is_message) {
      const bool sends = message->second == "send";
      const int64_t sender = sends ? op.stage : op.stage - message->first->next;
      meetings_[{op.step, message->first->name, op.number, sender, op.replica}].push_back(at);
    } else if (meets) {
      const Meets who = collective->meets;
      meetings_[{op.step, collective->type, op.number, who == Meets::kAlone || who == Meets::kReplicas ? op.stage : -1,
                 who == Meets::kAlone || who == Meets::kEnds ? op.replica : -1}]
          .push_back(at);
    }
    if (!is_message) lanes_[{op.stage, op.replica, op.step}].push_back(at);
  }

  // What they wait for one another is not the transfer's.
  void meet(const Meeting& meeting, const std::vector<Replay::Op>& members) {
    const bool message = std::get<1>(meeting) == kDirections[0].name || std::get<1>(meeting) == kDirections[1].name;
    if (message && members.size() != 2)
      throw Error(fmt::format("step {}: {} message {} of stage {}, replica {} has only one end", std::get<0>(meeting),
                              std::get<1>(meeting), std::get<2>(meeting), std::get<3>(meeting), std::get<4>(meeting)),
                  "sends and receives are needed from both stages", ExitCode::kDataMissing);
    double last_s = ops_[members[0]].start_s;
    for (const Replay::Op op : members) last_s = std::max(last_s, ops_[op].start_s);
    for (const Replay::Op op : members) {
      const double end_s = ops_[op].start_s + ops_[op].duration_s;
      replay_.meet(op, static_cast<int64_t>(groups_), std::max(0.0, end_s - last_s));
    }
    ++groups_;
  }

  std::optional<Replay::Op> find(const PipelineOp& like, const std::string& type, int64_t number) const {
    const auto found = at_.find({like.replica, like.stage, like.step, type, number});
    return found == at_.end() ? std::nullopt : std::optional(found->second);
  }

  void order_messages(const PipelineOp& op) {
    const auto message = split(op.type);
    if (!message) return;
    const std::string name(message->first->name);
    const Replay::Op self = at_.at(key(op));
    const auto comes_after = [&](const std::string& type, int64_t number) {
      if (const auto earlier = find(op, type, number)) replay_.after(self, *earlier);
    };
    if (message->second == "recv") comes_after(name + "-compute", op.number - 1);
    if (message->second == "recv" || message->second == "send") comes_after(op.type, op.number - 1);
    if (message->second == "send") comes_after(name + "-compute", op.number);
    if (message->second == "compute") comes_after(name + "-recv", op.number);
  }

  void order_lanes() {
    for (auto& [stage, lane] : lanes_) {
      std::stable_sort(lane.begin(), lane.end(),
                       [&](Replay::Op a, Replay::Op b) { return ops_[a].start_s < ops_[b].start_s; });
      for (size_t i = 1; i < lane.size(); ++i) replay_.after(lane[i], lane[i - 1]);
    }
  }

  const std::vector<PipelineOp>& ops_;
  Replay replay_;
  int64_t replicas_ = 1;
  std::map<std::string, size_t> kinds_;
  std::map<Key, Replay::Op> at_;
  std::map<Meeting, std::vector<Replay::Op>> meetings_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<Replay::Op>> lanes_;
  size_t groups_ = 0;
};

}  // namespace

Replay pipeline_replay(const std::vector<PipelineOp>& ops) { return Builder(ops).build(); }

}  // namespace ddl::models
