#include "cli/trace_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/error.h"

namespace ddl::cli {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::optional<int64_t> whole_number(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

/// "A:B" with `separator` :, both included; "A:" and ":B" are open; "A" is A alone.
std::optional<reports::TraceRequest::Steps> range(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) {
    const auto only = whole_number(text);
    return only ? std::optional(reports::TraceRequest::Steps{*only, *only}) : std::nullopt;
  }
  const std::string_view head = text.substr(0, at), tail = text.substr(at + 1);
  if (head.empty() && tail.empty()) return std::nullopt;
  const auto first = head.empty() ? std::optional<int64_t>(0) : whole_number(head),
             last = tail.empty() ? std::optional(kMost) : whole_number(tail);
  if (!first || !last || *first > *last) return std::nullopt;
  return reports::TraceRequest::Steps{*first, *last};
}

std::vector<int64_t> ranks_of(std::string_view text) {
  constexpr int64_t kMostRanks = 1 << 20;
  std::vector<int64_t> ranks;
  const auto refuse = [&] {
    return Error(fmt::format("--ranks: invalid list of ranks '{}'", text), "e.g. --ranks 0-3,8", ExitCode::kUsage);
  };
  for (std::string_view rest = text;;) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    const auto from_to = part.starts_with('-') || part.ends_with('-') ? std::nullopt : range(part, '-');
    if (!from_to || from_to->last >= kMostRanks) throw refuse();
    for (int64_t rank = from_to->first; rank <= from_to->last; ++rank) ranks.push_back(rank);
    if (ranks.size() > kMostRanks) throw refuse();
    if (comma == rest.size()) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace

reports::TraceRequest trace_request(const VerbOptions& options) {
  reports::TraceRequest request;
  if (const auto steps = options.maybe<std::string>("steps")) {
    request.steps = range(*steps, ':');
    if (!request.steps) throw Error(fmt::format("--steps: invalid range '{}'", *steps), "e.g. --steps 100:109", ExitCode::kUsage);
  }
  if (const auto ranks = options.maybe<std::string>("ranks")) request.ranks = ranks_of(*ranks);
  return request;
}

}  // namespace ddl::cli
