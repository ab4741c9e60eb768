#include "reports/stream_queues.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "analyzer/query.h"
#include "reports/overview.h"
#include "store/sorted_records.h"

namespace ddl::reports {
namespace {

struct QueuedOperation {
  int64_t launch_ns, start_ns;
  uint32_t stream;  ///< a number of the process's own
};
struct ByLaunch {
  bool operator()(const QueuedOperation& a, const QueuedOperation& b) const { return a.launch_ns < b.launch_ns; }
};

/// Streams of a process, from the operations that it launched.
std::vector<StreamQueue> queues_of_process(store::SortedRecords<QueuedOperation, ByLaunch>& operations,
                                           std::vector<StreamQueue> streams, bool with_bins) {
  // A launch comes before what begins at the same time: it may be itself.
  std::vector<OpenIntervals> queued(streams.size(), OpenIntervals(false));
  const auto held_by = [&](StreamQueue& queue) {
    return [&queue, with_bins](int64_t from_ns, int64_t to_ns, double length) {
      const int64_t ns = to_ns - from_ns;
      queue.most = std::max(queue.most, static_cast<int64_t>(length));
      queue.time_ns += ns;
      queue.length_ns += length * static_cast<double>(ns);
      if (length == 0) queue.empty_ns += ns;
      if (length >= kFullQueue) queue.full_ns += ns;
      if (with_bins) queue.bins.hold(from_ns, to_ns, length);
    };
  };
  operations.sort();
  while (const QueuedOperation* o = operations.next()) {
    streams[o->stream].changes += 2;
    queued[o->stream].add(o->launch_ns, std::max(o->launch_ns, o->start_ns), 1, held_by(streams[o->stream]));
  }
  for (size_t i = 0; i < streams.size(); ++i) queued[i].finish(held_by(streams[i]));
  return streams;
}

}  // namespace

std::vector<StreamQueue> read_queues(const RunView& run, size_t drawn) {
  std::vector<StreamQueue> all;
  Query processes(run.db, "SELECT id, rank FROM process WHERE world = ? AND rank IS NOT NULL ORDER BY rank, id");
  processes.bind(run.world);
  std::vector<std::pair<int64_t, int64_t>> ranks;  // by process
  while (processes.next()) ranks.emplace_back(processes.integer(0), processes.integer(1));
  std::sort(ranks.begin(), ranks.end());
  std::optional<store::SortedRecords<QueuedOperation, ByLaunch>> operations;
  std::vector<StreamQueue> streams;
  const auto end_process = [&] {
    if (streams.empty()) return;
    for (StreamQueue& queue : queues_of_process(*operations, std::move(streams), drawn > 0))
      all.push_back(std::move(queue));
    streams.clear();
    const auto is_less = [](const StreamQueue& a, const StreamQueue& b) { return a.changes < b.changes; };
    keep_most_important(all, drawn, is_less);
  };
  // Rows lie by process.
  Query row(
      run.db,
      "SELECT process, launch_ns, start_ns, device, stream FROM gpu_event WHERE kind IN (1, 2, 3) AND launch_ns IS NOT NULL");
  std::optional<int64_t> process;
  int64_t rank = -1;
  uint32_t at = 0;
  while (row.next()) {
    if (process != row.integer(0)) {
      end_process();
      process = row.integer(0);
      const auto known = std::lower_bound(ranks.begin(), ranks.end(), std::pair(*process, INT64_MIN));
      rank = known != ranks.end() && known->first == *process ? known->second : -1;
      operations.emplace();
    }
    if (rank < 0) continue;
    const std::optional<int64_t> device = row.maybe_integer(3), stream = row.maybe_integer(4);
    if (at >= streams.size() || streams[at].device != device || streams[at].stream != stream) {
      const auto same = [&](const StreamQueue& queue) { return queue.device == device && queue.stream == stream; };
      at = static_cast<uint32_t>(std::find_if(streams.begin(), streams.end(), same) - streams.begin());
      if (at == streams.size()) {
        StreamQueue& queue = streams.emplace_back();
        queue.rank = rank, queue.device = device, queue.stream = stream;
      }
    }
    operations->add({row.integer(1), row.integer(2), at});
  }
  end_process();
  std::stable_sort(all.begin(), all.end(), [](const StreamQueue& a, const StreamQueue& b) {
    return std::tie(a.rank, a.device, a.stream) < std::tie(b.rank, b.device, b.stream);
  });
  return all;
}

Table table_of_queues(const RunView& run, const std::vector<StreamQueue>& queues) {
  Table table{.id = "queue",
              .caption = "Queues of streams: kernels, copies and memsets that were launched and had not begun",
              .columns = {{"rank", "Rank", Unit::kCount},
                          {"device", "GPU", Unit::kCount},
                          {"stream", "Stream", Unit::kCount},
                          {"changes", "Changes", Unit::kCount, 2},
                          {"most", "Most", Unit::kCount},
                          {"mean", "Mean over time", Unit::kNumber},
                          {"empty_ns", "Empty for", Unit::kDuration},
                          {"full_ns", "1024 for", Unit::kDuration}},
              .note = "from a stream's first launch to the begin of its last operation",
              .when_empty = "No launch was recorded. If the job used GPUs, ddl report loss says why."};
  const auto count_or_absent = [](const std::optional<int64_t>& count) {
    return count ? Value::count(*count) : Value::absent(Unit::kCount, "NOT_APPLICABLE");
  };
  for (const StreamQueue& queue : queues) {
    const std::optional<double> mean = queue.mean();
    add_row(run, table,
            {Value::count(queue.rank), count_or_absent(queue.device), count_or_absent(queue.stream),
             Value::count(queue.changes), Value::count(queue.most),
             mean ? Value::number(*mean) : Value::absent(Unit::kNumber, "ZERO_DENOM"),
             Value::duration_ns(queue.empty_ns), Value::duration_ns(queue.full_ns)});
  }
  return table;
}

Table queue_table(const RunView& run) { return table_of_queues(run, read_queues(run, 0)); }

}  // namespace ddl::reports
