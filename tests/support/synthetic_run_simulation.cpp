#include "tests/support/synthetic_run_simulation.h"

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>

#include "tests/support/synthetic_run_ledger.h"
#include "tests/support/synthetic_run_ops.h"
#include "tests/support/synthetic_run_process.h"

namespace ddl::test {
namespace {

constexpr uint32_t kFloat = 14, kSum = 1;  // codes of core/names.h
constexpr uint32_t kInitSite = 0, kFinalizeSite = 1, kSplitSite = 2, kNameSite = 3, kAbortSite = 4, kFirstItemSite = 16;
constexpr int kTag = 7;

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

struct Comm {
  std::string label;
  uint64_t uid = 0;
  uint32_t index = 0;  ///< in every member
  std::vector<int> members;
  uint32_t sequence = 0;
};

struct Pending {
  SyntheticProcess::Call post;
  std::optional<size_t> instance;  ///< collectives
  std::optional<int64_t> done;     ///< messages: known when posted. Nothing: never
  uint64_t payload = 0;
  bool receive = false;
  uint64_t order = 0;
};

struct Rank {
  int64_t now = 0;
  bool stopped = false;
  bool doomed = false;  ///< dies in the call that it enters next
  std::optional<uint64_t> step;
  std::vector<std::string> path;  ///< of regions
  std::vector<Pending> pending;
  int64_t link_free = 0;  ///< when its transfers in the background are over
  std::unique_ptr<SyntheticProcess> process;
};

class Simulation {
 public:
  Simulation(const Plan& plan, Ledger& ledger) : plan_(plan), ledger_(ledger) { make_ranks(); }

  void run();
  std::vector<Rank>& ranks() { return ranks_; }

 private:
  using Call = SyntheticProcess::Call;

  void make_ranks();
  void initialize();
  void make_communicators();
  void finalize();
  void play(const std::vector<Item>& items, uint32_t first_site, std::optional<uint64_t> step);
  void begin_step(uint64_t step);
  void end_step(uint64_t step);
  void meet_fate(uint64_t step);

  void compute(const Item& item, size_t place, uint64_t step);
  void collective(const Item& item, uint32_t site, Comm& comm);
  void blocking(const Item& item, const Op& op, uint32_t site, Comm& comm, InstanceTruth& instance);
  void post(const Item& item, const Op& op, uint32_t site, Comm& comm, size_t instance);
  void schedule(size_t instance, const Comm& comm, int64_t transfer_ns);
  void complete(uint32_t site, bool all);
  void ring(const Item& item, uint32_t site);
  void nonblocking_ring(const Item& item, uint32_t site);
  void message(const Item& item, uint32_t site);
  void polls(const Item& item, uint32_t site);
  void range(const Item& item);

  Call enter(int r, const Op& op, uint32_t site, const Comm* comm, uint32_t sequence, int32_t peer, uint64_t payload);
  void leave(int r, Call& call, const Op& op, const Comm* comm, int64_t t, uint64_t payload);
  void stay(int r, const Call& call, const Op& op, const Comm* comm);
  std::string region(int r) const;
  std::vector<Comm*> groups(const std::string& name);
  bool alive(int r) const { return !ranks_[static_cast<size_t>(r)].stopped; }
  Rank& at(int r) { return ranks_[static_cast<size_t>(r)]; }

