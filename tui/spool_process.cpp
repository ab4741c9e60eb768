#include "tui/spool_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "analyzer/passes/background.h"
#include "core/live_file.h"
#include "core/names.h"
#include "store/text.h"

namespace ddl::tui {
namespace {

constexpr uint32_t kBackgroundSamples = 200;  // a fifth of a second of them
constexpr size_t kMaxOpen = 64;
constexpr size_t kMaxPoints = 64;  // clock pairs of one process: begin, and the newest
constexpr uint32_t kMaxContexts = 1u << 22, kMaxCommunicators = 1u << 20;

bool is_collective(OpClass op_class) {
  store::Operation operation;
  operation.op_class = op_class;
  return operation.is_collective();
}

std::string_view text_or_none(const char* name) {
  return name == nullptr ? std::string_view() : std::string_view(name);
}

std::string_view datatype_of(const Record& r) {
  return text_or_none(name_of_code(kDatatypeNames, payload_datatype(r.payload)));
}

/// For a numbered call.
int vote_of(const Record& r, const Operation& operation) {
  return coordination_vote(operation.op_class, datatype_of(r),
                           text_or_none(name_of_code(kReductionNames, payload_reduction(r.payload))),
                           static_cast<int64_t>(payload_bytes(r.payload)));
}
bool moves_data(const Record& r, const Operation& operation) { return vote_of(r, operation) < 0; }

bool is_kind(const SpoolChunk& chunk, ChunkKind kind) { return chunk.header.kind == static_cast<uint32_t>(kind); }

}  // namespace

SpoolProcess::SpoolProcess(Numbering& numbering, NcclSizes& sizes, const std::string& path)
    : numbering_(numbering), reader_(path), devices_(sizes, strings_) {
  const FileHeader& h = reader_.header();
  clock_.kind = static_cast<ClockKind>(h.clock);
  clock_.host = clean_name(fixed_text(h.host));
  clock_.boot = clean_name(fixed_text(h.boot_id));
  clock_.begin = {h.begin.ticks, static_cast<int64_t>(h.begin.monotonic_ns)};
  on_clock(h.begin);
}

std::string SpoolProcess::fact(const std::string& key) const {
  const auto known = facts_.find(key);
  return known == facts_.end() ? std::string() : known->second;
}

store::ClockEvidence SpoolProcess::clock_evidence() const {
  store::ClockEvidence evidence = clock_;
  const ClockPair& latest = header().latest;
  if (latest.ticks != 0) evidence.points.push_back({latest.ticks, static_cast<int64_t>(latest.monotonic_ns)});
  return evidence;
}

int32_t SpoolProcess::rank() const {
  const FileHeader& h = header();
  const bool takes_part = (h.flags & (kMpiEntered | kNcclEntered | kGlooEntered)) != 0 || gpus_;
  const bool announced = takes_part && h.launch_rank >= 0 && h.launch_rank < h.launch_size;
  return h.rank >= 0 ? h.rank : announced ? h.launch_rank : alone_ ? 0 : -1;
}

// ---- descriptions

void SpoolProcess::on_string(uint32_t id, std::string_view text) { strings_[id] = clean_name(text); }

void SpoolProcess::on_context(const ContextMeta& meta) {
  if (meta.id >= kMaxContexts) return;
  if (contexts_.size() <= meta.id) contexts_.resize(meta.id + 1);
  Context& c = contexts_[meta.id];
  c = {meta.parent, meta.kind, meta.name, kNone, kNone};
  if (meta.parent < meta.id) c.layer = c.outer_layer = contexts_[meta.parent].layer;
  const bool is_layer = meta.kind == static_cast<uint32_t>(ContextKind::kLayer);
  const bool outermost_operator = meta.kind == static_cast<uint32_t>(ContextKind::kOperator) && c.layer == kNone;
  if (is_layer || outermost_operator) c.layer = numbering_.layer(*job_, phase_of(meta.parent), strings_[meta.name]);
}

void SpoolProcess::on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> runs) {
  if (meta.flags & kCommSelf || meta.index >= kMaxCommunicators) return;
  const auto creator = ops_.find(meta.op);
  const FileHeader& h = header();
  // MPI_COMM_WORLD may be described before the header has its size.
  const int32_t world_size = std::max({h.world_size, h.launch_size, meta.flags & kCommWorld ? meta.size : 0});
  const uint32_t number = numbering_.communicator(
      *job_, {.world_key = h.world_key,
              .rank = rank(),
              .meta = meta,
              .runs = runs,
              .creator = creator == ops_.end() ? "" : job_->operations[creator->second].operation.name,
              .max_members = static_cast<uint64_t>(std::clamp(world_size, 0, kMaxWorldSize))});
  // who sits in a call of NCCL has only not enqueued it yet: nobody waits for others there
  if (meta.flags & kCommNccl) {
    devices_.on_communicator(meta.index, number, meta.rank);
    nccl_comms_[meta.index] = number;
    nccl_parents_[meta.index] = meta.parent;
  } else {
    comms_[meta.index] = number;
  }
}

