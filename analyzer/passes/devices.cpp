// GPUs: tables gpu_part, gpu_layer_part and critical_path, from gpu_event.
#include "analyzer/passes/passes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/each_row.h"
#include "analyzer/passes/critical_paths.h"
#include "analyzer/passes/device_partition.h"
#include "analyzer/passes/device_sweep.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/instance.h"
#include "analyzer/passes/kernel_arrivals.h"
#include "analyzer/passes/stream_order.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

constexpr int64_t kSynchronization = 4;  // gpu_event.kind

/// A launching call: its number, and when it was entered.
using LaunchKey = std::pair<int64_t, int64_t>;
struct LaunchHash {
  size_t operator()(const LaunchKey& key) const {
    return std::hash<uint64_t>()(static_cast<uint64_t>(key.first) * 0x9e3779b97f4a7c15U +
                                 static_cast<uint64_t>(key.second));
  }
};

/// Numbers that were added more than once, of up to `count`. A few that were not may count as such, for
/// memory is bounded.
class RepeatedNumbers {
 public:
  explicit RepeatedNumbers(size_t count)
      : mask_(std::bit_ceil(std::clamp<size_t>(16 * count, 64, kMostBits)) - 1), once_(mask_ + 1), twice_(mask_ + 1) {}
  void add(int64_t number) {
    const size_t place = place_of(number);
    if (once_[place]) twice_[place] = true;
    once_[place] = true;
  }
  bool contains(int64_t number) const { return number != 0 && twice_[place_of(number)]; }

 private:
  static constexpr size_t kMostBits = 1 << 27;
  size_t place_of(int64_t number) const { return static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15U >> 20 & mask_; }
  size_t mask_;
  std::vector<bool> once_, twice_;
};

