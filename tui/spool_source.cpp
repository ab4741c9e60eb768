#include "tui/spool_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "store/ingest/operations.h"
#include "store/job.h"
#include "store/text.h"

namespace ddl::tui {
namespace {

constexpr uint64_t kJoinBytes = 128 * 1024;  // of a thread's log, when a job is joined that has been running
constexpr uint64_t kJoinAllBytes = 6 << 20;  // of all of them
constexpr uint64_t kLeastJoinBytes = 24 * 1024;
constexpr size_t kMaxOpen = 64;
constexpr size_t kMaxPoints = 64;  // clock pairs of one process: begin, and the newest
constexpr int64_t kFirstFitNs = 1'000'000'000;
constexpr int64_t kMaxFitNs = 60'000'000'000;

int64_t now_realtime_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t changed_ns(const std::filesystem::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return -1;
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Field 22 of /proc/PID/stat; 0: no such process, or it is a zombie.
uint64_t start_of_process(uint32_t pid) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", pid).c_str());
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 >= stat.size() || stat[end + 2] == 'Z') return 0;
  size_t at = end;
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoull(stat.c_str() + at + 1, nullptr, 10);
}

bool is_collective(OpClass c) {
  store::Operation operation;
  operation.op_class = c;
  return operation.is_collective();
}

/// What the analyzer calls the classes, so that describe_operation() has the last word.
const char* class_name(OpClass c) {
  switch (c) {
    case OpClass::kLifecycle:
      return "lifecycle";
    case OpClass::kAllToAll:
      return "all_to_all";
    case OpClass::kBarrier:
      return "barrier";
    case OpClass::kRootToAll:
      return "root_to_all";
    case OpClass::kAllToRoot:
      return "all_to_root";
    case OpClass::kScan:
      return "scan";
    case OpClass::kNeighbor:
      return "neighbor";
    case OpClass::kCommunicator:
      return "communicator";
    case OpClass::kSend:
      return "send";
    case OpClass::kReceive:
      return "receive";
    case OpClass::kSendReceive:
      return "send_receive";
    case OpClass::kProbe:
      return "probe";
    case OpClass::kCompletion:
      return "completion";
    case OpClass::kRequestStart:
      return "request_start";
    case OpClass::kOneSided:
      return "one_sided";
    case OpClass::kRmaSync:
      return "rma_sync";
    case OpClass::kFile:
      return "file";
    case OpClass::kFileCollective:
      return "file_collective";
    case OpClass::kDeviceMessage:
      return "device_message";
    case OpClass::kOther:
      break;
  }
  return "other";
}

}  // namespace

/// One spool, and how far it was read.
struct SpoolSource::Process : MetaVisitor {
  struct Followed {
    size_t chunk;  ///< in SpoolReader::all_chunks()
    FollowPosition position;
  };
  struct Context {
    uint32_t parent = 0, kind = 0, name = 0;
    uint32_t layer = kNone;
    uint32_t outer_layer = kNone;  ///< of a layer range: the layer around it
  };

  Process(SpoolSource& source, const std::string& path) : source_(source), reader(path) {
    const FileHeader& h = reader.header();
    host = clean_name(fixed_text(h.host));
    clock.kind = static_cast<ClockKind>(h.clock);
    clock.host = host;
    clock.boot = clean_name(fixed_text(h.boot_id));
    clock.begin = {h.begin.ticks, static_cast<int64_t>(h.begin.monotonic_ns)};
    add_pair(h.begin);
  }

  void add_pair(const ClockPair& pair) {
    if (pair.ticks == 0) return;
    if (clock.points.size() >= kMaxPoints) {
      clock.points.erase(clock.points.begin() + 1);
      clock.realtime_minus_monotonic_ns.erase(clock.realtime_minus_monotonic_ns.begin() + 1);
    }
    clock.points.push_back({pair.ticks, static_cast<int64_t>(pair.monotonic_ns)});
    clock.realtime_minus_monotonic_ns.push_back(static_cast<int64_t>(pair.realtime_ns - pair.monotonic_ns));
  }

