#include "workloads/train/mpi.h"

#include <cstdlib>

namespace ddl::train {

namespace {

template <typename T>
int mpi_count(std::span<T> values) {
  return static_cast<int>(values.size());
}

}  // namespace

Mpi::Mpi(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  call_log_.returned(MpiCall::kInit);
  learn_ranks();
}

Mpi::Mpi(int* argc, char*** argv, int thread_level) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, thread_level, &provided);  // less is enough too: one thread makes all calls
  call_log_.returned(MpiCall::kInitThread);
  learn_ranks();
}

void Mpi::learn_ranks() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  call_log_.returned(MpiCall::kCommRank);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  call_log_.returned(MpiCall::kCommSize);
}

Mpi::~Mpi() { finalize(); }

void Mpi::finalize() {
  if (finalized_) return;
  finalized_ = true;
  MPI_Finalize();
  call_log_.returned(MpiCall::kFinalize);
}

void Mpi::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);  // MPI_Abort does not return, but is not declared so
}

void Mpi::returned(MpiCall call, Purpose purpose, std::size_t bytes) {
  Tally& tally = tallies_[static_cast<std::size_t>(purpose)][static_cast<std::size_t>(call)];
  ++tally.calls;
  tally.bytes += bytes;
  call_log_.returned(call);
}

int Mpi::minimum(int value) {
  int result = value;
  MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  returned(MpiCall::kAllreduce, Purpose::kSetUp, sizeof value);
  return result;
}

void Mpi::broadcast(std::span<float> values) {
  MPI_Bcast(values.data(), mpi_count(values), MPI_FLOAT, 0, MPI_COMM_WORLD);
  returned(MpiCall::kBcast, Purpose::kData, values.size_bytes());
}

void Mpi::sum(std::span<float> values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), mpi_count(values), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  returned(MpiCall::kAllreduce, Purpose::kData, values.size_bytes());
}

MPI_Request Mpi::start_sum(std::span<float> values) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), mpi_count(values), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  returned(MpiCall::kIallreduce, Purpose::kData, values.size_bytes());
  return request;
}

void Mpi::wait(MPI_Request& request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  call_log_.returned(MpiCall::kWait);
}

void Mpi::send(std::span<const float> values, int to) {
  MPI_Send(values.data(), mpi_count(values), MPI_FLOAT, to, 0, MPI_COMM_WORLD);
  returned(MpiCall::kSend, Purpose::kData, values.size_bytes());
}

int Mpi::receive(std::span<float> values, int from) {
  MPI_Status status;
  MPI_Recv(values.data(), mpi_count(values), MPI_FLOAT, from < 0 ? MPI_ANY_SOURCE : from, 0, MPI_COMM_WORLD, &status);
  returned(MpiCall::kRecv, Purpose::kData, values.size_bytes());
  return status.MPI_SOURCE;
}

void Mpi::exchange(std::span<const float> out, int to, std::span<float> in, int from) {
  MPI_Sendrecv(out.data(), mpi_count(out), MPI_FLOAT, to, 0, in.data(), mpi_count(in), MPI_FLOAT, from, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  returned(MpiCall::kSendrecv, Purpose::kData, out.size_bytes());
}

void Mpi::sum_to_root(std::span<double> values) {
  const bool root = rank_ == 0;
  MPI_Reduce(root ? MPI_IN_PLACE : values.data(), root ? values.data() : nullptr, mpi_count(values), MPI_DOUBLE,
             MPI_SUM, 0, MPI_COMM_WORLD);
  returned(MpiCall::kReduce, Purpose::kSetUp, values.size_bytes());
}

void Mpi::and_bits(std::span<long long> words) {
  MPI_Allreduce(MPI_IN_PLACE, words.data(), mpi_count(words), MPI_LONG_LONG_INT, MPI_BAND, MPI_COMM_WORLD);
  returned(MpiCall::kAllreduce, Purpose::kCoordination, words.size_bytes());
}

void Mpi::gather(int value, std::span<int> all) {
  MPI_Gather(&value, 1, MPI_INT, all.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  returned(MpiCall::kGather, Purpose::kCoordination, sizeof value);
}

void Mpi::gather(std::span<const std::byte> own, std::span<std::byte> all, std::span<const int> lengths,
                 std::span<const int> offsets) {
  MPI_Gatherv(own.data(), mpi_count(own), MPI_BYTE, all.data(), lengths.data(), offsets.data(), MPI_BYTE, 0,
              MPI_COMM_WORLD);
  returned(MpiCall::kGatherv, Purpose::kCoordination, own.size());
}

void Mpi::broadcast_length(int& value) {
  MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  returned(MpiCall::kBcast, Purpose::kCoordination, sizeof value);
}

void Mpi::broadcast_bytes(std::span<std::byte> bytes) {
  MPI_Bcast(bytes.data(), mpi_count(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  returned(MpiCall::kBcast, Purpose::kCoordination, bytes.size());
}

}  // namespace ddl::train
