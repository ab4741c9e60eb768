#include "store/import/cpu_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace ddl::store {

namespace {

/// ranges of a thread at a time; Python's own limit of calls inside each other is 1000
constexpr size_t kMostOpen = 4096;

}  // namespace

bool CpuSweep::Totals::add(int64_t duration_ns, std::optional<int64_t> more_bytes, int64_t inside_mpi_ns) {
  ++calls;
  if (!more_bytes) bytes.reset();
  const bool beyond = (bytes && __builtin_add_overflow(*bytes, *more_bytes, &*bytes)) |
                      __builtin_add_overflow(time_ns, duration_ns, &time_ns) |
                      __builtin_add_overflow(mpi_ns, inside_mpi_ns, &mpi_ns);
  min_ns = std::min(min_ns, duration_ns);
  max_ns = std::max(max_ns, duration_ns);
  return !beyond;
}

CpuSweep::CpuSweep(ImportedRun& run, MadeRows& made, const std::function<void(double)>& step_done)
    : run_(run),
      step_done_(step_done),
      insert_step_(run.db_, "INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?)"),
      insert_source_(
          run.db_,
          "INSERT INTO nccl_collective VALUES (?, 'profiler', ?, ?, NULL, 1, ?, ?, 0, 1, 1, NULL, NULL, NULL, NULL)"),
      insert_range_(made, "INSERT INTO range_event SELECT c0, c1, c2, c3, c4, c5, c6, c7, NULL FROM made_rows"),
      insert_event_(
          made,
          "INSERT INTO event(id, process, thread, kind, op, comm, seq, region, step, start_ns, duration_ns, bytes, peer, tag, datatype)"
          " SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14 FROM made_rows") {}

void CpuSweep::run() {
  uint64_t done = 0;
  run_.cpu_->sort();
  while (const CpuRecord* const row = run_.cpu_->next()) {
    if (++done % 100'000 == 0) step_done_(0.7 * static_cast<double>(done) / static_cast<double>(run_.cpu_rows_));
    if (row->process != process_ || row->thread != thread_) {
      close_until(INT64_MAX);
      if (row->process != process_) end_process();
      process_ = row->process;
      thread_ = row->thread;
    }
    const ImportedRun::Process& p = run_.processes_[row->process];
    const int64_t start_ns = row->start_ns, duration_ns = row->duration_ns, number = row->number;
    close_until(start_ns);
    const std::optional<int64_t> step = run_.step_at(row->process, start_ns);
    const auto bytes = row->has_bytes ? std::optional(row->bytes) : std::nullopt;
    switch (row->kind) {
      case CpuKind::kStep:
        make_room(start_ns);
        open_.push_back({start_ns, start_ns + duration_ns, run_.region(current(), ContextKind::kStep, 0), true, number,
                         std::nullopt, std::nullopt});
        break;
      case CpuKind::kRange:
        make_room(start_ns);
        open_.push_back({start_ns, start_ns + duration_ns,
                         run_.region(current(), static_cast<ContextKind>(number), row->name), false, 0,
                         row->has_seq ? std::optional(row->seq) : std::nullopt, std::nullopt});
        if (row->op != 0) {
          open_.back().launches = {++ranges_of_nccl_, row->op, row->comm, row->datatype, bytes};
          ++open_launches_;
        }
        break;
      case CpuKind::kLaunch: {
        LaunchRecord launch{};
        launch.correlation = number;
        launch.start_ns = start_ns;
        launch.duration_ns = duration_ns;
        launch.step = step.value_or(0);
        launch.has_step = step.has_value();
        launch.process = row->process;
        launch.thread = row->thread;
        launch.region = current();
        if (const Launches* l = launches_at(start_ns)) {
          launch.range = l->range;
          launch.op = l->op;
          launch.comm = static_cast<uint32_t>(run_.communicator_id(l->comm).value_or(0));
          launch.datatype = l->datatype;
          launch.bytes = l->bytes.value_or(0);
          launch.has_bytes = l->bytes.has_value();
        }
        run_.launch_records_->add(launch);
        if (row->is_kernel && run_.counters_ > 0)
          run_.insert_counted_->row(p.id, static_cast<int64_t>(row->thread), static_cast<int64_t>(launch.region), step,
                                    start_ns);
        break;
      }
      case CpuKind::kCall: {
        const uint32_t region = row->name != kNoName ? layer_in_step(row->name) : current();
        const std::optional<int64_t> comm = run_.communicator_id(row->comm);
        insert_event_.row(++events_, p.id, row->thread, number, row->op, comm,
                          row->has_seq ? std::optional(row->seq) : std::nullopt, region, step, start_ns + p.shift_ns,
                          duration_ns, bytes, row->has_peer ? std::optional(row->peer) : std::nullopt,
                          row->has_tag ? std::optional(row->tag) : std::nullopt,
                          row->datatype != 0 ? std::optional(row->datatype) : std::nullopt);
        ++run_.events_;
        switch (static_cast<ImportedTiming>(number)) {
          case ImportedTiming::kNcclProfiler:
            insert_source_.row(events_, run_.text_of(row->algorithm).text, run_.text_of(row->protocol).text,
                               start_ns + p.shift_ns, duration_ns);
            break;
          case ImportedTiming::kCall:
            for (Open& range : open_)  // one that overlaps the ranges above it may have ended before
              if (range.end_ns > start_ns &&
                  __builtin_add_overflow(range.mpi_ns, std::min(start_ns + duration_ns, range.end_ns) - start_ns,
                                         &range.mpi_ns))
                refuse_sums();
            break;
          case ImportedTiming::kRequest:
            break;
        }
        add(calls_[{row->op, comm.value_or(0), region, std::bit_width(static_cast<uint64_t>(bytes.value_or(0)))}],
            duration_ns, bytes, 0);
      }
    }
  }
  close_until(INT64_MAX);
  end_process();
  insert_range_.flush();
  insert_event_.flush();
}

uint32_t CpuSweep::layer_in_step(uint32_t name) const {
  const auto step = std::find_if(open_.rbegin(), open_.rend(), [](const Open& range) { return range.is_step; });
  return run_.region(step == open_.rend() ? 0 : step->region, ContextKind::kLayer, name);
}

const CpuSweep::Launches* CpuSweep::launches_at(int64_t time_ns) const {
  if (open_launches_ == 0) return nullptr;
  const Launches* innermost = nullptr;
  for (auto range = open_.rbegin(); range != open_.rend(); ++range) {
    if (!range->launches || range->end_ns <= time_ns) continue;
    if (range->launches->comm != 0) return &*range->launches;
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
                "give overlapping ranges threads of their own", ExitCode::kDataMissing);
  }
}