  // ---- meta
  void on_string(uint32_t id, std::string_view text) override { strings[id] = clean_name(text); }
  void on_context(const ContextMeta& meta) override {
    if (meta.id >= (1u << 22)) return;
    if (contexts.size() <= meta.id) contexts.resize(meta.id + 1);
    Context& c = contexts[meta.id];
    c = {meta.parent, meta.kind, meta.name, kNone, kNone};
    const Context* parent = meta.parent < meta.id ? &contexts[meta.parent] : nullptr;
    c.layer = c.outer_layer = parent != nullptr ? parent->layer : kNone;
    const bool is_layer = meta.kind == static_cast<uint32_t>(ContextKind::kLayer);
    const bool outermost_operator = meta.kind == static_cast<uint32_t>(ContextKind::kOperator) && c.layer == kNone;
    if (is_layer || outermost_operator) c.layer = source_.layers_id(*job, phase_of(meta.parent), strings[meta.name]);
  }
  void on_communicator(const CommunicatorMeta& meta, std::span<const RankRun> runs) override {
    if (meta.flags & kCommNccl || meta.flags & kCommSelf || meta.index >= (1u << 20)) return;
    const auto [known, is_new] = source_.communicators_.try_emplace(meta.uid, static_cast<uint32_t>(job->communicators.size()));
    if (is_new) {
      JobCommunicator c;
      c.size = meta.size;
      c.comparable = (meta.flags & kCommInter) == 0;
      for (const RankRun& run : runs) {
        for (int32_t i = 0; i < run.count && c.ranks.size() < static_cast<size_t>(kMaxWorldSize); ++i)
          c.ranks.push_back(run.first < 0 ? -1 : run.first + i * run.stride);
      }
      for (const int32_t rank : c.ranks) c.comparable &= rank >= 0;
      const auto creator = ops.find(meta.op);
      const std::string made_by = creator == ops.end() ? "communicator" : job->operations[creator->second].operation.name;
      const auto same = std::count_if(job->communicators.begin(), job->communicators.end(),
                                      [&](const JobCommunicator& o) { return o.label.starts_with(made_by + "#"); });
      c.label = meta.flags & kCommWorld ? "MPI_COMM_WORLD" : fmt::format("{}#{}", made_by, same + 1);
      job->communicators.push_back(std::move(c));
    }
    comms[meta.index] = known->second;
  }
  void on_communicator_name(const CommNameMeta& meta) override {
    const auto comm = comms.find(meta.index);
    if (comm == comms.end() || job->communicators[comm->second].label == "MPI_COMM_WORLD") return;
    if (const auto text = strings.find(meta.name); text != strings.end() && !text->second.empty())
      job->communicators[comm->second].label = text->second;
  }
  void on_operation(const OperationMeta& meta, std::string_view name) override {
    const std::string clean = clean_name(name);
    const auto [known, is_new] = source_.operations_.try_emplace(clean, static_cast<uint32_t>(job->operations.size()));
    if (is_new) {
      JobOperation op;
      op.operation = describe_operation(clean, class_name(static_cast<OpClass>(meta.op_class)), meta.nonblocking != 0);
      op.message = message_operation(op.operation);
      job->operations.push_back(std::move(op));
    }
    ops[meta.op] = known->second;
  }
  void on_clock(const ClockPair& pair) override { add_pair(pair); }
  void on_fact(std::string_view key, std::string_view value) override {
    if (key == "exe" || key == "command" || key == "job_id" || key == "local_rank") facts[std::string(key)] = clean_name(value);
  }
  void on_sample(const SampleMeta& meta, std::span<const SampleValue> values) override {
    for (const SampleValue& v : values) {
      if (std::isfinite(v.value)) samples[fmt::format("{} {}", strings[meta.device], strings[v.name])] = v.value;
    }
  }
  std::string phase_of(uint32_t context) const {
    for (; context != 0 && context < contexts.size(); context = contexts[context].parent) {
      if (contexts[context].kind != static_cast<uint32_t>(ContextKind::kPhase)) continue;
      const auto name = strings.find(contexts[context].name);
      return name == strings.end() ? std::string() : name->second;
    }
    return {};
  }

