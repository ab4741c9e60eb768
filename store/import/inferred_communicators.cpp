// The part of ImportedRun::finish() that finds the communicators of NCCL's kernels in traces that do not tell them
// (PyTorch up to 2.1).
//
// torch gives each communicator a stream of its own, and the collectives of a stream run in the order of their
// launches. If the ranks show the same sequence of kinds (and of bytes, where they are told) in a step, the k-th of the
// step on one rank is taken to be the k-th on the others. A step in which they differ is left out. Ranks with several
// streams of NCCL have several communicators: streams belong together if just one of each rank shows that sequence, or
// if just one of each rank is left over.
//
// Equal sequences do not make a communicator of all ranks: groups of ranks that run the same program (tensor
// parallelism) show them as well. What tells them apart is how collectives end. Nobody leaves before everybody has
// entered, and then all leave together, however late the last one was; ranks of different groups leave by different
// clocks of their own. A stream with more than a few exceptions is left out. What passes nevertheless can be wrong by
// no more than the ranks leave apart.
//
// Between hosts whose clocks are not known, the clocks are set so that the ranks leave together in the median
// collective. Two groups that are always late by the same time would look like one then; but waiting is told by the
// shortest member there, which needs no clock either.
//
// If half of the ranks or more are missing, the rest may be a group as well as all of one: their streams get
// communicators whose members are not known, of one rank each.
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "store/import/columns.h"
#include "store/import/imported_run.h"

namespace ddl::store {

namespace {

constexpr double kMostExceptions = 0.05;     // of the collectives of a stream
constexpr uint64_t kFewestAcrossClocks = 8;  // collectives that clocks can be set by, and leave something to see
// ranks leave that far apart by latency, and by the error of the devices' stamps
constexpr int64_t kLeastApartNs = 20'000;
constexpr int64_t kMostApartNs = 200'000;  // ... and no farther, however long the transfer
// between them: this part of the transfer, for ranks get the last piece one behind the other
constexpr int64_t kApartOfTransfer = 8;

struct NcclStream {
  int64_t number, process;
  int64_t group = 0;  ///< 0: not matched
  uint64_t sequence = 0;
};

/// What a stream's collectives that nobody leaves early say about its members.
struct Endings {
  uint64_t instances = 0, left_early = 0;
  uint64_t others = 0, others_apart = 0;        ///< all but all-to-alls
  uint64_t exchanges = 0, exchanges_apart = 0;  ///< all-to-alls: a rank leaves when its own messages are done
};

uint64_t mixed(uint64_t hash, int64_t value) {
  hash ^= static_cast<uint64_t>(value) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 33);
}

/// Numbers from 1 on for the streams of all ranks that belong together.
int64_t match_streams(std::vector<NcclStream>& streams, size_t processes) {
  std::map<int64_t, size_t> of_process;
  for (const NcclStream& s : streams) ++of_process[s.process];
  if (of_process.size() != processes) return 0;
  std::map<uint64_t, std::map<int64_t, size_t>> of_sequence;  // and process
  for (const NcclStream& s : streams) ++of_sequence[s.sequence][s.process];
  const auto once_each = [&](const std::map<int64_t, size_t>& counts) {
    return counts.size() == processes &&
           std::all_of(counts.begin(), counts.end(), [](const auto& entry) { return entry.second == 1; });
  };
  int64_t groups = 0;
  std::map<uint64_t, int64_t> group_of;
  for (const auto& [sequence, counts] : of_sequence)
    if (once_each(counts)) group_of[sequence] = ++groups;
  std::map<int64_t, size_t> left_over;
  for (NcclStream& s : streams) {
    const auto group = group_of.find(s.sequence);
    if (group != group_of.end()) {
      s.group = group->second;
    } else {
      ++left_over[s.process];
    }
  }
  if (!once_each(left_over)) return groups;
  ++groups;
  for (NcclStream& s : streams)
    if (s.group == 0) s.group = groups;
  return groups;
}

/// temp.nccl_instance: the collectives in steps, with their place in the step. temp.nccl_step_out: steps in which the
/// ranks of a group differ.
void place_in_steps(SQLite::Database& db, size_t processes, int64_t exchange) {
  db.exec(fmt::format(R"(
    CREATE TEMP TABLE nccl_instance AS
    SELECT s.grp, k.bucket, row_number() OVER (PARTITION BY k.stream, k.bucket ORDER BY k.start, k.event) AS place, k.process, s.clock, k.op,
           iif(k.op = {}, NULL, k.payload) AS payload, k.start AS start_ns, k.start + k.duration AS end_ns
    FROM temp.kernel_collective k
         JOIN temp.nccl_stream s ON s.stream = k.stream
    WHERE k.bucket IS NOT NULL;

    CREATE INDEX temp.nccl_instance_place ON nccl_instance(grp, bucket, place, process);

    CREATE TEMP TABLE nccl_step_out AS
    SELECT grp, bucket
    FROM (SELECT grp, bucket, count(*) AS members, min(op) <> max(op) OR coalesce(min(payload) <> max(payload), 0) AS differs
          FROM temp.nccl_instance
          GROUP BY grp, bucket, place)
    GROUP BY grp, bucket
    HAVING min(members) <> {} OR max(differs);

    CREATE INDEX temp.nccl_step_out_step ON nccl_step_out(grp, bucket);

    DELETE FROM temp.nccl_instance WHERE (grp, bucket) IN (SELECT grp, bucket FROM temp.nccl_step_out))",
                      exchange, processes));
}

