#include "analyzer/models/run_facts.h"

#include "analyzer/query.h"

namespace ddl::models {

std::vector<MeasuredCollective> measured_collectives(SQLite::Database& db, int64_t world) {
  // algbw is S over the median transfer time of an instance. Non-blocking ones tell an upper bound only.
  Query row(db,
            "SELECT o.name, c.size, g.bytes, g.bytes / g.algbw_bytes_per_second, g.instances "
            "FROM collective_group g JOIN op o ON o.id = g.op JOIN communicator c ON c.id = g.comm "
            "WHERE g.world = ?1 AND g.bytes > 0 AND g.algbw_bytes_per_second > 0 AND g.upper_bound = 0 AND c.size > 1 "
            "ORDER BY o.name, c.size, g.bytes");
  std::vector<MeasuredCollective> collectives;
  for (row.bind(world); row.next();) {
    MeasuredCollective& one = collectives.emplace_back();
    one.op = row.text(0);
    one.sample = {collective_of(one.op).value_or(Collective::kAllreduce), row.integer(1), row.real(2), row.real(3), row.real(4)};
  }
  return collectives;
}

std::vector<Sample> samples_of(const std::vector<MeasuredCollective>& collectives) {
  std::vector<Sample> samples;
  for (const MeasuredCollective& one : collectives)
    if (collective_of(one.op)) samples.push_back(one.sample);
  return samples;
}

}  // namespace ddl::models