  const Plan& plan_;
  Ledger& ledger_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Comm>> comms_;  ///< [0]: the world; then one entry per split
  uint64_t posts_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------- the job

void Simulation::make_ranks() {
  ranks_.resize(static_cast<size_t>(plan_.ranks));
  for (int r = 0; r < plan_.ranks; ++r) {
    ProcessSettings s;
    int host = r * plan_.hosts / plan_.ranks;
    int64_t skew_ns = plan_.host_skew_ns * host;
    if (const auto own = plan_.clock_offsets.find(r); own != plan_.clock_offsets.end()) {
      host = plan_.hosts + r;
      skew_ns = own->second;
    }
    const uint64_t h = static_cast<uint64_t>(host);
    s.clock = {plan_.tsc_hz, 5000000000000 + h * 1230000000000, 1000000000000 + h * 777700000000,
               1760000000000000000 + static_cast<uint64_t>(skew_ns)};
    s.host = "node" + std::to_string(host);
    const std::string digits = std::to_string(1000 + host);
    s.boot_id = "5eed" + digits + "-0000-4000-8000-00000000" + digits;
    s.pid = plan_.first_pid + static_cast<uint32_t>(r);
    s.process_start = 70000 + s.pid;
    s.world_key = plan_.world_key;
    s.begin_ns = plan_.begin_ns;
    s.has_window = plan_.has_window;
    s.first_kept = plan_.first_kept;
    s.last_kept = plan_.last_kept;
    s.facts = {{"exe", "/opt/app/train"}, {"command", "./train --batch 32"}, {"cwd", "/home/user"}, {"cpus", std::to_string(r)}};
    s.facts.insert(s.facts.end(), plan_.facts.begin(), plan_.facts.end());
    at(r).process = std::make_unique<SyntheticProcess>(s);
    at(r).now = plan_.begin_ns + kInitEnterNs;
  }
  for (const auto& [key, count] : plan_.losses) at(key.first).process->header().loss[key.second] = count;
}

void Simulation::run() {
  initialize();
  const uint32_t step_sites = kFirstItemSite + static_cast<uint32_t>(plan_.setup.size());
  play(plan_.setup, kFirstItemSite, std::nullopt);
  for (uint64_t step = plan_.first_step; step < plan_.first_step + plan_.steps; ++step) {
    begin_step(step);
    play(plan_.step, step_sites, step);
    end_step(step);
  }
  play(plan_.teardown, step_sites + static_cast<uint32_t>(plan_.step.size()), std::nullopt);
  finalize();
}

void Simulation::initialize() {
  for (int r = 0; r < plan_.ranks; ++r) {
    SyntheticProcess& process = *at(r).process;
    if (r % 2 == 1 && plan_.annotated) {  // half of the ranks know names and ranges by other ids
      for (auto item = plan_.step.rbegin(); item != plan_.step.rend(); ++item) {
        if (item->kind == ItemKind::kOpenRange && item->range == ContextKind::kPhase) {
          process.intern(process.intern(0, ContextKind::kStep, ""), ContextKind::kPhase, item->name);
        }
      }
    }
    Call call = enter(r, operation("MPI_Init"), kInitSite, nullptr, kNoSequence, -1, 0);
    FileHeader& h = process.header();
    const int64_t leave_ns = plan_.begin_ns + kInitLeaveNs;
    h.rank = r;
    h.world_size = plan_.ranks;
    h.thread_level = 0;
    h.mpi_init_leave_ticks = call.record.start_ticks;
    h.flags |= kMpiInitialized;
    for (const Op& op : operations()) process.spool().operation(op.id, op.op_class, op.nonblocking, op.name);
    process.spool().communicator({1, 0, 1, plan_.ranks, r, 0, kCommWorld, 0, 0}, {});
    process.spool().communicator({2, 0, 2, 1, 0, 0, kCommSelf, 0, 0}, {});
    process.spool().fact("mpi", "Synthetic MPI 1.0");
    leave(r, call, operation("MPI_Init"), nullptr, leave_ns, 0);
    h.mpi_init_leave_ticks = call.record.start_ticks + record_duration_ticks(call.record.word);
    process.write_clock(leave_ns);
  }
  make_communicators();
  for (Rank& rank : ranks_) rank.now = std::max(rank.now, plan_.begin_ns + kFirstStepNs);
}

void Simulation::make_communicators() {
  Comm world;
  world.label = "MPI_COMM_WORLD";
  world.uid = world.index = 1;
  for (int r = 0; r < plan_.ranks; ++r) world.members.push_back(r);
  comms_.push_back({world});
  for (const Plan::Split& split : plan_.splits) {
    Item item;
    item.name = "MPI_Comm_split";
    item.time_ns = kCallNs;
    collective(item, kSplitSite, comms_[0][0]);
    const uint32_t index = 2 + static_cast<uint32_t>(comms_.size());
    std::vector<Comm> made(static_cast<size_t>(split.groups));
    for (int r = 0; r < plan_.ranks; ++r) {
      made[static_cast<size_t>(split.strided ? r % split.groups : r * split.groups / plan_.ranks)].members.push_back(r);
    }
    for (size_t g = 0; g < made.size(); ++g) {
      Comm& comm = made[g];
      comm.label = split.name + "." + std::to_string(g);
      comm.index = index;
      comm.uid = mix(mix(comms_.size()) + g) | 1ull << 63;
      const int stride = split.strided ? split.groups : 1;
      const int size = static_cast<int>(comm.members.size());
      for (int i = 0; i < size; ++i) {
        const int r = comm.members[static_cast<size_t>(i)];
        const RankRun members = {comm.members.front(), stride, size};
        const CommunicatorMeta meta = {index, 1, comm.uid, size, i, operation("MPI_Comm_split").id, 0, 0, 0};
        at(r).process->spool().communicator(meta, {members});
        if (!split.named) continue;
        const Op& set_name = operation("MPI_Comm_set_name");
        Call call = enter(r, set_name, kNameSite, &comm, kNoSequence, -1, 0);
        leave(r, call, set_name, &comm, at(r).now + kCallNs, 0);
        at(r).process->name_communicator(index, comm.label);
      }
    }
    comms_.push_back(std::move(made));
  }
}

void Simulation::finalize() {
  const Op& op = operation("MPI_Finalize");
  std::vector<std::pair<int, Call>> calls;
  int64_t last = 0;
  for (int r = 0; r < plan_.ranks; ++r) {
    if (!alive(r)) continue;
    at(r).now += kFinalizeGapNs;
    FileHeader& h = at(r).process->header();
    calls.emplace_back(r, enter(r, op, kFinalizeSite, nullptr, kNoSequence, -1, 0));
    h.mpi_finalize_enter_ticks = calls.back().second.record.start_ticks;
    h.flags |= kMpiFinalized;
    h.loss[kLossRequests] += at(r).pending.size();
    last = std::max(last, at(r).now);
  }
  for (auto& [r, call] : calls) {
    if (calls.size() < ranks_.size()) {
      stay(r, call, op, nullptr);
      continue;
    }
    leave(r, call, op, nullptr, last + kFinalizeNs, 0);
    at(r).process->write_clock(at(r).now);
    at(r).process->header().flags |= kExited;
    at(r).now += kFinalizeGapNs;
    at(r).process->write_clock(at(r).now);
  }
}

// ---------------------------------------------------------------------------------------------------------------- steps

void Simulation::begin_step(uint64_t step) {
  for (int r = 0; r < plan_.ranks; ++r) {
    if (!alive(r)) continue;
    for (const Plan::Thinning& t : plan_.thinning) {
      if (t.rank == r && step == std::max(t.from_step, plan_.first_step)) at(r).process->keep_level(t.level);
    }
    at(r).step = step;
    ledger_.begin_step(r, step, at(r).now);
    if (!plan_.annotated) continue;
    at(r).path.push_back("step");
    at(r).process->push(at(r).now, ContextKind::kStep, "", step);
  }
}

void Simulation::end_step(uint64_t step) {
  for (int r = 0; r < plan_.ranks; ++r) {
    if (!alive(r)) continue;
    if (plan_.annotated) {
      ledger_.close_range(r, "step", region(r), at(r).now);
      at(r).path.pop_back();
      at(r).process->pop(at(r).now, ContextKind::kStep);
    }
    ledger_.end_step(r, step, at(r).now);
    at(r).step.reset();
    at(r).now += plan_.gap_ns;
  }
}

/// Just before the first communication of a step.
void Simulation::meet_fate(uint64_t step) {
  for (const Plan::Slow& slow : plan_.slow) {
    if (alive(slow.rank) && step >= slow.from_step && step < slow.until_step) at(slow.rank).now += slow.extra_ns;
  }
  for (const Plan::End& end : plan_.ends) {
    if (end.step != step || !alive(end.rank)) continue;
    if (end.fate == Plan::Fate::kKilled) at(end.rank).doomed = true;
    if (end.fate == Plan::Fate::kHang) at(end.rank).stopped = true;
    if (end.fate == Plan::Fate::kAbort) {
      const Op& op = operation("MPI_Abort");
      const Call call = enter(end.rank, op, kAbortSite, &comms_[0][0], kNoSequence, -1, 0);
      FileHeader& h = at(end.rank).process->header();
      h.flags |= kMpiAborted;
      h.abort_code = end.code;
      at(end.rank).process->write_clock(at(end.rank).now);
      stay(end.rank, call, op, &comms_[0][0]);
    }
  }
}

void Simulation::play(const std::vector<Item>& items, uint32_t first_site, std::optional<uint64_t> step) {
  bool communicated = false;
  for (size_t place = 0; place < items.size(); ++place) {
    const Item& item = items[place];
    if (step && *step % item.every != 0) continue;
    const bool communicates = item.kind == ItemKind::kCollective || item.kind == ItemKind::kSendrecvRing ||
                              item.kind == ItemKind::kIsendrecvRing || item.kind == ItemKind::kMessage;
    if (communicates && step && !communicated) {
      communicated = true;
      meet_fate(*step);
    }
    const uint32_t site = first_site + static_cast<uint32_t>(place);
    switch (item.kind) {
      case ItemKind::kCompute:
        compute(item, place, step.value_or(UINT64_MAX));
        break;
      case ItemKind::kCollective:
        for (Comm* comm : groups(item.comm)) collective(item, site, *comm);
        break;
      case ItemKind::kSendrecvRing:
        ring(item, site);
        break;
      case ItemKind::kIsendrecvRing:
        nonblocking_ring(item, site);
        break;
      case ItemKind::kMessage:
        message(item, site);
        break;
      case ItemKind::kWait:
        complete(site, false);
        break;
      case ItemKind::kWaitall:
        complete(site, true);
        break;
      case ItemKind::kPolls:
        polls(item, site);
        break;
      case ItemKind::kOpenRange:
      case ItemKind::kCloseRange:
        range(item);
        break;
      case ItemKind::kValue:
        for (int r = 0; r < plan_.ranks; ++r) {
          if (alive(r) && (item.only_rank < 0 || item.only_rank == r)) at(r).process->value(at(r).now, item.name, item.value);
        }
        break;
    }
  }
  if (step && !communicated) meet_fate(*step);
}

void Simulation::compute(const Item& item, size_t place, uint64_t step) {
  for (int r = 0; r < plan_.ranks; ++r) {
    if (!alive(r) || (item.only_rank >= 0 && item.only_rank != r)) continue;
    int64_t ns = item.time_ns;
    if (plan_.jitter_ns > 0) {
      const uint64_t random = mix(mix(mix(plan_.seed + static_cast<uint64_t>(r)) + step) + place);
      ns += static_cast<int64_t>(random % static_cast<uint64_t>(2 * plan_.jitter_ns + 1)) - plan_.jitter_ns;
    }
    at(r).now += std::max<int64_t>(ns, 0);
  }
}

void Simulation::range(const Item& item) {
  const char* kind = item.range == ContextKind::kLayer ? "layer" : "phase";
  for (int r = 0; r < plan_.ranks; ++r) {
    if (!alive(r)) continue;
    if (item.kind == ItemKind::kOpenRange) {
      at(r).path.push_back(item.name);
      ledger_.open_range(r, at(r).now);
      at(r).process->push(at(r).now, item.range, item.name, 0);
    } else {
      at(r).process->pop(at(r).now, item.range);
      ledger_.close_range(r, kind, region(r), at(r).now);
      at(r).path.pop_back();
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------- calls

std::string Simulation::region(int r) const {
  std::string path;
  for (const std::string& name : ranks_[static_cast<size_t>(r)].path) path += (path.empty() ? "" : "/") + name;
  return path;
}

std::vector<Comm*> Simulation::groups(const std::string& name) {
  std::vector<Comm*> found;
  if (name.empty()) return {&comms_[0][0]};
  for (size_t i = 0; i < plan_.splits.size(); ++i) {
    if (plan_.splits[i].name != name) continue;
    for (Comm& comm : comms_[i + 1]) found.push_back(&comm);
  }
  if (found.empty()) throw std::invalid_argument("synthetic run: no split() is called " + name);
  return found;
}

Simulation::Call Simulation::enter(int r, const Op& op, uint32_t site, const Comm* comm, uint32_t sequence, int32_t peer,
                                   uint64_t payload) {
  return at(r).process->enter(at(r).now, op.id, site, comm ? comm->index : kNoComm, op.is_collective(), sequence, peer, payload);
}

void Simulation::leave(int r, Call& call, const Op& op, const Comm* comm, int64_t t, uint64_t payload) {
  ledger_.call(r, std::string(op.name), comm ? comm->label : "", region(r), static_cast<int64_t>(payload_bytes(payload)), at(r).now, t);
  at(r).process->leave(call, t, payload);
  at(r).now = t;
}

void Simulation::stay(int r, const Call& call, const Op& op, const Comm* comm) {
  const bool counts = op.is_collective() || op.op_class == OpClass::kCompletion;
  ledger_.open_call({r, std::string(op.name), comm ? comm->label : "", counts ? call.record.sequence : 0, at(r).step, at(r).now});
  at(r).stopped = true;
}

void Simulation::collective(const Item& item, uint32_t site, Comm& comm) {
  const Op& op = operation(item.name);
  if (std::none_of(comm.members.begin(), comm.members.end(), [&](int r) { return alive(r); })) return;
  const size_t number = ledger_.add_instance();
  InstanceTruth& instance = ledger_.instance(number);
  instance.comm = comm.label;
  instance.comm_uid = comm.uid;
  instance.seq = ++comm.sequence;
  instance.op = op.name;
  instance.nonblocking = op.nonblocking;
  if (item.root >= 0) instance.root = item.root;
  const int64_t size = static_cast<int64_t>(comm.members.size());
  instance.bytes = op.size == Size::kNone ? 0 : op.size == Size::kSentByAll ? item.bytes * size : item.bytes;
  for (size_t i = 0; i < comm.members.size(); ++i) {
    const int r = comm.members[i];
    if (!alive(r)) {
      instance.missing.push_back(r);
      continue;
    }
    instance.step = at(r).step;
    const bool sends = op.size != Size::kSentByRoot || static_cast<int>(i) == item.root;
    instance.members.push_back({r, static_cast<int>(i), at(r).now, std::nullopt, sends ? item.bytes : 0, std::nullopt, std::nullopt});
  }
  if (op.nonblocking) {
    post(item, op, site, comm, number);
  } else {
    blocking(item, op, site, comm, instance);
  }
}

uint64_t payload_of(const Op& op, const MemberTruth& member) {
  if (member.payload_bytes == 0) return 0;
  return record_payload(static_cast<uint64_t>(member.payload_bytes), kFloat, op.reduces ? kSum : 0);
}

void Simulation::blocking(const Item& item, const Op& op, uint32_t site, Comm& comm, InstanceTruth& instance) {
  std::vector<Call> calls;
  std::optional<int64_t> root_enter;
  int64_t last = 0;
  bool all = instance.missing.empty();
  for (const MemberTruth& m : instance.members) {
    calls.push_back(enter(m.rank, op, site, &comm, instance.seq, item.root, payload_of(op, m)));
    last = std::max(last, m.enter_ns);
    if (m.comm_rank == item.root && !at(m.rank).doomed) root_enter = m.enter_ns;
    all = all && !at(m.rank).doomed;
  }
  for (size_t i = 0; i < instance.members.size(); ++i) {
    MemberTruth& m = instance.members[i];
    const bool is_root = m.comm_rank == item.root;
    std::optional<int64_t> leave_ns;
    if (op.op_class == OpClass::kRootToAll) {
      if (root_enter) leave_ns = std::max(m.enter_ns, *root_enter) + item.time_ns;
    } else if (op.op_class == OpClass::kAllToRoot && !is_root) {
      leave_ns = m.enter_ns + kCallNs;
    } else if (all) {
      leave_ns = last + item.time_ns;
    }
    if (at(m.rank).doomed) leave_ns.reset();
    if (leave_ns) {
      m.leave_ns = leave_ns;
      leave(m.rank, calls[i], op, &comm, *leave_ns, payload_of(op, m));
    } else {
      stay(m.rank, calls[i], op, &comm);
    }
  }
}

void Simulation::post(const Item& item, const Op& op, uint32_t site, Comm& comm, size_t number) {
  InstanceTruth& instance = ledger_.instance(number);
  bool all = instance.missing.empty();
  for (const MemberTruth& m : instance.members) {
    Call call = enter(m.rank, op, site, &comm, instance.seq, item.root, payload_of(op, m));
    if (at(m.rank).doomed) {
      all = false;
      stay(m.rank, call, op, &comm);
      continue;
    }
    leave(m.rank, call, op, &comm, m.enter_ns + kCallNs, payload_of(op, m));
    at(m.rank).pending.push_back({call, number, std::nullopt, payload_of(op, m), false, ++posts_});
  }
  if (all) schedule(number, comm, item.time_ns);
}

/// Its bytes move when everybody has posted and the members' earlier transfers are over.
void Simulation::schedule(size_t number, const Comm& comm, int64_t transfer_ns) {
  InstanceTruth& instance = ledger_.instance(number);
  int64_t from = 0;
  for (const MemberTruth& m : instance.members) from = std::max({from, m.enter_ns, at(m.rank).link_free});
  instance.moved_from_ns = from;
  instance.moved_until_ns = from + transfer_ns;
  for (const int r : comm.members) at(r).link_free = instance.moved_until_ns;
}

void Simulation::complete(uint32_t site, bool all) {
  const Op& op = operation(all ? "MPI_Waitall" : "MPI_Wait");
  for (int r = 0; r < plan_.ranks; ++r) {
    Rank& rank = at(r);
    if (!alive(r) || (!all && rank.pending.empty())) continue;
    std::vector<Pending> waited(rank.pending.begin(), all ? rank.pending.end() : rank.pending.begin() + 1);
    rank.pending.erase(rank.pending.begin(), rank.pending.begin() + static_cast<std::ptrdiff_t>(waited.size()));
    // The record carries what is waited for: the last of the collectives, else the first message.
    const Pending* shown = waited.empty() ? nullptr : &waited.front();
    std::optional<int64_t> done = rank.now + kCallNs;
    for (const Pending& p : waited) {
      if (p.instance && (!shown->instance || p.post.record.sequence > shown->post.record.sequence)) shown = &p;
      std::optional<int64_t> end = p.done;
      if (p.instance && ledger_.instance(*p.instance).moved_until_ns > 0) end = ledger_.instance(*p.instance).moved_until_ns;
      done = done && end ? std::optional(std::max(*done, *end)) : std::nullopt;
    }
    const Comm* comm = nullptr;
    for (auto& group : comms_) {
      for (Comm& c : group) {
        if (shown && c.index == shown->post.record.comm && std::find(c.members.begin(), c.members.end(), r) != c.members.end()) comm = &c;
      }
    }
    const bool is_collective = shown && shown->instance;
    Call call = enter(r, op, site, comm, is_collective ? shown->post.record.sequence : kNoSequence,
                      shown && !is_collective ? shown->post.record.peer : -1, 0);
    if (!done) {
      stay(r, call, op, comm);
      continue;
    }
    leave(r, call, op, comm, *done, 0);
    for (const Pending& p : waited) {
      rank.process->request(p.post, *done, p.payload);
      if (p.receive) {
        rank.process->add_bytes(p.post, payload_bytes(p.payload));
        ledger_.add_bytes(p.order, static_cast<int64_t>(payload_bytes(p.payload)));
      }
      if (p.instance) ledger_.leave_instance(*p.instance, r, *done);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------- messages

void Simulation::ring(const Item& item, uint32_t site) {
  const Op& op = operation("MPI_Sendrecv");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kFloat, 0);
  for (Comm* comm : groups(item.comm)) {
    const size_t n = comm->members.size();
    std::vector<std::optional<Call>> calls(n);
    std::vector<int64_t> enter_ns(n);
    for (size_t i = 0; i < n; ++i) {
      const int r = comm->members[i];
      if (!alive(r)) continue;
      enter_ns[i] = at(r).now;
      calls[i] = enter(r, op, site, comm, kTag, static_cast<int32_t>((i + 1) % n), payload);
    }
    for (size_t i = 0; i < n; ++i) {
      const int r = comm->members[i];
      const size_t from = (i + n - 1) % n;
      if (!calls[i]) continue;
      if (!calls[from] || at(r).doomed || at(comm->members[from]).doomed) {
        stay(r, *calls[i], op, comm);
      } else {
        leave(r, *calls[i], op, comm, std::max(enter_ns[i], enter_ns[from]) + item.time_ns, payload);
      }
    }
  }
}

void Simulation::nonblocking_ring(const Item& item, uint32_t site) {
  const Op& receive = operation("MPI_Irecv");
  const Op& send = operation("MPI_Isend");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kFloat, 0);
  for (Comm* comm : groups(item.comm)) {
    const size_t n = comm->members.size();
    std::vector<std::optional<int64_t>> sent(n);
    std::vector<size_t> receives(n, SIZE_MAX);
    for (size_t i = 0; i < n; ++i) {
      const int r = comm->members[i];
      if (!alive(r)) continue;
      Call call = enter(r, receive, site, comm, kTag, static_cast<int32_t>((i + n - 1) % n), 0);
      if (at(r).doomed) {
        stay(r, call, receive, comm);
        continue;
      }
      leave(r, call, receive, comm, at(r).now + kCallNs, 0);
      receives[i] = at(r).pending.size();
      at(r).pending.push_back({call, std::nullopt, std::nullopt, payload, true, ++posts_});
      ledger_.remember_receive(posts_, r, "MPI_Irecv", comm->label, region(r));
      sent[i] = at(r).now;
      Call other = enter(r, send, site, comm, kTag, static_cast<int32_t>((i + 1) % n), payload);
      leave(r, other, send, comm, at(r).now + kCallNs, payload);
      at(r).pending.push_back({other, std::nullopt, *sent[i] + item.time_ns, payload, false, ++posts_});
    }
    for (size_t i = 0; i < n; ++i) {
      const std::optional<int64_t>& from = sent[(i + n - 1) % n];
      if (receives[i] == SIZE_MAX || !from) continue;
      at(comm->members[i]).pending[receives[i]].done = std::max(*from, *sent[i] - kCallNs) + item.time_ns;
    }
  }
}

void Simulation::message(const Item& item, uint32_t site) {
  Comm& world = comms_[0][0];
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kFloat, 0);
  std::optional<int64_t> sent;
  if (alive(item.root)) {
    const Op& op = operation("MPI_Send");
    const int64_t enter_ns = at(item.root).now;
    Call call = enter(item.root, op, site, &world, kTag, item.to, payload);
    if (at(item.root).doomed) {
      stay(item.root, call, op, &world);
    } else {
      sent = enter_ns;
      leave(item.root, call, op, &world, enter_ns + item.time_ns, payload);
    }
  }
  if (!alive(item.to)) return;
  const Op& op = operation("MPI_Recv");
  Call call = enter(item.to, op, site, &world, kTag, item.root, 0);
  if (!sent || at(item.to).doomed) {
    stay(item.to, call, op, &world);
  } else {
    leave(item.to, call, op, &world, std::max(*sent, at(item.to).now) + item.time_ns, payload);
  }
}

void Simulation::polls(const Item& item, uint32_t site) {
  const Op& op = operation("MPI_Test");
  for (int r = 0; r < plan_.ranks; ++r) {
    if (!alive(r)) continue;
    at(r).process->polls(at(r).now, op.id, site, item.count, item.time_ns);
    ledger_.polls(r, std::string(op.name), region(r), item.count, item.time_ns);
    at(r).now += item.count * item.time_ns;
  }
}

void write_job_json(const Plan& plan, const Truth& truth, const std::filesystem::path& folder) {
  std::string text = "{\n \"schema\": 1,\n \"command\": [";
  for (size_t i = 0; i < plan.command.size(); ++i) {
    text += i == 0 ? "\"" : ", \"";
    for (const char c : plan.command[i]) text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    text += "\"";
  }
  text += "],\n \"name\": \"train\",\n \"launcher\": \"mpirun\",\n \"started_realtime_ns\": " +
          std::to_string(truth.epoch_realtime_ns - 50000000) +
          ",\n \"ended_realtime_ns\": " + std::to_string(truth.epoch_realtime_ns + truth.end_ns + 50000000) +
          ",\n \"exit_code\": " + std::to_string(plan.exit_code) + ",\n \"signal\": null,\n \"env\": {}\n}\n";
  write_bytes(folder / "job.json", {reinterpret_cast<const unsigned char*>(text.data()), text.size()});
}

}  // namespace

Truth simulate(const Plan& plan, const std::filesystem::path* folder) {
  if (plan.ranks < 1) throw std::invalid_argument("synthetic run: no ranks");
  Ledger ledger(plan.ranks);
  Simulation simulation(plan, ledger);
  simulation.run();
  Truth truth = ledger.close();
  truth.epoch_realtime_ns = 1760000000000000000;
  const std::set<int> missing(plan.missing.begin(), plan.missing.end());
  for (int r = 0; r < plan.ranks; ++r) {
    Rank& rank = simulation.ranks()[static_cast<size_t>(r)];
    truth.end_ns = std::max(truth.end_ns, rank.now);
    truth.records.push_back(rank.process->records());
    truth.spools.push_back(missing.count(r) ? "" : rank.process->file_name());
    if (!folder || missing.count(r)) continue;
    rank.process->finish();
    rank.process->spool().write(*folder / truth.spools.back());
  }
  if (folder && plan.job_json) write_job_json(plan, truth, *folder);
  return truth;
}

}  // namespace ddl::test
