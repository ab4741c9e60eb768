#include "tests/support/synthetic_run_process.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tests/support/synthetic_run_ops.h"

namespace ddl::test::synthetic {
namespace {

constexpr uint64_t kProgramBegin = 0x400000, kProgramBytes = 0x100000, kProgramOffset = 0x1000;
constexpr int64_t kClockNs = 1000000000;
constexpr uint32_t kMaxLogChunkBytes = 256 << 10, kFirstProfileEntries = 256;
constexpr uint32_t kSequencesPerUnit = 64;

uint32_t profile_bytes(uint32_t entries) {
  return (kProfileOffset + entries * static_cast<uint32_t>(sizeof(ProfileEntry)) + kPageBytes - 1) / kPageBytes *
         kPageBytes;
}

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  std::memset(to, 0, N);
  std::memcpy(to, from.data(), std::min(from.size(), N - 1));
}

}  // namespace

SyntheticProcess::SyntheticProcess(const ProcessSettings& settings) : settings_(settings) {
  FileHeader& h = header();
  h.clock = static_cast<uint32_t>(settings.clock.tsc_hz == 0 ? ClockKind::kMonotonic : ClockKind::kTsc);
  h.pid = settings.pid;
  h.process_start = settings.process_start;
  h.world_key = settings.world_key;
  h.begin = h.latest = settings.clock.pair(settings.begin_ns);
  copy_text(h.host, settings.host);
  copy_text(h.boot_id, settings.boot_id);
  latest_ = settings.begin_ns;
  set_time(settings.begin_ns);
  keep_step_ = !settings.has_window;
  for (const auto& [key, value] : settings.facts) spool_.fact(key, value);
  ring_ = spool_.add_chunk(ChunkKind::kRing, kMinChunkBytes);
  profile_chunk_ = spool_.add_chunk(ChunkKind::kProfile, profile_bytes(kFirstProfileEntries));
  log_ = spool_.add_chunk(ChunkKind::kEvents, log_bytes_);
  spool_.thread(0, settings.pid, "train");
  // Address space layout randomisation: the same place in the program has another address in every process.
  const uint64_t begin = kProgramBegin + uint64_t{settings.pid} * kProgramBytes;
  spool_.module(begin, begin + kProgramBytes, kProgramOffset, "/opt/app/train");
}

std::string SyntheticProcess::file_name() const {
  return settings_.host + "." + std::to_string(settings_.pid) + "." + std::to_string(settings_.process_start) +
         ".spool";
}

// --------------------------------------------------------------------------------------------------------------- names

uint32_t SyntheticProcess::string_id(const std::string& text) {
  const auto [found, is_new] = strings_.try_emplace(text, static_cast<uint32_t>(strings_.size() + 1));
  if (is_new) spool_.string(found->second, text);
  return found->second;
}

uint32_t SyntheticProcess::context_id(uint32_t parent, ContextKind kind, uint32_t name, uint64_t site) {
  const auto [found, is_new] = contexts_.try_emplace({parent, static_cast<uint32_t>(kind), name, site},
                                                     static_cast<uint32_t>(contexts_.size() + 1));
  if (is_new) spool_.context({found->second, parent, static_cast<uint32_t>(kind), name, site});
  return found->second;
}

uint32_t SyntheticProcess::site_context(uint32_t site) {
  return context_id(context_, ContextKind::kSite, 0,
                    kProgramBegin + uint64_t{settings_.pid} * kProgramBytes + 0x100 + 16 * uint64_t{site});
}

uint32_t SyntheticProcess::intern(uint32_t parent, ContextKind kind, const std::string& name) {
  return context_id(parent, kind, kind == ContextKind::kStep ? 0 : string_id(name), 0);
}

// ------------------------------------------------------------------------------------------------------------- records

bool SyntheticProcess::keep(bool collective, uint32_t sequence) const {
  if (steps_seen_ || settings_.has_window) return step_open_ ? keep_step_ : !settings_.has_window && kept_unit(1);
  return collective ? kept_unit(sequence / kSequencesPerUnit) : kept_unit(1);
}