class DevicePass {
 public:
  DevicePass(SQLite::Database& db, const Catalog& catalog)
      : db_(db),
        catalog_(catalog),
        names_(db),
        arrivals_(db, catalog),
        paths_(db),
        inputs_(db),
        insert_part_(
            db, "INSERT INTO gpu_part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        insert_layer_(db, "INSERT INTO gpu_layer_part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        insert_axis_(
            db,
            "INSERT INTO gpu_axis_part (process, device, step, axis, comm_ns, wait_ns, exposed_ns, exposed_wait_ns)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)") {
    Query axes(db, "SELECT communicator, axis FROM communicator_axis");
    while (axes.next()) {
      const auto axis = axes_by_name_.try_emplace(axes.text(1), static_cast<int64_t>(axes_.size()));
      if (axis.second) axes_.emplace_back(axes.text(1));
      axis_of_.emplace(axes.integer(0), axis.first->second);
    }
    axes_.emplace_back();  // of what no communicator tells
    Query regions(db, "SELECT id, layer, phase FROM region ORDER BY id");
    while (regions.next()) {
      const auto text = [&](int column) {
        return regions.is_null(column) ? std::nullopt : std::optional(regions.text(column));
      };
      const auto layer = layers_.try_emplace({text(1), text(2)}, static_cast<int64_t>(layers_.size()));
      layer_of_.emplace(regions.integer(0), layer.first->second);
    }
    has_marked_steps_ = has_marked_steps(db);
    for (const auto& [id, process] : catalog.processes) ranks_of_[process.world] += process.rank >= 0 ? 1 : 0;
  }

  void run(const PassProgress& progress) {
    Query all(db_, "SELECT count(*) FROM gpu_event WHERE kind IN (1, 2, 3)");
    Ticker ticker(progress, all.next() ? all.integer(0) : 0);
    for (const auto& [id, process] : catalog_.processes) {
      const std::vector<DeviceWindow> windows = windows_of(process, known_until_ns(process));
      const std::vector<Interval> inputs = inputs_of(id);
      for (auto& [device, sweep] : read(id, windows, inputs, ticker)) {
        write_windows(id, device, windows, sweep.of_windows());
        write_layers(id, device, sweep.of_layers());
      }
      find_path(id, windows);
    }
  }
  int64_t too_long_steps() const { return paths_.too_long(); }

 private:
  void find_path(int64_t process, const std::vector<DeviceWindow>& windows) {
    std::map<int64_t, Interval> steps;
    Interval run;
    for (const DeviceWindow& window : windows) {
      if (window.step) {
        steps.emplace(*window.step, window.interval);
      } else {
        run = window.interval;
      }
    }
    paths_.finish(process, steps, run);
  }

  /// Why the waiting of a kernel is not known if nothing tells which collective or message it carries out: its partners
  /// may be ranks without a record, or the trace lacks what would tell.
  Why why_unmatched(int64_t process) const {
    const ProcessInfo& p = catalog_.process(process);
    return ranks_of_.at(p.world) < p.world_size ? Why::kPartialRanks : Why::kNoData;
  }

  /// What a row of read() tells.
  static PathActivity path_activity(const Query& rows) {
    PathActivity a;
    a.start_ns = rows.integer(2);
    a.end_ns = a.start_ns + rows.integer(3);
    a.is_launched = !rows.is_null(4);
    a.launch_ns = rows.integer(4);
    a.launch_duration_ns = rows.integer(15);
    if (!rows.is_null(8)) a.step = rows.integer(8);
    a.name = rows.integer(7);
    a.region = rows.integer(9);
    if (!rows.is_null(11)) a.context = rows.integer(11);
    if (!rows.is_null(12)) a.stream = rows.integer(12);
    a.call = rows.integer(13);
    return a;
  }

  std::map<int64_t, DeviceSweep> read(int64_t process, const std::vector<DeviceWindow>& windows,
                                      const std::vector<Interval>& inputs, Ticker& ticker) {
    Query rows(
        db_,
        "SELECT device, kind, start_ns, duration_ns, launch_ns, comm, seq, name, step, region, graph_node, context, stream, correlation,"
        " comm_rank, launch_duration_ns FROM gpu_event WHERE process = ? AND kind IN (1, 2, 3, 4) AND (duration_ns > 0 OR kind = 4)"
        " ORDER BY start_ns, duration_ns DESC");
    rows.bind(process);
    const StreamOrder order(db_, names_, process);
    std::map<int64_t, DeviceSweep> devices;
    std::map<int64_t, int64_t> busy_until_ns;  // by device
    KernelNumbers numbers(catalog_, has_marked_steps_);
    const Why unmatched = why_unmatched(process);
    while (rows.next()) {
      PathActivity activity = path_activity(rows);
      if (rows.integer(1) == kSynchronization) {
        activity.is_synchronization = true;
        if (!names_.is_stream_wait(activity.name)) paths_.add(activity);
        continue;
      }
      ticker.add(1);
      DeviceEvent e;
      e.operation.interval = {activity.start_ns, activity.end_ns};
      e.operation.launch_ns = rows.maybe_integer(4);
      const bool communicates = rows.integer(1) == 1 && (!rows.is_null(5) || names_.communicates(rows.integer(7)));
      if (rows.integer(1) != 1) e.operation.device_class = DeviceClass::kCopy;
      if (communicates) {
        e.operation.device_class = DeviceClass::kCommunication;
        e.why = unmatched;  // unless it can be told which collective it is
        const auto axis = rows.is_null(5) ? axis_of_.end() : axis_of_.find(rows.integer(5));
        e.axis = axis == axis_of_.end() ? static_cast<int64_t>(axes_.size()) - 1 : axis->second;
        if (!rows.is_null(5)) {
          const std::optional<KernelKey> key =
              numbers.next(rows.integer(5), rows.maybe_integer(6), rows.maybe_integer(8), rows.maybe_integer(10),
                           rows.maybe_integer(14));
          if (key) e.operation.wait_ns = arrivals_.wait_ns(*key, e.operation.interval, e.why);
        }
        if (e.operation.wait_ns) e.why = Why::kNone;
        if (e.operation.wait_ns.value_or(0) > 0) e.sigma_ns = arrivals_.sigma_ns(rows.integer(5));
      }
      e.step = rows.maybe_integer(8).value_or(-1);
      e.layer = layer_of_.at(rows.integer(9));
      const int64_t device = rows.integer(0);
      if (!order.empty()) {  // only what ends a gap that is longer than lies between two kernels is asked for it
        int64_t& until_ns = busy_until_ns.try_emplace(device, INT64_MIN / 2).first->second;
        if (e.operation.interval.begin_ns - until_ns >= kKernelWaitNs)
          e.operation.awaits = order.awaited({rows.integer(11), rows.integer(12)}, rows.integer(13));
        until_ns = std::max(until_ns, e.operation.interval.end_ns);
      }
      activity.device_class = e.operation.device_class;
      activity.has_wait = e.operation.wait_ns.has_value();
      activity.wait_ns = e.operation.wait_ns.value_or(0);
      paths_.add(activity);
      devices.try_emplace(device, windows, inputs).first->second.add(e);
    }
    for (auto& [device, sweep] : devices) sweep.finish();
    return devices;
  }

  /// Until when its GPUs were traced, where the program took CUPTI over. What the GPUs of a killed process did last was
  /// not handed over where it began another step behind their last activity: from there on nobody knows that they
  /// idled. A process that handed everything over before it was left has no such step.
  int64_t known_until_ns(const ProcessInfo& process) {
    Query told(db_, "SELECT CAST(value AS INTEGER) FROM process_fact WHERE process = ? AND key = 'gpu.until'");
    if (told.bind(process.id).next()) return told.integer(0);
    if (process.ended != "lost") return INT64_MAX;
    Query last(
        db_,
        "SELECT max(start_ns + duration_ns) FROM gpu_event WHERE process = ? AND kind IN (1, 2, 3) AND duration_ns > 0");
    if (!last.bind(process.id).next() || last.is_null(0)) return INT64_MAX;
    Query later(db_, "SELECT 1 FROM step WHERE process = ? AND start_ns >= ?");
    return later.bind(process.id, last.integer(0)).next() ? last.integer(0) : INT64_MAX;
  }

  /// Steps that ended by `known_until_ns`, and the run up to there.
  std::vector<DeviceWindow> windows_of(const ProcessInfo& process, int64_t known_until_ns) {
    std::vector<DeviceWindow> windows;
    Query steps(
        db_,
        "SELECT step, start_ns, duration_ns FROM step WHERE process = ? AND duration_ns IS NOT NULL ORDER BY start_ns");
    steps.bind(process.id);
    std::set<int64_t> seen;
    while (steps.next()) {
      if (!seen.insert(steps.integer(0)).second) continue;  // a number used twice: the first counts
      if (steps.integer(1) + steps.integer(2) > known_until_ns) continue;
      windows.push_back({steps.integer(0), {steps.integer(1), steps.integer(1) + steps.integer(2)}});
    }
    const int64_t begin_ns = process.init_ns.value_or(process.start_ns);
    const int64_t end_ns = std::min(process.finalize_ns.value_or(process.end_ns), known_until_ns);
    windows.push_back({std::nullopt, {begin_ns, std::max(begin_ns, end_ns)}});
    return windows;
  }

  std::vector<Interval> inputs_of(int64_t process) {
    // Other threads load ahead, which holds nobody up.
    std::set<int64_t> of_steps;
    Query threads(db_, "SELECT DISTINCT thread FROM step WHERE process = ?");
    threads.bind(process);
    while (threads.next()) of_steps.insert(threads.integer(0));
    std::vector<Interval> intervals;
    for (const InputRange& range : inputs_.of(process))
      if (of_steps.empty() || of_steps.contains(range.thread)) intervals.push_back(range.interval);
    return intervals;
  }

  void write_windows(int64_t process, int64_t device, const std::vector<DeviceWindow>& windows,
                     const std::vector<WindowSums>& sums) {
    for (size_t i = 0; i < windows.size(); ++i) {
      const DevicePartition& p = sums[i].partition;
      for (const auto& [index, axis] : sums[i].axes) {
        const auto if_split = [split = axis.split](int64_t ns) { return split ? std::optional(ns) : std::nullopt; };
        insert_axis_.run(process, device, windows[i].step, axes_[static_cast<size_t>(index)], axis.comm_ns,
                         if_split(axis.wait_ns), axis.exposed_ns, if_split(axis.exposed_wait_ns));
      }
      const auto if_split = [&](int64_t ns) { return p.split ? std::optional(ns) : std::nullopt; };
      insert_part_.run(process, device, windows[i].step, p.duration_ns, p.compute_ns, p.comm_ns, if_split(p.wait_ns),
                       p.copy_ns, p.exposed_comm_ns, if_split(p.exposed_wait_ns), p.exposed_copy_ns, p.active_ns,
                       if_split(p.active_xfer_ns), p.idle_ns, p.idle_input_ns, p.idle_host_ns, p.idle_launch_ns,
                       p.idle_kernel_ns, p.idle_dep_comm_ns, p.idle_dep_copy_ns, p.idle_other_ns,
                       name_of(p.split ? Why::kNone : sums[i].why),
                       p.split ? std::optional(sums[i].sigma_ns) : std::nullopt);
    }
  }

  void write_layers(int64_t process, int64_t device, const std::map<std::pair<int64_t, int64_t>, GpuLayerSums>& sums) {
    std::vector<const std::pair<std::optional<std::string>, std::optional<std::string>>*> names(layers_.size());
    for (const auto& [name, index] : layers_) names[static_cast<size_t>(index)] = &name;
    for (const auto& [key, sum] : sums) {
      const auto& [layer, phase] = *names[static_cast<size_t>(key.second)];
      insert_layer_.run(process, device, key.first < 0 ? std::nullopt : std::optional(key.first), layer, phase,
                        sum.compute_ns, sum.comm_ns, sum.copy_ns, sum.exposed_comm_ns);
    }
  }

  SQLite::Database& db_;
  const Catalog& catalog_;
  GpuNameClasses names_;
  KernelArrivals arrivals_;
  CriticalPaths paths_;
  InputRanges inputs_;
  Query insert_part_, insert_layer_, insert_axis_;
  std::vector<std::optional<std::string>> axes_;  ///< the last one is unset
  std::map<std::string, int64_t> axes_by_name_;
  bool has_marked_steps_ = false;
  /// by world: how many left a record
  std::map<int64_t, int64_t> ranks_of_;
  std::unordered_map<int64_t, int64_t> axis_of_;                                                 ///< by communicator
  std::map<std::pair<std::optional<std::string>, std::optional<std::string>>, int64_t> layers_;  ///< by layer and phase
  std::unordered_map<int64_t, int64_t> layer_of_;                                                ///< by region.id
};

}  // namespace

