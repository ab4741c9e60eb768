#include "analyzer/facts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "analyzer/flat_map.h"
#include "analyzer/query.h"
#include "analyzer/statistics.h"

namespace ddl {
namespace {

/// Where one more step of a resource is added; rows come resource by resource.
ResourceTime& next_step(std::vector<ResourceTime>& resources, int64_t rank, std::optional<int64_t> device) {
  if (resources.empty() || resources.back().rank != rank || resources.back().device != device)
    resources.push_back({.rank = rank, .device = device, .steps = 0});
  ++resources.back().steps;
  return resources.back();
}

/// Beside a known waiting: some members left no record, and it is a lower bound.
constexpr const char* kBoundedWait = "PARTIAL_RANKS";

/// A window's exposed communication, split where its waiting is known.
void add_exposed(double exposed_ns, std::optional<double> wait_ns, const std::string& why, ResourceTime& one) {
  if (!wait_ns) {
    one.mean.unsplit_ns += exposed_ns;
    one.why = std::max(one.why, why);
    return;
  }
  one.bounded |= why == kBoundedWait;
  one.mean.wait_ns += *wait_ns;
  one.mean.transfer_ns += exposed_ns - *wait_ns;
}

void add_waiting(std::optional<double> wait_ns, ResourceTime& one) {
  if (!wait_ns) one.waiting_ns.reset();
  if (one.waiting_ns) *one.waiting_ns += *wait_ns;
}

/// Computing, of which communication was beside as much as `comm_ns` is longer than what is exposed of it.
void add_computing(double compute_ns, std::optional<double> comm_ns, double exposed_ns, TimeParts& parts) {
  const double overlap_ns = comm_ns ? std::clamp(*comm_ns - exposed_ns, 0.0, compute_ns) : 0;
  parts.overlap_ns += overlap_ns;
  parts.compute_ns += compute_ns - overlap_ns;
}

void add(const ResourceTime& sums, JobTime& job) {
  job.sum += sums.mean;
  job.windows += static_cast<double>(sums.steps);
  if (sums.mean.unsplit_ns > 0) job.why = std::max(job.why, sums.why);
  job.bounded |= sums.bounded;
}

/// From sums to means; `all` gets all of them, the headline those of ranks whose resource they are.
void close(std::vector<ResourceTime>& resources, Resource kind, const std::map<int64_t, Resource>& resource_of,
           JobTime& all, JobTime& headline) {
  for (ResourceTime& one : resources) {
    add(one, all);
    if (const auto rank = resource_of.find(one.rank); rank != resource_of.end() && rank->second == kind)
      add(one, headline);
    one.mean = one.mean / static_cast<double>(one.steps);
    if (one.waiting_ns) *one.waiting_ns /= static_cast<double>(one.steps);
  }
}

void read_threads(SQLite::Database& db, int64_t world, Facts& facts) {
  // In the order in which they lie, step by step, and not rank by rank, for which SQLite would sort them.
  Query row(
      db,
      "SELECT rank, compute_ns, comm_ns, exposed_ns, wait_ns, duration_ns, why FROM steady_part WHERE world = ? ORDER BY step, rank");
  FlatMap<uint32_t> places;  // by rank, from 1
  for (row.bind(world); row.next();) {
    uint32_t& place = places[static_cast<uint64_t>(row.integer(0))];
    if (place == 0) {
      facts.by_thread.push_back({.rank = row.integer(0), .steps = 0});
      place = static_cast<uint32_t>(facts.by_thread.size());
    }
    ResourceTime& one = facts.by_thread[place - 1];
    ++one.steps;
    const double exposed_ns = row.real(3);
    add_exposed(exposed_ns, row.maybe_real(4), row.text(6), one);
    add_waiting(row.maybe_real(4), one);
    add_computing(row.real(1), row.maybe_real(2), exposed_ns, one.mean);
    one.mean.idle_ns += row.real(5) - row.real(1) - exposed_ns;
    if (!one.waiting_ns) one.why = std::max(one.why, row.text(6));
  }
  std::sort(facts.by_thread.begin(), facts.by_thread.end(),
            [](const ResourceTime& a, const ResourceTime& b) { return a.rank < b.rank; });
}

void read_devices(SQLite::Database& db, int64_t world, Facts& facts) {
  Query row(db, R"(
    SELECT p.rank, g.device, g.compute_ns, g.comm_ns, g.exposed_comm_ns, g.exposed_wait_ns, g.exposed_copy_ns, g.idle_ns, g.wait_ns, g.why
    FROM gpu_part g
    JOIN process p ON p.id = g.process
    WHERE p.world = ?1 AND p.rank IS NOT NULL
      AND iif(?2, g.step IN (SELECT step FROM steady_number WHERE world = ?1), g.step IS NULL)
    ORDER BY p.rank, p.id, g.device)");
  row.bind(world, facts.step.has_steps ? 1 : 0);
  while (row.next()) {
    ResourceTime& one = next_step(facts.by_device, row.integer(0), row.integer(1));
    const double exposed_ns = row.real(4);
    add_exposed(exposed_ns, row.maybe_real(5), row.text(9), one);
    add_waiting(row.maybe_real(8), one);
    add_computing(row.real(2), row.real(3), exposed_ns, one.mean);
    one.mean.copy_ns += row.real(6);
    one.mean.idle_ns += row.real(7);
    if (!one.waiting_ns) one.why = std::max(one.why, row.text(9));
  }
}

std::map<int64_t, Resource> read_resources(SQLite::Database& db, int64_t world) {
  std::map<int64_t, Resource> resources;
  Query row(db, "SELECT rank, resource FROM rank_resource WHERE world = ?");
  for (row.bind(world); row.next();)
    resources[row.integer(0)] = row.text(1) == "device"   ? Resource::kDevice
                                : row.text(1) == "unseen" ? Resource::kUnseen
                                                          : Resource::kThread;
  return resources;
}

void read_steps(SQLite::Database& db, int64_t world, StepFacts& step) {
  std::vector<double> longest;
  Query row(db, "SELECT longest_ns, annotated FROM steady_step WHERE world = ? ORDER BY longest_ns");
  for (row.bind(world); row.next();) {
    step.has_steps = row.integer(1) != 0;
    if (!row.is_null(0)) longest.push_back(row.real(0));
  }
  step.used = static_cast<int64_t>(longest.size());
  Query timed(db, "SELECT longest_ns, warmup FROM timed_step WHERE world = ? ORDER BY longest_ns");
  for (timed.bind(world); timed.next(); ++step.timed) {
    if (step.timed == 0) longest.clear();
    longest.push_back(timed.real(0));
    step.timed_warmup = timed.integer(1);
  }
  if (longest.empty()) return;
  step.p99_ns = static_cast<int64_t>(percentile_of(longest, 0.99));
  step.min_ns = static_cast<int64_t>(longest.front());
  step.max_ns = static_cast<int64_t>(longest.back());
  step.p50_ns = static_cast<int64_t>(median_of(longest));  // last: it moves them about
}

CoordinationFacts read_coordination(SQLite::Database& db, int64_t world) {
  CoordinationFacts facts;
  Query ranks(db, "SELECT count(*) FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ?");
  if (ranks.bind(world).next()) facts.ranks = ranks.integer(0);
  if (facts.ranks == 0) return facts;
  Query calls(db, R"(
    SELECT count(*), total(e.duration_ns)
    FROM coordination c
    JOIN event e ON e.id = c.event
    JOIN process p ON p.id = e.process
    WHERE p.world = ?)");
  if (calls.bind(world).next()) facts.calls = calls.integer(0), facts.time_ns = calls.real(1);
  return facts;
}

/// Resources of one rank, which are neighbours: begin and end of them.
auto of_rank(const std::vector<ResourceTime>& resources, int64_t rank) {
  const auto first = std::lower_bound(resources.begin(), resources.end(), rank,
                                      [](const ResourceTime& one, int64_t r) { return one.rank < r; });
  return std::pair(first,
                   std::find_if(first, resources.end(), [&](const ResourceTime& one) { return one.rank != rank; }));
}

void read_ranks(SQLite::Database& db, int64_t world, const std::map<int64_t, Resource>& resource_of, Facts& facts) {
  Query row(db, "SELECT rank, host FROM v_rank WHERE world = ? AND rank IS NOT NULL ORDER BY rank, process");
  std::map<int64_t, std::vector<int64_t>> waits;  // by part
  std::vector<std::optional<int64_t>> waiting;    // by place in facts.ranks
  for (row.bind(world); row.next();) {
    RankFacts& rank = facts.ranks.emplace_back();
    rank.rank = row.integer(0);
    rank.host = row.text(1);
    if (const auto known = resource_of.find(rank.rank); known != resource_of.end()) rank.resource = known->second;
    waiting.emplace_back();
    const auto [first, last] =
        of_rank(rank.resource == Resource::kDevice ? facts.by_device : facts.by_thread, rank.rank);
    TimeParts mean;
    for (auto one = first; one != last; ++one) mean += one->mean / static_cast<double>(last - first);
    const bool unseen = rank.resource == Resource::kUnseen;
    if (first != last && !unseen) rank.compute_ns = static_cast<int64_t>(mean.computing_ns());
    if (first != last && facts.step.has_steps) rank.step_ns = mean.total_ns();

    const bool by_device = rank.resource == Resource::kDevice && facts.waits_by == Resource::kDevice;
    const auto [waits_first, waits_last] = of_rank(by_device ? facts.by_device : facts.by_thread, rank.rank);
    // Threads that never wait in MPI say nothing about collectives of GPUs.
    const bool untold = waits_first == waits_last || (unseen && facts.threads.sum.communication_ns() == 0);
    if (untold || unseen) rank.why = "NO_DATA";
    if (untold) continue;
    const auto resources = static_cast<double>(waits_last - waits_first);
    TimeParts parts;
    double waiting_ns = 0;
    bool is_split = true;
    for (auto one = waits_first; one != waits_last; ++one) {
      parts += one->mean / resources;
      waiting_ns += one->waiting_ns.value_or(0) / resources;
      is_split &= one->waiting_ns.has_value();
      rank.bounded |= one->bounded;
      rank.why = std::max(rank.why, one->why);
    }
    if (!is_split) continue;
    rank.wait_ns = static_cast<int64_t>(parts.wait_ns);
    rank.xfer_ns = static_cast<int64_t>(parts.transfer_ns);
    waiting.back() = static_cast<int64_t>(waiting_ns);
    waits[facts.part_of(rank.rank)].push_back(*waiting.back());
  }
  std::map<int64_t, int64_t> middle_ns;
  // of two ranks the earlier one
  for (auto& [part, of_ranks] : waits) middle_ns[part] = upper_median_of(std::move(of_ranks));
  for (size_t i = 0; i < waiting.size(); ++i)
    if (waiting[i]) facts.ranks[i].late_ns = middle_ns.at(facts.part_of(facts.ranks[i].rank)) - *waiting[i];
}

}  // namespace

TimeParts& TimeParts::operator+=(const TimeParts& other) {
  for (double TimeParts::*part : kTimeParts) this->*part += other.*part;
  return *this;
}

TimeParts TimeParts::operator/(double count) const {
  TimeParts result;
  for (double TimeParts::*part : kTimeParts) result.*part = this->*part / count;
  return result;
}

double JobTime::shown_share(double TimeParts::*part) const {
  std::vector<double> shares;
  for (double TimeParts::*one : kTimeParts) shares.push_back(share(one));
  const auto at = std::find(std::begin(kTimeParts), std::end(kTimeParts), part);
  return round_shares(shares)[static_cast<size_t>(at - std::begin(kTimeParts))];
}

double JobTime::shown_computing() const {
  return std::round(1000 * (shown_share(&TimeParts::compute_ns) + shown_share(&TimeParts::overlap_ns))) / 1000;
}

int64_t Facts::ranks_by(Resource which) const {
  return std::count_if(ranks.begin(), ranks.end(), [&](const RankFacts& rank) { return rank.resource == which; });
}

int64_t Facts::part_of(int64_t rank) const {
  const auto part = parts.find(rank);
  return part == parts.end() ? 0 : part->second;
}

Facts read_facts(SQLite::Database& db, int64_t world) {
  Facts facts;
  read_steps(db, world, facts.step);
  read_threads(db, world, facts);
  read_devices(db, world, facts);
  const std::map<int64_t, Resource> resource_of = read_resources(db, world);
  close(facts.by_thread, Resource::kThread, resource_of, facts.threads, facts.headline);
  close(facts.by_device, Resource::kDevice, resource_of, facts.devices, facts.headline);
  Query waits(db, "SELECT 1 FROM steady_world WHERE world = ? AND waits_by = 'device'");
  waits.bind(world);
  if (waits.next()) facts.waits_by = Resource::kDevice;
  facts.parts = parts_of_world(db, world, facts.step.has_steps);
  read_ranks(db, world, resource_of, facts);
  facts.coordination = read_coordination(db, world);
  Query coverage(db, "SELECT ranks, world_size, bounded FROM steady_world WHERE world = ?");
  if (coverage.bind(world).next())
    facts.coverage = {coverage.integer(0), coverage.integer(1), coverage.integer(2) != 0};
  const int64_t by_devices = facts.ranks_by(Resource::kDevice);
  if (facts.ranks_by(Resource::kUnseen) > 0) {
    facts.resource = Resource::kUnseen;
    facts.headline = {};
    return facts;
  }
  if (by_devices > 0) facts.resource = facts.ranks_by(Resource::kThread) > 0 ? Resource::kMixed : Resource::kDevice;
  return facts;
}

double run_start_ns(SQLite::Database& db, int64_t world) {
  Query row(
      db,
      "SELECT avg(max(0, coalesce(launch_ns, begin_ns) - begin_ns)) FROM (SELECT g.launch_ns, coalesce(p.init_ns, p.start_ns) AS begin_ns,"
      " min(g.start_ns) FROM gpu_event g JOIN process p ON p.id = g.process WHERE p.world = ? AND g.kind IN (1, 2, 3)"
      " GROUP BY g.process, g.device)");
  row.bind(world);
  return row.next() ? row.maybe_real(0).value_or(0) : 0;
}

}  // namespace ddl