/// temp.nccl_clock: how far ahead of the first clock of its group each other is, if ranks leave together.
void set_clocks(SQLite::Database& db, const std::string& strict) {
  db.exec(fmt::format(R"(
    CREATE TEMP TABLE nccl_clock AS
    SELECT grp, clock, ahead_ns
    FROM (SELECT i.grp, i.clock, i.end_ns - f.end_ns AS ahead_ns, count(*) OVER (PARTITION BY i.grp, i.clock) AS instances,
                 row_number() OVER (PARTITION BY i.grp, i.clock ORDER BY i.end_ns - f.end_ns) AS place
          FROM temp.nccl_instance f
               JOIN temp.nccl_instance i ON i.grp = f.grp AND i.bucket = f.bucket AND i.place = f.place
          WHERE f.process = 1 AND i.clock <> f.clock AND i.op IN ({}))
    WHERE place = (instances + 1) / 2)",
                      strict));
}

std::map<int64_t, Endings> read_endings(SQLite::Database& db, const std::string& strict, int64_t exchange) {
  std::map<int64_t, Endings> endings;
  SQLite::Statement rows(db, fmt::format(R"(
    SELECT i.grp, min(i.op), max(i.start_ns - coalesce(c.ahead_ns, 0)), min(i.end_ns - coalesce(c.ahead_ns, 0)),
           max(i.end_ns - coalesce(c.ahead_ns, 0))
    FROM temp.nccl_instance i
         LEFT JOIN temp.nccl_clock c ON c.grp = i.grp AND c.clock = i.clock
    WHERE i.op IN ({})
    GROUP BY i.grp, i.bucket, i.place)",
                                         strict));
  while (rows.executeStep()) {
    Endings& of_group = endings[rows.getColumn(0).getInt64()];
    const int64_t entered_ns = rows.getColumn(2).getInt64(), first_left_ns = rows.getColumn(3).getInt64();
    const int64_t apart_ns = rows.getColumn(4).getInt64() - first_left_ns;
    const bool is_apart =
        apart_ns > std::clamp((first_left_ns - entered_ns) / kApartOfTransfer, kLeastApartNs, kMostApartNs);
    const bool is_exchange = rows.getColumn(1).getInt64() == exchange;
    ++of_group.instances;
    of_group.left_early += first_left_ns < entered_ns;
    ++(is_exchange ? of_group.exchanges : of_group.others);
    (is_exchange ? of_group.exchanges_apart : of_group.others_apart) += is_apart;
  }
  return endings;
}

}  // namespace