void SpoolProcess::on_communicator_name(const CommNameMeta& meta) {
  const auto mpi = comms_.find(meta.index), nccl = nccl_comms_.find(meta.index);
  const auto comm = mpi != comms_.end() ? mpi : nccl;
  if (mpi == comms_.end() && nccl == nccl_comms_.end()) return;
  if (const auto text = strings_.find(meta.name); text != strings_.end())
    numbering_.name_communicator(comm->second, text->second);
}

void SpoolProcess::on_communicator_split(const CommSplitMeta& meta) {
  const auto comm = nccl_comms_.find(meta.index), parent_index = nccl_parents_.find(meta.index);
  if (comm == nccl_comms_.end() || parent_index == nccl_parents_.end()) return;
  const auto parent = nccl_comms_.find(parent_index->second);
  if (parent != nccl_comms_.end()) numbering_.split_communicator(comm->second, parent->second, meta.number);
}

void SpoolProcess::on_operation(const OperationMeta& meta, std::string_view name) {
  ops_[meta.op] =
      numbering_.operation(*job_, clean_name(name), static_cast<OpClass>(meta.op_class), meta.nonblocking != 0);
}

void SpoolProcess::on_clock(const ClockPair& pair) {
  if (pair.ticks == 0) return;
  if (clock_.points.size() >= kMaxPoints) {
    clock_.points.erase(clock_.points.begin() + 1);
    clock_.realtime_minus_monotonic_ns.erase(clock_.realtime_minus_monotonic_ns.begin() + 1);
  }
  clock_.points.push_back({pair.ticks, static_cast<int64_t>(pair.monotonic_ns)});
  clock_.realtime_minus_monotonic_ns.push_back(static_cast<int64_t>(pair.realtime_ns - pair.monotonic_ns));
}

void SpoolProcess::on_thread(const ThreadMeta& meta, std::string_view) {
  if (meta.tid == header().pid) {
    beside_main_.erase(meta.thread);
  } else {
    beside_main_.insert(meta.thread);
  }
}

void SpoolProcess::on_fact(std::string_view key, std::string_view value) {
  if (key == "exe" || key == "command" || key == "job_id" || key == "local_rank" || key == "mpi")
    facts_[std::string(key)] = clean_name(value);
  if (key == "gpu.until") devices_.on_handed_over(handed_over_ticks(value));
}

void SpoolProcess::on_sample(const SampleMeta& meta, std::span<const SampleValue> values) {
  for (const SampleValue& v : values) {
    if (std::isfinite(v.value)) samples_[fmt::format("{} {}", strings_[meta.device], strings_[v.name])] = v.value;
  }
}