  // ---- reading
  /// Takes in chunks that are new. At first, all but the end of the logs is left out.
  void find_chunks(uint64_t join_bytes) {
    const auto chunks = reader.all_chunks();
    const bool joining = next_chunk == 0;
    std::map<uint32_t, uint64_t> wanted;  // records of the log, by thread, from the end
    std::map<size_t, FollowPosition> begun;
    for (size_t i = chunks.size(); joining && i-- > 0;) {
      if (chunks[i].header.kind != static_cast<uint32_t>(ChunkKind::kEvents)) continue;
      uint64_t& left = wanted.try_emplace(chunks[i].header.thread, join_bytes / sizeof(Record)).first->second;
      if (left == 0) {
        joined = true;
        continue;
      }
      const uint64_t used = reader.follow_from_end(chunks[i], begun[i], left);
      joined |= used > left;
      left -= std::min(left, used);
    }
    for (; next_chunk < chunks.size(); ++next_chunk) {
      const auto kind = static_cast<ChunkKind>(chunks[next_chunk].header.kind);
      const auto begin = begun.find(next_chunk);
      if (kind == ChunkKind::kMeta) descriptions.push_back({next_chunk, {}});
      if (kind == ChunkKind::kRing || (kind == ChunkKind::kEvents && !joining)) records.push_back({next_chunk, {}});
      if (begin != begun.end()) records.push_back({next_chunk, begin->second});
      gpus |= kind == ChunkKind::kDevice;
    }
  }

  void read(Job& to, uint64_t join_bytes) {
    job = &to;
    reader.refresh();
    find_chunks(join_bytes);
    const auto chunks = reader.all_chunks();
    for (Followed& f : descriptions) reader.follow_meta(chunks[f.chunk], f.position, *this);
    if (descriptions.size() > 1) descriptions.erase(descriptions.begin(), descriptions.end() - 1);  // what is behind has been read
    if (index == kNone) return;
    Rank& rank = to.ranks[index];
    std::map<uint32_t, std::vector<Record>> open;
    for (Followed& f : records) {
      read_now.clear();
      const SpoolChunk& chunk = chunks[f.chunk];
      reader.follow_records(chunk, f.position, read_now);
      const uint32_t thread = chunk.header.thread;
      for (const Record& r : read_now) take(rank, thread, r);
      if (!f.position.open.empty()) {
        auto& of_thread = open[thread];
        for (const auto& o : f.position.open) of_thread.push_back(o.record);
        if (f.position.open.size() > kMaxOpen) f.position.open.erase(f.position.open.begin(), f.position.open.end() - kMaxOpen);
      }
    }
    drop_used_up(chunks);
    take_open(rank, open);
    rank.newest_ticks = std::max(rank.newest_ticks, reader.header().latest.ticks);
    rank.overhead_ticks = reader.header().overhead_ticks;
    rank.lost = 0;
    for (uint32_t i = 0; i < kLossKindCount; ++i) rank.lost += std::min<uint64_t>(reader.header().loss[i], 1ull << 40);
    for (const auto& [name, value] : samples) rank.counters[name] = value;
    samples.clear();
    to.gpus |= gpus;
  }

  /// A log chunk that is full, or that its thread has left for a later one, has nothing more to say.
  void drop_used_up(std::span<const SpoolChunk> chunks) {
    std::map<uint32_t, size_t> last;
    for (const Followed& f : records) {
      if (chunks[f.chunk].header.kind == static_cast<uint32_t>(ChunkKind::kEvents)) last[chunks[f.chunk].header.thread] = f.chunk;
    }
    std::erase_if(records, [&](const Followed& f) {
      const ChunkHeader& h = chunks[f.chunk].header;
      return h.kind == static_cast<uint32_t>(ChunkKind::kEvents) && f.chunk != last[h.thread] && f.position.open.empty();
    });
  }

