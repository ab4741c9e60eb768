// The profile tables of a process's threads, summed into the tables profile and range_profile.
#include "store/ingest/process_load.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace ddl::store {

namespace {

struct Totals {
  uint64_t calls = 0, bytes = 0, ticks = 0, timed = 0;
  uint64_t min_ticks = UINT64_MAX, max_ticks = 0;
  std::array<uint64_t, kHistogramBuckets> histogram = {};
  bool estimated = false;

  void add(const ProfileEntry& e) {
    calls += all_calls(e);
    bytes += e.bytes;
    ticks += e.ticks;
    timed += timed_calls(e);
    estimated |= e.untimed_calls > 0;
    min_ticks = std::min(min_ticks, e.min_ticks);
    max_ticks = std::max(max_ticks, e.max_ticks);
    for (int i = 0; i < kHistogramBuckets; ++i) histogram[i] += std::min(e.histogram[i], UINT64_MAX - histogram[i]);
  }

  bool has_extremes() const { return timed > 0 && min_ticks <= max_ticks && max_ticks < kMaxDurationTicks; }

  std::array<unsigned char, 4 * kHistogramBuckets> histogram_bytes() const {
    std::array<unsigned char, 4 * kHistogramBuckets> bytes_out;
    for (size_t i = 0; i < bytes_out.size(); ++i)
      bytes_out[i] = static_cast<unsigned char>(std::min<uint64_t>(histogram[i / 4], UINT32_MAX) >> (8 * (i % 4)));
    return bytes_out;
  }
};

/// op, communicator, region, site, size class in the run's ids: contexts that only this process tells apart become one.
using CallKey = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint8_t>;

/// Only some calls were timed: their mean stands for the rest.
int64_t scaled_ns(const Totals& t, const ProcessClock& clock) {
  const int64_t measured = clock.span_ns(t.ticks);
  if (!t.estimated || t.timed == 0) return measured;
  return static_cast<int64_t>(
      std::min(static_cast<double>(measured) * static_cast<double>(t.calls) / static_cast<double>(t.timed), 4e18));
}

}  // namespace

void load_profile(Statements& db, MadeRows& made, const SpoolReader& reader, ProcessTables& tables,
                  std::vector<Skip>& skips) {
  std::map<CallKey, Totals> calls;
  std::map<uint32_t, Totals> ranges;
  std::map<std::pair<uint32_t, uint32_t>, Totals> counters;  // by region and number
  std::vector<ProfileEntry> entries;
  for (const SpoolChunk& chunk : reader.chunks(ChunkKind::kProfile)) {
    reader.read_profile(chunk, entries, &skips);
    for (const ProfileEntry& e : entries) {
      const ProcessContexts::Entry context = tables.context(e.context);
      if (e.op >= kFirstCounterOp && e.op < kFirstCallOp) {
        counters[{context.region, e.op - kFirstCounterOp}].add(e);
      } else if (e.op < kFirstCallOp) {
        ranges[context.region].add(e);
      } else {
        calls[{tables.op(e.op), tables.comm(e.comm), context.region, context.site, e.size_class}].add(e);
      }
    }
  }
  const ProcessClock& clock = tables.clock();
  const auto extreme = [&](const Totals& t, uint64_t ticks) {
    return t.has_extremes() ? std::optional(clock.span_ns(ticks)) : std::nullopt;
  };
  const auto id_or_null = [](uint32_t id) { return id ? std::optional(id) : std::nullopt; };
  std::vector<std::array<unsigned char, 4 * kHistogramBuckets>> histograms;
  histograms.reserve(calls.size());
  made.insert_each("INSERT INTO profile SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12 FROM made_rows",
                   calls, [&](MadeRow& row, const auto& call) {
                     const auto& [op, comm, region, site, size_class] = call.first;
                     const Totals& t = call.second;
                     row.set(tables.process(), op, id_or_null(comm), region, id_or_null(site), size_class, t.calls,
                             t.bytes, scaled_ns(t, clock), extreme(t, t.min_ticks), extreme(t, t.max_ticks),
                             t.estimated, std::span<const unsigned char>(histograms.emplace_back(t.histogram_bytes())));
                   });
  Insert insert_counter(db, "INSERT INTO counter_profile VALUES (?, ?, ?, ?, ?)");
  for (const auto& [key, t] : counters) insert_counter.row(tables.process(), key.first, key.second, t.calls, t.bytes);
  made.insert_each("INSERT INTO range_profile SELECT c0, c1, c2, c3, c4, c5, c6 FROM made_rows", ranges,
                   [&](MadeRow& row, const auto& range) {
                     const Totals& t = range.second;
                     row.set(tables.process(), range.first, t.calls, clock.span_ns(t.ticks), clock.span_ns(t.bytes),
                             extreme(t, t.min_ticks), extreme(t, t.max_ticks));
                   });
}

}  // namespace ddl::store