void ImportedRun::infer_communicators() {
  // The bytes of a range that launched several kernels are those of all of them.
  db_.exec(
      "UPDATE temp.kernel_collective SET payload = NULL WHERE nccl_range IN"
      " (SELECT nccl_range FROM temp.kernel_collective WHERE nccl_range IS NOT NULL GROUP BY nccl_range HAVING count(*) > 1)");
  // One stream of NCCL is one communicator: what lies beside kernels that tell theirs belongs to those, at a place
  // that is not known.
  const auto leave_out = [&](const std::string& which, const std::string& note) {
    losses_.add({}, "nccl_kernels",
                static_cast<uint64_t>(db_.exec("DELETE FROM temp.kernel_collective WHERE comm IS NULL AND " + which)),
                "collectives of NCCL whose process group the trace does not tell, " + note);
  };
  leave_out("stream IN (SELECT stream FROM temp.kernel_collective WHERE comm IS NOT NULL)",
            "beside others that tell it: which number they have there is not known");
  leave_out("stream NOT IN (SELECT stream FROM temp.kernel_collective WHERE bucket IS NOT NULL)",
            "outside annotated steps: which belong together is not known");

  std::vector<NcclStream> streams;
  const int64_t exchange = ops_.contains("ncclAlltoAll") ? ops_.at("ncclAlltoAll").id : 0;
  {
    // Payloads of all-to-alls differ from rank to rank.
    SQLite::Statement rows(
        db_, fmt::format("SELECT stream, process, bucket, op, iif(op = {}, NULL, payload) FROM temp.kernel_collective"
                         " WHERE comm IS NULL AND bucket IS NOT NULL ORDER BY process, stream, start, event",
                         exchange));
    while (rows.executeStep()) {
      const int64_t number = rows.getColumn(0).getInt64();
      if (streams.empty() || streams.back().number != number) streams.push_back({number, rows.getColumn(1).getInt64()});
      uint64_t& sequence = streams.back().sequence;
      sequence = mixed(mixed(mixed(sequence, rows.getColumn(2).getInt64()), rows.getColumn(3).getInt64()),
                       maybe_integer(rows, 4).value_or(-1));
    }
  }
  if (streams.empty()) return;

  const size_t files = order_.size();
  const bool one_clock = is_one_clock();
  const bool is_half_missing = world_size_ == 1 || (world_size_ > 2 && 2 * static_cast<int64_t>(files) <= world_size_);
  db_.exec("CREATE TEMP TABLE nccl_stream(stream INTEGER PRIMARY KEY, grp, clock, comm)");
  Insert insert(db_, "INSERT INTO temp.nccl_stream VALUES (?, ?, ?, ?)");
  if (is_half_missing) {
    for (const NcclStream& s : streams) {
      const int64_t rank = *processes_[order_[static_cast<size_t>(s.process - 1)]].told.rank;
      const std::optional<int64_t>& number = nccl_streams_[static_cast<size_t>(s.number)];
      const std::string label =
          fmt::format("NCCL stream {}of rank {} (members unknown)", number ? fmt::format("{} ", *number) : "", rank);
      insert.row(s.number, std::nullopt, 0, add_inferred_communicator(label, 0));
    }
  } else {
    const int64_t groups = match_streams(streams, files);
    std::map<std::string, int64_t> clocks;
    for (const NcclStream& s : streams) {
      if (s.group == 0) continue;
      const std::string host = one_clock ? "" : host_of(processes_[order_[static_cast<size_t>(s.process - 1)]]);
      insert.row(s.number, s.group, clocks.try_emplace(host, static_cast<int64_t>(clocks.size())).first->second,
                 std::nullopt);
    }
    leave_out(
        "stream NOT IN (SELECT stream FROM temp.nccl_stream)",
        "on streams that are not matched: the ranks' sequences differ, several streams of a rank show the same, or a rank has none");
    place_in_steps(db_, files, exchange);
    std::string strict;
    for (const auto& [name, op] : ops_)
      if (op.op_class == OpClass::kAllToAll) strict += fmt::format("{}{}", strict.empty() ? "" : ", ", op.id);
    set_clocks(db_, strict);
    const std::map<int64_t, Endings> endings = read_endings(db_, strict, exchange);
    std::set<int64_t> agreed;  // in some step
    for (SQLite::Statement row(db_, "SELECT DISTINCT grp FROM temp.nccl_instance"); row.executeStep();)
      agreed.insert(row.getColumn(0).getInt64());
    for (int64_t group = 1; group <= groups; ++group) {
      const auto known = endings.find(group);
      const Endings e = known == endings.end() ? Endings() : known->second;
      // All-to-alls tell who leaves with whom only if nothing better does.
      const uint64_t judged = e.others > 0 ? e.others : e.exchanges,
                     apart = e.others > 0 ? e.others_apart : e.exchanges_apart;
      const auto is_more_than_few = [](uint64_t exceptions, uint64_t of) {
        return static_cast<double>(exceptions) > kMostExceptions * static_cast<double>(of);
      };
      const std::string of_group = fmt::format("stream IN (SELECT stream FROM temp.nccl_stream WHERE grp = {})", group);
      if (!agreed.contains(group)) {
        leave_out(of_group, "on streams on which the ranks show different sequences in every step");
      } else if (files > 1 && e.instances < (clocks.size() > 1 ? kFewestAcrossClocks : 1)) {
        leave_out(of_group, "on streams with too few collectives to see that all ranks take part");
      } else if (files > 1 && (is_more_than_few(e.left_early, e.instances) || is_more_than_few(apart, judged))) {
        leave_out(
            of_group,
            fmt::format(
                "on streams that do not belong to one communicator of all ranks: of {} collectives, some rank left "
                "{} before all had entered, and {} of {} apart from the others",
                e.instances, e.left_early, apart, judged));
      } else {
        const int64_t comm = add_inferred_communicator("world (inferred)", world_size_);
        db_.exec(fmt::format("UPDATE temp.nccl_stream SET comm = {} WHERE grp = {}", comm, group));
      }
    }
    const int unmatched = db_.exec(R"(
      UPDATE temp.kernel_collective
      SET unmatched = 1, bucket = NULL
      WHERE bucket IS NOT NULL
            AND EXISTS (
              SELECT 1
              FROM temp.nccl_stream s
                   CROSS JOIN temp.nccl_step_out o ON o.grp = s.grp
              WHERE s.stream = kernel_collective.stream AND o.bucket = kernel_collective.bucket))");
    losses_.add(
        {}, "nccl_kernels", static_cast<uint64_t>(unmatched),
        "kernels of NCCL in steps in which the ranks show other collectives, or other bytes: which belong together is not known");
    db_.exec("DROP TABLE temp.nccl_instance; DROP TABLE temp.nccl_step_out; DROP TABLE temp.nccl_clock");
  }
  db_.exec(R"(
    UPDATE temp.kernel_collective
    SET comm = (SELECT s.comm FROM temp.nccl_stream s WHERE s.stream = kernel_collective.stream)
    WHERE comm IS NULL;

    UPDATE gpu_event
    SET comm = (SELECT k.comm FROM temp.kernel_collective k WHERE k.event = gpu_event.id)
    WHERE comm IS NULL AND id IN (SELECT event FROM temp.kernel_collective);

    DROP TABLE temp.nccl_stream)");
}

}  // namespace ddl::store