std::string SpoolProcess::phase_of(uint32_t context) const {
  for (; context != 0 && context < contexts_.size(); context = contexts_[context].parent) {
    if (contexts_[context].kind != static_cast<uint32_t>(ContextKind::kPhase)) continue;
    const auto name = strings_.find(contexts_[context].name);
    return name == strings_.end() ? std::string() : name->second;
  }
  return {};
}

// ---- reading

uint64_t SpoolProcess::bytes_of_steps(size_t steps, uint64_t most_bytes) {
  reader_.refresh();
  const auto chunks = reader_.all_chunks();
  std::map<uint32_t, std::vector<Record>> newest;  // by thread
  for (size_t i = chunks.size(); i-- > 0;) {
    if (!is_kind(chunks[i], ChunkKind::kEvents) || newest.contains(chunks[i].header.thread)) continue;
    FollowPosition position;
    reader_.follow_from_end(chunks[i], position, most_bytes / sizeof(Record));
    reader_.follow_records(chunks[i], position, newest[chunks[i].header.thread]);
  }
  std::optional<uint64_t> begin;  // of the oldest of those steps
  for (const auto& [thread, records] : newest) {
    size_t left = steps;
    for (size_t i = records.size(); i-- > 0 && left > 0;)
      if (record_kind(records[i].word) == RecordKind::kStep && --left == 0)
        begin = std::min(begin.value_or(UINT64_MAX), records[i].start_ticks);
  }
  if (!begin) return most_bytes;
  uint64_t bytes = 0;
  for (const auto& [thread, records] : newest) {
    const auto since =
        std::find_if(records.begin(), records.end(), [&](const Record& r) { return r.start_ticks >= *begin; });
    if (since == records.begin()) return most_bytes;  // there are more of this thread
    bytes = std::max(bytes, static_cast<uint64_t>(records.end() - since) * sizeof(Record));
  }
  return bytes;
}

/// Takes in chunks that are new. At first, all but the end of the logs is left out, and what rings have written over.
void SpoolProcess::find_chunks(uint64_t join_bytes, uint64_t device_bytes) {
  const auto chunks = reader_.all_chunks();
  const bool joining = next_chunk_ == 0;
  if (joining) missed_before_ = header().loss[kLossLive];
  std::map<uint32_t, uint64_t> wanted;  // records of the log, by thread, from the end
  uint64_t devices_wanted = device_bytes / sizeof(DeviceRecord);
  std::map<size_t, FollowPosition> begun;
  for (size_t i = chunks.size(); joining && i-- > 0;) {
    if (is_kind(chunks[i], ChunkKind::kDevice)) {
      if (devices_wanted > 0) {
        const uint64_t used = reader_.follow_from_end(chunks[i], begun[i], devices_wanted);
        if (used > devices_wanted) devices_.leave_out();
        job_->joined |= used > devices_wanted;
        devices_wanted -= std::min(devices_wanted, used);
      } else {
        devices_.leave_out();
        job_->joined = true;
      }
    }
    if (!is_kind(chunks[i], ChunkKind::kEvents)) continue;
    uint64_t& left = wanted.try_emplace(chunks[i].header.thread, join_bytes / sizeof(Record)).first->second;
    if (left == 0) {
      cut_threads_.insert(chunks[i].header.thread);
      continue;
    }
    const uint64_t used = reader_.follow_from_end(chunks[i], begun[i], left);
    if (used > left) cut_threads_.insert(chunks[i].header.thread);
    left -= std::min(left, used);
  }
  left_out_ |= !cut_threads_.empty();
  job_->joined |= left_out_;
  for (; next_chunk_ < chunks.size(); ++next_chunk_) {
    const SpoolChunk& chunk = chunks[next_chunk_];
    const auto begin = begun.find(next_chunk_);
    if (is_kind(chunk, ChunkKind::kMeta)) descriptions_.push_back({next_chunk_, {}});
    if (is_kind(chunk, ChunkKind::kRing)) {
      const uint64_t slots = (chunk.header.bytes - sizeof(ChunkHeader)) / sizeof(Record);
      const bool behind = joining && chunk.header.ring_written > slots;
      left_out_ |= behind;
      job_->joined |= behind;
      const FollowPosition position{.read = behind ? chunk.header.ring_written - slots : 0, .missed = 0, .open = {}};
      records_.push_back({next_chunk_, position});
    }
    if (is_kind(chunk, ChunkKind::kEvents) && !joining) records_.push_back({next_chunk_, {}});
    if (is_kind(chunk, ChunkKind::kDevice)) {
      gpus_ = true;
      if (!joining || begin != begun.end())
        device_chunks_.push_back({next_chunk_, joining ? begin->second : FollowPosition{}});
    } else if (begin != begun.end()) {
      records_.push_back({next_chunk_, begin->second});
    }
  }
}

