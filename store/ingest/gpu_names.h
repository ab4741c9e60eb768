// The names of what GPUs did, merged over processes: table gpu_name.
#pragma once

#include <SQLiteCpp/Database.h>
#include <string_view>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/archive.h"

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
  /// Those of the next processes, numbered by themselves: our ids by theirs.
  std::vector<uint32_t> append(const GpuNames& part);
  void archive(Archive& a) { a(ids_); }

 private:
  std::vector<const std::string*> by_id() const;

  std::map<std::string, uint32_t> ids_;
};

/// "communication", "compute", or "unclassified": no rule knows the name. Demangled names are what the rules are made for; a mangled one that
/// was cut off and cannot be demangled is told by what is left of it.
const char* kernel_class(std::string_view name);

}  // namespace ddl::store
