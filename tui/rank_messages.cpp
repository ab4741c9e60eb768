#include "tui/rank_messages.h"

#include <algorithm>

namespace ddl::tui {
namespace {

// A tag for each message would let it grow with the job.
constexpr size_t kMostChannels = 65'536;
// Requests that are never completed, but freed or forgotten.
constexpr size_t kMostPosted = 65'536;

}  // namespace

void RankMessages::leave_out() {
  whole_ = false;
  sent_.clear();
  received_.clear();
  posted_.clear();
}

void RankMessages::add(Counts& counts, const MessageChannel& channel) {
  if (channel.peer < 0) return;
  ++counts[channel];
  if (counts.size() > kMostChannels) leave_out();
}

void RankMessages::take(const MessageOperation& operation, uint32_t op, const MessageChannel& channel,
                        uint64_t start_ticks, bool is_request) {
  const bool sends = operation.role == MessageRole::kSend || operation.role == MessageRole::kExchange;
  const bool receives = operation.role == MessageRole::kReceive || operation.role == MessageRole::kExchange;
  if (!whole_ || !(sends || receives || operation.role == MessageRole::kMatchedProbe)) return;
  if (operation.persistent) return leave_out();
  if (is_request) {
    const auto [begin, end] = posted_.equal_range(start_ticks);
    const auto post = std::find_if(begin, end, [&](const auto& p) {
      return p.second.op == op && p.second.channel.comm == channel.comm &&
             (receives || p.second.channel == channel);  // a receive tells only now who sent
    });
    if (post != end) posted_.erase(post);
    if (receives) add(received_, channel);  // of an exchange: its other half
    return;
  }
  if (sends) add(sent_, channel);
  if (operation.posts) {
    posted_.emplace(start_ticks, Posted{op, sends && !operation.buffered, receives, channel});
    if (posted_.size() > kMostPosted) leave_out();
  } else if (!sends) {
    add(received_, channel);
  }
}

}  // namespace ddl::tui
