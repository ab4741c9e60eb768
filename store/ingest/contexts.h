// Ranges and call sites: the trees of all processes merged into tables region and site.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/format.h"
#include "store/archive.h"

namespace ddl::store {

/// Regions by path, sites by (file, offset). Ids in the order of first appearance.
class Regions {
 public:
  Regions();
  uint32_t region(uint32_t parent, ContextKind kind, const std::string& name);
  uint32_t site(const std::string& module, uint64_t offset);

  struct Ids {
    std::vector<uint32_t> regions, sites;
  };
  /// Those of the next processes, numbered by themselves: our ids by theirs.
  Ids append(const Regions& part);
  /// What append() needs of it; what is read back is good for nothing else.
  void archive(Archive& a) { a(region_ids_, modules_, site_ids_); }

  void write(SQLite::Database& db) const;

 private:
  struct Region {
    uint32_t parent;
    const char* kind;
    std::string name;
    std::optional<std::string> phase, layer;
  };
  std::vector<std::string> modules_by_id() const;

  std::vector<Region> regions_;
  std::map<std::tuple<uint32_t, ContextKind, std::string>, uint32_t> region_ids_;
  std::map<std::string, uint32_t> modules_;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> site_ids_;  ///< by module and offset
};

/// One process's contexts in terms of the run's.
class ProcessContexts {
 public:
  struct Entry {
    uint32_t region = 0;
    uint32_t site = 0;  ///< 0: unknown
    bool known = false;
  };

  explicit ProcessContexts(Regions& regions) : regions_(regions) { entries_.push_back({0, 0, true}); }

  void add_module(const ModuleMeta& meta, std::string_view path);
  /// A parent must come before its children; a context whose parent is not known hangs below no range.
  void add(const ContextMeta& meta, const std::string& name);
  /// Resolves the call sites. Modules may be described later than the contexts in them, so this comes last.
  void resolve_sites();

  const Entry& operator[](uint32_t context) const {
    static const Entry kUnknown;
    return context < entries_.size() ? entries_[context] : kUnknown;
  }

 private:
  struct Module {
    uint64_t end;
    uint64_t file_offset;
    std::string path;
  };
  Regions& regions_;
  std::vector<Entry> entries_;
  std::vector<std::pair<uint32_t, uint64_t>> sites_;  ///< context, return address
  std::map<uint64_t, Module> modules_;                ///< by begin
};

}  // namespace ddl::store
