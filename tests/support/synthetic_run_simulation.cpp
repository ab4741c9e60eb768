#include "tests/support/synthetic_run_simulation.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace ddl::test::synthetic {
namespace {

constexpr uint32_t kInitSite = 0, kFinalizeSite = 1, kSplitSite = 2, kNameSite = 3, kAbortSite = 4, kFirstItemSite = 16;

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------- the job

void Simulation::make_ranks() {
  ranks_.resize(static_cast<size_t>(plan_.ranks));
  for (int r = 0; r < plan_.ranks; ++r) {
    ProcessSettings s;
    const int host = r * plan_.hosts / plan_.ranks;
    const int64_t skew_ns = plan_.host_skew_ns * host;
    const int machine = plan_.one_boot ? 0 : host;
    const uint64_t h = static_cast<uint64_t>(machine);
    s.clock = {plan_.tsc_hz,
               5000000000000 + h * 1230000000000,
               1000000000000 + h * 777700000000,
               1760000000000000000 + static_cast<uint64_t>(skew_ns),
               {}};
    if (const auto own = plan_.host_clocks.find(host); own != plan_.host_clocks.end()) s.clock.host = own->second;
    s.host = "node" + std::to_string(host);
    const std::string digits = std::to_string(1000 + machine);
    s.boot_id = "5eed" + digits + "-0000-4000-8000-00000000" + digits;
    s.pid = plan_.first_pid + static_cast<uint32_t>(r);
    s.process_start = 70000 + s.pid;
    s.world_key = plan_.world_key;
    s.begin_ns = plan_.begin_ns;
    s.has_window = plan_.has_window;
    s.first_kept = plan_.first_kept;
    s.last_kept = plan_.last_kept;
    s.facts = {{"exe", "/opt/app/train"},
               {"command", "./train --batch 32"},
               {"cwd", "/home/user"},
               {"cpus", std::to_string(r)}};
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
  for (uint64_t i = 0; i < plan_.steps * plan_.epochs; ++i) {
    const uint64_t step = plan_.first_step + i % plan_.steps;
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
  sync_clocks(plan_.begin_ns + kInitLeaveNs);
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

void Simulation::sync_clocks(int64_t t) {
  for (int r = 1; r < plan_.ranks && plan_.sync_ns > 0; ++r) {
    if (r * plan_.hosts / plan_.ranks == (r - 1) * plan_.hosts / plan_.ranks || !alive(r)) continue;
    for (int i = 0; i < 4; ++i) {
      const int64_t sent = t + i * plan_.sync_ns;
      const uint64_t answered = at(0).process->ticks(sent + plan_.sync_ns / 2);
      at(r).process->spool().clock_sync(
          {at(r).process->ticks(sent), answered, at(r).process->ticks(sent + plan_.sync_ns), 0, 0});
    }
  }
}

void Simulation::finalize() {
  const Op& op = operation("MPI_Finalize");
  std::vector<std::pair<int, Call>> calls;
  int64_t last = 0;
  sync_clocks(at(0).now);
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

// --------------------------------------------------------------------------------------------------------------- steps

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
                              item.kind == ItemKind::kIsendrecvRing || item.kind == ItemKind::kHalo ||
                              item.kind == ItemKind::kMessage || item.kind == ItemKind::kIsend ||
                              item.kind == ItemKind::kReceive || item.kind == ItemKind::kCollect;
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
        post_ring(item, site, std::array{1});
        break;
      case ItemKind::kHalo:
        post_ring(item, site, std::array{1, -1});
        complete(site, true);
        break;
      case ItemKind::kMessage:
        message(item, site);
        break;
      case ItemKind::kIsend:
        isend(item, site);
        break;
      case ItemKind::kReceive:
        receive(item, site);
        break;
      case ItemKind::kCollect:
        collect(item, site);
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
          if (alive(r) && (item.only_rank < 0 || item.only_rank == r))
            at(r).process->value(at(r).now, item.name, item.value);
        }
        break;
    }
  }
  if (step && !communicated) meet_fate(*step);  // a rank that dies has no call to die in, then
  for (Rank& rank : ranks_) rank.stopped = rank.stopped || (rank.doomed && !communicated);
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

}  // namespace ddl::test::synthetic