int64_t analyze_devices(SQLite::Database& db, const Catalog& catalog, const PassProgress& progress) {
  Query any(db, "SELECT 1 FROM gpu_event WHERE kind IN (1, 2, 3) LIMIT 1");
  if (!any.next()) return 0;
  DevicePass pass(db, catalog);
  pass.run(progress);
  return pass.too_long_steps();
}

void select_steady_devices(SQLite::Database& db) {
  Query insert(db, R"(
    INSERT INTO steady_gpu
      (world, process, device, duration_ns, compute_ns, comm_ns, wait_ns, copy_ns, exposed_comm_ns, exposed_wait_ns, exposed_copy_ns, active_ns,
       active_xfer_ns, idle_ns, idle_input_ns, idle_host_ns, idle_launch_ns, idle_kernel_ns, idle_dep_comm_ns, idle_dep_copy_ns, idle_other_ns, why,
       windows, sigma_ns)
    SELECT p.world, g.process, g.device, sum(g.duration_ns), sum(g.compute_ns), sum(g.comm_ns),
           iif(count(g.wait_ns) = count(*), sum(g.wait_ns), NULL),
           sum(g.copy_ns), sum(g.exposed_comm_ns),
           iif(count(g.exposed_wait_ns) = count(*), sum(g.exposed_wait_ns), NULL),
           sum(g.exposed_copy_ns), sum(g.active_ns),
           iif(count(g.active_xfer_ns) = count(*), sum(g.active_xfer_ns), NULL),
           sum(g.idle_ns), iif(?, sum(g.idle_input_ns), NULL), sum(g.idle_host_ns), sum(g.idle_launch_ns), sum(g.idle_kernel_ns),
           sum(g.idle_dep_comm_ns), sum(g.idle_dep_copy_ns), sum(g.idle_other_ns), max(g.why), count(*),
           iif(count(g.sigma_ns) = count(*), sum(g.sigma_ns), NULL)
    FROM gpu_part g
    JOIN process p ON p.id = g.process
    WHERE iif(p.world IN (SELECT world FROM steady_number),
              EXISTS (SELECT 1 FROM steady_number n WHERE n.world = p.world AND n.step = g.step),
              g.step IS NULL)
      AND (p.rank IS NULL OR (p.world, p.rank) NOT IN (SELECT world, rank FROM torn_rank))
    GROUP BY p.world, g.process, g.device)");
  insert.run(InputRanges(db).any());
}