SyntheticProcess::Call SyntheticProcess::put(const Record& record, bool to_log) {
  ++records_;
  if (to_log) {
    if (log_slot_ == SpoolBuilder::record_slots(log_bytes_)) {
      log_bytes_ = std::min(2 * log_bytes_, kMaxLogChunkBytes);
      log_ = spool_.add_chunk(ChunkKind::kEvents, log_bytes_);
      log_slot_ = 0;
    }
    spool_.put(log_, log_slot_, record);
    return {record, true, log_, log_slot_++};
  }
  spool_.put(ring_, static_cast<uint32_t>(ring_written_ % SpoolBuilder::record_slots(kMinChunkBytes)), record);
  spool_.chunk(ring_).ring_written = ring_written_ + 1;
  return {record, false, ring_, ring_written_++};
}

void SyntheticProcess::put_again(const Call& call, const Record& record) {
  const uint32_t ring_slots = SpoolBuilder::record_slots(kMinChunkBytes);
  if (!call.to_log && ring_written_ - call.slot > ring_slots) return;  // the ring went round meanwhile
  spool_.put(call.chunk, static_cast<uint32_t>(call.to_log ? call.slot : call.slot % ring_slots), record);
}

SyntheticProcess::Call SyntheticProcess::enter(int64_t t, uint32_t op, uint32_t site, uint32_t comm, bool collective,
                                               uint32_t sequence, int32_t peer, uint64_t payload) {
  set_time(t);
  const uint32_t context = site_context(site);
  const Record record = {ticks(t), record_word(RecordKind::kOpen, op, 0), payload, comm, context, sequence, peer};
  return put(record, keep(collective, sequence));
}

void SyntheticProcess::leave(Call& call, int64_t t, uint64_t payload) {
  set_time(t);
  const uint32_t op = record_op(call.record.word);
  const uint64_t duration = ticks(t) - call.record.start_ticks;
  call.record.payload = payload;
  call.record.word = record_word(RecordKind::kCall, op, duration);
  put_again(call, call.record);
  call_ticks_ += duration;
  add(entry(call.record.context, call.record.comm, op, payload_bytes(payload)), payload_bytes(payload), duration);
  refresh(t);
}

void SyntheticProcess::request(const Call& post, int64_t t, uint64_t payload) {
  set_time(t);
  Record record = post.record;
  record.word = record_word(RecordKind::kRequest, record_op(record.word), ticks(t) - record.start_ticks);
  record.payload = payload;
  put(record, post.to_log);
}

void SyntheticProcess::polls(int64_t t, uint32_t op, uint32_t site, int64_t count, int64_t each_ns) {
  ProfileEntry& to = entry(site_context(site), kNoComm, op, 0);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t duration = ticks(t + (i + 1) * each_ns) - ticks(t + i * each_ns);
    call_ticks_ += duration;
    add(to, 0, duration);
  }
}

void SyntheticProcess::launch(int64_t t, int64_t duration_ns, LaunchKind kind, uint32_t correlation) {
  set_time(t);
  const uint64_t word =
      record_word(RecordKind::kLaunch, static_cast<uint32_t>(kind), ticks(t + duration_ns) - ticks(t));
  put({ticks(t), word, correlation, 0, context_, 0, -1}, keep(false, 0));
}

void SyntheticProcess::device(const DeviceRecord& record) {
  if (device_ != SIZE_MAX && spool_.append_device(device_, record)) return;
  device_ = spool_.add_chunk(ChunkKind::kDevice, kMaxLogChunkBytes);
  spool_.append_device(device_, record);
}

// -------------------------------------------------------------------------------------------------------------- ranges

