#include "store/ingest/record_stream.h"

#include <algorithm>
#include <iterator>

namespace ddl::store {

namespace {

constexpr size_t kMaxChunks = 64;

bool starts_earlier(const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; }
/// Heap order: the chunk with the earliest record on top.
constexpr auto kLater = [](const auto& a, const auto& b) { return starts_earlier(b.front(), a.front()); };

}  // namespace

RecordStream::RecordStream(const SpoolReader& reader, const Timeline& timeline) : reader_(reader), timeline_(timeline) { rewind(0); }

void RecordStream::rewind(uint32_t kinds) {
  kinds_ = kinds;
  bytes_read_ = 0;
  loaded_.clear();
  thread_ = timeline_.events.begin();
  enter_thread();
}

void RecordStream::enter_thread() {
  waiting_.clear();
  if (thread_ == timeline_.events.end()) return;
  std::copy_if(thread_->second.begin(), thread_->second.end(), std::back_inserter(waiting_),
               [&](const EventChunk& chunk) { return (chunk.kinds & kinds_) != 0; });
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [](const EventChunk& a, const EventChunk& b) { return a.first_ticks > b.first_ticks; });
}

void RecordStream::load(const EventChunk& chunk) {
  Loaded loaded;
  if (!spare_.empty()) {
    loaded = std::move(spare_.back());
    spare_.pop_back();
  }
  reader_.read_records(chunk.chunk, loaded.records);
  bytes_read_ += chunk.chunk.header.bytes;
  std::erase_if(loaded.records, [&](const Record& r) { return (kinds_ >> static_cast<uint32_t>(record_kind(r.word)) & 1) == 0; });
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
  for (;;) {
    while (!waiting_.empty() && loaded_.size() < kMaxChunks &&
           (loaded_.empty() || waiting_.back().first_ticks <= loaded_.front().front().start_ticks)) {
      const EventChunk chunk = waiting_.back();
      waiting_.pop_back();
      load(chunk);
    }
    if (!loaded_.empty()) return &loaded_.front().front();
    if (thread_ == timeline_.events.end() || ++thread_ == timeline_.events.end()) return nullptr;
    enter_thread();
  }
}

}  // namespace ddl::store
