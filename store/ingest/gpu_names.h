// Names of GPU activities, merged over processes: table gpu_name.
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
  /// For people: mangled C++ names are demangled.
  static std::string readable(const std::string& name);
  /// Column `class`.
  static const char* class_of(const std::string& name);
  void write(SQLite::Database& db) const;
  /// The names of the next processes, in their own numbering: maps their ids to ours.
  std::vector<uint32_t> append(const GpuNames& part);
  void archive(Archive& a) { a(ids_); }

 private:
  std::vector<const std::string*> by_id() const;

  std::map<std::string, uint32_t> ids_;
};

/// "communication", "compute", or "unclassified" (no rule knows the name). The rules are made for demangled names; a
/// truncated mangled one is judged by what is left.
const char* kernel_class(std::string_view name);

}  // namespace ddl::store