void select_resources(SQLite::Database& db) {
  db.exec(R"(
    INSERT INTO rank_resource (world, rank, resource)
    SELECT p.world, p.rank,
           CASE WHEN total(g.active_ns) > 0 THEN 'device'
                WHEN max(p.id IN (SELECT f.process FROM profile f JOIN op o ON o.id = f.op
                                  WHERE o.name LIKE 'nccl%' AND o.class NOT IN ('lifecycle', 'communicator', 'other') AND f.calls > 0)
                         -- all ranges are looked at only where some are NCCL's
                         OR iif(EXISTS (SELECT 1 FROM region WHERE name LIKE 'nccl:%'),
                                p.id IN (SELECT process FROM range_event
                                         WHERE region IN (SELECT id FROM region WHERE name LIKE 'nccl:%')),
                                0))
                THEN 'unseen'
                ELSE 'thread' END
    FROM process p
    LEFT JOIN steady_gpu g ON g.process = p.id
    WHERE p.rank IS NOT NULL
    GROUP BY p.world, p.rank)");
  db.exec(R"(
    UPDATE steady_world
    SET ranks = (SELECT count(*) FROM (SELECT r.rank FROM steady_rank r WHERE r.world = steady_world.world
                                       UNION
                                       SELECT p.rank FROM steady_gpu g JOIN process p ON p.id = g.process
                                       WHERE p.world = steady_world.world AND p.rank IS NOT NULL)))");
  db.exec(R"(
    UPDATE steady_world
    SET waits_by = 'device'
    WHERE EXISTS (SELECT 1 FROM steady_gpu g WHERE g.world = steady_world.world AND g.comm_ns > 0)
      AND ((SELECT total(s.exposed_ns) FROM steady_part s WHERE s.world = steady_world.world) = 0
           OR (SELECT total(g.exposed_wait_ns) FROM steady_gpu g WHERE g.world = steady_world.world)
              > (SELECT total(s.wait_ns) FROM steady_part s WHERE s.world = steady_world.world)))");
}