  void take_open(Rank& rank, std::map<uint32_t, std::vector<Record>>& open) {
    rank.sits_in.reset();
    for (auto& [thread, calls] : open) {  // the lowest thread that is in a call: mostly the one with the steps
      std::erase_if(calls, [&](const Record& r) { return r.start_ticks < active[thread]; });
      if (calls.empty() || rank.sits_in) continue;
      const Record& r =
          *std::min_element(calls.begin(), calls.end(), [](const Record& a, const Record& b) { return a.start_ticks < b.start_ticks; });
      const auto op = ops.find(record_op(r.word));
      const auto comm = comms.find(r.comm);
      OpenCall call;
      call.op = op == ops.end() ? kNone : op->second;
      call.comm = comm == comms.end() ? kNone : comm->second;
      call.peer = r.peer;
      call.start_ticks = r.start_ticks;
      const bool named =
          call.op != kNone && call.comm != kNone &&
          (job->operations[call.op].operation.numbered || job->operations[call.op].operation.op_class == OpClass::kCompletion);
      if (named) call.sequence = r.sequence;
      if (named && job->operations[call.op].operation.numbered) reach(rank, call.comm, r.sequence);
      rank.sits_in = call;
    }
  }

  static void reach(Rank& rank, uint32_t comm, uint32_t sequence) {
    uint32_t& highest = rank.reached[comm];
    highest = std::max(highest, sequence);
  }

