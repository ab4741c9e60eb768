// tests/published: tables of other people that our models must reproduce.
#pragma once

#include <string>

#include "analyzer/csv_table.h"

namespace ddl::test {

inline CsvTable published(const std::string& name) {
  return CsvTable::read(std::string(DDL_SOURCE_DIR) + "/tests/published/" + name + ".csv");
}

}  // namespace ddl::test
