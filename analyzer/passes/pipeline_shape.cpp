#include "analyzer/passes/pipeline_shape.h"

#include <map>
#include <numeric>
#include <set>

namespace ddl {
namespace {

/// What one process exchanged with one other.
struct Exchange {
  std::map<int64_t, int64_t> sent, received;  ///< messages by size
  int64_t sent_before_first_receive = 0;
  bool any_received = false;

  int64_t sends() const {
    int64_t sum = 0;
    for (const auto& [bytes, count] : sent) sum += count;
    return sum;
  }
};

int64_t repetitions(const std::map<int64_t, int64_t>& by_size) {
  int64_t common = 0;
  for (const auto& [bytes, count] : by_size) common = std::gcd(common, count);
  return common;
}

struct Process {
  std::map<int32_t, Exchange> peers;
  bool begins_by_sending = false;
  std::optional<int32_t> up, down;  ///< stages before and after
};

class Chains {
 public:
  explicit Chains(const std::vector<std::vector<StageMessage>>& messages) : processes_(messages.size()) {
    for (size_t i = 0; i < messages.size(); ++i) {
      Process& process = processes_[i];
      process.begins_by_sending = !messages[i].empty() && !messages[i].front().receive;
      for (const StageMessage& m : messages[i]) {
        Exchange& exchange = process.peers[m.peer];
        exchange.any_received |= m.receive;
        if (!m.receive && !exchange.any_received) ++exchange.sent_before_first_receive;
        ++(m.receive ? exchange.received : exchange.sent)[m.bytes];
      }
    }
    for (int32_t i = 0; i < size(); ++i) link(i);
  }

  std::vector<std::optional<PipelinePlace>> places() const {
    std::vector<std::optional<PipelinePlace>> result(processes_.size());
    for (int32_t first = 0; first < size(); ++first) {
      const std::optional<PipelinePlace> shape = shape_of(first);
      if (!shape) continue;
      int32_t at = first;
      for (int64_t stage = 0; stage < shape->stages; ++stage) {
        result[static_cast<size_t>(at)] = *shape;
        result[static_cast<size_t>(at)]->stage = stage;
        at = of(at).down.value_or(-1);
      }
    }
    return result;
  }

 private:
  int32_t size() const { return static_cast<int32_t>(processes_.size()); }
  const Process& of(int32_t process) const { return processes_[static_cast<size_t>(process)]; }
  const Exchange* between(int32_t a, int32_t b) const {
    if (a < 0 || a >= size()) return nullptr;
    const auto found = of(a).peers.find(b);
    return found == of(a).peers.end() ? nullptr : &found->second;
  }

  /// `a` sends first and `b` answers.
  bool leads(int32_t a, int32_t b) const {
    const Exchange* ab = between(a, b);
    const Exchange* ba = between(b, a);
    return ab && ba && !ba->sent.empty() && !ab->received.empty() && ab->sent_before_first_receive > 0 &&
           ba->sent_before_first_receive == 0;
  }

  /// A process with two stages before or after it is in no chain: it stays without.
  void link(int32_t process) {
    Process& own = processes_[static_cast<size_t>(process)];
    std::vector<int32_t> ups, downs;
    for (const auto& [peer, exchange] : own.peers) {
      if (!own.begins_by_sending && leads(peer, process)) ups.push_back(peer);
      if (leads(process, peer) && !of_peer_begins(peer)) downs.push_back(peer);
    }
    if (ups.size() == 1) own.up = ups.front();
    if (downs.size() == 1) own.down = downs.front();
  }
  bool of_peer_begins(int32_t peer) const { return of(peer).begins_by_sending; }

  std::optional<PipelinePlace> shape_of(int32_t first) const {
    if (!of(first).begins_by_sending || !of(first).down) return std::nullopt;
    std::vector<int32_t> chain = {first};
    std::set<int32_t> seen = {first};
    for (std::optional<int32_t> next = of(first).down; next; next = of(*next).down) {
      if (of(*next).up != chain.back() || !seen.insert(*next).second) return std::nullopt;
      chain.push_back(*next);
    }
    const int32_t last = chain.back();
    const bool ring = chain.size() > 2 && leads(last, first);
    for (size_t i = 0; i < chain.size(); ++i) {  // nobody talks to others
      for (const auto& [peer, exchange] : of(chain[i]).peers) {
        const bool neighbour = (i > 0 && peer == chain[i - 1]) || (i + 1 < chain.size() && peer == chain[i + 1]);
        const bool closes = ring && ((i == 0 && peer == last) || (chain[i] == last && peer == first));
        if (!neighbour && !closes) return std::nullopt;
      }
    }
    const Exchange& forward = *between(first, chain[1]);
    const int64_t passes = repetitions(forward.sent);  // micro-batches times chunks
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      if (repetitions(between(chain[i], chain[i + 1])->sent) != passes) return std::nullopt;
      if (repetitions(between(chain[i + 1], chain[i])->sent) != passes) return std::nullopt;
    }
    PipelinePlace shape{first, 0, static_cast<int64_t>(chain.size()), passes, 1};
    if (ring) {
      const int64_t wraps = repetitions(between(last, first)->sent);
      if (wraps >= passes || repetitions(between(first, last)->sent) != wraps || passes % (passes - wraps) != 0)
        return std::nullopt;
      shape.micro_batches = passes - wraps;
      shape.chunks = passes / shape.micro_batches;
    }
    const int64_t per_pass = forward.sends() / passes;
    if (shape.micro_batches < 2 || forward.sent_before_first_receive < 2 * per_pass) return std::nullopt;
    return shape;
  }

  std::vector<Process> processes_;
};

}  // namespace

std::vector<std::optional<PipelinePlace>> find_pipelines(const std::vector<std::vector<StageMessage>>& messages) {
  return Chains(messages).places();
}

}  // namespace ddl
