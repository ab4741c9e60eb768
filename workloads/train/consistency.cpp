#include "workloads/train/consistency.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "workloads/train/error.h"

namespace ddl::train {

namespace {

using Kind = ConsistencyRule::Kind;

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > (uint64_t{1} << 40)) return std::nullopt;
  return number;
}

}  // namespace

ConsistencyRule parse_consistency(const std::string& rule, const std::string& order) {
  const std::size_t colon = rule.find(':');
  const std::string word = rule.substr(0, colon);
  const std::optional<uint64_t> typed =
      colon == std::string::npos ? std::optional<uint64_t>() : whole_number(std::string_view(rule).substr(colon + 1));
  const uint64_t number = typed.value_or(0);
  ConsistencyRule result;
  if (rule == "sync") {
    result.kind = Kind::kSynchronous;
  } else if (rule == "async") {
    result.kind = Kind::kAsynchronous;
  } else if (rule == "gossip") {
    result.kind = Kind::kGossip;
  } else if (word == "ssp" && typed) {
    result.kind = Kind::kBounded;
  } else if (word == "easgd" && number > 0) {
    result.kind = Kind::kElastic;
  } else if (word == "local" && number > 0) {
    result.kind = Kind::kLocal;
  } else {
    throw UsageError("--consistency '" + rule + "': expected sync, ssp:S, async, gossip, easgd:TAU or local:H");
  }
  result.value = number;
  if (order.empty()) return result;
  if (!result.has_server())
    throw UsageError("--order: only ssp, async and easgd have a server that takes what workers send");
  for (std::size_t begin = 0; begin <= order.size();) {
    const std::size_t end = std::min(order.find(',', begin), order.size());
    const auto worker = whole_number(std::string_view(order).substr(begin, end - begin));
    if (!worker) throw UsageError("--order '" + order + "': expected workers, as in 0,0,1,2,1,2");
    result.order.push_back(*worker);
    begin = end + 1;
  }
  return result;
}

void check_consistency(const ConsistencyRule& rule, int ranks) {
  if (!rule.has_server()) return;
  if (ranks < 2) throw UsageError("--consistency: rank 0 is the server, so there must be 2 ranks or more");
  if (rule.order.empty()) return;
  std::vector<uint64_t> done(static_cast<std::size_t>(ranks) - 1);
  for (const std::size_t worker : rule.order) {
    if (worker >= done.size()) {
      throw UsageError("--order: there are workers 0 to " + std::to_string(done.size() - 1) + ", no " +
                       std::to_string(worker));
    }
    if (const uint64_t slowest = *std::min_element(done.begin(), done.end());
        rule.kind == Kind::kBounded && done[worker] - slowest > rule.value) {
      throw UsageError("--order: worker " + std::to_string(worker) + " would begin " +
                       std::to_string(done[worker] - slowest) +
                       " steps ahead of the slowest, ssp:" + std::to_string(rule.value) + " holds it up");
    }
    ++done[worker];
  }
  if (std::adjacent_find(done.begin(), done.end(), std::not_equal_to<>()) != done.end()) {
    throw UsageError("--order: each worker must occur as often as the others");
  }
}

}  // namespace ddl::train