void sum_host_calls(SQLite::Database& db) {
  // That a stream waits for another holds up no host.
  const std::string calls_of_process = R"(gpu_event g
    WHERE g.process = ? AND g.step IS NOT NULL AND iif(g.kind = 4, g.duration_ns, g.launch_duration_ns) IS NOT NULL
      AND (g.kind IN (1, 2, 3, 6) OR (g.kind = 4 AND g.name NOT IN (SELECT id FROM gpu_name WHERE name LIKE '%stream wait%'))))";
  EachRow numbers(db, "g.correlation", calls_of_process + " AND g.kind <> 4 AND g.correlation <> 0");
  Query calls(db,
              "SELECT g.step, iif(g.kind = 4, g.duration_ns, g.launch_duration_ns), iif(g.kind = 4, 0, g.correlation),"
              " coalesce(g.launch_ns, 0) FROM " +
                  calls_of_process + " ORDER BY g.start_ns");
  Query processes(
      db,
      "SELECT p.id, p.world, count(g.process) FROM process p LEFT JOIN gpu_event g ON g.process = p.id WHERE p.rank IS NOT NULL"
      " GROUP BY p.id ORDER BY p.id");
  std::map<std::pair<int64_t, int64_t>, int64_t> sums;  // by world and step
  while (processes.next()) {
    if (processes.integer(2) == 0) continue;
    // What one call launched shares its correlation: the nodes of a CUDA graph, of which traces need not tell the node,
    // nor the launch as an event of its own. Numbers of calls may begin again, so that the moment counts as well. Few
    // calls launch more than one thing, and only those are remembered.
    RepeatedNumbers repeated(static_cast<size_t>(processes.integer(2)));
    numbers.run([&](const RowValues& row) { repeated.add(row.integer(0)); }, processes.integer(0));
    std::unordered_set<LaunchKey, LaunchHash> launches;
    calls.bind(processes.integer(0));
    while (calls.next()) {
      if (repeated.contains(calls.integer(2)) && !launches.insert({calls.integer(2), calls.integer(3)}).second)
        continue;
      sums[{processes.integer(1), calls.integer(0)}] += calls.integer(1);
    }
  }
  Query insert(db, "INSERT INTO host_gpu (world, step, ns) VALUES (?, ?, ?)");
  for (const auto& [key, ns] : sums) insert.run(key.first, key.second, ns);
}

