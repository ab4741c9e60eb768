// Table layer_total: what v_layer has of each rank, summed over the ranks once, for reports that show no single one.
#pragma once

#include <SQLiteCpp/Database.h>

namespace ddl {

/// Reads v_layer: after the passes that split collectives, match messages and cut steps.
void sum_layers(SQLite::Database& db);

}  // namespace ddl
