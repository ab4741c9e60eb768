// The simulation's calls: collectives, requests and what completes them.
#include <algorithm>
#include <stdexcept>

#include "tests/support/synthetic_run_simulation.h"

namespace ddl::test::synthetic {

// --------------------------------------------------------------------------------------------------------------- calls

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

Simulation::Call Simulation::enter(int r, const Op& op, uint32_t site, const Comm* comm, uint32_t sequence,
                                   int32_t peer, uint64_t payload) {
  return at(r).process->enter(at(r).now, op.id, site, comm ? comm->index : kNoComm, op.is_numbered(), sequence, peer,
                              payload);
}

void Simulation::leave(int r, Call& call, const Op& op, const Comm* comm, int64_t t, uint64_t payload) {
  ledger_.call(r, std::string(op.name), comm ? comm->label : "", region(r),
               static_cast<int64_t>(payload_bytes(payload)), at(r).now, t);
  at(r).process->leave(call, t, payload);
  at(r).now = t;
}

void Simulation::stay(int r, const Call& call, const Op& op, const Comm* comm) {
  const bool counts = op.is_numbered() || op.op_class == OpClass::kCompletion;
  ledger_.open_call(
      {r, std::string(op.name), comm ? comm->label : "", counts ? call.record.sequence : 0, at(r).step, at(r).now});
  at(r).stopped = true;
}

void Simulation::collective(const Item& item, uint32_t site, Comm& comm) {
  const Op& op = operation(item.name);
  if (std::none_of(comm.members.begin(), comm.members.end(), [&](int r) { return alive(r); })) return;
  const size_t number = ledger_.add_instance();
  InstanceTruth& instance = ledger_.instance(number);
  instance.comm = comm.label;
  instance.comm_uid = comm.uid;
  instance.seq = op.is_numbered() ? ++comm.sequence : kNoSequence;
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
    instance.members.push_back(
        {r, static_cast<int>(i), at(r).now, std::nullopt, sends ? item.bytes : 0, std::nullopt, std::nullopt});
  }
  if (op.nonblocking) {
    post(item, op, site, comm, number);
  } else {
    blocking(item, op, site, comm, instance);
  }
}

namespace {

uint64_t payload_of(const Op& op, const MemberTruth& member) {
  if (member.payload_bytes == 0) return 0;
  return record_payload(static_cast<uint64_t>(member.payload_bytes), kMpiFloat, op.reduces ? kMpiSum : 0);
}

}  // namespace

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
    } else if (op.op_class == OpClass::kAllToRoot && !is_root && !item.synchronous) {
      leave_ns = m.enter_ns + kCallNs;
    } else if (op.op_class == OpClass::kAllToRoot && !is_root && !op.reduces) {
      if (root_enter) leave_ns = std::max(m.enter_ns, *root_enter) + item.time_ns;
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
      if (p.instance && ledger_.instance(*p.instance).moved_until_ns > 0)
        end = ledger_.instance(*p.instance).moved_until_ns;
      done = done && end ? std::optional(std::max(*done, *end)) : std::nullopt;
    }
    const Comm* comm = nullptr;
    for (auto& group : comms_) {
      for (Comm& c : group) {
        if (shown && c.index == shown->post.record.comm &&
            std::find(c.members.begin(), c.members.end(), r) != c.members.end())
          comm = &c;
      }
    }
    const bool is_collective = shown && shown->instance;
    Call call = enter(r, op, site, comm, is_collective ? shown->post.record.sequence : kNoSequence,
                      shown && !is_collective ? shown->post.record.peer : -1, 0);
    if (!done) {
      stay(r, call, op, comm);
      continue;
    }
    const int64_t enter_ns = rank.now;
    leave(r, call, op, comm, *done, 0);
    for (const Pending& p : waited) {
      if (p.message) ledger_.end_message(*p.message, p.receive, r, enter_ns, *done);
      rank.process->request(p.post, *done, p.payload);
      if (p.receive) {
        rank.process->add_bytes(p.post, payload_bytes(p.payload));
        ledger_.add_bytes(p.order, static_cast<int64_t>(payload_bytes(p.payload)));
      }
      if (p.instance) ledger_.leave_instance(*p.instance, r, *done);
    }
  }
}

}  // namespace ddl::test::synthetic
