// More records than memory should hold, in order: blocks are sorted in memory, written to an unnamed file, and merged
// while being read. Equal records keep their order of insertion, so that the result depends on nothing else.
//
//   SortedRecords<Record, Before> records;  // bool Before()(const Record&, const Record&)
//   records.add(...);
//   records.sort();                         // once
//   while (const Record* record = records.next()) ...
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

namespace ddl::store {

/// An unnamed file in SQLite's folder: $SQLITE_TMPDIR, else $TMPDIR, /var/tmp, /tmp. All functions throw CannotWrite.
class TemporaryFile {
 public:
  TemporaryFile() = default;
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// The file is made by the first call.
  void append(const void* bytes, size_t count);
  void read(uint64_t offset, void* bytes, size_t count) const;

 private:
  int fd_ = -1;
};

template <class Record, class Before>
class SortedRecords {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  void add(const Record& record) {
    if (block_.size() == kBlockRecords) spill();
    if (block_.empty()) block_.reserve(kBlockRecords);
    block_.push_back(record);
  }

  /// Ends adding; frees its memory.
  void sort() {
    if (runs_.empty()) {
      sort_block();
      return;
    }
    spill();
    std::vector<Record>().swap(block_);
    std::vector<uint32_t>().swap(places_);
    const size_t buffer = std::clamp(kMergeBytes / runs_.size(), kLeastBufferBytes, kMostBufferBytes) / sizeof(Record);
    for (Run& run : runs_) {
      run.buffer.resize(std::min<size_t>(buffer, run.left));
      refill(run);
    }
    heap_.resize(runs_.size());
    std::iota(heap_.begin(), heap_.end(), 0U);
    for (size_t i = heap_.size() / 2; i-- > 0;) sink(i);
  }

  /// Valid until the next call; null at the end.
  const Record* next() {
    if (runs_.empty()) return given_ < places_.size() ? &block_[places_[given_++]] : nullptr;
    if (given_++ > 0 && !heap_.empty()) advance();
    return heap_.empty() ? nullptr : &current(heap_.front());
  }

 private:
  static constexpr size_t kBlockRecords = (size_t{4} << 20) / sizeof(Record);
  static constexpr size_t kMergeBytes = 8 << 20, kLeastBufferBytes = 16 << 10, kMostBufferBytes = 64 << 10;

  /// A block on the disk.
  struct Run {
    uint64_t offset;
    size_t left;  ///< records not yet in the buffer
    size_t at = 0, filled = 0;
    std::vector<Record> buffer;
  };

  void sort_block() {
    places_.resize(block_.size());
    std::iota(places_.begin(), places_.end(), 0U);
    const auto before = [this](uint32_t a, uint32_t b) { return Before()(block_[a], block_[b]); };
    if (!std::is_sorted(places_.begin(), places_.end(), before))
      std::stable_sort(places_.begin(), places_.end(), before);
  }

  void spill() {
    sort_block();
    std::vector<Record> some;
    some.reserve(kMostBufferBytes / sizeof(Record));
    for (size_t i = 0; i < places_.size(); i += some.size()) {
      some.clear();
      for (size_t k = i; k < places_.size() && some.size() < some.capacity(); ++k) some.push_back(block_[places_[k]]);
      file_.append(some.data(), some.size() * sizeof(Record));
    }
    runs_.push_back({written_, block_.size(), 0, 0, {}});
    written_ += block_.size() * sizeof(Record);
    block_.clear();
  }

  void refill(Run& run) {
    run.at = 0;
    run.filled = std::min(run.buffer.size(), run.left);
    if (run.filled == 0) return;
    file_.read(run.offset, run.buffer.data(), run.filled * sizeof(Record));
    run.offset += run.filled * sizeof(Record);
    run.left -= run.filled;
  }

  const Record& current(uint32_t run) const { return runs_[run].buffer[runs_[run].at]; }

  /// The run whose record comes next is the first of heap_.
  bool comes_before(uint32_t a, uint32_t b) const {
    if (Before()(current(a), current(b))) return true;
    return a < b && !Before()(current(b), current(a));
  }
  void sink(size_t i) {
    for (size_t child; (child = 2 * i + 1) < heap_.size(); i = child) {
      if (child + 1 < heap_.size() && comes_before(heap_[child + 1], heap_[child])) ++child;
      if (comes_before(heap_[i], heap_[child])) return;
      std::swap(heap_[i], heap_[child]);
    }
  }
  void advance() {
    Run& run = runs_[heap_.front()];
    if (++run.at == run.filled) refill(run);
    if (run.filled == 0) {
      std::vector<Record>().swap(run.buffer);
      heap_.front() = heap_.back();
      heap_.pop_back();
    }
    sink(0);
  }

  std::vector<Record> block_;
  std::vector<uint32_t> places_;  ///< in block_, in order
  TemporaryFile file_;
  uint64_t written_ = 0;
  std::vector<Run> runs_;
  std::vector<uint32_t> heap_;  ///< of runs_
  size_t given_ = 0;
};

}  // namespace ddl::store
