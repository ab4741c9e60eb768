#include "reports/copy_rates.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/query.h"
#include "store/sorted_records.h"

namespace ddl::reports {
namespace {

struct TimedCopy {
  int64_t start_ns, end_ns, bytes;
  uint32_t kind;  ///< a number of the process's own
};
struct ByCopyBegin {
  bool operator()(const TimedCopy& a, const TimedCopy& b) const { return a.start_ns < b.start_ns; }
};

void add_over_time(store::SortedRecords<TimedCopy, ByCopyBegin>& copies, std::vector<CopyRate>& kinds, bool with_bins) {
  std::vector<OpenIntervals> running(kinds.size(), OpenIntervals(true));
  const auto held_by = [&](size_t kind) {
    return [&rate = kinds[kind], &now = running[kind], with_bins](int64_t from_ns, int64_t to_ns,
                                                                  double bytes_per_second) {
      if (now.open() > 0) rate.busy_ns += to_ns - from_ns;
      if (to_ns > from_ns) rate.most = std::max(rate.most, bytes_per_second);
      if (with_bins) rate.bins.hold(from_ns, to_ns, bytes_per_second);
    };
  };
  copies.sort();
  while (const TimedCopy* copy = copies.next()) {
    const double bytes_per_second =
        static_cast<double>(copy->bytes) * 1e9 / static_cast<double>(copy->end_ns - copy->start_ns);
    running[copy->kind].add(copy->start_ns, copy->end_ns, bytes_per_second, held_by(copy->kind));
  }
  for (size_t kind = 0; kind < kinds.size(); ++kind) running[kind].finish(held_by(kind));
}

}  // namespace

std::vector<CopyRate> read_copy_rates(const RunView& run, size_t drawn) {
  std::vector<CopyRate> all;
  std::map<int64_t, int64_t> ranks;  // by process
  Query processes(run.db, "SELECT id, rank FROM process WHERE world = ? AND rank IS NOT NULL");
  for (processes.bind(run.world); processes.next();) ranks[processes.integer(0)] = processes.integer(1);
  std::optional<store::SortedRecords<TimedCopy, ByCopyBegin>> copies;
  std::vector<CopyRate> kinds;
  const auto end_process = [&] {
    if (kinds.empty()) return;
    add_over_time(*copies, kinds, drawn > 0);
    for (CopyRate& rate : kinds) all.push_back(std::move(rate));
    kinds.clear();
    keep_most_important(all, drawn, [](const CopyRate& a, const CopyRate& b) { return a.bytes < b.bytes; });
  };
  // Rows lie by process.
  Query row(
      run.db,
      "SELECT process, coalesce(copy, 'memset'), start_ns, duration_ns, bytes FROM gpu_event WHERE kind IN (2, 3)");
  std::optional<int64_t> process;
  std::map<int64_t, int64_t>::const_iterator rank = ranks.end();
  while (row.next()) {
    if (process != row.integer(0)) {
      end_process();
      process = row.integer(0);
      rank = ranks.find(*process);
      copies.emplace();
    }
    if (rank == ranks.end()) continue;
    const std::string name = row.text(1);
    auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const CopyRate& rate) { return rate.kind == name; });
    if (kind == kinds.end()) {
      kind = kinds.emplace(kinds.end());
      kind->rank = rank->second;
      kind->kind = name;
    }
    const int64_t ns = row.integer(3);
    if (row.is_null(4) || ns <= 0) {
      ++kind->unknown;
      continue;
    }
    ++kind->copies;
    kind->bytes += row.integer(4);
    copies->add({row.integer(2), row.integer(2) + ns, row.integer(4), static_cast<uint32_t>(kind - kinds.begin())});
  }
  end_process();
  if (all.empty()) return all;
  std::map<std::pair<int64_t, std::string>, double> peaks;
  Query peak(
      run.db,
      "SELECT rank, kind, max(peak_bytes_per_second) FROM v_link WHERE world = ? AND peak_bytes_per_second > 0 AND kind IS NOT NULL"
      " GROUP BY rank, kind");
  for (peak.bind(run.world); peak.next();) peaks[{peak.integer(0), peak.text(1)}] = peak.real(2);
  for (CopyRate& rate : all)
    if (const auto found = peaks.find({rate.rank, rate.kind}); found != peaks.end()) rate.peak = found->second;
  std::stable_sort(all.begin(), all.end(), [](const CopyRate& a, const CopyRate& b) {
    return std::tie(a.rank, a.kind) < std::tie(b.rank, b.kind);
  });
  return all;
}

}  // namespace ddl::reports