/// What is new in logs and rings goes to `written_`; `open`: calls that have not ended, by thread.
void SpoolProcess::follow_records(std::map<uint32_t, std::vector<Record>>& open) {
  const auto chunks = reader_.all_chunks();
  open.clear();
  thread_local std::vector<Record> read_now;  // of all processes, one after the other
  for (Followed& f : records_) {
    read_now.clear();
    const SpoolChunk& chunk = chunks[f.chunk];
    reader_.follow_records(chunk, f.position, read_now);
    const uint32_t thread = chunk.header.thread;
    uint64_t written_ticks = 0;
    if (!read_now.empty() && cut_threads_.erase(thread) > 0)
      from_ticks_ = std::max(from_ticks_, read_now[0].start_ticks + record_duration_ticks(read_now[0].word));
    for (const Record& r : read_now) {
      const RecordKind kind = record_kind(r.word);
      // their place is taken when they begin
      const bool is_call = kind == RecordKind::kCall || kind == RecordKind::kRequest;
      written_ticks = std::max(written_ticks, is_call ? r.start_ticks : r.start_ticks + record_duration_ticks(r.word));
      written_.push_back({written_ticks, thread, r});
    }
    if (!f.position.open.empty()) {
      auto& of_thread = open[thread];
      for (const auto& o : f.position.open) of_thread.push_back(o.record);
      if (f.position.open.size() > kMaxOpen)
        f.position.open.erase(f.position.open.begin(), f.position.open.end() - kMaxOpen);
    }
  }
}

void SpoolProcess::read(Job& job, uint64_t join_bytes, uint64_t device_bytes) {
  job_ = &job;
  reader_.refresh();
  find_chunks(join_bytes, device_bytes);
  std::map<uint32_t, std::vector<Record>> open;
  uint64_t until_ticks = UINT64_MAX;
  if (index != kNone) {
    follow_records(open);
    // Where recording is thinned, the steps of a thread alternate between its log and its ring, and one is read before
    // the other: a step that ends in between is missed in the first and its successor found in the second. So both are
    // read twice, and what came since the first time waits for the next look.
    const auto is_ring = [&](const Followed& f) { return is_kind(reader_.all_chunks()[f.chunk], ChunkKind::kRing); };
    if (!written_.empty() && std::any_of(records_.begin(), records_.end(), is_ring)) {
      until_ticks = std::max_element(written_.begin(), written_.end(), is_earlier)->ticks;
      reader_.refresh();
      follow_records(open);
    }
  }
  const auto chunks = reader_.all_chunks();
  // after the records that they describe
  for (Followed& f : descriptions_) reader_.follow_meta(chunks[f.chunk], f.position, *this);
  // what is behind has been read
  if (descriptions_.size() > 1) descriptions_.erase(descriptions_.begin(), descriptions_.end() - 1);
  if (index == kNone) return;
  Rank& rank = job.ranks[index];
  if (left_out_) rank.messages.leave_out();
  // A step that is finished drops what came before it, so records are taken in by time.
  if (!std::is_sorted(written_.begin(), written_.end(), is_earlier))
    std::stable_sort(written_.begin(), written_.end(), is_earlier);
  const auto later =
      std::find_if(written_.begin(), written_.end(), [&](const Written& w) { return w.ticks > until_ticks; });
  std::for_each(written_.begin(), later, [&](const Written& w) { take(rank, w.thread, w.record); });
  written_.erase(written_.begin(), later);
  if (written_.size() < written_.capacity() / 4) written_.shrink_to_fit();  // joining read far more than a look does
  drop_used_up(chunks);
  take_open(rank, open);
  take_polls(rank);
  rank.newest_ticks = std::max(rank.newest_ticks, header().latest.ticks);
  rank.overhead_ticks = header().overhead_ticks;
  rank.lost = header().loss[kLossLive] - missed_before_;
  for (const Followed& f : records_) rank.lost += f.position.missed;
  for (uint32_t i = 0; i < kLossKindCount; ++i) rank.lost += std::min<uint64_t>(header().loss[i], 1ull << 40);
  for (const auto& [name, value] : samples_) rank.counters[name] = value;
  samples_.clear();
  job.device_collectives |= (header().flags & kNcclEntered) != 0;
  job.gpus |= gpus_ || job.device_collectives;
}

