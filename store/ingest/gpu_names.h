// The names of what GPUs did, merged over processes: table gpu_name.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <string>

namespace ddl::store {

/// Ids in the order of first appearance.
class GpuNames {
 public:
  uint32_t id(const std::string& name);
  /// As people write it: demangled if it is a mangled C++ name.
  static std::string readable(const std::string& name);
  /// Column `class`.
  static const char* class_of(const std::string& name);
  void write(SQLite::Database& db) const;

 private:
  std::map<std::string, uint32_t> ids_;
};

}  // namespace ddl::store
