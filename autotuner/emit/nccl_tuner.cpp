#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "autotuner/emit/format.h"

namespace ddl::tune {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

constexpr int64_t kMostChannels = 64;  // MAXCHANNELS of NCCL

/// -1: any
int64_t or_any(int64_t count) { return count > 0 ? count : -1; }

}  // namespace

bool can_write(const NcclRule& rule) {
  return is_one_of(rule.collective, {"allreduce", "broadcast", "reduce", "allgather", "reducescatter"}) &&
         is_one_of(rule.algorithm, {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}) &&
         is_one_of(rule.protocol, {"ll", "ll128", "simple"}) && rule.min_bytes >= 0 &&
         (rule.max_bytes < 0 || rule.max_bytes >= rule.min_bytes) && rule.channels <= kMostChannels;
}

/// The first row that matches counts; ranges include both ends; nodes and ranks are the guards.
Content emit_nccl_tuner(const Emission& emission, const Format&) {
  const Tuned& tuned = emission.tuned;
  Content content;
  int64_t left_out = 0;
  for (const NcclRule& rule : tuned.nccl_rules) {
    if (!can_write(rule)) {
      ++left_out;
      continue;
    }
    const int64_t max_bytes = rule.max_bytes < 0 ? std::numeric_limits<int64_t>::max() : rule.max_bytes;
    content.text += fmt::format("{},{},{},{},{},{},{},{}\n", rule.collective, rule.min_bytes, max_bytes, rule.algorithm,
                                rule.protocol, or_any(rule.channels), or_any(tuned.nodes), or_any(tuned.ranks));
    content.changes = true;
  }
  if (content.changes)
    content.text =
        "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks; -1: any, or NCCL's own choice\n" +
        content.text;
  if (tuned.nccl_rules.empty()) content.note = "NCCL's algorithms stay as they are";
  if (left_out > 0)
    content.note = fmt::format("rules left out: {}, this format has no words or numbers for them", left_out);
  return content;
}

}  // namespace ddl::tune