void SpoolProcess::read_devices() {
  if (index == kNone || device_chunks_.empty()) return;
  const auto chunks = reader_.all_chunks();
  for (Followed& f : device_chunks_) {
    devices_now_.clear();
    reader_.follow_device(chunks[f.chunk], f.position, devices_now_);
    for (const DeviceRecord& r : devices_now_) devices_.take(r);
  }
  // one writer, one chunk at a time
  if (device_chunks_.size() > 1) device_chunks_.erase(device_chunks_.begin(), device_chunks_.end() - 1);
}

void SpoolProcess::join_devices(Job& job) {
  if (index != kNone) devices_.join(job, job.ranks[index]);
}

/// A log chunk that is full, or that its thread has left for a later one, has nothing more to say.
void SpoolProcess::drop_used_up(std::span<const SpoolChunk> chunks) {
  std::map<uint32_t, size_t> last;
  for (const Followed& f : records_) {
    if (is_kind(chunks[f.chunk], ChunkKind::kEvents)) last[chunks[f.chunk].header.thread] = f.chunk;
  }
  std::erase_if(records_, [&](const Followed& f) {
    const SpoolChunk& chunk = chunks[f.chunk];
    return is_kind(chunk, ChunkKind::kEvents) && f.chunk != last[chunk.header.thread] && f.position.open.empty();
  });
}

void SpoolProcess::take_open(Rank& rank, std::map<uint32_t, std::vector<Record>>& open) {
  const auto is_earlier = [](const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; };
  rank.sits_in.reset();
  for (auto& [thread, calls] : open) {  // the lowest thread that is in a call: mostly the one with the steps
    std::erase_if(calls, [&, of = thread](const Record& r) { return r.start_ticks < active_[of]; });
    if (calls.empty() || rank.sits_in) continue;
    const Record& r = *std::min_element(calls.begin(), calls.end(), is_earlier);
    const auto op = ops_.find(record_op(r.word));
    const auto comm = comms_.find(r.comm);
    OpenCall call;
    call.op = op == ops_.end() ? kNone : op->second;
    call.comm = comm == comms_.end() ? kNone : comm->second;
    call.start_ticks = r.start_ticks;
    call.peer = r.peer;
    if (call.op != kNone && call.comm != kNone) {
      const Operation& operation = job_->operations[call.op].operation;
      if (operation.numbered || operation.op_class == OpClass::kCompletion) call.sequence = r.sequence;
      if (operation.numbered) rank.reach(call.comm, r.sequence);
    }
    rank.sits_in = call;
  }
}