  void take(Rank& rank, uint32_t thread, const Record& r) {
    const uint64_t duration = record_duration_ticks(r.word);
    const uint64_t end = r.start_ticks + duration;
    uint64_t& latest = active[thread];
    latest = std::max(latest, end);
    rank.newest_ticks = std::max(rank.newest_ticks, end);
    switch (record_kind(r.word)) {
      case RecordKind::kCall:
      case RecordKind::kRequest:
        take_call(rank, thread, r);
        break;
      case RecordKind::kStepBegin:
        begun = true;
        rank.open_step = static_cast<uint64_t>(r.comm) << 32 | r.sequence;
        break;
      case RecordKind::kStep: {
        if (joined && !begun) break;  // its begin was left out, and some of its events
        EndedStep step;
        step.number = static_cast<uint64_t>(r.comm) << 32 | r.sequence;
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
        if (const auto name = strings.find(r.context); name != strings.end() && name->second == "samples")
          rank.samples.push_back({r.start_ticks, std::bit_cast<double>(r.payload)});
        break;
      case RecordKind::kLaunch:
        job->gpus = true;
        break;
      default:
        break;
    }
  }

  void take_call(Rank& rank, uint32_t thread, const Record& r) {
    const auto op = ops.find(record_op(r.word));
    if (op == ops.end()) return;
    const Operation& operation = job->operations[op->second].operation;
    if (operation.on_device) {  // the call only enqueues; what the device does is not looked at live
      job->gpus = true;
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
    e.layer = r.context < contexts.size() ? contexts[r.context].layer : kNone;
    if (const auto comm = comms.find(r.comm); comm != comms.end()) e.comm = comm->second;
    const bool collective = is_collective(operation.op_class) && e.comm != kNone;
    if (collective && operation.nonblocking == e.request) e.sequence = r.sequence;
    if (collective) reach(rank, e.comm, r.sequence);
    if (collective && operation.nonblocking) {
      if (e.request) {
        rank.posted.erase(e.start_ticks);
      } else {
        rank.posted[e.start_ticks] = e.op;
      }
    }
    rank.events.push_back(e);
  }

  void take_layer(Rank& rank, const Record& r, uint64_t end, uint64_t duration) {
    if (r.context >= contexts.size()) return;
    const Context& c = contexts[r.context];
    if (c.layer == kNone || c.layer == c.outer_layer) return;
    const auto ticks = static_cast<int64_t>(duration);
    const auto mpi = static_cast<int64_t>(r.payload);
    rank.layers.push_back({end, ticks, mpi, c.layer});
    if (c.outer_layer != kNone) rank.layers.push_back({end, -ticks, -mpi, c.outer_layer});  // a layer's own time
  }

  SpoolSource& source_;
  SpoolReader reader;
  Job* job = nullptr;
  uint32_t index = kNone;  ///< Job::ranks
  std::string host;
  store::ClockEvidence clock;
  size_t next_chunk = 0;
  std::vector<Followed> descriptions, records;
  std::unordered_map<uint32_t, std::string> strings;
  std::vector<Context> contexts;
  std::unordered_map<uint32_t, uint32_t> comms, ops;
  std::map<std::string, std::string> facts;
  std::map<std::string, double> samples;
  std::unordered_map<uint32_t, uint64_t> active;  ///< by thread: end of the last thing that ended
  std::vector<Record> read_now;
  bool gpus = false;
  bool joined = false;  ///< a part of the log was left out
  bool begun = false;   ///< a step has begun since
  bool unreadable = false;
};

uint32_t SpoolSource::layers_id(Job& job, const std::string& phase, const std::string& name) {
  const auto [known, is_new] = layers_.try_emplace(phase + '\0' + name, static_cast<uint32_t>(job.layers.size()));
  if (is_new) job.layers.push_back({name, phase});
  return known->second;
}

SpoolSource::SpoolSource(RunDirectory run, std::string shown) : run_(std::move(run)), shown_(std::move(shown)) {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) host_ = name;
  boot_ = first_line("/proc/sys/kernel/random/boot_id");
}

SpoolSource::~SpoolSource() = default;

void SpoolSource::look_for_spools() {
  const int64_t changed = changed_ns(run_.directory);
  const bool settled = changed == directory_changed_ns_ && now_realtime_ns() - changed > 2'000'000'000;
  if (settled) return;
  directory_changed_ns_ = changed;
  for (const std::filesystem::path& path : run_.spools()) {
    auto& known = by_path_[path.string()];
    if (known != nullptr) continue;
    try {
      processes_.push_back(std::make_unique<Process>(*this, path.string()));
      known = processes_.back().get();
    } catch (const Error&) {
      directory_changed_ns_ = -1;  // being made, or no spool: look again
    }
  }
}

void SpoolSource::read_job(Job& job) {
  const int64_t changed = changed_ns(run_.job());
  if (changed == job_changed_ns_) return;
  job_changed_ns_ = changed;
  const ddl::Job file = ddl::read_job(run_.job());
  job.exit_code = file.exit_code;
  job.signal = file.signal;
  job.recorded_end = file.ended_realtime_ns.has_value();
  if (const auto id = file.facts.find("job_id"); id != file.facts.end()) job.job_id = id->second;
}

/// Ranks that are known by now. Of several worlds the first one with the most ranks stays.
void SpoolSource::choose_world(Job& job) {
  const auto rank_of = [](const FileHeader& h) {
    const bool announced = (h.flags & (kMpiEntered | kNcclEntered)) && h.launch_rank >= 0 && h.launch_rank < h.launch_size;
    return h.rank >= 0 ? h.rank : announced ? h.launch_rank : -1;
  };
  std::map<uint64_t, int> worlds;
  for (const auto& p : processes_) {
    if (rank_of(p->reader.header()) >= 0) ++worlds[p->reader.header().world_key];
  }
  if (worlds.empty()) return;
  if (!world_key_) {
    const auto most = std::max_element(worlds.begin(), worlds.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    world_key_ = most->first;
  }
  job.other_worlds = static_cast<int32_t>(worlds.size()) - 1;
  std::map<std::string, int32_t> on_host;
  for (const auto& p : processes_) {
    const FileHeader& h = p->reader.header();
    const int32_t number = rank_of(h);
    if (number < 0 || h.world_key != *world_key_) continue;
    job.world_size = std::max(job.world_size, h.rank >= 0 ? h.world_size : h.launch_size);
    if (p->index != kNone) continue;
    const auto same = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const Rank& r) { return r.rank == number; });
    if (same != job.ranks.end()) continue;  // the program that this one was before exec, or a child that inherited the announcement
    p->index = static_cast<uint32_t>(job.ranks.size());
    Rank rank;
    rank.rank = number;
    rank.host = p->host;
    rank.begin_ticks = h.begin.ticks;
    const auto local = p->facts.find("local_rank");
    rank.on_host = local == p->facts.end() ? -1 : std::atoi(local->second.c_str());
    job.ranks.push_back(std::move(rank));
    if (job.job_id.empty() && p->facts.contains("job_id")) job.job_id = p->facts.at("job_id");
    if (job.name.empty()) {
      const std::string& exe = p->facts["exe"];
      const std::string& command = p->facts["command"];
      job.name = exe.substr(exe.rfind('/') + 1);
      if (const size_t script = command.find(".py"); job.name.starts_with("python") && script != std::string::npos) {
        const size_t begin = command.find_last_of(" /", script) + 1;
        job.name = command.substr(begin, script - begin);
      }
    }
  }
}

