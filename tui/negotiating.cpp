#include "tui/negotiating.h"

#include <algorithm>

#include "analyzer/passes/requested_bytes.h"

namespace ddl::tui {
namespace {

constexpr int64_t kLookBackNs = 1'000'000'000;
constexpr int64_t kApartNs = kLookBackNs / 16;
constexpr size_t kMaxSent = 4096, kMaxLeastSent = 256;

}  // namespace

void Negotiating::take_sample(const Record& r, const store::ProcessClock& clock) {
  const ThreadTimes times = thread_times(r);
  if (record_op(r.word) != 0) {
    sleeps_in = record_op(r.word);
    asked_ticks = r.start_ticks;
  } else if (clock.span_ns(r.start_ticks - asked_ticks) > 2 * kLookBackNs) {
    sleeps_in = 0;  // of another sleep
  }
  if (since_ticks == 0) since_ticks = r.start_ticks;
  const Sample sample{r.start_ticks, times.cpu_ns + (times.ready_ns == kUnknownTime ? 0 : times.ready_ns),
                      times.spun_ticks};
  const auto before_ns = [&](const Sample& earlier) { return clock.span_ns(r.start_ticks - earlier.at_ticks); };
  if (samples.size() >= 2 && before_ns(samples[samples.size() - 2]) < kApartNs) {
    samples.back() = sample;
    return;
  }
  samples.push_back(sample);
  while (samples.size() > 2 && before_ns(samples[1]) >= kLookBackNs) samples.pop_front();
}

void Negotiating::take_request(uint32_t sequence, uint64_t bytes) {
  if (sent_since == 0) sent_since = least_sent_since = sequence;
  if (bytes > least_bytes) {
    sent.emplace_back(sequence, bytes);
  } else {
    if (bytes < least_bytes) {  // what was the least until now held requests
      for (const uint32_t number : least_sent) sent.emplace_back(number, least_bytes);
      std::sort(sent.begin(), sent.end());
      sent_since = std::max(sent_since, least_sent_since);
      least_sent.clear();
      least_bytes = bytes;
    }
    least_sent.push_back(sequence);
    if (least_sent.size() > kMaxLeastSent) {
      least_sent_since = least_sent.front() + 1;
      least_sent.pop_front();
    }
  }
  while (sent.size() > kMaxSent) {
    sent_since = sent.front().first + 1;
    sent.pop_front();
  }
}

void Negotiating::take_data(uint32_t sequence, uint64_t end_ticks) {
  moved_in.push_back(sequence);
  if (moved_in.size() > kMaxSent) moved_in.pop_front();
  if (since_ticks == 0) return;  // the training thread may have moved it
  if (moved++ == 0) first_moved_ticks = end_ticks;
  moved_ticks = std::max(moved_ticks, end_ticks);
}

std::vector<std::optional<int64_t>> open_requests(const std::vector<const Negotiating*>& ranks) {
  uint32_t from = 0;
  uint64_t least_bytes = UINT64_MAX;
  for (const Negotiating* rank : ranks) {
    from = std::max(from, rank->sent_since);
    least_bytes = std::min(least_bytes, rank->least_bytes);
  }
  // A rank that never sent an empty list asked for something with its least, too.
  const auto always_asked = [&](const Negotiating& rank) {
    return rank.sent_since != 0 && rank.least_bytes > least_bytes;
  };
  for (const Negotiating* rank : ranks)
    if (always_asked(*rank)) from = std::max(from, rank->least_sent_since);
  struct Entry {
    uint32_t sequence;
    size_t rank;
    uint64_t bytes;  ///< 0: data was moved
  };
  std::vector<Entry> entries;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (const auto& [sequence, bytes] : ranks[i]->sent)
      if (sequence >= from) entries.push_back({sequence, i, bytes - least_bytes});
    if (!always_asked(*ranks[i])) continue;
    for (const uint32_t sequence : ranks[i]->least_sent)
      if (sequence >= from) entries.push_back({sequence, i, ranks[i]->least_bytes - least_bytes});
  }
  for (const uint32_t sequence : ranks.empty() ? std::deque<uint32_t>() : ranks.front()->moved_in)
    entries.push_back({sequence, 0, 0});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.sequence < b.sequence; });
  RequestedBytes requested;
  std::vector<std::optional<int64_t>> found(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i]->sent_since != 0) requested.add(static_cast<int64_t>(i), 0);
  for (const Entry& entry : entries) {
    if (entry.bytes > 0) {
      requested.add(static_cast<int64_t>(entry.rank), static_cast<int64_t>(entry.bytes));
    } else {
      requested.data_moved();
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i]->sent_since != 0) found[i] = requested.add(static_cast<int64_t>(i), 0);
  return found;
}

}  // namespace ddl::tui
