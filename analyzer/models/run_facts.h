// What the models need to know of a recorded run: transfer times of its collectives, and what a step consists of.
#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/models/link_fit.h"

namespace ddl::models {

/// A collective of one operation, communicator and size, as the analyzer grouped them.
struct MeasuredCollective {
  std::string op;
  Sample sample;
};

/// Blocking collectives of a world whose transfer could be told from waiting, on communicators of at least two ranks.
std::vector<MeasuredCollective> measured_collectives(SQLite::Database& db, int64_t world);

/// Samples of those that have a model.
std::vector<Sample> samples_of(const std::vector<MeasuredCollective>& collectives);

}  // namespace ddl::models
