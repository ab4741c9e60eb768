#include "analyzer/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/query.h"

namespace ddl {
namespace {

/// The numbers of both do not exclude that they are equal.
bool cannot_be_told_apart(const Share& larger, const Share& smaller) {
  return larger.lo.value_or(larger.value) <= smaller.hi.value_or(smaller.value);
}

}  // namespace

Verdict decide(std::vector<Share> shares, const char* whole) {
  if (shares.empty()) return {"", fmt::format("not known how much of the {} is waiting or transfer", whole)};
  std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.value > b.value; });
  std::string numbers;
  for (const Share& share : shares) numbers += fmt::format("{}{} {:.1f}%", numbers.empty() ? "" : ", ", share.name, share.value * 100);
  numbers += fmt::format(" of the {} (threshold {:.0f}%)", whole, kBoundThreshold * 100);

  const Share& first = shares.front();
  if (first.value <= kBoundThreshold) return {"compute", "bound by computing: " + numbers};
  if (shares.size() > 1 && shares[1].value > kBoundThreshold && cannot_be_told_apart(first, shares[1])) {
    return {"undecided", fmt::format("undecided between {} and {}: {}", first.name, shares[1].name, numbers)};
  }
  std::string unsplit;
  if (first.unsplit > kBoundThreshold) {
    unsplit =
        fmt::format("; {:.1f}% are calls that only test (MPI_Test, MPI_Iprobe), whose waiting is not told apart", first.unsplit * 100);
  }
  const double next = std::max(kBoundThreshold, shares.size() > 1 ? shares[1].value : 0);
  if (first.value - first.unsplit <= next)
    return {"undecided", fmt::format("undecided between {} and wait: {}{}", first.name, numbers, unsplit)};
  return {first.name, fmt::format("bound by {}: {}{}", first.name, numbers, unsplit)};
}

namespace {

/// Share of the time inside MPI that is spent in calls that only look whether something is there, over the whole run: in a loop they are
/// waiting, now and then they are not, and nothing tells which.
double polling_share(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT total(iif((o.class = 'completion' AND o.name LIKE '%Test%') OR (o.class = 'probe' AND o.name LIKE 'MPI_I%'), f.time_ns, 0)),"
      " total(f.time_ns) FROM profile f JOIN op o ON o.id = f.op JOIN process p ON p.id = f.process"
      " WHERE p.world = ? AND o.class <> 'lifecycle'");
  row.bind(world);
  return row.next() && row.real(1) > 0 ? row.real(0) / row.real(1) : 0;
}

}  // namespace

void store_verdict(SQLite::Database& db, int64_t world, const SteadySteps& steps) {
  std::vector<Share> shares;
  Query metrics(db,
                "SELECT id, value, lo, hi FROM metric WHERE world = ? AND id IN ('f_wait', 'f_xfer') AND value IS NOT NULL ORDER BY id");
  metrics.bind(world);
  while (metrics.next()) {
    shares.push_back({metrics.text(0) == "f_wait" ? "wait" : "transfer", metrics.real(1), metrics.maybe_real(2), metrics.maybe_real(3), 0});
  }
  double in_mpi = 0;
  for (const Share& share : shares) in_mpi += share.value;
  for (Share& share : shares) {
    if (share.name == "transfer") share.unsplit = std::min(share.value, in_mpi * polling_share(db, world));
  }
  const Verdict verdict = decide(std::move(shares), steps.annotated ? "step" : "run");
  const std::string key = world == 0 ? "verdict" : fmt::format("verdict.{}", world);
  Query insert(db, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");
  insert.run(key, verdict.name.empty() ? "n/a" : verdict.name);
  insert.run(key + ".text", verdict.text);
}

}  // namespace ddl