void SyntheticProcess::write_range(const Range& range, RecordKind kind, int64_t t) {
  const bool is_step = range.kind == ContextKind::kStep;
  const uint64_t start = ticks(range.start);
  const uint64_t duration = kind == RecordKind::kStepBegin ? 0 : ticks(t) - start;
  const uint64_t in_calls = kind == RecordKind::kStepBegin ? 0 : call_ticks_ - range.call_ticks;
  Record record = {start, record_word(kind, static_cast<uint32_t>(range.kind), duration), in_calls, 0, range.context, 0,
                   -1};
  if (is_step) {
    record.comm = static_cast<uint32_t>(range.step >> 32);
    record.sequence = static_cast<uint32_t>(range.step);
  }
  put(record, is_step ? kept_unit(range.step) : keep(false, 0));
}

void SyntheticProcess::push(int64_t t, ContextKind kind, const std::string& name, uint64_t step) {
  set_time(t);
  ranges_.push_back({kind, context_, intern(context_, kind, name), t, call_ticks_, step});
  context_ = ranges_.back().context;
  if (kind != ContextKind::kStep) return;
  keep_step_ =
      kept_unit(step) && (!settings_.has_window || (step >= settings_.first_kept && step <= settings_.last_kept));
  steps_seen_ = step_open_ = true;
  write_range(ranges_.back(), RecordKind::kStepBegin, t);
}

void SyntheticProcess::pop(int64_t t, ContextKind kind) {
  if (ranges_.empty() || ranges_.back().kind != kind)
    throw std::logic_error("synthetic run: the program closes a range that is not the innermost");
  set_time(t);
  const Range range = ranges_.back();
  ranges_.pop_back();
  context_ = range.outer;
  add(entry(range.context, kNoComm, static_cast<uint32_t>(kind), 0), call_ticks_ - range.call_ticks,
      ticks(t) - ticks(range.start));
  write_range(range, kind == ContextKind::kStep ? RecordKind::kStep : RecordKind::kRange, t);
  if (kind == ContextKind::kStep) step_open_ = false;
  refresh(t);
}

void SyntheticProcess::value(int64_t t, const std::string& name, double value) {
  set_time(t);
  Record record = {ticks(t), record_word(RecordKind::kValue, 0, 0), 0, 0, string_id(name), 0, -1};
  std::memcpy(&record.payload, &value, sizeof value);
  put(record, keep(false, 0));
}

// -------------------------------------------------------------------------------------------------------------- totals

ProfileEntry& SyntheticProcess::entry(uint32_t context, uint32_t comm, uint32_t op, uint64_t bytes) {
  const uint32_t size_class = size_class_of(bytes);
  ProfileEntry& e = profile_[{context, comm, op, size_class}];
  if (e.op == 0) {
    e.context = context;
    e.comm = comm;
    e.op = static_cast<uint16_t>(op);
    e.size_class = static_cast<uint8_t>(size_class);
    e.min_ticks = UINT64_MAX;
  }
  return e;
}

void SyntheticProcess::add(ProfileEntry& e, uint64_t bytes, uint64_t duration) {
  e.bytes += bytes;
  e.ticks += duration;
  e.min_ticks = std::min(e.min_ticks, duration);
  e.max_ticks = std::max(e.max_ticks, duration);
  ++e.histogram[histogram_bucket(duration)];
}

void SyntheticProcess::refresh(int64_t t) {
  if (t - latest_ > kClockNs) write_clock(t);
}

void SyntheticProcess::write_clock(int64_t t) {
  set_time(t);
  latest_ = t;
  header().latest = settings_.clock.pair(t);
  spool_.clock(header().latest);
}

void SyntheticProcess::finish() {
  // In tables of the recorder's sizes; not in the order of their first use, and with free entries in between, which a
  // reader must bear too.
  size_t table = profile_chunk_;
  uint32_t slot = 0, capacity = kFirstProfileEntries;
  for (const auto& [key, e] : profile_) {
    if (!spool_.put_profile(table, slot, e)) {
      table = spool_.add_chunk(ChunkKind::kProfile, profile_bytes(capacity));
      capacity *= 2;
      slot = 1;
      spool_.put_profile(table, slot, e);
    }
    slot += slot % 4 == 3 ? 2 : 1;
  }
}

}  // namespace ddl::test::synthetic