/// Again whenever the job has become twice as old, and when ranks have come.
void SpoolSource::fit(Job& job) {
  const int64_t now_ns = now_realtime_ns();
  if (processes_.empty() || (now_ns < next_fit_ns_ && fitted_ranks_ == job.ranks.size())) return;
  std::vector<store::ClockEvidence> evidence;
  for (const auto& p : processes_) {
    evidence.push_back(p->clock);
    const ClockPair& latest = p->reader.header().latest;
    if (latest.ticks == 0) continue;
    evidence.back().points.push_back({latest.ticks, static_cast<int64_t>(latest.monotonic_ns)});
  }
  const store::Clocks clocks = store::fit_clocks(evidence);
  epoch_realtime_ns_ = clocks.epoch_realtime_ns;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i]->index != kNone) job.ranks[processes_[i]->index].clock = clocks.processes[i];
  }
  fitted_ranks_ = job.ranks.size();
  next_fit_ns_ = now_ns + std::clamp(now_ns - epoch_realtime_ns_, kFirstFitNs, kMaxFitNs);
}

void SpoolSource::read_lives(Job& job) {
  bool any = false;
  bool all_over = !job.ranks.empty();
  for (const auto& p : processes_) {
    if (p->index == kNone) continue;
    const FileHeader& h = p->reader.header();
    Rank& rank = job.ranks[p->index];
    rank.life = h.flags & kMpiAborted       ? Life::kAborted
                : h.flags & kMpiFinalized   ? Life::kFinalized
                : h.flags & kExited         ? Life::kExited
                : h.flags & kMpiInitialized ? Life::kRunning
                                            : Life::kStarting;
    const bool here = p->host == host_ && p->clock.boot == boot_;
    const bool runs = rank.life == Life::kRunning || rank.life == Life::kStarting;
    if (runs && (job.recorded_end || (here && start_of_process(h.pid) != h.process_start))) rank.life = Life::kGone;
    any = true;
    all_over &= rank.life != Life::kRunning && rank.life != Life::kStarting;
  }
  job.ended = any && all_over;
}

void SpoolSource::poll(Job& job) {
  job.run = shown_;
  look_for_spools();
  if (processes_.empty())
    throw Error(fmt::format("there is nothing to look at in {} yet", shown_), "no process of the job has called MPI or NCCL",
                ExitCode::kDataMissing);
  read_job(job);
  const uint64_t join_bytes = std::clamp(kJoinAllBytes / processes_.size(), kLeastJoinBytes, kJoinBytes);
  for (int pass = 0; pass < 2; ++pass) {  // once more for those that turn out to be ranks
    for (const auto& p : processes_) {
      if (p->unreadable || (pass == 1 && p->index == kNone)) continue;
      try {
        p->read(job, join_bytes);
      } catch (const Error&) {
        p->unreadable = true;  // cut off under us; what was read stays
      }
    }
    const size_t before = job.ranks.size();
    choose_world(job);
    if (job.ranks.size() == before) break;
  }
  fit(job);
  read_lives(job);
  const int64_t now_ns = now_realtime_ns();
  job.now_ns = now_ns - epoch_realtime_ns_;
  job.wall_clock_s = now_ns / 1'000'000'000;
}

}  // namespace ddl::tui
