#include "store/ingest/scan.h"

#include <algorithm>
#include <unordered_map>

#include "store/text.h"

namespace ddl::store {

namespace {

int64_t signed_ns(uint64_t ns) { return static_cast<int64_t>(std::min<uint64_t>(ns, INT64_MAX)); }

class Collector : public MetaVisitor {
 public:
  explicit Collector(Scan& scan) : scan_(scan) {}

  void on_string(uint32_t id, std::string_view text) override { strings_.emplace(id, text); }
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> runs) override {
    communicators_.insert({meta.index, {meta, {runs.begin(), runs.end()}, {}, {}, {}}});
  }
  void on_communicator_name(const CommNameMeta& meta) override { names_[meta.index] = meta.name; }
  void on_communicator_topology(const CommNameMeta& meta) override { topologies_[meta.index] = meta.name; }
  void on_communicator_split(const CommSplitMeta& meta) override { splits_[meta.index] = meta; }
  void on_operation(const OperationMeta& meta, std::string_view name) override {
    scan_.operations.insert({meta.op, {static_cast<OpClass>(meta.op_class), meta.nonblocking != 0, clean_name(name)}});
  }
  void on_clock(const ClockPair& pair) override { add_pair(pair); }
  void on_clock_sync(const ClockSyncMeta& meta) override {
    if (scan_.clock_syncs.size() < kMaxClockSyncs) scan_.clock_syncs.push_back(meta);
  }

  void add_pair(const ClockPair& pair) {
    if (pair.ticks == 0) return;  // was being written
    scan_.clock.points.push_back({pair.ticks, signed_ns(pair.monotonic_ns)});
    scan_.clock.realtime_minus_monotonic_ns.push_back(signed_ns(pair.realtime_ns) - signed_ns(pair.monotonic_ns));
  }

  void finish() {
    for (auto& [index, communicator] : communicators_) {
      communicator.name = text_of(names_, index);
      communicator.topology = text_of(topologies_, index);
      if (const auto split = splits_.find(index); split != splits_.end()) communicator.split = split->second;
    }
    for (auto& [index, communicator] : communicators_) scan_.communicators.push_back(std::move(communicator));
  }

 private:
  std::string text_of(const std::map<uint32_t, uint32_t>& texts, uint32_t communicator) const {
    const auto id = texts.find(communicator);
    const auto text = id == texts.end() ? strings_.end() : strings_.find(id->second);
    return text == strings_.end() ? std::string() : clean_name(text->second);
  }

  Scan& scan_;
  std::unordered_map<uint32_t, std::string> strings_;
  std::map<uint32_t, ScannedCommunicator> communicators_;
  std::map<uint32_t, CommSplitMeta> splits_;
  std::map<uint32_t, uint32_t> names_, topologies_;  ///< string id by communicator
};

}  // namespace

Scan scan_spool(const std::filesystem::path& path) {
  Scan scan;
  scan.reader = std::make_unique<SpoolReader>(path.string());
  SpoolReader& reader = *scan.reader;
  const FileHeader& header = reader.header();
  scan.file_name = clean_text(path.filename().string());
  scan.file_bytes = reader.file_bytes();
  scan.header = header;
  scan.host = clean_text(fixed_text(header.host));
  scan.boot_id = clean_text(fixed_text(header.boot_id));
  scan.clock.kind = static_cast<ClockKind>(header.clock);
  scan.clock.host = scan.host;
  scan.clock.boot = scan.boot_id;
  scan.clock.begin = {header.begin.ticks, signed_ns(header.begin.monotonic_ns)};
  Collector collector(scan);
  collector.add_pair(header.begin);
  collector.add_pair(header.latest);
  for (const ChunkKind kind :
       {ChunkKind::kEvents, ChunkKind::kRing, ChunkKind::kMeta, ChunkKind::kProfile, ChunkKind::kDevice}) {
    for (const SpoolChunk& chunk : reader.chunks(kind)) {
      scan.clock.points.push_back({chunk.header.begin_ticks, signed_ns(chunk.header.begin_monotonic_ns)});
    }
  }
  scan.used_gpu = !reader.chunks(ChunkKind::kDevice).empty();
  reader.read_meta(collector);
  reader.release();
  collector.finish();
  return scan;
}

}  // namespace ddl::store
