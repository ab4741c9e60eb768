#include "store/import/cpu_sweep.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "store/import/columns.h"

namespace ddl::store {

namespace {

enum Row { kStep, kRange, kLaunch, kCall };

constexpr size_t kMostOpen = 4096;  ///< ranges of a thread at a time; Python's own limit of calls inside each other is 1000

}  // namespace

bool CpuSweep::Totals::add(int64_t duration_ns, std::optional<int64_t> more_bytes, int64_t inside_mpi_ns) {
  ++calls;
  if (!more_bytes) bytes.reset();
  const bool beyond = (bytes && __builtin_add_overflow(*bytes, *more_bytes, &*bytes)) |
                      __builtin_add_overflow(time_ns, duration_ns, &time_ns) | __builtin_add_overflow(mpi_ns, inside_mpi_ns, &mpi_ns);
  min_ns = std::min(min_ns, duration_ns);
  max_ns = std::max(max_ns, duration_ns);
  return !beyond;
}

CpuSweep::CpuSweep(ImportedRun& run, const std::function<void(double)>& step_done)
    : run_(run),
      step_done_(step_done),
      insert_step_(run.db_, "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?)"),
      insert_range_(run.db_, "INSERT INTO range_event VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)"),
      insert_event_(
          run.db_,
          "INSERT INTO event(process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes, peer, tag, datatype)"
          " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      insert_source_(
          run.db_,
          "INSERT INTO nccl_collective VALUES (last_insert_rowid(), 'profiler', ?, ?, NULL, 1, ?, ?, 0, 1, 1, NULL, NULL, NULL, NULL)"),
      insert_launch_(run.db_, "INSERT INTO temp.launch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)") {}

void CpuSweep::run() {
  SQLite::Statement rows(
      run_.db_,
      "SELECT process, thread, start, duration, kind, number, name, seq, op, comm, bytes, peer, tag, datatype, algorithm, protocol"
      " FROM temp.stage_cpu ORDER BY process, thread, start, duration DESC, kind");
  const auto maybe = [&](int column) { return maybe_integer(rows, column); };
  uint64_t done = 0;
  while (rows.executeStep()) {
    if (++done % 100'000 == 0) step_done_(0.7 * static_cast<double>(done) / static_cast<double>(run_.cpu_rows_));
    const int64_t process = rows.getColumn(0).getInt64(), thread = rows.getColumn(1).getInt64();
    if (process != process_ || thread != thread_) {
      close_until(INT64_MAX);
      if (process != process_) end_process();
      process_ = process;
      thread_ = thread;
    }
    const ImportedRun::Process& p = run_.processes_[static_cast<size_t>(process)];
    const int64_t start_ns = rows.getColumn(2).getInt64(), duration_ns = rows.getColumn(3).getInt64();
    const int64_t number = rows.getColumn(5).getInt64();
    close_until(start_ns);
    const std::optional<int64_t> step = run_.step_at(static_cast<size_t>(process), start_ns);
    switch (rows.getColumn(4).getInt()) {
      case kStep:
        make_room(start_ns);
        open_.push_back(
            {start_ns, start_ns + duration_ns, run_.region(current(), ContextKind::kStep, 0), true, number, std::nullopt, std::nullopt});
        break;
      case kRange:
        make_room(start_ns);
        open_.push_back({start_ns, start_ns + duration_ns,
                         run_.region(current(), static_cast<ContextKind>(number), rows.getColumn(6).getUInt()), false, 0, maybe(7),
                         std::nullopt});
        if (const std::optional<int64_t> op = maybe(8)) open_.back().launches = {++ranges_of_nccl_, *op, maybe(9), maybe(10), maybe(13)};
        break;
      case kLaunch:
        if (const Launches* l = launches_at(start_ns)) {
          insert_launch_.row(process, number, thread, current(), step, start_ns, duration_ns, l->range, l->op,
                             run_.communicator_id(l->comm.value_or(0)), l->bytes, l->datatype);
        } else {
          insert_launch_.row(process, number, thread, current(), step, start_ns, duration_ns, std::nullopt, std::nullopt, std::nullopt,
                             std::nullopt, std::nullopt);
        }
        break;
      default: {
        const int64_t op = rows.getColumn(8).getInt64();
        const std::optional<int64_t> bytes = maybe(10), layer = maybe(6);
        const uint32_t region = layer ? layer_in_step(static_cast<uint32_t>(*layer)) : current();
        const std::optional<int64_t> comm = run_.communicator_id(maybe(9).value_or(0));
        insert_event_.row(p.id, thread, number, op, comm, maybe(7), region, step, start_ns + p.shift_ns, duration_ns, bytes, maybe(11),
                          maybe(12), maybe(13));
        ++run_.events_;
        switch (static_cast<ImportedTiming>(number)) {
          case ImportedTiming::kNcclProfiler:
            insert_source_.row(maybe_text(rows, 14), maybe_text(rows, 15), start_ns + p.shift_ns, duration_ns);
            break;
          case ImportedTiming::kCall:
            for (Open& range : open_)  // one that overlaps the ranges above it may have ended before
              if (range.end_ns > start_ns &&
                  __builtin_add_overflow(range.mpi_ns, std::min(start_ns + duration_ns, range.end_ns) - start_ns, &range.mpi_ns))
                refuse_sums();
            break;
          case ImportedTiming::kRequest:
            break;
        }
        add(calls_[{op, comm.value_or(0), region, std::bit_width(static_cast<uint64_t>(bytes.value_or(0)))}], duration_ns, bytes, 0);
      }
    }
  }
  close_until(INT64_MAX);
  end_process();
  // Among two calls with one correlation id (a function of the runtime and that of the driver in it) the outer counts.
  run_.db_.exec(
      "CREATE TEMP TABLE outer_launch AS SELECT process, correlation, thread, region, step, start, max(duration) AS duration, nccl_range, op,"
      " comm, bytes, datatype FROM temp.launch GROUP BY process, correlation; DROP TABLE temp.launch; ALTER TABLE temp.outer_launch RENAME TO launch;"
      "CREATE INDEX temp.launch_correlation ON launch(process, correlation)");
}

uint32_t CpuSweep::layer_in_step(uint32_t name) const {
  const auto step = std::find_if(open_.rbegin(), open_.rend(), [](const Open& range) { return range.is_step; });
  return run_.region(step == open_.rend() ? 0 : step->region, ContextKind::kLayer, name);
}

const CpuSweep::Launches* CpuSweep::launches_at(int64_t time_ns) const {
  const Launches* innermost = nullptr;
  for (auto range = open_.rbegin(); range != open_.rend(); ++range) {
    if (!range->launches || range->end_ns <= time_ns) continue;
    if (range->launches->comm) return &*range->launches;
    if (innermost == nullptr) innermost = &*range->launches;
  }
  return innermost;
}

void CpuSweep::close_until(int64_t time_ns) {
  while (!open_.empty() && open_.back().end_ns <= time_ns) {
    const Open range = open_.back();
    open_.pop_back();
    close(range);
  }
}

void CpuSweep::make_room(int64_t time_ns) {
  if (open_.size() < kMostOpen) return;
  std::erase_if(open_, [&](const Open& range) {  // below one that goes on for longer
    if (range.end_ns > time_ns) return false;
    close(range);
    return true;
  });
  if (open_.size() == kMostOpen) {
    throw Error(fmt::format("{}: more than {} ranges of a thread are open at a time", run_.source_, kMostOpen),
                "ranges that overlap belong to threads of their own", ExitCode::kDataMissing);
  }
}

void CpuSweep::close(const Open& range) {
  const ImportedRun::Process& p = run_.processes_[static_cast<size_t>(process_)];
  const int64_t duration_ns = range.end_ns - range.start_ns;
  if (range.is_step) {
    insert_step_.row(p.id, thread_, range.number, range.start_ns + p.shift_ns, duration_ns, range.mpi_ns);
  } else {
    insert_range_.row(p.id, thread_, range.region, run_.step_at(static_cast<size_t>(process_), range.start_ns), range.start_ns + p.shift_ns,
                      duration_ns, range.mpi_ns, range.seq);
    add(ranges_[range.region], duration_ns, 0, range.mpi_ns);
  }
}

void CpuSweep::add(Totals& totals, int64_t duration_ns, std::optional<int64_t> bytes, int64_t mpi_ns) const {
  if (!totals.add(duration_ns, bytes, mpi_ns)) refuse_sums();
}

void CpuSweep::refuse_sums() const {
  throw Error(fmt::format("{}: the times or bytes of its events add up to more than 64 bits hold", run_.source_),
              "check durations and sizes in the trace", ExitCode::kDataMissing);
}

void CpuSweep::end_process() {
  if (process_ < 0) return;
  const int64_t id = run_.processes_[static_cast<size_t>(process_)].id;
  Insert insert_range(run_.db_, "INSERT INTO range_profile VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [region, t] : ranges_) insert_range.row(id, region, t.calls, t.time_ns, t.mpi_ns, t.min_ns, t.max_ns);
  Insert insert_call(run_.db_, "INSERT INTO profile VALUES (?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, 0, NULL)");
  for (const auto& [key, t] : calls_) {
    const auto& [op, comm, region, size_class] = key;
    insert_call.row(id, op, comm != 0 ? std::optional(comm) : std::nullopt, region, size_class, t.calls, t.bytes, t.time_ns, t.min_ns,
                    t.max_ns);
  }
  ranges_.clear();
  calls_.clear();
}

}  // namespace ddl::store
