#include "reports/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "analyzer/query.h"
#include "core/error.h"
#include "reports/safe_text.h"

namespace ddl::reports {
namespace {

constexpr size_t kMostColumns = 160;  // of one name

constexpr int64_t kNoCall = -1;
constexpr int64_t kPolls = -2;  // inside MPI by the profile, in calls that left no event
// of a training thread for which background threads communicate
constexpr int64_t kExposedTransfer = -3, kExposedWaiting = -4, kExposed = -5, kBlocked = -6;
constexpr std::pair<int64_t, const char*> kWithoutCall[] = {{kPolls, "calls that found nothing"},
                                                            {kExposedTransfer, "exposed transfer"},
                                                            {kExposedWaiting, "waiting"},
                                                            {kExposed, "exposed communication"},
                                                            {kBlocked, "blocked"}};

/// A semicolon would be a frame of its own.
std::string frame(std::string_view name) {
  std::string text = shorten_middle(printable(name), kMostColumns);
  std::replace(text.begin(), text.end(), ';', ':');
  return text.empty() ? "?" : text;
}

struct Window {
  int64_t thread = 0, begin_ns = 0, end_ns = 0, exposed_ns = 0;
  bool split = false;  ///< its waiting is known
};

/// Where time goes: region, operation (kNoCall: computing), waiting in it.
using Place = std::tuple<int64_t, int64_t, bool>;
using Places = std::map<Place, int64_t>;

/// A range, a call, or waiting, as far as it lies in a window.
struct Span {
  enum Kind { kRange, kCall, kWait } kind;
  int64_t region = 0, op = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

/// The time of one window, each moment booked once: to the call that is open, else to the range that was opened last.
void sweep(const Window& window, const std::vector<Span>& spans, Places& places) {
  struct Edge {
    int64_t time_ns;
    bool begin;
    size_t span;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < spans.size(); ++i) {
    const int64_t begin_ns = std::max(spans[i].begin_ns, window.begin_ns),
                  end_ns = std::min(spans[i].end_ns, window.end_ns);
    if (begin_ns >= end_ns) continue;
    edges.push_back({begin_ns, true, i});
    edges.push_back({end_ns, false, i});
  }
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time_ns < b.time_ns; });
  // by kind; of ranges the one opened last is the largest, as spans are in the order of their begins
  std::set<size_t> open[3];
  const std::set<size_t>&ranges = open[Span::kRange], &calls = open[Span::kCall];
  Places here;
  int64_t in_calls_ns = 0, at_ns = window.begin_ns;
  const auto book = [&](int64_t until_ns) {
    if (until_ns <= at_ns) return;
    if (calls.empty()) {
      here[{ranges.empty() ? 0 : spans[*ranges.rbegin()].region, kNoCall, false}] += until_ns - at_ns;
    } else {
      const Span& call = spans[*calls.rbegin()];
      here[{call.region, call.op, window.split && !open[Span::kWait].empty()}] += until_ns - at_ns;
      in_calls_ns += until_ns - at_ns;
    }
    at_ns = until_ns;
  };
  for (const Edge& edge : edges) {
    book(edge.time_ns);
    std::set<size_t>& of_kind = open[spans[edge.span].kind];
    edge.begin ? (void)of_kind.insert(edge.span) : (void)of_kind.erase(edge.span);
  }
  book(window.end_ns);
  // Polls that found nothing leave no event. Where in the step they were nobody knows: outside its ranges first.
  int64_t polls_ns = window.exposed_ns - in_calls_ns;
  for (auto& [place, ns] : here) {
    if (polls_ns <= 0) break;
    if (std::get<1>(place) != kNoCall) continue;
    const int64_t taken_ns = std::min(ns, polls_ns);
    ns -= taken_ns;
    polls_ns -= taken_ns;
    places[{0, kPolls, false}] += taken_ns;
  }
  for (const auto& [place, ns] : here) places[place] += ns;
}

/// Rows of a query that go on with `process`, in their order.
class Cursor {
 public:
  Cursor(SQLite::Database& db, const std::string& sql) : rows_(db, sql) { has_ = rows_.next(); }
  Query* at(int64_t process) {
    while (has_ && rows_.integer(0) < process) has_ = rows_.next();
    return has_ && rows_.integer(0) == process ? &rows_ : nullptr;
  }
  void advance() { has_ = rows_.next(); }

