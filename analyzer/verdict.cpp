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
    unsplit = fmt::format("; {:.1f}% are {}", first.unsplit * 100, first.unsplit_what);
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

/// GPUs have a say: their collectives where those cost more than the host's calls, copies that nothing hides, and idling because the host
/// was late - less what the host spent in MPI meanwhile, which is told by its own shares.
void add_device_shares(SQLite::Database& db, int64_t world, std::vector<Share>& shares) {
  Query row(db,
            "SELECT total(exposed_comm_ns) / total(duration_ns), iif(count(exposed_wait_ns) = count(*), total(exposed_wait_ns), NULL)"
            " / total(duration_ns), total(exposed_copy_ns) / total(duration_ns), total(idle_host_ns) / total(duration_ns),"
            " sum(idle_input_ns) / total(duration_ns)"
            " FROM temp.steady_gpu WHERE world = ? HAVING total(duration_ns) > 0");
  row.bind(world);
  if (!row.next()) return;
  std::erase_if(shares, [](const Share& share) { return share.name == "input"; });  // what the host did while GPUs computed costs nothing
  double in_mpi = 0;
  for (const Share& share : shares) in_mpi += share.value;
  const auto at_least = [&](const char* name, double value, double unsplit) {
    const auto known = std::find_if(shares.begin(), shares.end(), [&](const Share& share) { return share.name == name; });
    if (known != shares.end() && known->value >= value) return;
    if (known != shares.end()) shares.erase(known);
    shares.push_back(
        {name, value, {}, {}, unsplit, "collectives of GPUs of which not all members were seen, so that waiting is not told apart"});
  };
  const double comm = row.real(0), wait = row.maybe_real(1).value_or(0);
  at_least("wait", wait, 0);
  at_least("transfer", comm - wait, row.is_null(1) ? comm : 0);
  shares.push_back({"copy", row.real(2), {}, {}, 0});
  shares.push_back({"host", std::max(0.0, row.real(3) - in_mpi), {}, {}, 0});
  if (!row.is_null(4)) shares.push_back({"input", row.real(4), {}, {}, 0});
}

/// What a pipeline waits for itself is told apart from other waiting, and loading data from other computing.
void add_bubble_and_input(SQLite::Database& db, int64_t world, std::vector<Share>& shares) {
  Query metrics(db,
                "SELECT id, value, lo, hi FROM metric WHERE world = ? AND id IN ('f_bub', 'f_input') AND value IS NOT NULL ORDER BY id");
  metrics.bind(world);
  while (metrics.next()) {
    const bool bubble = metrics.text(0) == "f_bub";
    const Share share{bubble ? "bubble" : "input", metrics.real(1), metrics.maybe_real(2), metrics.maybe_real(3), 0};
    for (Share& wait : shares) {
      if (!bubble || wait.name != "wait") continue;
      for (double* number : {&wait.value, wait.lo ? &*wait.lo : nullptr, wait.hi ? &*wait.hi : nullptr}) {
        if (number) *number = std::max(0.0, *number - share.value);
      }
    }
    shares.push_back(share);
  }
}

}  // namespace

void store_verdict(SQLite::Database& db, int64_t world, const SteadySteps& steps, const std::string& doubt) {
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
  if (!shares.empty()) add_bubble_and_input(db, world, shares);
  add_device_shares(db, world, shares);
  const Verdict verdict =
      doubt.empty() ? decide(std::move(shares), steps.annotated ? "step" : "run") : Verdict{"withheld", "withheld: " + doubt};
  const std::string key = world == 0 ? "verdict" : fmt::format("verdict.{}", world);
  Query insert(db, "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");
  insert.run(key, verdict.name.empty() ? "n/a" : verdict.name);
  insert.run(key + ".text", verdict.text);
}

}  // namespace ddl