void sum_kernel_classes(SQLite::Database& db) {
  struct Sum {
    int64_t kernels = 0, ns = 0;
    std::set<int64_t> names;
  };
  std::unordered_map<int64_t, std::string> classes;  // by name
  Query names(db, "SELECT id, class FROM gpu_name");
  while (names.next()) classes[names.integer(0)] = names.text(1);
  std::map<std::pair<int64_t, std::string>, Sum> sums;  // by world and class
  std::unordered_map<int64_t, int64_t> worlds;          // by process
  Query processes(db, "SELECT id, world FROM process");
  while (processes.next()) worlds[processes.integer(0)] = processes.integer(1);
  using ByName = std::array<std::unordered_map<int64_t, Sum>, 2>;  // told by the name, launched by NCCL
  std::map<int64_t, ByName> by_world;
  int64_t process = 0;
  ByName* own = nullptr;
  EachRow(db, "process, name, comm IS NOT NULL, duration_ns", "gpu_event NOT INDEXED WHERE kind = 1")
      .run([&](const RowValues& kernel) {
        if (own == nullptr || kernel.integer(0) != process) {
          process = kernel.integer(0);
          own = &by_world[worlds.at(process)];
        }
        Sum& sum = (*own)[static_cast<size_t>(kernel.integer(2))][kernel.integer(1)];
        ++sum.kernels;
        sum.ns += kernel.integer(3);
      });
  for (const auto& [world, by_name] : by_world) {
    for (const bool nccl : {false, true}) {
      for (const auto& [name, of_this] : by_name[nccl ? 1 : 0]) {
        Sum& sum = sums[{world, nccl ? "communication" : classes[name]}];
        sum.kernels += of_this.kernels;
        sum.ns += of_this.ns;
        sum.names.insert(name);
      }
    }
  }
  Query insert(db, "INSERT INTO kernel_time (world, class, names, kernels, ns) VALUES (?, ?, ?, ?, ?)");
  for (const auto& [key, sum] : sums)
    insert.run(key.first, key.second, static_cast<int64_t>(sum.names.size()), sum.kernels, sum.ns);
}

void select_steady_waits(SQLite::Database& db) {
  // max() takes the other columns from its row: the GPU that waited most stands for all GPUs of a rank. Without a type
  // of its own, step would not be part of the index that SQLite makes for the join.
  db.exec(R"(
    WITH device AS MATERIALIZED (
      SELECT p.world, CAST(coalesce(g.step, 0) AS INTEGER) AS step, p.rank, max(g.exposed_wait_ns) AS wait_ns, g.compute_ns, g.exposed_comm_ns
      FROM gpu_part g
      JOIN process p ON p.id = g.process
      WHERE g.exposed_wait_ns IS NOT NULL AND p.rank IS NOT NULL
        AND (g.step IS NULL) = (p.world NOT IN (SELECT world FROM steady_number))
        AND p.world IN (SELECT world FROM steady_world WHERE waits_by = 'device')
      GROUP BY p.world, coalesce(g.step, 0), p.rank
    )
    INSERT INTO steady_wait (world, step, rank, duration_ns, compute_ns, wait_ns, exposed_ns)
    SELECT s.world, s.step, s.rank, s.duration_ns,
           coalesce(g.compute_ns, s.compute_ns),
           coalesce(g.wait_ns, s.wait_ns),
           coalesce(g.exposed_comm_ns, s.exposed_ns)
    FROM steady_part s
    LEFT JOIN device g ON g.world = s.world AND g.step = s.step AND g.rank = s.rank)");
}

}  // namespace ddl
