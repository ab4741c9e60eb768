// Following a running job: what a chunk has got since it was last looked at, for the price of a small read
// where that is nothing.
//
// A log chunk has one writer, which fills it from front to back, so the next record will come in the first empty
// slot. A call that has not returned has a record already, which changes in place: such slots are looked at again
// each time. A writer stores a record's word last, but the kernel copies in no order that it promises, so that the
// rest of a record may be older than its word: what has a word is read once more. A ring is written round and
// round; how many records it ever got says what is new, and what was written over while it was read is recognised
// by the count after it.
#include <string.h>

#include <algorithm>

#include "core/reader.h"

namespace ddl {

namespace {

constexpr size_t kFirstBlock = 64;  // records; most chunks get a few between two looks
constexpr size_t kLargestBlock = 8192;

/// Room for `records` of them that stays: thousands of spools are followed one after the other.
template <class T>
T* block_of(size_t records) {
  thread_local std::vector<T> block;
  if (block.size() < records) block.resize(records);
  return block.data();
}

bool is_open(const Record& r) { return record_kind(r.word) == RecordKind::kOpen; }

}  // namespace

void SpoolReader::follow_records(const SpoolChunk& chunk, FollowPosition& position, std::vector<Record>& out) const {
  const bool ring = chunk.header.kind == static_cast<uint32_t>(ChunkKind::kRing);
  const uint64_t slots = (chunk.header.bytes - sizeof(ChunkHeader)) / sizeof(Record);
  const auto offset_of = [&](uint64_t slot) {
    return chunk.offset + sizeof(ChunkHeader) + slot % slots * sizeof(Record);
  };
  const auto take = [&](uint64_t slot, const Record& record) {
    if (!plausible(record)) return;
    if (is_open(record)) {
      position.open.push_back({slot, record});
    } else {
      add_record(record, out);
    }
  };

  std::vector<FollowPosition::Open> open = std::move(position.open);
  position.open.clear();
  for (const FollowPosition::Open& before : open) {
    Record now;
    if (read_at(offset_of(before.slot), &now, sizeof now) != sizeof now || now.start_ticks != before.record.start_ticks)
      continue;
    if (!is_open(now) && read_at(offset_of(before.slot), &now, sizeof now) != sizeof now) continue;
    take(before.slot, now);
  }

  const uint64_t end = ring ? chunk.header.ring_written : slots;
  if (ring && end > slots && position.read < end - slots) {
    position.missed += end - slots - position.read;
    position.read = end - slots;
  }
  size_t most = kFirstBlock;
  while (position.read < end) {
    Record* const block = block_of<Record>(most);
    const uint64_t until_edge = slots - position.read % slots;
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>({most, end - position.read, until_edge}));
    const size_t got = read_at(offset_of(position.read), block, wanted * sizeof(Record)) / sizeof(Record);
    const Record* const begun = std::find_if(block, block + got, [](const Record& r) { return r.word == 0; });
    read_at(offset_of(position.read), block, static_cast<size_t>(begun - block) * sizeof(Record));
    uint64_t first_whole = position.read;
    if (ring) {
      ChunkHeader now;
      if (read_at(chunk.offset, &now, sizeof now) != sizeof now) return;
      if (now.ring_written >= slots) first_whole = std::max(first_whole, now.ring_written - slots + 1);
    }
    for (size_t i = 0; i < got; ++i) {
      if (block[i].word == 0) return;
      if (position.read >= first_whole) {
        take(position.read, block[i]);
      } else {
        ++position.missed;
      }
      ++position.read;
    }
    if (got < wanted) return;
    most = std::min(most * 4, kLargestBlock);
  }
}

void SpoolReader::follow_device(const SpoolChunk& chunk, FollowPosition& position,
                                std::vector<DeviceRecord>& out) const {
  const uint64_t slots = (chunk.header.bytes - sizeof(ChunkHeader)) / sizeof(DeviceRecord);
  size_t most = kFirstBlock;
  while (position.read < slots) {
    DeviceRecord* const block = block_of<DeviceRecord>(most);
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(most, slots - position.read));
    const uint64_t offset = chunk.offset + sizeof(ChunkHeader) + position.read * sizeof(DeviceRecord);
    const size_t got = read_at(offset, block, wanted * sizeof(DeviceRecord)) / sizeof(DeviceRecord);
    const DeviceRecord* const begun =
        std::find_if(block, block + got, [](const DeviceRecord& r) { return r.what == 0; });
    read_at(offset, block, static_cast<size_t>(begun - block) * sizeof(DeviceRecord));
    for (size_t i = 0; i < got; ++i, ++position.read) {
      if (block[i].what == 0) return;
      if (plausible(block[i])) out.push_back(block[i]);
    }
    if (got < wanted) return;
    most = std::min(most * 4, kLargestBlock);
  }
}

uint64_t SpoolReader::follow_from_end(const SpoolChunk& chunk, FollowPosition& position, uint64_t records) const {
  const bool device = chunk.header.kind == static_cast<uint32_t>(ChunkKind::kDevice);
  const size_t record_bytes = device ? sizeof(DeviceRecord) : sizeof(Record);
  const auto is_used = [&](uint64_t slot) {
    const uint64_t offset = chunk.offset + sizeof(ChunkHeader) + slot * record_bytes;
    uint64_t word = 0;  // of a device record: `what`
    return device ? read_at(offset + offsetof(DeviceRecord, what), &word, sizeof(uint32_t)) == sizeof(uint32_t) &&
                        word != 0
                  : read_at(offset + offsetof(Record, word), &word, sizeof word) == sizeof word && word != 0;
  };
  uint64_t used = 0, end = (chunk.header.bytes - sizeof(ChunkHeader)) / record_bytes;  // slots are used from the front
  while (used < end) {
    const uint64_t middle = used + (end - used) / 2;
    if (is_used(middle)) {
      used = middle + 1;
    } else {
      end = middle;
    }
  }
  if (used > records) position.read = used - records;
  return used;
}

}  // namespace ddl
