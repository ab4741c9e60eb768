// Pipelines of a run: which processes are stages of which one (pipeline_shape.h), from a few of its steps;
// table `pipeline`.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <map>
#include <set>

#include "analyzer/passes/catalog.h"
#include "analyzer/passes/pipeline_shape.h"

namespace ddl {

class Pipelines {
 public:
  /// Looks at up to three steps of each world, which must all show the same pipelines. Fills table `pipeline`.
  Pipelines(SQLite::Database& db, const Catalog& catalog);

  bool contains(int64_t process) const { return places_.contains(process); }
  /// `process` and `other` are stages of one pipeline: waiting of one for a message of the other is its bubble.
  bool same(int64_t process, int64_t other) const;
  /// All members of the communicator are stages of one pipeline, so that waiting in its collectives is waiting for the
  /// pipeline to drain.
  bool spans(int64_t communicator) const { return communicators_.contains(communicator); }

 private:
  struct Place {
    int64_t first = 0;  ///< process of the first stage that has one
    PipelinePlace place;
    friend bool operator==(const Place&, const Place&) = default;
  };
  using Places = std::map<int64_t, Place>;  ///< by process.id

  std::map<int64_t, Place> places_;
  std::set<int64_t> communicators_;
};

}  // namespace ddl
