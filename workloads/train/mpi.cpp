#include "workloads/train/mpi.h"

#include <cstdlib>

namespace ddl::train {

namespace {

int mpi_count(std::span<float> values) { return static_cast<int>(values.size()); }

}  // namespace

Mpi::Mpi(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  call_log_.returned(MpiCall::kInit);
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

int Mpi::minimum(int value) {
  int result = value;
  MPI_Allreduce(&value, &result, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  call_log_.returned(MpiCall::kAllreduce);
  return result;
}

void Mpi::broadcast(std::span<float> values) {
  MPI_Bcast(values.data(), mpi_count(values), MPI_FLOAT, 0, MPI_COMM_WORLD);
  call_log_.returned(MpiCall::kBcast);
}

void Mpi::sum(std::span<float> values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), mpi_count(values), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  call_log_.returned(MpiCall::kAllreduce);
}

MPI_Request Mpi::start_sum(std::span<float> values) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(MPI_IN_PLACE, values.data(), mpi_count(values), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  call_log_.returned(MpiCall::kIallreduce);
  return request;
}

void Mpi::wait(MPI_Request& request) {
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  call_log_.returned(MpiCall::kWait);
}

}  // namespace ddl::train
