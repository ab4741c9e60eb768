#include "store/ingest/record_stream.h"

#include <algorithm>
#include <utility>

namespace ddl::store {

namespace {

constexpr size_t kMaxChunks = 64;

bool starts_earlier(const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; }
/// Heap order: the chunk with the earliest record on top; what starts together comes in the order of threads.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return std::pair(b.front().start_ticks, b.thread) < std::pair(a.front().start_ticks, a.thread);
};

}  // namespace

RecordStream::RecordStream(const SpoolReader& reader, const Timeline& timeline) : reader_(reader), timeline_(timeline) {
  rewind(0);
}

void RecordStream::rewind(uint32_t kinds) {
  kinds_ = kinds;
  bytes_read_ = 0;
  loaded_.clear();
  waiting_.clear();
  for (const auto& [thread, chunks] : timeline_.events)
    for (const EventChunk& chunk : chunks)
      if ((chunk.kinds & kinds_) != 0) waiting_.push_back({&chunk, thread});
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.chunk->first_ticks > b.chunk->first_ticks; });
}

void RecordStream::load(const Waiting& waiting) {
  Loaded loaded;
  if (!spare_.empty()) {
    loaded = std::move(spare_.back());
    spare_.pop_back();
  }
  loaded.thread = waiting.thread;
  const EventChunk& chunk = *waiting.chunk;
  if (chunk.records.empty()) {
    reader_.read_records(chunk.chunk, loaded.records);
  } else {
    loaded.records = chunk.records;
  }
  bytes_read_ += chunk.chunk.header.bytes;
  std::erase_if(loaded.records,
                [&](const Record& r) { return (kinds_ >> static_cast<uint32_t>(record_kind(r.word)) & 1) == 0; });
  if (!std::is_sorted(loaded.records.begin(), loaded.records.end(), starts_earlier)) {
    std::stable_sort(loaded.records.begin(), loaded.records.end(), starts_earlier);
  }
  loaded.position = 0;
  if (loaded.records.empty()) {
    spare_.push_back(std::move(loaded));
    return;
  }
  loaded_.push_back(std::move(loaded));
  std::push_heap(loaded_.begin(), loaded_.end(), kLater);
}

const Record* RecordStream::next() {
  if (!loaded_.empty()) {  // step over the record that the last call returned
    if (loaded_.size() > 1) std::pop_heap(loaded_.begin(), loaded_.end(), kLater);
    Loaded& current = loaded_.back();
    if (++current.position < current.records.size()) {
      if (loaded_.size() > 1) std::push_heap(loaded_.begin(), loaded_.end(), kLater);
    } else {
      spare_.push_back(std::move(current));
      loaded_.pop_back();
    }
  }
  const size_t most = kMaxChunks + timeline_.events.size();
  while (!waiting_.empty() && loaded_.size() < most &&
         (loaded_.empty() || waiting_.back().chunk->first_ticks <= loaded_.front().front().start_ticks)) {
    const Waiting next = waiting_.back();
    waiting_.pop_back();
    load(next);
  }
  return loaded_.empty() ? nullptr : &loaded_.front().front();
}

}  // namespace ddl::store
