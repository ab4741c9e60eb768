#include "store/ingest/timeline.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace ddl::store {

namespace {

constexpr size_t kMaxOpenPerThread = 64;      // calls nest a few deep
constexpr uint64_t kSmallBytes = 1ull << 20;  // of a spool

uint64_t step_number(const Record& r) { return static_cast<uint64_t>(r.comm) << 32 | r.sequence; }

struct ThreadState {
  uint64_t active_ticks = 0;  ///< end of the last thing that ended
  std::vector<Record> open;

  /// Drops what the thread has left behind, and the outermost if there are too many.
  uint64_t prune() {
    const size_t before = open.size();
    std::erase_if(open, [&](const Record& r) { return r.start_ticks < active_ticks; });
    if (open.size() > kMaxOpenPerThread) {
      std::sort(open.begin(), open.end(),
                [](const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; });
      open.erase(open.begin(), open.end() - kMaxOpenPerThread);
    }
    return before - open.size();
  }
};

class TimelineBuilder {
 public:
  void add(uint32_t thread, const Record& r, bool from_ring) {
    const uint64_t end = r.start_ticks + record_duration_ticks(r.word);
    timeline.newest_ticks = std::max(timeline.newest_ticks, end);
    ThreadState& state = threads_[thread];
    switch (record_kind(r.word)) {
      case RecordKind::kOpen:
        state.open.push_back(r);
        if (state.open.size() > 2 * kMaxOpenPerThread) timeline.abandoned += state.prune();
        return;
      case RecordKind::kStepBegin:
        if (!from_ring) steps_[{thread, r.start_ticks}] = {thread, step_number(r), r.start_ticks, std::nullopt, 0};
        break;
      case RecordKind::kStep: {
        const Step step = {thread, step_number(r), r.start_ticks, record_duration_ticks(r.word), r.payload};
        if (!from_ring) {
          steps_[{thread, r.start_ticks}] = step;
        } else if (const auto begun = steps_.find({thread, r.start_ticks}); begun != steps_.end()) {
          begun->second = step;
        }
        break;
      }
      default:
        break;
    }
    state.active_ticks = std::max(state.active_ticks, end);
  }

  void finish() {
    for (auto& [thread, state] : threads_) {
      timeline.abandoned += state.prune();
      std::sort(state.open.begin(), state.open.end(),
                [](const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; });
      for (const Record& r : state.open) timeline.open_calls.push_back({thread, r});
    }
    for (const auto& [key, step] : steps_) timeline.steps.push_back(step);
    std::stable_sort(timeline.steps.begin(), timeline.steps.end(),
                     [](const Step& a, const Step& b) { return a.start_ticks < b.start_ticks; });
    timeline.step_index = StepIndex(timeline.steps);
  }

  Timeline timeline;

 private:
  std::map<uint32_t, ThreadState> threads_;
  /// by thread and start: begin and end of a step name the same moment
  std::map<std::pair<uint32_t, uint64_t>, Step> steps_;
};

}  // namespace

StepIndex::StepIndex(const std::vector<Step>& steps) {
  constexpr uint64_t kForEver = std::numeric_limits<uint64_t>::max();
  std::map<uint32_t, uint64_t> next_begin;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    uint64_t end = kForEver;
    if (step->duration_ticks) {
      end = step->start_ticks + *step->duration_ticks;
    } else if (const auto next = next_begin.find(step->thread); next != next_begin.end()) {
      end = next->second;
    }
    next_begin[step->thread] = step->start_ticks;
    spans_.push_back({step->start_ticks, end, step->number, step->start_ticks, end, 0, true});
  }
  std::reverse(spans_.begin(), spans_.end());
  std::unordered_map<uint64_t, size_t> counted;  // number -> its use that counts
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto [use, is_new] = counted.try_emplace(steps[i].number, i);
    if (!is_new && !steps[use->second].duration_ticks && steps[i].duration_ticks) use->second = i;
  }
  uint64_t latest_end = 0;
  for (size_t i = 0; i < spans_.size(); ++i) {
    Span& span = spans_[i];
    const size_t use = counted.at(span.number);
    span.is_counted = use == i;
    span.counted_begin = steps[use].start_ticks;
    span.counted_end = spans_[use].end;
    span.latest_end = latest_end = std::max(latest_end, span.end);
  }
}

size_t StepIndex::spans_before(uint64_t ticks) const {
  const auto after =
      std::upper_bound(spans_.begin(), spans_.end(), ticks, [](uint64_t t, const Span& s) { return t < s.begin; });
  return static_cast<size_t>(after - spans_.begin());
}

std::optional<uint64_t> StepIndex::at(uint64_t ticks, size_t before) const {
  for (size_t i = before; i-- > 0;) {
    const Span& span = spans_[i];
    if (ticks < span.end)
      return ticks >= span.counted_begin && ticks < span.counted_end ? std::optional(span.number) : std::nullopt;
    if (ticks >= span.latest_end) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<uint64_t> StepIndex::Cursor::at(uint64_t ticks) {
  if (!index_.are_before(before_, ticks)) {
    const bool next = before_ < index_.spans_.size() && index_.are_before(before_ + 1, ticks);
    before_ = next ? before_ + 1 : index_.spans_before(ticks);
  }
  return index_.at(ticks, before_);
}

Timeline read_timeline(const SpoolReader& reader) {
  TimelineBuilder builder;
  Timeline& timeline = builder.timeline;
  std::vector<Record> records;
  // rings last: they end steps that the log began
  for (const ChunkKind kind : {ChunkKind::kEvents, ChunkKind::kRing}) {
    for (const SpoolChunk& chunk : reader.chunks(kind)) {
      reader.read_records(chunk, records, &timeline.skips);
      timeline.newest_ticks = std::max(timeline.newest_ticks, chunk.header.begin_ticks);
      uint64_t first_ticks = std::numeric_limits<uint64_t>::max();
      uint32_t kinds = 0;
      for (const Record& record : records) {
        builder.add(chunk.header.thread, record, kind == ChunkKind::kRing);
        first_ticks = std::min(first_ticks, record.start_ticks);
        kinds |= 1u << static_cast<uint32_t>(record_kind(record.word));
        timeline.has_nccl_calls |=
            record_kind(record.word) == RecordKind::kCall && record_op(record.word) >= kFirstNcclOp;
      }
      if (kind != ChunkKind::kEvents || records.empty()) continue;
      timeline.all_kinds |= kinds;
      timeline.events[chunk.header.thread].push_back({chunk, first_ticks, kinds, {}});
      if (reader.file_bytes() <= kSmallBytes) timeline.events[chunk.header.thread].back().records = records;
    }
  }
  builder.finish();
  return std::move(timeline);
}

}  // namespace ddl::store
