#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workloads/allreduce/sweep/communicator.h"

namespace ddl::allreduce {

/** A control variable of the MPI library (MPI_T) that holds a number. */
class ControlVariable {
 public:
  struct Value {
    std::string name;
    int number;
  };

  /** Nothing: the library has no such variable, or one that is not a number. */
  static std::optional<ControlVariable> find(const char* name);
  ~ControlVariable();
  ControlVariable(ControlVariable&& other) noexcept;
  ControlVariable& operator=(ControlVariable&&) = delete;

  int read() const;
  /** True if it reads back so. */
  bool write(int value);
  /** The values that have names. */
  const std::vector<Value>& values() const { return values_; }

 private:
  ControlVariable() = default;
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  std::vector<Value> values_;
};

/**
 * The algorithms of Open MPI's component `tuned`. A communicator takes those in force when it is made, so one that is
 * made between two writes is bound to one algorithm for good. MPI_T must be initialised. */
class OpenMpi {
 public:
  OpenMpi();

  /** Why no algorithm can be forced on some rank; empty: it can on all. The same on all ranks. */
  const std::string& missing() const { return missing_; }
  /** What else has to be said about results; may be empty. */
  const std::string& caveat() const { return caveat_; }
  /** As the library lists them, without the one that forces nothing. */
  std::vector<ControlVariable::Value> algorithms() const;
  /** A duplicate of MPI_COMM_WORLD bound to it. Throws std::runtime_error if it does not read back. */
  Communicator bound_to(const ControlVariable::Value& algorithm, std::size_t segment_bytes);

 private:
  std::string missing_;
  std::string caveat_;
  std::optional<ControlVariable> algorithm_;
  std::optional<ControlVariable> segment_;
};

}  // namespace ddl::allreduce