/// Probes and tests that find nothing leave no record: they are counted, and refresh the header about once a second.
void SpoolProcess::take_polls(Rank& rank) {
  const uint64_t latest = header().latest.ticks;
  if (rank.sits_in || rank.finished_ticks != polls_.finished_ticks || is_over(rank.life)) {
    rank.polls.reset();
    polls_ = {rank.finished_ticks, latest, {}};
    return;
  }
  if (latest == polls_.latest_ticks) return;
  polls_.latest_ticks = latest;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> calls;
  std::vector<ProfileEntry> entries;
  for (const SpoolChunk& chunk : reader_.chunks(ChunkKind::kProfile)) {
    entries.clear();
    reader_.read_profile(chunk, entries);
    for (const ProfileEntry& entry : entries) {
      const auto op = ops_.find(entry.op);
      if (op == ops_.end()) continue;
      const MessageOperation& operation = job_->operations[op->second].message;
      if (operation.polls || operation.role == MessageRole::kTest) calls[{entry.op, entry.comm}] += all_calls(entry);
    }
  }
  uint64_t most = 0;
  for (const auto& [key, count] : calls) {
    const auto before = polls_.calls.find(key);
    if (before == polls_.calls.end() || count <= before->second || count - before->second <= most) continue;
    most = count - before->second;
    const auto comm = comms_.find(key.second);
    rank.polls = OpenCall{ops_.at(key.first), comm == comms_.end() ? kNone : comm->second, 0, rank.finished_ticks};
  }
  polls_.calls = std::move(calls);
}

/// Did it finish something? Samples of threads tell nothing of that, and background threads go on coordinating when
/// training does not come.
bool SpoolProcess::is_progress(const Record& r) const {
  const RecordKind kind = record_kind(r.word);
  if (kind == RecordKind::kThreadSample || kind == RecordKind::kAgreement) return false;
  if (kind != RecordKind::kCall || thread_samples_ == 0 || !comms_.contains(r.comm)) return true;
  const auto op = ops_.find(record_op(r.word));
  if (op == ops_.end()) return true;
  const Operation& operation = job_->operations[op->second].operation;
  return !operation.numbered || moves_data(r, operation);
}

void SpoolProcess::take(Rank& rank, uint32_t thread, const Record& r) {
  const uint64_t duration = record_duration_ticks(r.word);
  const uint64_t end = r.start_ticks + duration;
  uint64_t& latest = active_[thread];
  latest = std::max(latest, end);
  rank.newest_ticks = std::max(rank.newest_ticks, end);
  if (is_progress(r)) rank.finished_ticks = std::max(rank.finished_ticks, end);
  const uint64_t step_number = static_cast<uint64_t>(r.comm) << 32 | r.sequence;
  switch (record_kind(r.word)) {
    case RecordKind::kCall:
    case RecordKind::kRequest:
      take_call(rank, thread, r);
      break;
    case RecordKind::kStepBegin:
      rank.open_step = step_number;
      break;
    case RecordKind::kStep: {
      if (r.start_ticks < from_ticks_) break;  // some of its events were left out
      EndedStep step;
      step.number = step_number;
      step.start_ticks = r.start_ticks;
      step.end_ticks = end;
      step.mpi_ticks = r.payload;
      step.thread = thread;
      rank.steps.push_back(step);
      if (rank.open_step == step.number) rank.open_step = step.number + 1;
      break;
    }
    case RecordKind::kRange:
      take_layer(rank, r, end, duration);
      break;
    case RecordKind::kValue:
      if (const auto name = strings_.find(r.context); name != strings_.end()) take_value(rank, name->second, r);
      break;
    case RecordKind::kLaunch:
      job_->gpus = true;
      devices_.take_launch(r);
      break;
    case RecordKind::kNcclGroup:
      devices_.take_group(r);
      break;
    case RecordKind::kThreadSample:  // a few are of programs whose threads take turns in MPI
      job_->background |= ++thread_samples_ >= kBackgroundSamples;
      rank.negotiating.take_sample(r, rank.clock);
      break;
    case RecordKind::kAgreement:
      rank.negotiating.ready_bits = static_cast<uint32_t>(r.payload >> 32);
      break;
    default:
      break;
  }
}

