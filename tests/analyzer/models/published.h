// tests/published: tables of other people that our models must reproduce.
#pragma once

#include <string>

#include "analyzer/csv_table.h"

namespace ddl::test {

inline CsvTable published(const std::string& name) {
  return CsvTable::read(std::string(DDL_SOURCE_DIR) + "/tests/published/" + name + ".csv");
}

/// The layers of a network: workloads/ installs these.
inline CsvTable layer_table(const std::string& network) {
  return CsvTable::read(std::string(DDL_SOURCE_DIR) + "/workloads/network/tables/layers_" + network + ".csv");
}

}  // namespace ddl::test
