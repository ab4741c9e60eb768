#include "tui/store_source.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "core/error.h"
#include "store/text.h"
#include "tui/snapshot.h"

namespace ddl::tui {
namespace {

constexpr int64_t kJoinNs = 40'000'000'000;  // before the first frame, of jobs without steps
constexpr int64_t kJoinSteps = kWindow + 4;

Life life_of(const std::string& ended) {
  return ended == "finalized" ? Life::kFinalized
         : ended == "aborted" ? Life::kAborted
         : ended == "exited"  ? Life::kExited
                              : Life::kGone;
}

/// Where the rows of `process` begin in a table whose rows were written process by process.
int64_t first_row(SQLite::Database& db, const char* table, int64_t process) {
  Query last(db, std::string("SELECT coalesce(max(rowid), 0) FROM ") + table);
  int64_t low = 1, high = last.next() ? last.integer(0) + 1 : 1;
  Query probe(db, std::string("SELECT process FROM ") + table + " WHERE rowid >= ? LIMIT 1");
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    probe.bind(middle);
    if (probe.next() && probe.integer(0) < process) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

/// What one process did, read as far as the replay has come. Ticks are ns of the run.
struct StoreSource::Process {
  Process(SQLite::Database& db, int64_t process_id, int64_t from_ns)
      : id(process_id),
        events(
            db,
            "SELECT e.thread, e.kind, e.op, e.comm, e.seq, coalesce(n.kernel_start_ns, e.start_ns), coalesce(n.kernel_duration_ns, e.duration_ns),"
            " e.bytes, e.peer, e.region, coalesce(n.share_begin, 0), coalesce(n.share_end, 1), coalesce(n.share_total, 1),"
            " EXISTS (SELECT 1 FROM coordination c WHERE c.event = e.id)"
            " FROM event e LEFT JOIN nccl_collective n ON n.event = e.id"
            " WHERE e.process = ? AND e.start_ns >= ? AND e.kind <> 3 ORDER BY e.start_ns"),
        steps(
            db,
            "SELECT thread, step, start_ns, duration_ns, mpi_ns, measured FROM step WHERE process = ? AND start_ns >= ? AND duration_ns IS NOT NULL"
            " ORDER BY start_ns"),
        parts(db, R"(
          SELECT step, avg(duration_ns), avg(compute_ns), avg(comm_ns), avg(exposed_comm_ns), avg(exposed_copy_ns),
                 iif(count(exposed_wait_ns) = count(*), avg(exposed_wait_ns), NULL),
                 iif(count(wait_ns) = count(*), avg(wait_ns), NULL)
          FROM gpu_part
          WHERE rowid >= ? AND rowid < ? AND step IS NOT NULL
          GROUP BY step
          ORDER BY step)"),
        layers(
            db,
            "SELECT process, region, start_ns + duration_ns, duration_ns FROM range_event WHERE rowid >= ? ORDER BY rowid") {
    events.bind(id, from_ns);
    steps.bind(id, from_ns);
    layers.bind(first_row(db, "range_event", id));
    parts.bind(first_row(db, "gpu_part", id), first_row(db, "gpu_part", id + 1));
    more_events = events.next();
    more_parts = parts.next();
    more_steps = steps.next();
    more_layers = layers.next() && layers.integer(0) == id;
  }

  int64_t id;
  uint32_t index = 0;  ///< Job::ranks
  int64_t end_ns = 0;
  int64_t part_asked = INT64_MIN;  ///< step
  Life life = Life::kGone;
  Query events, steps, parts, layers;
  bool more_events = false, more_steps = false, more_parts = false, more_layers = false;
  std::vector<Event> under_way;
};

StoreSource::StoreSource(SQLite::Database& db, std::string shown, double speed, std::optional<int> frames_to_end)
    : db_(db), shown_(std::move(shown)), speed_(speed), frames_to_end_(frames_to_end) {}

StoreSource::~StoreSource() = default;

void StoreSource::load_names(Job& job) {
  job.run = shown_;
  std::unordered_map<std::string, std::string> meta;
  for (Query rows(db_,
                  "SELECT key, value FROM meta WHERE key IN ('job_id', 'exit_code', 'signal', 'epoch_realtime_ns')");
       rows.next();)
    meta[rows.text(0)] = rows.text(1);
  job.job_id = meta["job_id"];
  if (!meta["exit_code"].empty()) job.exit_code = std::atoll(meta["exit_code"].c_str());
  if (!meta["signal"].empty()) job.signal = std::atoll(meta["signal"].c_str());
  epoch_realtime_ns_ = std::atoll(meta["epoch_realtime_ns"].c_str());
  // What GPUs did is known step by step. For jobs without steps, or whose ranks wait in MPI, it is not looked at. A
  // rank that is unseen calls NCCL, and nothing of its GPUs was recorded.
  Query gpus(db_, R"(
    SELECT EXISTS (SELECT 1 FROM steady_world WHERE world = 0 AND annotated AND waits_by = 'device')
             OR (EXISTS (SELECT 1 FROM steady_world WHERE world = 0 AND annotated)
                 AND EXISTS (SELECT 1 FROM rank_resource WHERE world = 0 AND resource = 'device')
                 AND (SELECT total(exposed_ns) FROM steady_part WHERE world = 0) = 0),
           EXISTS (SELECT 1 FROM communicator WHERE kind = 'nccl') OR EXISTS (SELECT 1 FROM rank_resource WHERE resource = 'unseen'),
           EXISTS (SELECT 1 FROM gpu_event) OR EXISTS (SELECT 1 FROM gpu), EXISTS (SELECT 1 FROM background_process))");
  gpus.next();
  job.by_device = gpus.integer(0) != 0;
  job.background = gpus.integer(3) != 0;
  job.device_collectives = !job.by_device && gpus.integer(1) != 0;
  job.gpus = !job.by_device && (job.device_collectives || gpus.integer(2) != 0);

  Query ops(db_, "SELECT id, name, class, nonblocking FROM op ORDER BY id");
  while (ops.next()) {
    const auto id = static_cast<size_t>(ops.integer(0));
    if (job.operations.size() <= id) job.operations.resize(id + 1);
    job.operations[id].operation = describe_operation(ops.text(1), ops.text(2), ops.integer(3) != 0);
    job.operations[id].message = message_operation(job.operations[id].operation);
  }
  Query comms(db_, "SELECT id, label, size, kind FROM communicator WHERE world = 0 ORDER BY id");
  while (comms.next()) {
    const auto id = static_cast<size_t>(comms.integer(0));
    if (job.communicators.size() <= id) job.communicators.resize(id + 1);
    JobCommunicator& c = job.communicators[id];
    c.label = comms.text(1);
    c.size = static_cast<int32_t>(comms.integer(2));
    c.comparable = comms.text(3) != "inter";
  }
  Query members(
      db_,
      "SELECT m.communicator, m.rank FROM communicator_member m JOIN communicator c ON c.id = m.communicator WHERE c.world = 0 "
      "ORDER BY m.communicator, m.side, m.comm_rank");
  while (members.next()) {
    JobCommunicator& c = job.communicators[static_cast<size_t>(members.integer(0))];
    c.ranks.push_back(static_cast<int32_t>(members.maybe_integer(1).value_or(-1)));
    c.comparable &= c.ranks.back() >= 0;
  }
  for (JobCommunicator& c : job.communicators) c.comparable &= !c.ranks.empty();
  Query axes(db_, "SELECT communicator, axis, source FROM communicator_axis ORDER BY communicator");
  while (axes.next()) {
    if (static_cast<size_t>(axes.integer(0)) >= job.communicators.size()) continue;
    JobCommunicator& c = job.communicators[static_cast<size_t>(axes.integer(0))];
    c.axis = axes.text(1);
    c.axis_source = axes.text(2);
  }
  job.layers.resize(1);
  Query regions(
      db_,
      "SELECT r.id, coalesce(r.layer, ''), coalesce(r.phase, ''), r.kind = 'layer' OR (r.kind = 'operator' AND p.layer IS NULL),"
      " p.id, p.layer IS NOT NULL, r.kind = 'layer' FROM region r LEFT JOIN region p ON p.id = r.parent ORDER BY r.id");
  while (regions.next()) {
    const auto id = static_cast<size_t>(regions.integer(0));
    if (job.layers.size() <= id) job.layers.resize(id + 1);
    job.layers[id] = {regions.text(1), regions.text(2)};
    regions_.resize(job.layers.size());
    regions_[id] = {regions.integer(3) != 0,
                    regions.integer(5) != 0 ? static_cast<uint32_t>(regions.integer(4)) : kNone,
                    regions.integer(6) != 0};
  }
}

void StoreSource::load(Job& job, int64_t step_ns) {
  load_names(job);
  Query end(db_, "SELECT max(end_ns) FROM process WHERE world = 0 AND rank IS NOT NULL");
  end_ns_ = end.next() ? end.integer(0) : 0;
  now_ns_ = step_ns;
  if (frames_to_end_) {
    now_ns_ = std::max<int64_t>(0, end_ns_ - step_ns * (*frames_to_end_ - 1));
    Query step(
        db_,
        "SELECT min(start_ns) FROM step WHERE step >= (SELECT max(step) FROM step WHERE start_ns <= ?1) - ?2 AND start_ns <= ?1");
    step.bind(now_ns_, kJoinSteps);
    from_ns_ = step.next() && !step.is_null(0) ? step.integer(0) : std::max<int64_t>(0, now_ns_ - kJoinNs);
  }
  load_processes(job);
}

void StoreSource::load_processes(Job& job) {
  Query processes(
      db_,
      "SELECT p.id, p.rank, p.world_size, h.name, p.start_ns, p.end_ns, p.ended, coalesce(p.overhead_ns, 0), coalesce(p.exe, ''),"
      " h.boot_id, (SELECT value FROM process_fact f WHERE f.process = p.id AND f.key = 'local_rank'),"
      " (SELECT coalesce(sum(l.count), 0) FROM loss l WHERE l.world = p.world AND l.rank = p.rank AND l.kind NOT IN ('not_kept', 'killed')),"
      " p.init_ns IS NOT NULL, EXISTS (SELECT 1 FROM process_fact f WHERE f.process = p.id AND f.key = 'computes' AND f.value = 'layers'),"
      " p.overhead_ns IS NOT NULL"
      " FROM process p JOIN host h ON h.id = p.host WHERE p.world = 0 AND p.rank IS NOT NULL ORDER BY p.rank");
  std::map<std::string, size_t> domains;
  while (processes.next()) {
    auto process = std::make_unique<Process>(db_, processes.integer(0), from_ns_);
    process->index = static_cast<uint32_t>(job.ranks.size());
    process->end_ns = processes.integer(5);
    process->life = life_of(processes.text(6));
    Rank rank;
    rank.rank = static_cast<int32_t>(processes.integer(1));
    rank.host = processes.text(3);
    rank.life = Life::kRunning;
    rank.begin_ticks = static_cast<uint64_t>(processes.integer(4)) + 1;
    rank.overhead_ticks = static_cast<uint64_t>(processes.integer(7));
    rank.on_host = processes.is_null(10) ? -1 : static_cast<int32_t>(std::atoi(processes.text(10).c_str()));
    rank.lost = static_cast<uint64_t>(processes.integer(11));
    rank.uses_mpi = processes.integer(12) != 0;
    rank.computes_in_layers = processes.integer(13) != 0;
    rank.overhead_known = processes.integer(14) != 0;
    rank.clock.domain =
        domains.try_emplace(processes.text(9).empty() ? rank.host : processes.text(9), domains.size()).first->second;
    if (job.name.empty()) job.name = processes.text(8).substr(processes.text(8).rfind('/') + 1);
    job.world_size = std::max(job.world_size, static_cast<int32_t>(processes.integer(2)));
    job.ranks.push_back(std::move(rank));
    processes_.push_back(std::move(process));
  }
  if (processes_.empty())
    throw Error(shown_ + " has no ranks to show", "see what it has: ddl report " + shell_quoted(shown_),
                ExitCode::kDataMissing);
  Query samples(
      db_,
      "SELECT v.process, v.time_ns, v.value FROM value v WHERE v.name = 'samples' AND v.value IS NOT NULL AND v.time_ns >= ? "
      "ORDER BY v.time_ns");
  samples.bind(from_ns_);
  while (samples.next()) {
    const auto process =
        std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p->id == samples.integer(0); });
    if (process != processes_.end())
      job.ranks[(*process)->index].samples.emplace_back(static_cast<uint64_t>(samples.integer(1)), samples.real(2));
  }
}

void StoreSource::poll(Job& job, double interval_s) {
  const auto step_ns = static_cast<int64_t>(interval_s * speed_ * 1e9);
  if (!loaded_) {
    load(job, step_ns);
    loaded_ = true;
  } else {
    now_ns_ = std::min(now_ns_ + step_ns, std::max(end_ns_, now_ns_));
  }
  for (const auto& process : processes_) move_on(job, *process);
  job.now_ns = now_ns_;
  job.wall_clock_s = epoch_realtime_ns_ > 0 ? (epoch_realtime_ns_ + now_ns_) / 1'000'000'000 : 0;
  job.ended = now_ns_ >= end_ns_;
  if (job.ended) read_open_calls(job);
}

void StoreSource::move_on(Job& job, Process& p) const {
  Rank& rank = job.ranks[p.index];
  const auto now = static_cast<uint64_t>(now_ns_);
  const auto is_collective = [&](const Event& e) { return e.comm != kNone && e.sequence > 0; };
  const auto arrive = [&](const Event& e) {
    if (job.operations[e.op].operation.numbered && is_collective(e) && !e.device)
      rank.reach(e.comm, static_cast<uint32_t>(e.sequence));
    rank.newest_ticks = std::max(rank.newest_ticks, e.start_ticks + e.duration_ticks);
    rank.events.push_back(e);
  };
  std::erase_if(p.under_way, [&](const Event& e) {
    if (e.start_ticks + e.duration_ticks > now) return false;
    if (e.request) rank.posted.erase(e.start_ticks);
    arrive(e);
    return true;
  });
  for (; p.more_events && p.events.integer(5) <= now_ns_; p.more_events = p.events.next()) {
    Event e;
    e.thread = static_cast<uint32_t>(p.events.integer(0));
    e.request = p.events.integer(1) == 2;
    e.device = p.events.integer(1) == 4;
    if (e.device && !job.by_device) continue;
    e.op = static_cast<uint32_t>(p.events.integer(2));
    if (!p.events.is_null(3) && static_cast<size_t>(p.events.integer(3)) < job.communicators.size())
      e.comm = static_cast<uint32_t>(p.events.integer(3));
    e.sequence = static_cast<uint64_t>(p.events.maybe_integer(4).value_or(0));
    e.start_ticks = static_cast<uint64_t>(p.events.integer(5));
    e.duration_ticks = static_cast<uint64_t>(std::max<int64_t>(0, p.events.integer(6)));
    e.bytes = static_cast<uint64_t>(p.events.integer(7));
    e.is_sized = !p.events.is_null(7);
    e.share_begin = p.events.integer(10);
    e.share_end = p.events.integer(11);
    e.share_total = p.events.integer(12);
    if (p.events.integer(13) != 0) e.coordination_vote = 1;
    e.peer = static_cast<int32_t>(p.events.maybe_integer(8).value_or(-1));
    const auto region = static_cast<size_t>(p.events.integer(9));
    if (region < job.layers.size() && !job.layers[region].name.empty()) e.layer = static_cast<uint32_t>(region);
    if (e.op >= job.operations.size()) continue;
    if (e.start_ticks + e.duration_ticks <= now) {
      arrive(e);
    } else {
      if (e.request && is_collective(e)) rank.posted.insert(e.start_ticks);
      p.under_way.push_back(e);
    }
  }
  for (; p.more_steps && p.steps.integer(2) + p.steps.integer(3) <= now_ns_; p.more_steps = p.steps.next()) {
    EndedStep step;
    step.thread = static_cast<uint32_t>(p.steps.integer(0));
    step.number = static_cast<uint64_t>(p.steps.integer(1));
    step.start_ticks = static_cast<uint64_t>(p.steps.integer(2));
    step.end_ticks = step.start_ticks + static_cast<uint64_t>(p.steps.integer(3));
    step.mpi_ticks = static_cast<uint64_t>(p.steps.maybe_integer(4).value_or(0));
    if (job.by_device && p.steps.integer(5) != 0) step.device = device_part(p, p.steps.integer(1));
    rank.newest_ticks = std::max(rank.newest_ticks, step.end_ticks);
    rank.open_step = step.number + 1;
    rank.steps.push_back(step);
  }
  read_layers(rank, p);
  rank.sits_in.reset();
  for (const Event& e : p.under_way) {
    if (e.is_call() && (!rank.sits_in || e.start_ticks < rank.sits_in->start_ticks))
      rank.sits_in = OpenCall{e.op, e.comm, static_cast<uint32_t>(e.sequence), e.start_ticks, e.peer};
  }
  if (now_ns_ >= p.end_ns && now_ns_ >= end_ns_) {
    rank.life = p.life;
    rank.open_step.reset();
  }
}

/// What the process's GPUs did in a step. Steps are asked for in the order of time; where their numbers fall, it is
/// looked for from the start.
std::optional<RankPart> StoreSource::device_part(Process& p, int64_t step) {
  if (step < p.part_asked) {
    p.parts.reset();
    p.more_parts = p.parts.next();
  }
  p.part_asked = step;
  while (p.more_parts && p.parts.integer(0) < step) p.more_parts = p.parts.next();
  if (!p.more_parts || p.parts.integer(0) != step) return std::nullopt;
  return RankPart{.duration_ns = p.parts.integer(1),
                  .compute_ns = p.parts.integer(2),
                  .comm_ns = p.parts.integer(3),
                  .exposed_ns = p.parts.integer(4),
                  .copy_ns = p.parts.integer(5),
                  .wait_ns = p.parts.maybe_integer(6),
                  .waiting_ns = p.parts.maybe_integer(7)};
}

void StoreSource::read_layers(Rank& rank, Process& p) const {
  for (; p.more_layers && p.layers.integer(2) <= now_ns_;
       p.more_layers = p.layers.next() && p.layers.integer(0) == p.id) {
    const auto region = static_cast<size_t>(p.layers.integer(1));
    if (p.layers.integer(2) < from_ns_ || region >= regions_.size() || !regions_[region].is_layer) continue;
    const auto end = static_cast<uint64_t>(p.layers.integer(2));
    const bool computes = rank.computes_in_layers && regions_[region].computes;
    rank.layers.push_back({end, p.layers.integer(3), static_cast<uint32_t>(region), computes});
    const uint32_t outer = regions_[region].outer;
    if (outer != kNone) rank.layers.push_back({end, -p.layers.integer(3), outer});  // a layer's own time
  }
}

void StoreSource::read_open_calls(Job& job) {
  Query open(
      db_,
      "SELECT x.process, x.op, x.comm, x.seq, x.start_ns, x.peer FROM open_call x ORDER BY x.process, x.thread DESC, x.start_ns DESC");
  std::map<int64_t, size_t> ranks;
  for (const auto& process : processes_) ranks[process->id] = process->index;
  while (open.next()) {
    const auto rank = ranks.find(open.integer(0));
    if (rank == ranks.end()) continue;
    OpenCall call;
    call.op = static_cast<uint32_t>(open.integer(1));
    if (!open.is_null(2)) call.comm = static_cast<uint32_t>(open.integer(2));
    call.sequence = static_cast<uint32_t>(open.maybe_integer(3).value_or(0));
    call.start_ticks = static_cast<uint64_t>(open.integer(4));
    call.peer = static_cast<int32_t>(open.maybe_integer(5).value_or(-1));
    job.ranks[rank->second].sits_in = call;
  }
}

}  // namespace ddl::tui
