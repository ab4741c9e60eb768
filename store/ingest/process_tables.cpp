
#include "store/ingest/process_load.h"
#include "store/text.h"

namespace ddl::store {

namespace {

constexpr size_t kMaxPathBytes = 4096;

}  // namespace

ProcessTables::ProcessTables(RunTables& run, const Scan& scan, int64_t process, const Place& place,
                             const ProcessClock& clock)
    : run_(run), scan_(scan), process_(process), place_(place), clock_(clock), ops_(0x1000), contexts_(run.regions) {
  for (const auto& [number, id] : run.operations.add(scan)) ops_[number] = id;
  for (const auto& [index, id] : run.communicators.ids_of(scan, *place.world)) {
    if (index >= kMaxCommIndex) break;
    if (index >= comms_.size()) comms_.resize(index + 1);
    comms_[index] = id;
  }
  for (const ScannedCommunicator& c : scan.communicators) {
    if (c.meta.flags & kCommNccl && c.meta.rank >= 0) comm_ranks_[c.meta.index] = c.meta.rank;
  }
}

uint32_t ProcessTables::op(uint32_t number) {
  uint32_t& id = ops_[number & 0xfff];
  if (id == 0) id = run_.operations.add_unknown(scan_, number);
  return id;
}

uint32_t ProcessTables::comm(uint32_t index) {
  if (index == kNoComm) return 0;
  if (index < comms_.size() && comms_[index] != 0) return comms_[index];
  ++unresolved_;
  return 0;
}

std::optional<int32_t> ProcessTables::comm_rank(uint32_t index) const {
  const auto found = comm_ranks_.find(index);
  return found == comm_ranks_.end() ? std::nullopt : std::optional(found->second);
}

ProcessContexts::Entry ProcessTables::context(uint32_t id) {
  const ProcessContexts::Entry& entry = contexts_[id];
  if (!entry.known) ++unresolved_;
  return entry;
}

const std::string& ProcessTables::string(uint32_t id) const {
  static const std::string kEmpty;
  const auto found = strings_.find(id);
  return found != strings_.end() ? found->second : kEmpty;
}

void ProcessTables::read(const SpoolReader& reader, std::vector<Skip>& skips) {
  reader.read_meta(*this, &skips);
  contexts_.resolve_sites();
}

void ProcessTables::on_string(uint32_t id, std::string_view text) { strings_.emplace(id, clean_name(text)); }
void ProcessTables::on_context(const ContextMeta& meta) { contexts_.add(meta, string(meta.name)); }
void ProcessTables::on_module(const ModuleMeta& meta, std::string_view path) {
  contexts_.add_module(meta, path.substr(0, kMaxPathBytes));
}
void ProcessTables::on_thread(const ThreadMeta& meta, std::string_view name) {
  threads_[meta.thread] = {meta.tid, clean_text(name)};
}
void ProcessTables::on_fact(std::string_view key, std::string_view value) {
  facts_.emplace_back(clean_text(key), clean_text(value));
}

void ProcessTables::on_sample(const SampleMeta& meta, std::span<const SampleValue> values) {
  for (const SampleValue& value : values) samples_.push_back({meta.ticks, meta.device, value.name, value.value});
}

}  // namespace ddl::store