 private:
  Query rows_;
  bool has_ = false;
};

/// What its training thread did in the steps, or the whole run, of a process for which background threads communicate:
/// its calls are not where it waits, so that only the parts are known, not where they lie.
void book_parts(const Query& row, int first, Places& places) {
  const int64_t compute_ns = row.integer(first), exposed_ns = row.integer(first + 1), idle_ns = row.integer(first + 3);
  const std::optional<int64_t> wait_ns = row.maybe_integer(first + 2);
  places[{0, kNoCall, false}] += compute_ns;
  places[{0, wait_ns ? kExposedTransfer : kExposed, false}] += exposed_ns - wait_ns.value_or(0);
  places[{0, kExposedWaiting, false}] += wait_ns.value_or(0);
  places[{0, kBlocked, false}] += idle_ns;
}

class Folder {
 public:
  explicit Folder(const RunView& run)
      : run_(run),
        calls_(
            (run.db.exec(
                 "DROP TABLE IF EXISTS temp.folded_wait;CREATE TEMP TABLE folded_wait AS SELECT event, sum(ns) AS ns FROM ("
                 " SELECT receive_call AS event, late_sender_wait_ns AS ns FROM message WHERE late_sender_wait_ns > 0"
                 " UNION ALL SELECT send_call, late_receiver_wait_ns FROM message WHERE late_receiver_wait_ns > 0) GROUP BY event;"
                 "CREATE UNIQUE INDEX temp.folded_wait_event ON folded_wait(event)"),
             run.db),
            "SELECT e.process, e.thread, e.kind = 2, e.region, e.op, e.start_ns, e.duration_ns, coalesce(k.wait_ns, w.ns, 0) FROM event e"
            " LEFT JOIN collective k ON k.event = e.id LEFT JOIN temp.folded_wait w ON w.event = e.id AND e.kind = 1 AND e.seq IS NULL"
            " WHERE e.kind < 3 ORDER BY e.process, e.start_ns"),
        // For ranges that begin and end together the inner one comes last: parents are numbered before their children.
        ranges_(
            run.db,
            "SELECT process, thread, region, start_ns, duration_ns FROM range_event ORDER BY process, start_ns, duration_ns DESC, region") {
    Query regions(run.db, "SELECT parent, kind, name FROM region ORDER BY id");
    while (regions.next()) regions_.push_back({regions.integer(0), regions.text(1), regions.text(2)});
    Query ops(run.db, "SELECT id, name FROM op");
    while (ops.next()) ops_.emplace(ops.integer(0), frame(ops.text(1)));
  }

  FoldedSummary write(const Sink& sink) {
    Query processes(
        run_.db,
        "SELECT p.id, p.rank, coalesce(p.init_ns, p.start_ns), max(coalesce(p.init_ns, p.start_ns), coalesce(p.finalize_ns, p.end_ns)), t.exposed_ns, t.comm_ns IS NOT NULL,"
        " t.wait_ns IS NOT NULL, p.end_ns, EXISTS (SELECT 1 FROM background_process b WHERE b.process = p.id), t.compute_ns,"
        " t.exposed_ns, t.wait_ns, t.idle_ns FROM process p LEFT JOIN rank_part t ON t.process = p.id"
        " WHERE p.world = ? AND p.rank IS NOT NULL ORDER BY p.id");
    for (processes.bind(run_.world); processes.next();) {
      const int64_t process = processes.integer(0);
      if (processes.integer(8) != 0) {
        Places places;
        bool any = book_background(process, places);
        if (!run_.has_steps && processes.integer(5) != 0) {
          book_parts(processes, 9, places);
          any = true;
        }
        if (any) print(processes.integer(1), places, sink);
        summary_.ranks += any ? 1 : 0;
        continue;
      }
      std::vector<Window> windows = steps_of(process);
      spans_.clear();
      if (!run_.has_steps && processes.integer(5) != 0) {
        windows.push_back(
            {0, processes.integer(2), processes.integer(3), processes.integer(4), processes.integer(6) != 0});
        add_open_calls(process, processes.integer(7));
      }
      if (windows.empty()) continue;
      ++summary_.ranks;
      Places places;
      for (size_t i = 0; i < windows.size(); ++i) {
        std::erase_if(spans_, [&](const Span& span) { return span.end_ns <= windows[i].begin_ns; });
        take_calls(process, windows[i]);
        take_ranges(process, windows[i]);
        sweep(windows[i], spans_, places);
      }
      print(processes.integer(1), places, sink);
    }
    return summary_;
  }

 private:
  struct Region {
    int64_t parent;
    std::string kind, name;
  };

  std::vector<Window> steps_of(int64_t process) {
    std::vector<Window> windows;
    if (!run_.has_steps) return windows;
    Query row(
        run_.db,
        "SELECT s.thread, min(s.start_ns), s.duration_ns, t.exposed_ns, t.comm_ns IS NOT NULL, t.wait_ns IS NOT NULL FROM step s"
        " JOIN step_part t ON t.process = s.process AND t.step = s.step WHERE s.process = ? AND s.duration_ns IS NOT NULL"
        " GROUP BY s.step ORDER BY s.start_ns");
    for (row.bind(process); row.next();) {
      if (row.integer(4) == 0) {
        ++summary_.left_out;
        continue;
      }
      ++summary_.steps;
      windows.push_back(
          {row.integer(0), row.integer(1), row.integer(1) + row.integer(2), row.integer(3), row.integer(5) != 0});
    }
    return windows;
  }

