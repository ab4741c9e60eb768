// The simulation's messages and polls.
#include <algorithm>

#include "tests/support/synthetic_run_simulation.h"

namespace ddl::test::synthetic {
namespace {

constexpr uint32_t kTag = 7;

}  // namespace

// ------------------------------------------------------------------------------------------------------------ messages

size_t Simulation::add_message(int from, int to, const Comm& comm, uint32_t tag, int64_t bytes, int64_t send_ns,
                               int64_t receive_ns) {
  return ledger_.add_message(
      {from, to, comm.label, static_cast<int>(tag), bytes, send_ns, receive_ns, at(to).step, {}, {}});
}

void Simulation::ring(const Item& item, uint32_t site) {
  const Op& op = operation("MPI_Sendrecv");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
  for (Comm* comm : groups(item.comm)) {
    const size_t n = comm->members.size();
    std::vector<std::optional<Call>> calls(n);
    std::vector<int64_t> enter_ns(n);
    std::vector<std::optional<int64_t>> leave_ns(n);
    for (size_t i = 0; i < n; ++i) {
      const int r = comm->members[i];
      if (!alive(r)) continue;
      enter_ns[i] = at(r).now;
      calls[i] = enter(r, op, site, comm, kTag, static_cast<int32_t>((i + 1) % n), payload);
    }
    for (size_t i = 0; i < n; ++i) {
      const int r = comm->members[i];
      const size_t from = (i + n - 1) % n, to = item.synchronous ? (i + 1) % n : i;
      if (!calls[i]) continue;
      const auto is_there = [&](size_t member) { return calls[member] && !at(comm->members[member]).doomed; };
      if (!is_there(i) || !is_there(from) || !is_there(to)) {
        stay(r, *calls[i], op, comm);
        continue;
      }
      leave_ns[i] = std::max({enter_ns[i], enter_ns[from], enter_ns[to]}) + item.time_ns;
      leave(r, *calls[i], op, comm, *leave_ns[i], payload);
      calls[i]->record.peer = static_cast<int32_t>(from);  // the half that was received has a record of its own
      at(r).process->request(*calls[i], at(r).now, payload);
    }
    for (size_t i = 0; i < n; ++i) {
      const size_t from = (i + n - 1) % n;
      if (!leave_ns[i]) continue;
      const int sender = comm->members[from], receiver = comm->members[i];
      const size_t message = add_message(sender, receiver, *comm, kTag, item.bytes, enter_ns[from], enter_ns[i]);
      ledger_.end_message(message, true, receiver, enter_ns[i], *leave_ns[i]);
      if (leave_ns[from]) ledger_.end_message(message, false, sender, enter_ns[from], *leave_ns[from]);
    }
  }
}

void Simulation::post_ring(const Item& item, uint32_t site, std::span<const int> directions) {
  const Op& receive = operation("MPI_Irecv");
  const Op& send = operation("MPI_Isend");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
  struct Posted {
    std::optional<int64_t> at;
    size_t pending = 0;
  };
  for (Comm* comm : groups(item.comm)) {
    const size_t n = comm->members.size();
    const auto neighbour = [n](size_t i, int steps) {
      return static_cast<size_t>(static_cast<int>(i + n) + steps) % n;
    };
    std::vector<std::vector<Posted>> sent(directions.size(), std::vector<Posted>(n)), received = sent;
    for (size_t i = 0; i < n; ++i) {
      const int r = comm->members[i];
      for (size_t d = 0; d < directions.size() && alive(r); ++d) {
        const auto from = static_cast<int32_t>(neighbour(i, -directions[d]));
        Call call = enter(r, receive, site, comm, kTag + static_cast<uint32_t>(d), from, 0);
        if (at(r).doomed) {
          stay(r, call, receive, comm);
          break;
        }
        received[d][i] = {at(r).now, at(r).pending.size()};
        leave(r, call, receive, comm, at(r).now + kCallNs, 0);
        at(r).pending.push_back({call, std::nullopt, std::nullopt, payload, true, ++posts_});
        ledger_.remember_receive(posts_, r, "MPI_Irecv", comm->label, region(r));
      }
      for (size_t d = 0; d < directions.size() && alive(r); ++d) {
        Call call = enter(r, send, site, comm, kTag + static_cast<uint32_t>(d),
                          static_cast<int32_t>(neighbour(i, directions[d])), payload);
        sent[d][i] = {at(r).now, at(r).pending.size()};
        const auto over_ns = item.synchronous ? std::nullopt : std::optional(at(r).now + item.time_ns);
        at(r).pending.push_back({call, std::nullopt, over_ns, payload, false, ++posts_});
        leave(r, call, send, comm, at(r).now + kCallNs, payload);
        at(r).pending.back().post = call;
      }
    }
    for (size_t d = 0; d < directions.size(); ++d) {
      for (size_t i = 0; i < n; ++i) {
        const size_t from = neighbour(i, -directions[d]);
        const Posted& sending = sent[d][from];
        const Posted& receiving = received[d][i];
        if (!sending.at || !receiving.at) continue;
        const int sender = comm->members[from], receiver = comm->members[i];
        Pending& pending = at(receiver).pending[receiving.pending];
        pending.done = std::max(*sending.at, *receiving.at) + item.time_ns;
        if (item.synchronous) at(sender).pending[sending.pending].done = pending.done;
        pending.message = at(sender).pending[sending.pending].message = add_message(
            sender, receiver, *comm, kTag + static_cast<uint32_t>(d), item.bytes, *sending.at, *receiving.at);
      }
    }
  }
}

void Simulation::message(const Item& item, uint32_t site) {
  Comm& world = comms_[0][0];
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
  const Op& send = operation(item.synchronous ? "MPI_Ssend" : "MPI_Send");
  const Op& receive = operation("MPI_Recv");
  std::optional<Call> sending, receiving;
  if (alive(item.root)) sending = enter(item.root, send, site, &world, kTag, item.to, payload);
  if (alive(item.to)) receiving = enter(item.to, receive, site, &world, kTag, item.root, 0);
  const int64_t send_ns = at(item.root).now, receive_ns = at(item.to).now;
  const bool sent = sending && !at(item.root).doomed, over = sent && receiving && !at(item.to).doomed;
  const int64_t over_ns = std::max(send_ns, receive_ns) + item.time_ns;
  const int64_t sent_ns = item.synchronous ? over_ns : send_ns + item.time_ns;
  if (sending) {
    if (sent && (over || !item.synchronous)) {
      leave(item.root, *sending, send, &world, sent_ns, payload);
    } else {
      stay(item.root, *sending, send, &world);
    }
  }
  if (!receiving) return;
  if (!over) {
    stay(item.to, *receiving, receive, &world);
    return;
  }
  leave(item.to, *receiving, receive, &world, over_ns, payload);
  const size_t number = add_message(item.root, item.to, world, kTag, item.bytes, send_ns, receive_ns);
  ledger_.end_message(number, false, item.root, send_ns, sent_ns);
  ledger_.end_message(number, true, item.to, receive_ns, over_ns);
}

void Simulation::isend(const Item& item, uint32_t site) {
  if (!alive(item.root)) return;
  Comm& world = comms_[0][0];
  const Op& op = operation("MPI_Isend");
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
  Call call = enter(item.root, op, site, &world, kTag, item.to, payload);
  if (at(item.root).doomed) {
    stay(item.root, call, op, &world);
    return;
  }
  sent_[{item.root, item.to}].push_back({at(item.root).now, item.bytes, item.time_ns});
  leave(item.root, call, op, &world, at(item.root).now + kCallNs, payload);
}

void Simulation::receive(const Item& item, uint32_t site) {
  if (!alive(item.to)) return;
  Comm& world = comms_[0][0];
  const Op& op = operation("MPI_Recv");
  Call call = enter(item.to, op, site, &world, kTag, item.root, 0);
  std::deque<Sent>& sent = sent_[{item.root, item.to}];
  if (sent.empty() || at(item.to).doomed) {
    stay(item.to, call, op, &world);
    return;
  }
  const Sent message = sent.front();
  sent.pop_front();
  const int64_t receive_ns = at(item.to).now, over_ns = std::max(message.send_ns, receive_ns) + message.time_ns;
  leave(item.to, call, op, &world, over_ns, record_payload(static_cast<uint64_t>(message.bytes), kMpiFloat, 0));
  const size_t number = add_message(item.root, item.to, world, kTag, message.bytes, message.send_ns, receive_ns);
  ledger_.end_message(number, false, item.root, message.send_ns, message.send_ns);  // in no call: nobody waits for it
  ledger_.end_message(number, true, item.to, receive_ns, over_ns);
}

void Simulation::collect(const Item& item, uint32_t site) {
  Comm& world = comms_[0][0];
  const uint64_t payload = record_payload(static_cast<uint64_t>(item.bytes), kMpiFloat, 0);
  const Op& send = operation("MPI_Send");
  const Op& receive = operation("MPI_Recv");
  std::vector<std::pair<int64_t, int>> sent;  // when, by whom: the order in which they come
  for (int r = 0; r < plan_.ranks; ++r) {
    if (r == item.to || !alive(r)) continue;
    Call call = enter(r, send, site, &world, kTag, item.to, payload);
    if (at(r).doomed) {
      stay(r, call, send, &world);
      continue;
    }
    sent.emplace_back(at(r).now, r);
    leave(r, call, send, &world, at(r).now + item.time_ns, payload);
  }
  std::sort(sent.begin(), sent.end());
  for (size_t i = 0; alive(item.to) && i + 1 < static_cast<size_t>(plan_.ranks); ++i) {
    Call call = enter(item.to, receive, site, &world, kTag, -1, 0);
    if (i >= sent.size() || at(item.to).doomed) {
      stay(item.to, call, receive, &world);
      return;
    }
    const auto& [send_ns, from] = sent[i];
    const int64_t receive_ns = at(item.to).now, over_ns = std::max(send_ns, receive_ns) + item.time_ns;
    call.record.peer = from;  // from the status
    leave(item.to, call, receive, &world, over_ns, payload);
    const size_t number = add_message(from, item.to, world, kTag, item.bytes, send_ns, receive_ns);
    ledger_.end_message(number, false, from, send_ns, send_ns + item.time_ns);
    ledger_.end_message(number, true, item.to, receive_ns, over_ns);
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
