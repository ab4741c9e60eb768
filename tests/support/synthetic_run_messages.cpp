// The simulation's messages and polls.
#include <algorithm>

#include "tests/support/synthetic_run_simulation.h"

namespace ddl::test::synthetic {
namespace {

constexpr uint32_t kTag = 7;

}  // namespace

// ---------------------------------------------------------------------------------------------------------------- messages

void Simulation::ring(const Item& item, uint32_t site) {
  const Op& op = operation("MPI_Sendrecv");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
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
        calls[i]->record.peer = static_cast<int32_t>(from);  // the half that was received has a record of its own
        at(r).process->request(*calls[i], at(r).now, payload);
      }
    }
  }
}

void Simulation::nonblocking_ring(const Item& item, uint32_t site) {
  const Op& receive = operation("MPI_Irecv");
  const Op& send = operation("MPI_Isend");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
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
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
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

}  // namespace ddl::test::synthetic