  /// False: none of its steps is known.
  bool book_background(int64_t process, Places& places) {
    if (!run_.has_steps) return false;
    Query row(run_.db,
              "SELECT t.compute_ns, t.exposed_ns, t.wait_ns, t.idle_ns FROM step_part t WHERE t.process = ?"
              " AND t.comm_ns IS NOT NULL");
    int64_t steps = 0;
    for (row.bind(process); row.next(); ++steps) book_parts(row, 0, places);
    Query all(run_.db, "SELECT count(DISTINCT step) FROM step WHERE process = ? AND duration_ns IS NOT NULL");
    if (all.bind(process).next()) summary_.left_out += all.integer(0) - steps;
    summary_.steps += steps;
    return steps > 0;
  }

  /// What never returned is time inside MPI, too.
  void add_open_calls(int64_t process, int64_t end_ns) {
    Query row(run_.db, "SELECT region, op, start_ns FROM open_call WHERE process = ? AND thread = 0 ORDER BY start_ns");
    for (row.bind(process); row.next();)
      spans_.push_back({Span::kCall, row.integer(0), row.integer(1), row.integer(2), end_ns});
  }

  void take_calls(int64_t process, const Window& window) {
    for (Query* row = nullptr; (row = calls_.at(process)) != nullptr && row->integer(5) < window.end_ns;
         calls_.advance()) {
      const bool request = row->integer(2) != 0;
      if (!request && row->integer(1) != window.thread) continue;
      const int64_t begin_ns = row->integer(5), end_ns = begin_ns + row->integer(6);
      if (!request) spans_.push_back({Span::kCall, row->integer(3), row->integer(4), begin_ns, end_ns});
      if (row->integer(7) > 0) spans_.push_back({Span::kWait, 0, 0, begin_ns, begin_ns + row->integer(7)});
    }
  }

  void take_ranges(int64_t process, const Window& window) {
    for (Query* row = nullptr; (row = ranges_.at(process)) != nullptr && row->integer(3) < window.end_ns;
         ranges_.advance()) {
      if (row->integer(1) == window.thread)
        spans_.push_back({Span::kRange, row->integer(2), 0, row->integer(3), row->integer(3) + row->integer(4)});
    }
  }

  std::string path_of(int64_t region) const {
    std::string path;
    for (; region != 0; region = regions_.at(static_cast<size_t>(region)).parent) {
      const Region& r = regions_.at(static_cast<size_t>(region));
      if (r.kind != "step") path = fmt::format(";{}{}", frame(r.name), path);
    }
    return (run_.has_steps ? "step" : "run") + path;
  }

  void print(int64_t rank, const Places& places, const Sink& sink) const {
    std::map<std::string, int64_t> lines;  // names may have become the same
    for (const auto& [place, ns] : places) {
      const auto& [region, op, waiting] = place;
      std::string line = fmt::format("rank {};{}", rank, path_of(region));
      for (const auto& [number, name] : kWithoutCall)
        if (op == number) line += fmt::format(";{}", name);
      if (op >= 0) line += ";" + ops_.at(op);
      if (waiting) line += ";waiting";
      lines[line] += ns;
    }
    std::string text;
    for (const auto& [line, ns] : lines)
      if (ns > 0) text += fmt::format("{} {}\n", line, ns);
    sink(text);
  }

  const RunView& run_;
  Cursor calls_, ranges_;
  std::vector<Region> regions_;
  std::map<int64_t, std::string> ops_;
  /// of the current process, from the current window on; each kind in the order of their begins
  std::vector<Span> spans_;
  FoldedSummary summary_;
};

}  // namespace

FoldedSummary write_folded(const RunView& run, const Sink& sink) {
  const FoldedSummary summary = Folder(run).write(sink);
  if (summary.ranks == 0) {
    Query background(run.db, "SELECT 1 FROM background_process b JOIN process p ON p.id = b.process WHERE p.world = ?");
    if (background.bind(run.world).next())
      throw Error(
          "background threads communicate, and no training thread was sampled: where its time went is not known",
          "see what it has: ddl report", ExitCode::kDataMissing);
    throw Error("no events were kept to make a flame graph of",
                "record again without --steps, --after and --cap, with --budget off", ExitCode::kDataMissing);
  }
  return summary;
}

}  // namespace ddl::reports
