#pragma once

#include <mpi.h>

#include <utility>

namespace ddl::allreduce {

/** A duplicate of a communicator, freed with its owner. Collective. */
class Communicator {
 public:
  explicit Communicator(MPI_Comm of) { MPI_Comm_dup(of, &comm_); }
  ~Communicator() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  Communicator(Communicator&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  Communicator& operator=(Communicator&&) = delete;

  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace ddl::allreduce
