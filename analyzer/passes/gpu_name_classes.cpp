#include "analyzer/passes/gpu_name_classes.h"

#include "analyzer/query.h"

namespace ddl {

GpuNameClasses::GpuNameClasses(SQLite::Database& db) {
  Query rows(db, "SELECT id, class = 'communication', name LIKE '%stream wait%' FROM gpu_name WHERE id >= 0 ORDER BY id");
  while (rows.next()) {
    bits_.resize(static_cast<size_t>(rows.integer(0)) + 1);
    bits_.back() = static_cast<uint8_t>((rows.integer(1) != 0 ? kCommunicates : 0) | (rows.integer(2) != 0 ? kStreamWait : 0));
  }
}

}  // namespace ddl