void CpuSweep::close(const Open& range) {
  const ImportedRun::Process& p = run_.processes_[static_cast<size_t>(process_)];
  const int64_t duration_ns = range.end_ns - range.start_ns;
  if (range.launches) --open_launches_;
  if (range.is_step) {
    const bool is_measured = run_.is_counted_step(static_cast<size_t>(process_), range.number, range.start_ns) &&
                             measured_.insert(range.number).second;
    insert_step_.row(p.id, thread_, range.number, range.start_ns + p.shift_ns, duration_ns, range.mpi_ns, is_measured);
  } else {
    insert_range_.row(p.id, thread_, range.region, run_.step_at(static_cast<size_t>(process_), range.start_ns),
                      range.start_ns + p.shift_ns, duration_ns, range.mpi_ns, range.seq);
    add(ranges_[range.region], duration_ns, 0, range.mpi_ns);
  }
}

void CpuSweep::add(Totals& totals, int64_t duration_ns, std::optional<int64_t> bytes, int64_t mpi_ns) const {
  if (!totals.add(duration_ns, bytes, mpi_ns)) refuse_sums();
}

void CpuSweep::refuse_sums() const {
  throw Error(fmt::format("{}: the times or bytes of its events overflow 64 bits", run_.source_),
              "check durations and sizes in the trace", ExitCode::kDataMissing);
}

void CpuSweep::end_process() {
  if (process_ < 0) return;
  const int64_t id = run_.processes_[static_cast<size_t>(process_)].id;
  Insert insert_range(run_.db_, "INSERT INTO range_profile VALUES (?, ?, ?, ?, ?, ?, ?)");
  for (const auto& [region, t] : ranges_)
    insert_range.row(id, region, t.calls, t.time_ns, t.mpi_ns, t.min_ns, t.max_ns);
  Insert insert_call(run_.db_, "INSERT INTO profile VALUES (?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, 0, NULL)");
  for (const auto& [key, t] : calls_) {
    const auto& [op, comm, region, size_class] = key;
    insert_call.row(id, op, comm != 0 ? std::optional(comm) : std::nullopt, region, size_class, t.calls, t.bytes,
                    t.time_ns, t.min_ns, t.max_ns);
  }
  ranges_.clear();
  calls_.clear();
  measured_.clear();
}

}  // namespace ddl::store
