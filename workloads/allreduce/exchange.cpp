#include "workloads/allreduce/exchange.h"

#include <cstring>

namespace ddl::allreduce {

namespace {

// messages between two ranks arrive in the order in which they were sent: nothing to tell apart
constexpr int kTag = 1;
int count_of(Range range) { return static_cast<int>(range.size()); }

}  // namespace

Exchange::Exchange(MPI_Comm comm, MPI_Datatype type, MPI_Op op, std::byte* buffer, std::size_t count,
                   std::vector<std::byte>& scratch, Traffic& traffic)
    : comm_(comm), type_(type), op_(op), buffer_(buffer), count_(count), scratch_(scratch), traffic_(traffic) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &ranks_);
  MPI_Op_commutative(op, &commutes_);
  int size = 0;
  MPI_Type_size(type, &size);
  element_bytes_ = static_cast<std::size_t>(size);
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_extent(type, &lower, &extent);
  extent_ = static_cast<std::size_t>(extent);
  if (scratch_.size() < count_ * extent_) scratch_.resize(count_ * extent_);
}

void Exchange::count_message(Range range) {
  traffic_.messages += 1;
  traffic_.bytes += range.size() * element_bytes_;
}

void Exchange::send(Range range, int to) {
  if (range.empty()) return;
  count_message(range);
  MPI_Send(buffer_at(range), count_of(range), type_, to, kTag, comm_);
}

void Exchange::receive_at(std::byte* place, Range range, int from) {
  if (!range.empty()) MPI_Recv(place, count_of(range), type_, from, kTag, comm_, MPI_STATUS_IGNORE);
}

void Exchange::receive(Range range, int from) { receive_at(buffer_at(range), range, from); }

void Exchange::receive_and_reduce(Range range, int from) {
  receive_at(scratch_at(range), range, from);
  reduce(range, from);
}

void Exchange::exchange_at(Range out, int to, std::byte* place, Range in, int from) {
  if (out.empty() || in.empty()) {
    send(out, to);
    receive_at(place, in, from);
    return;
  }
  count_message(out);
  MPI_Sendrecv(buffer_at(out), count_of(out), type_, to, kTag, place, count_of(in), type_, from, kTag, comm_,
               MPI_STATUS_IGNORE);
}

void Exchange::exchange(Range out, int to, Range in, int from) { exchange_at(out, to, buffer_at(in), in, from); }

void Exchange::exchange_and_reduce(Range out, int to, Range in, int from) {
  exchange_at(out, to, scratch_at(in), in, from);
  reduce(in, from);
}

MPI_Request Exchange::start_send(Range range, int to) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (range.empty()) return request;
  count_message(range);
  MPI_Isend(buffer_at(range), count_of(range), type_, to, kTag, comm_, &request);
  return request;
}

MPI_Request Exchange::start_receive(Range range, int from, bool in_scratch) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (range.empty()) return request;
  MPI_Irecv(in_scratch ? scratch_at(range) : buffer_at(range), count_of(range), type_, from, kTag, comm_, &request);
  return request;
}

void Exchange::reduce(Range range, int from) {
  if (range.empty()) return;
  // MPI_Reduce_local(a, b) leaves "a op b" in b.
  if (commutes_ || from < rank_) {
    MPI_Reduce_local(scratch_at(range), buffer_at(range), count_of(range), type_, op_);
    return;
  }
  MPI_Reduce_local(buffer_at(range), scratch_at(range), count_of(range), type_, op_);
  std::memcpy(buffer_at(range), scratch_at(range), range.size() * extent_);
}

}  // namespace ddl::allreduce