void SpoolProcess::take_value(Rank& rank, const std::string& name, const Record& r) {
  constexpr std::string_view kAskedFor = "ddl_tuned ";
  const auto value = std::bit_cast<double>(r.payload);
  if (name == "samples") rank.samples.push_back({r.start_ticks, value});
  if (name == "ddl_tune_block") rank.tune_marks.push_back({r.start_ticks, "", value});
  if (name.starts_with(kAskedFor)) rank.tune_marks.push_back({r.start_ticks, name.substr(kAskedFor.size()), value});
  if (rank.tune_marks.size() > kMostTuneMarks) rank.tune_marks.pop_front();
}

void SpoolProcess::take_call(Rank& rank, uint32_t thread, const Record& r) {
  const auto op = ops_.find(record_op(r.word));
  if (op == ops_.end()) return;
  const Operation& operation = job_->operations[op->second].operation;
  const uint32_t layer = r.context < contexts_.size() ? contexts_[r.context].layer : kNone;
  if (operation.on_device) {  // the call only enqueues
    job_->gpus = job_->device_collectives = true;
    if (is_collective(operation.op_class)) devices_.take_call(r, thread, op->second, layer);
    return;
  }
  Event e;
  e.request = record_kind(r.word) == RecordKind::kRequest;
  e.start_ticks = r.start_ticks;
  e.duration_ticks = record_duration_ticks(r.word);
  e.bytes = payload_bytes(r.payload);
  e.op = op->second;
  e.thread = thread;
  e.peer = r.peer;
  e.layer = layer;
  if (const auto comm = comms_.find(r.comm); comm != comms_.end()) e.comm = comm->second;
  // The first cycles of a background thread come before the first sample: without them sums of requests would
  // begin in the middle.
  if ((thread_samples_ > 0 || beside_main_.contains(thread)) && e.comm != kNone && !e.request)
    take_negotiation(rank, r, operation);
  if (beside_main_.contains(thread) && operation.numbered && !e.request && !operation.name.starts_with("gloo::"))
    e.coordination_vote = static_cast<int8_t>(vote_of(r, operation));
  const bool collective = is_collective(operation.op_class) && e.comm != kNone;
  if (operation.op_class == OpClass::kRequestStart && operation.name != "MPI_Request_free") rank.messages.leave_out();
  if (e.comm != kNone)
    rank.messages.take(job_->operations[e.op].message, e.op, {e.comm, r.peer, static_cast<int32_t>(r.sequence)},
                       e.start_ticks, e.request);
  if (collective && operation.nonblocking == e.request) e.sequence = r.sequence;
  if (collective) rank.reach(e.comm, r.sequence);
  if (collective && operation.nonblocking) {
    if (e.request) {
      rank.posted.erase(e.start_ticks);
    } else {
      rank.posted.insert(e.start_ticks);
    }
  }
  rank.events.push_back(e);
}

/// A call of a process that has a thread which trains and another one that communicates.
void SpoolProcess::take_negotiation(Rank& rank, const Record& r, const Operation& operation) {
  if (!operation.numbered) return;
  const uint64_t bytes = payload_bytes(r.payload);
  if (moves_data(r, operation)) rank.negotiating.take_data(r.sequence, r.start_ticks + record_duration_ticks(r.word));
  if (operation.op_class == OpClass::kAllToRoot && datatype_of(r) == "MPI_BYTE" && bytes > 0)
    rank.negotiating.take_request(r.sequence, bytes);
}

void SpoolProcess::take_layer(Rank& rank, const Record& r, uint64_t end, uint64_t duration) {
  if (r.context >= contexts_.size()) return;
  const Context& c = contexts_[r.context];
  if (c.layer == kNone || c.layer == c.outer_layer) return;
  const auto ticks = static_cast<int64_t>(duration);
  rank.layers.push_back({end, ticks, c.layer});
  if (c.outer_layer != kNone) rank.layers.push_back({end, -ticks, c.outer_layer});  // a layer's own time
}

}  // namespace ddl::tui
