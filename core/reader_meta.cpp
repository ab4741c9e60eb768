// Decoding of meta chunks: lengths are checked against what is there before anything is handed out.
#include <string.h>

#include "core/reader.h"

namespace ddl {

namespace {

/// The payload of one entry, taken apart from its begin.
class Payload {
 public:
  Payload(const unsigned char* bytes, size_t size) : bytes_(bytes), left_(size) {}

  template <class T>
  bool take(T& to) {
    if (left_ < sizeof to) return false;
    memcpy(&to, bytes_, sizeof to);
    advance(sizeof to);
    return true;
  }
  bool take(std::string_view& to, uint64_t length) {
    if (left_ < length) return false;
    to = {reinterpret_cast<const char*>(bytes_), static_cast<size_t>(length)};
    advance(static_cast<size_t>(length));
    return true;
  }
  template <class T>
  bool take(std::vector<T>& to, uint64_t count) {
    if (left_ / sizeof(T) < count) return false;
    to.resize(static_cast<size_t>(count));
    if (count > 0) memcpy(to.data(), bytes_, to.size() * sizeof(T));
    advance(to.size() * sizeof(T));
    return true;
  }

 private:
  void advance(size_t bytes) {
    bytes_ += bytes;
    left_ -= bytes;
  }

  const unsigned char* bytes_;
  size_t left_;
};

/// False: the entry is damaged.
bool decode(MetaKind kind, Payload payload, MetaVisitor& visitor) {
  std::string_view text;
  switch (kind) {
    case MetaKind::kString: {
      StringMeta meta;
      if (!payload.take(meta) || !payload.take(text, meta.length)) return false;
      visitor.on_string(meta.id, text);
      return true;
    }
    case MetaKind::kContext: {
      ContextMeta meta;
      const bool whole = payload.take(meta);
      if (!whole || meta.id == 0 || meta.parent >= meta.id || meta.kind < static_cast<uint32_t>(ContextKind::kStep) ||
          meta.kind > static_cast<uint32_t>(ContextKind::kOperator)) {
        return false;
      }
      visitor.on_context(meta);
      return true;
    }
    case MetaKind::kCommunicator: {
      CommunicatorMeta meta;
      std::vector<RankRun> runs;
      if (!payload.take(meta) || !payload.take(runs, meta.runs) || meta.index == kNoComm || meta.size < 0) return false;
      for (const RankRun& run : runs) {
        if (run.count < 0) return false;
      }
      visitor.on_communicator(meta, runs);
      return true;
    }
    case MetaKind::kCommName: {
      CommNameMeta meta;
      if (!payload.take(meta)) return false;
      visitor.on_communicator_name(meta);
      return true;
    }
    case MetaKind::kCommTopology: {
      CommNameMeta meta;
      if (!payload.take(meta)) return false;
      visitor.on_communicator_topology(meta);
      return true;
    }
    case MetaKind::kCommSplit: {
      CommSplitMeta meta;
      if (!payload.take(meta)) return false;
      visitor.on_communicator_split(meta);
      return true;
    }
    case MetaKind::kOperation: {
      OperationMeta meta;
      if (!payload.take(meta) || !payload.take(text, meta.name_length) || meta.op < kFirstCallOp || meta.op > 0xfff)
        return false;
      if (meta.op_class > static_cast<uint32_t>(OpClass::kUnknown))
        meta.op_class = static_cast<uint32_t>(OpClass::kUnknown);
      visitor.on_operation(meta, text);
      return true;
    }
    case MetaKind::kModule: {
      ModuleMeta meta;
      if (!payload.take(meta) || !payload.take(text, meta.path_length) || meta.end < meta.begin) return false;
      visitor.on_module(meta, text);
      return true;
    }
    case MetaKind::kClock: {
      ClockPair pair;
      if (!payload.take(pair)) return false;
      visitor.on_clock(pair);
      return true;
    }
    case MetaKind::kClockSync: {
      ClockSyncMeta meta;
      if (!payload.take(meta)) return false;
      visitor.on_clock_sync(meta);
      return true;
    }
    case MetaKind::kDeviceClock: {
      DeviceClockMeta meta;
      if (!payload.take(meta)) return false;
      visitor.on_device_clock(meta);
      return true;
    }
    case MetaKind::kGraphNode: {
      GraphNodeMeta meta;
      if (!payload.take(meta) || meta.node == 0) return false;
      visitor.on_graph_node(meta);
      return true;
    }
    case MetaKind::kThread: {
      ThreadMeta meta;
      if (!payload.take(meta) || !payload.take(text, meta.name_length)) return false;
      visitor.on_thread(meta, text);
      return true;
    }
    case MetaKind::kSample: {
      SampleMeta meta;
      std::vector<SampleValue> values;
      if (!payload.take(meta) || !payload.take(values, meta.count)) return false;
      visitor.on_sample(meta, values);
      return true;
    }
    case MetaKind::kFact: {
      FactMeta meta;
      std::string_view value;
      if (!payload.take(meta) || !payload.take(text, meta.key_length) || !payload.take(value, meta.value_length))
        return false;
      visitor.on_fact(text, value);
      return true;
    }
    case MetaKind::kNone:
      break;
  }
  return false;
}

}  // namespace

void SpoolReader::read_meta(const SpoolChunk& chunk, MetaVisitor& visitor, std::vector<Skip>* skips) const {
  thread_local std::vector<unsigned char> buffer;
  const std::span<const unsigned char> bytes = read_chunk(chunk, buffer);
  const auto skip = [&](size_t at, size_t count, const char* reason) {
    if (skips) skips->push_back({chunk.offset + at, count, reason});
  };
  for (size_t at = sizeof(ChunkHeader); at + sizeof(MetaHeader) <= bytes.size();) {
    MetaHeader entry;
    memcpy(&entry, &bytes[at], sizeof entry);
    const uint64_t total = meta_total_bytes(entry.word);
    const size_t left = bytes.size() - at;
    if (entry.word == 0) {  // the end, unless the process died while it wrote the next one
      const std::span<const unsigned char> rest = bytes.subspan(at + sizeof entry);
      const bool only_zeros =
          rest.empty() || (rest[0] == 0 && memcmp(rest.data(), rest.data() + 1, rest.size() - 1) == 0);
      if (!only_zeros) skip(at, left, "half-written meta entry");
      return;
    }
    if (total < sizeof entry || total > left || total % 8 != 0) {
      skip(at, left, "damaged meta entry");
      return;
    }
    if (!decode(meta_kind(entry.word), Payload(&bytes[at + sizeof entry], static_cast<size_t>(total) - sizeof entry),
                visitor)) {
      skip(at, static_cast<size_t>(total), "damaged meta entry");
    }
    at += static_cast<size_t>(total);
  }
}

void SpoolReader::follow_meta(const SpoolChunk& chunk, FollowPosition& position, MetaVisitor& visitor) const {
  const uint64_t begin = sizeof(ChunkHeader) + position.read;
  uint64_t word = 0;
  if (begin + sizeof word > chunk.header.bytes || read_at(chunk.offset + begin, &word, sizeof word) != sizeof word ||
      word == 0)
    return;
  std::vector<unsigned char> bytes(chunk.header.bytes - begin);
  bytes.resize(read_at(chunk.offset + begin, bytes.data(), bytes.size()));
  for (size_t at = 0; at + sizeof word <= bytes.size();) {
    memcpy(&word, &bytes[at], sizeof word);
    const uint64_t total = meta_total_bytes(word);
    if (word == 0) return;
    if (total < sizeof word || total > bytes.size() - at || total % 8 != 0) {  // damage: nothing behind it can be found
      position.read = chunk.header.bytes;
      return;
    }
    decode(meta_kind(word), Payload(&bytes[at + sizeof word], static_cast<size_t>(total) - sizeof word), visitor);
    at += static_cast<size_t>(total);
    position.read += total;
  }
}

void SpoolReader::read_meta(MetaVisitor& visitor, std::vector<Skip>* skips) const {
  for (const SpoolChunk& chunk : chunks(ChunkKind::kMeta)) read_meta(chunk, visitor, skips);
}

}  // namespace ddl
