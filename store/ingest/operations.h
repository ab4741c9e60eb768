// The operations of all processes in one numbering, by C name.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/archive.h"
#include "store/ingest/scan.h"

namespace ddl::store {

struct Operation {
  std::string name;
  OpClass op_class = OpClass::kOther;
  bool nonblocking = false;

  void archive(Archive& a) { a(name, op_class, nonblocking); }
  bool is_collective() const {
    return op_class == OpClass::kAllToAll || op_class == OpClass::kBarrier || op_class == OpClass::kRootToAll ||
           op_class == OpClass::kAllToRoot || op_class == OpClass::kScan || op_class == OpClass::kNeighbor ||
           op_class == OpClass::kCommunicator || op_class == OpClass::kRmaSync || op_class == OpClass::kFileCollective;
  }
  bool is_message() const {
    return op_class == OpClass::kSend || op_class == OpClass::kReceive || op_class == OpClass::kSendReceive ||
           op_class == OpClass::kProbe;
  }
};

/// Column `class` of table op.
const char* name_of(OpClass op_class);

class Operations {
 public:
  /// op.id by the process's own number. Numbers without a description take their name from another process of the same
  /// library version (a process that hangs in MPI_Init has described none), else "unknown#N".
  std::map<uint32_t, uint32_t> add(const Scan& scan);
  /// op.id of an operation that a damaged spool does not describe.
  uint32_t add_unknown(const Scan& scan, uint32_t number);
  /// All processes' descriptions of their library's operations. Call for all scans before the first add().
  void learn(const Scan& scan);

  /// Those of the next processes, numbered by themselves: our ids by theirs.
  std::vector<uint32_t> append(const Operations& part);
  void archive(Archive& a) { a(operations_, ids_, by_version_); }

  const Operation& operator[](uint32_t id) const { return operations_[id - 1]; }
  const std::map<std::string, uint32_t>& ids() const { return ids_; }
  void write(SQLite::Database& db) const;

 private:
  uint32_t id_of(const ScannedOperation& operation);

  std::vector<Operation> operations_;
  std::map<std::string, uint32_t> ids_;
  std::map<std::string, std::map<uint32_t, ScannedOperation>> by_version_;
};

}  // namespace ddl::store
