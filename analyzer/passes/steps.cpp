// Pass 3: where the time of every step, and of every process's whole run, went (partition.h).
//
// Events are streamed process by process in the order of their start and handed to the steps they overlap; a step is
// closed as soon as an event starts behind it. The whole run is cut in slices of bounded size for the same purpose, so
// that memory does not grow with the run.
#include "analyzer/passes/passes.h"

#include <SQLiteCpp/Savepoint.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <set>
#include <utility>

#include "analyzer/each_row.h"
#include "analyzer/parallel_reads.h"
#include "analyzer/passes/input_ranges.h"
#include "analyzer/passes/late_completion.h"
#include "analyzer/passes/message_operation.h"
#include "analyzer/passes/partition.h"
#include "analyzer/passes/pipelines.h"
#include "analyzer/passes/process_steps.h"
#include "analyzer/passes/training_thread.h"
#include "analyzer/query.h"
#include "store/made_rows.h"

namespace ddl {
namespace {

constexpr size_t kSliceEvents = 100'000;
constexpr size_t kHeldRows = 4096;

Why why_from(const std::string& name) {
  return name == "PARTIAL_RANKS"     ? Why::kPartialRanks
         : name == "CLOCK_UNTRUSTED" ? Why::kClockUntrusted
                                     : Why::kNotApplicable;
}

struct Step {
  int64_t number = 0;
  int64_t thread = 0;
  Interval window;
  int64_t mpi_ns = 0;
  WindowEvents events;
};

/// The whole run of a process, in slices.
class RunWindow {
 public:
  RunWindow(const Interval& window, int64_t owner) : window_(window), owner_(owner), slice_begin_ns_(window.begin_ns) {}

  void add(const Activity& a) {
    if (a.interval.end_ns <= window_.begin_ns || a.interval.begin_ns >= window_.end_ns) return;
    if (++in_slice_ > kSliceEvents && a.interval.begin_ns > slice_begin_ns_) close_slice(a.interval.begin_ns);
    add_to(slice_, a, owner_);
  }

  /// `mpi_ns`: by the profile.
  Partition finish(int64_t mpi_ns) {
    close_slice(window_.end_ns);
    sum_.exposed_ns = std::clamp(mpi_ns, sum_.exposed_ns, sum_.duration_ns);
    sum_.compute_ns = sum_.duration_ns - sum_.exposed_ns;
    sum_.comm_ns = std::max(sum_.comm_ns, sum_.exposed_ns);
    return sum_;
  }
  double sigma_ns() const { return sigma_ns_; }
  bool bounded() const { return bounded_; }
  Why why() const { return why_ == Why::kNone && !sum_.is_split() ? sum_.why_not_split(unsplit_why_) : why_; }

 private:
  void close_slice(int64_t end_ns) {
    const Partition part = partition({slice_begin_ns_, end_ns}, slice_, 0);
    sum_.duration_ns += part.duration_ns;
    sum_.exposed_ns += part.exposed_ns;
    sum_.comm_ns += part.comm_ns;
    sum_.wait_ns += part.wait_ns;
    sum_.unsplit_ns += part.unsplit_ns;
    sum_.undefined_ns += part.undefined_ns;
    sigma_ns_ += std::exchange(slice_.sigma_ns, 0);
    bounded_ |= slice_.bounded;
    if (slice_.why != Why::kNone) why_ = slice_.why;
    if (slice_.unsplit_why != Why::kNone) unsplit_why_ = slice_.unsplit_why;
    const auto over = [end_ns](const Interval& i) { return i.end_ns <= end_ns; };
    for (auto* intervals : {&slice_.calls, &slice_.completions, &slice_.background, &slice_.waiting, &slice_.bubble,
                            &slice_.unsplit, &slice_.undefined, &slice_.undefined_flights})
      std::erase_if(*intervals, over);
    slice_.flights.clear();
    slice_.why = Why::kNone;
    slice_begin_ns_ = end_ns;
    in_slice_ = 0;
  }

  Interval window_;
  int64_t owner_;
  int64_t slice_begin_ns_;
  size_t in_slice_ = 0;
  WindowEvents slice_;
  Partition sum_;
  double sigma_ns_ = 0;
  bool bounded_ = false;
  Why why_ = Why::kNone;
  Why unsplit_why_ = Why::kNone;
};

/// What several passes read of the run as a whole.
struct StepSources {
  StepSources(SQLite::Database& db, const Catalog& run,
              const std::map<int64_t, BackgroundProcess>& background_processes, const InstanceEvents& instance_events,
              InputRanges& input_ranges)
      : catalog(run),
        background(background_processes),
        events(instance_events),
        pipelines(db, run),
        late_completions(read_late_completions(db)),
        inputs(input_ranges) {
    // In one pass over all, if there are such processes: range_event has no index.
    Query layer(db, R"(
      SELECT e.process, e.start_ns, e.start_ns + e.duration_ns
      FROM process_fact f
      CROSS JOIN range_event e ON e.process = f.process
      JOIN region r ON r.id = e.region AND r.kind = 'layer'
      WHERE f.key = 'computes' AND f.value = 'layers'
      ORDER BY e.process, e.start_ns)");
    while (layer.next()) computing[layer.integer(0)].push_back({layer.integer(1), layer.integer(2)});
    inputs.of(0);  // reads those of all
    Query any_message(db, "SELECT 1 FROM call_wait LIMIT 1");
    messages = any_message.next();
    // Ids follow (process, thread, start); with one thread each, that is the order of start already and nothing
    // has to be sorted.
    sorted = std::any_of(catalog.processes.begin(), catalog.processes.end(),
                         [](const auto& p) { return p.second.threads > 1; });
  }

  const Catalog& catalog;
  const std::map<int64_t, BackgroundProcess>& background;
  const InstanceEvents& events;
  const Pipelines pipelines;
  const std::map<int64_t, std::vector<Interval>> late_completions;
  InputRanges& inputs;
  /// of processes that compute in layers, and at no other time; used up by their pass
  std::map<int64_t, std::deque<Interval>> computing;
  bool messages = false;  ///< somebody waited for messages, or it is not known
  bool sorted = false;    ///< events are read in the order of process and start
};

/// Neighbouring processes, and the ids of their events.
struct ProcessRange {
  int64_t first_process = INT64_MIN, last_process = INT64_MAX;
  int64_t first_event = INT64_MIN, end_event = INT64_MAX;
};

/// Its run_begin_ns is known.
Interval whole_run(const ProcessInfo& process) {
  const int64_t begin_ns = *process.run_begin_ns;
  return {begin_ns, std::max(begin_ns, process.finalize_ns.value_or(process.end_ns))};
}

/// Rows for the tables step_part, rank_part and tail.
struct StepRows {
  struct Part {
    int64_t process, second;  ///< the step's number, or the run's duration
    Partition part;
    bool kept, split;
    const char* why;
    double sigma_ns;
    std::optional<int64_t> input_ns, bubble_ns;
  };
  struct OfTail {
    int64_t process, step;
    Tail tail;
  };
  std::vector<Part> steps, ranks;
  std::vector<OfTail> tails;
};

class StepRowsWriter {
 public:
  explicit StepRowsWriter(SQLite::Database& db) : rows_(db) {}

  void write(StepRows& rows) {
    insert(
        "INSERT INTO step_part (process, step, compute_ns, comm_ns, exposed_ns, wait_ns, xfer_ns, idle_ns, why, sigma_ns, input_ns, bubble_ns)"
        " SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 FROM made_rows",
        rows.steps, [](const StepRows::Part& one, MadeRow& row) { set(one, row, one.input_ns, one.bubble_ns); });
    insert(
        "INSERT INTO rank_part (process, duration_ns, compute_ns, comm_ns, exposed_ns, wait_ns, xfer_ns, idle_ns, why, sigma_ns)"
        " SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 FROM made_rows",
        rows.ranks, [](const StepRows::Part& one, MadeRow& row) { set(one, row); });
    insert(
        "INSERT INTO tail (process, step, xfer_ns, buckets, bytes, all_buckets, all_bytes, last_bytes, split)"
        " SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8 FROM made_rows",
        rows.tails, [](const StepRows::OfTail& one, MadeRow& row) {
          const Tail& tail = one.tail;
          row.set(one.process, one.step, tail.xfer_ns, tail.buckets, tail.bytes, tail.all_buckets, tail.all_bytes,
                  tail.last_bytes, tail.split);
        });
    rows = {};
  }

 private:
  template <typename Row, typename Set>
  void insert(const char* sql, const std::vector<Row>& rows, const Set& set_row) {
    if (rows.empty()) return;
    auto next = rows.begin();
    rows_.insert(sql, [&](MadeRow& row) {
      if (next == rows.end()) return false;
      set_row(*next++, row);
      return true;
    });
  }

  template <typename... More>
  static void set(const StepRows::Part& one, MadeRow& row, const More&... more) {
    const Partition& part = one.part;
    row.set(one.process, one.second, part.compute_ns, one.kept ? std::optional(part.comm_ns) : std::nullopt,
            part.exposed_ns, one.split ? std::optional(part.wait_ns) : std::nullopt,
            one.split ? std::optional(part.exposed_ns - part.wait_ns) : std::nullopt, part.idle_ns, Lasting{one.why},
            one.split ? std::optional(one.sigma_ns) : std::nullopt, more...);
  }

  MadeRows rows_;
};

class StepPass {
 public:
  StepPass(SQLite::Database& db, StepSources& sources)
      : db_(db),
        sources_(sources),
        catalog_(sources.catalog),
        background_(sources.background),
        pipelines_(sources.pipelines),
        inputs_(sources.inputs),
        messages_(sources.messages),
        steps_(db),
        open_(db, "SELECT thread, seq, start_ns, op FROM open_call WHERE process = ?"),
        profile_(db, "SELECT f.op, f.time_ns FROM profile f WHERE f.process = ?") {}

  /// `use` gets the rows of one or several processes at a time, and empties them.
  StepResults run(const ProcessRange& range, const PassProgress& progress, const std::function<void(StepRows&)>& use) {
    for (auto process = catalog_.processes.lower_bound(range.first_process);
         process != catalog_.processes.end() && process->first <= range.last_process; ++process)
      pending_.insert(process->first);
    // Where rows of `collective` are held they need not be looked for.
    const bool held = !sources_.sorted && sources_.events.has_all_rows();
    InstanceEvents::Rows next_split(sources_.events, held ? range.first_event : INT64_MAX);
    const SplitEvent* split = held ? next_split() : nullptr;
    EachRow events(
        db_,
        std::string("e.process, e.thread, e.kind, e.op, e.start_ns, e.duration_ns, e.seq IS NOT NULL, ") +
            (held ? "e.id, NULL, NULL, e.comm, NULL, NULL"
                  : "k.wait_ns, k.why, k.bytes, e.comm, k.sigma_ns, k.wait_method IS 'lower-bound'") +
            ", e.region" + (messages_ ? ", w.wait_ns, w.why, w.late, w.sigma_ns" : ""),
        std::string(sources_.sorted
                        ? "(SELECT id FROM event WHERE process BETWEEN ?1 AND ?2 ORDER BY process, start_ns) o"
                          " CROSS JOIN event e ON e.id = o.id"
                        : "event e NOT INDEXED") +
            (held ? "" : " LEFT JOIN collective k ON k.event = e.id") +
            (messages_ ? " LEFT JOIN call_wait w ON w.event = e.id" : "") + " WHERE e.kind < 3" +
            (sources_.sorted ? "" : " AND e.id >= ?1 AND e.id < ?2"));
    Query last(db_, "SELECT max(id) FROM event");
    Ticker ticker(progress, last.next() ? last.integer(0) : 0);
    const auto add_event = [&](const RowValues& event) {
      ticker.add(1);
      const int64_t process = event.integer(0);
      if (process != current_) {
        end_process();
        if (rows_.steps.size() >= kHeldRows) use(rows_);
        begin_process(process);
      }
      OfCollective of_collective;
      if (held) {
        const int64_t id = event.integer(7);
        while (split != nullptr && split->event < id) split = next_split();
        if (split != nullptr && split->event == id) of_collective = OfCollective(*split);
      } else {
        of_collective = OfCollective(event);
      }
      if (of_collective.wait_ns) results_.waits.add(process, event.integer(13), *of_collective.wait_ns);
      add(read(event, of_collective));
    };
    if (sources_.sorted)
      events.run(add_event, range.first_process, range.last_process);
    else
      events.run(add_event, range.first_event, range.end_event);
    end_process();
    for (const std::set<int64_t> quiet = pending_; int64_t process : quiet) {  // left no events
      begin_process(process);
      end_process();
    }
    use(rows_);
    return std::move(results_);
  }

 private:
  /// What table `collective` says of an event.
  struct OfCollective {
    std::optional<int64_t> wait_ns;
    Why why = Why::kNotApplicable;  ///< why there is none
    double sigma_ns = 0;
    bool bounded = false;
    int64_t bytes = 0;

    OfCollective() = default;
    explicit OfCollective(const RowValues& row)
        : wait_ns(row.maybe_integer(7)), sigma_ns(row.real(11)), bounded(row.integer(12) != 0), bytes(row.integer(9)) {
      if (!wait_ns) why = why_from(row.text(8));
    }
    explicit OfCollective(const SplitEvent& row)
        : sigma_ns(std::isnan(row.sigma_ns) ? 0 : row.sigma_ns), bounded(row.method == WaitMethod::kLowerBound) {
      if (row.wait_ns != SplitEvent::kNone) wait_ns = row.wait_ns;
      if (row.bytes != SplitEvent::kNone) bytes = row.bytes;
      if (row.why == Why::kPartialRanks || row.why == Why::kClockUntrusted) why = row.why;
    }
  };

  Activity read(const RowValues& row, const OfCollective& of_collective) const {
    Activity a;
    a.thread = row.integer(1);
    a.request = row.integer(2) == 2;
    a.completion = catalog_.operation(row.integer(3)).op_class == OpClass::kCompletion;
    a.interval = {row.integer(4), row.integer(4) + row.integer(5)};
    a.collective = row.integer(6) != 0;
    a.wait_ns = of_collective.wait_ns;
    if (a.collective && !a.wait_ns) a.why = of_collective.why;
    a.undefined = waits_undefined(row, a);
    a.sigma_ns = of_collective.sigma_ns;
    a.bounded = of_collective.bounded;
    if (messages_ && !a.collective && !a.request) {
      a.wait_ns = row.maybe_integer(14);
      a.unsplit = !row.is_null(15);
      if (a.unsplit) a.why = why_from(row.text(15));
      a.sigma_ns = row.real(17);
      if (a.why == Why::kPartialRanks && !unrecorded_->empty()) {  // it waited for 0 ns at least
        a.unsplit = false;
        a.bounded = true;
        a.why = Why::kNone;
      }
    }
    if (!a.request && !a.collective && may_have_waited(row)) {
      a.unsplit = true;
      a.why = Why::kPartialRanks;
    }
    a.bytes = of_collective.bytes;
    if (staged_ && a.wait_ns)
      a.bubble = a.collective ? pipelines_.spans(row.integer(10))
                              : messages_ && pipelines_.same(row.integer(0), row.integer(16));
    return a;
  }

  /// A call of which is not known what it was, or, of a collective, with which calls of other ranks it
  /// belongs together.
  bool may_have_waited(const RowValues& row) const {
    const Operation& operation = catalog_.operation(row.integer(3));
    if (operation.op_class == OpClass::kUnknown) return true;
    if (!operation.numbered || operation.nonblocking) return false;
    const auto communicator = catalog_.communicators.find(row.integer(10));
    return communicator == catalog_.communicators.end() || communicator->second.size != 1;
  }

  /// A call or request that may wait for other ranks of a group, with no rule for how long.
  bool waits_undefined(const RowValues& row, const Activity& a) const {
    const Operation& operation = catalog_.operation(row.integer(3));
    if (operation.nonblocking && !a.request) return false;
    if (a.collective ? a.wait_ns || a.why != Why::kNotApplicable : !operation.waits_unnumbered) return false;
    const auto communicator = catalog_.communicators.find(row.integer(10));
    return communicator == catalog_.communicators.end() || communicator->second.size != 1 ||
           communicator->second.kind == "inter";
  }

  void begin_process(int64_t id) {
    current_ = id;
    pending_.erase(id);
    unrecorded_ = &catalog_.unrecorded_ranks(catalog_.process(id).world);
    staged_ = pipelines_.contains(id);
    const std::vector<InputRange>& loading = inputs_.of(id);
    loading_.assign(loading.begin(), loading.end());
    std::set<int64_t> numbers;
    for (const ProcessStep& one : steps_.of(id)) {
      Step step;
      step.thread = one.thread;
      step.number = one.step;
      step.window = {one.begin_ns, one.end_ns};
      step.mpi_ns = one.mpi_ns;
      if (numbers.insert(step.number).second) {
        waiting_steps_.push_back(std::move(step));
      } else {
        ++results_.repeated_steps;
      }
    }
    const auto told = sources_.computing.find(id);
    told_computing_ = told == sources_.computing.end() ? nullptr : &told->second;
    const ProcessInfo& process = catalog_.process(id);
    if (const auto how = background_.find(id); how != background_.end()) training_.emplace(db_, id, how->second);
    if (process.run_begin_ns && !process.blind) run_.emplace(whole_run(process), 0);
  }

  void add(const Activity& a) {
    while (!waiting_steps_.empty() && waiting_steps_.front().window.end_ns <= a.interval.begin_ns) {
      close(waiting_steps_.front());
      waiting_steps_.pop_front();
    }
    for (Step& step : waiting_steps_) {
      if (step.window.begin_ns >= a.interval.end_ns) break;
      if (step.window.end_ns > a.interval.begin_ns) add_to(step.events, a, owner_of(a, step));
    }
    if (run_) run_->add(a);
  }

  /// Where it is told what computes, messages lie on threads of their own, and block the step as its own
  /// thread's calls do.
  int64_t owner_of(const Activity& a, const Step& step) const {
    return told_computing_ != nullptr ? a.thread : step.thread;
  }

  void close(Step& step) {
    while (!loading_.empty() && loading_.front().interval.end_ns <= step.window.begin_ns) loading_.pop_front();
    const int64_t loads = training_ ? background_.at(current_).thread.value_or(step.thread) : step.thread;
    for (const InputRange& range : loading_) {
      if (range.interval.begin_ns >= step.window.end_ns) break;
      if (range.thread == loads && range.interval.end_ns > step.window.begin_ns)
        step.events.inputs.push_back(range.interval);
    }
    if (training_) return close_in_background(step);
    if (told_computing_ != nullptr) {
      step.events.computing.emplace();
      while (!told_computing_->empty() && told_computing_->front().end_ns <= step.window.begin_ns)
        told_computing_->pop_front();
      for (const Interval& range : *told_computing_) {
        if (range.begin_ns >= step.window.end_ns) break;
        step.events.computing->push_back(range);
      }
    }
    const Partition part = partition(step.window, step.events, told_computing_ != nullptr ? 0 : step.mpi_ns);
    Why why = step.events.why;
    const bool kept = !step.events.calls.empty() || step.mpi_ns == 0;
    if (why == Why::kNone && !part.is_split()) why = part.why_not_split(step.events.unsplit_why);
    if (!kept || catalog_.process(current_).damaged) why = Why::kNoData;
    write(rows_.steps, step.number, part, kept, why, step.events.bounded, step.events.sigma_ns, told_input(step, part),
          staged_ && why == Why::kNone ? std::optional(part.bubble_ns) : std::nullopt);
    add_late_completions(step);
    if (const std::optional<Tail> tail = tail_of(step.window, step.events))
      rows_.tails.push_back({current_, step.number, *tail});
  }

  void add_late_completions(Step& step) const {
    const auto own = sources_.late_completions.find(current_);
    if (own == sources_.late_completions.end() || step.events.flights.empty()) return;
    const auto behind = [](int64_t begin_ns, const Interval& one) { return begin_ns < one.end_ns; };
    for (auto one = std::upper_bound(own->second.begin(), own->second.end(), step.window.begin_ns, behind);
         one != own->second.end() && one->begin_ns < step.window.end_ns; ++one)
      step.events.late_completions.push_back(*one);
  }

  void close_in_background(const Step& step) {
    const std::optional<Partition> part = training_->partition(step.window, step.events.inputs);
    if (!part) return;
    const bool known = !catalog_.process(current_).damaged && training_->tells_waiting();
    const Why why = why_in_background(step.window, known);
    std::optional<int64_t> bubble_ns;
    if (staged_ && why == Why::kNone)
      bubble_ns =
          std::min(part->wait_ns, intersect(IntervalSet(step.events.bubble), IntervalSet({step.window})).length_ns());
    write(rows_.steps, step.number, *part, true, why, training_->is_bounded(step.window), 0.0, told_input(step, *part),
          bubble_ns);
  }

  /// Nothing where ranges that load data were not kept, or the run names none.
  std::optional<int64_t> told_input(const Step& step, const Partition& part) const {
    const bool told = inputs_.any() && (!step.events.inputs.empty() || !catalog_.process(current_).thinned);
    return told ? std::optional(part.input_ns) : std::nullopt;
  }

  Why why_in_background(const Interval& window, bool known) const {
    return !known ? Why::kNoData : training_->is_unsplit(window) ? Why::kPartialRanks : Why::kNone;
  }

  /// `second` is the column after `process`: the step's number or the run's duration. `bounded`: the
  /// waiting is a lower bound.
  void write(std::vector<StepRows::Part>& rows, int64_t second, const Partition& part, bool kept, Why why, bool bounded,
             double sigma_ns, std::optional<int64_t> input_ns = {}, std::optional<int64_t> bubble_ns = {}) const {
    const bool split = why == Why::kNone;
    if (split && bounded) why = Why::kPartialRanks;
    rows.push_back({current_, second, part, kept, split, name_of(why), sigma_ns, input_ns, bubble_ns});
  }

  void end_process() {
    if (current_ == 0) return;
    for (Step& step : waiting_steps_) close(step);
    waiting_steps_.clear();
    if (run_ && training_) {
      const ProcessInfo& process = catalog_.process(current_);
      const Interval whole = whole_run(process);
      if (const std::optional<Partition> part = training_->partition(whole, {}))
        write(rows_.ranks, part->duration_ns, *part, !process.thinned,
              why_in_background(whole, !process.thinned && training_->tells_waiting()), training_->is_bounded(whole),
              0.0);
    } else if (run_) {
      close_run(catalog_.process(current_));
    }
    run_.reset();
    training_.reset();
    current_ = 0;
  }

  void close_run(const ProcessInfo& process) {
    Why open_why = Why::kNone;
    int64_t open_ns = 0;
    open_.bind(process.id);
    while (open_.next()) {  // a call that never returned is time inside MPI too
      if (catalog_.operation(open_.integer(3)).on_device) continue;
      Activity a;
      a.thread = open_.integer(0);
      a.interval = {open_.integer(2), process.end_ns};
      if (a.thread == 0 && a.interval.begin_ns >= process.run_begin_ns)
        open_ns += std::max<int64_t>(0, a.interval.length_ns());
      const Operation& operation = catalog_.operation(open_.integer(3));
      if (!open_.is_null(1)) {
        open_why = Why::kPartialRanks;
      } else if (operation.waits_unnumbered || message_operation(operation).role != MessageRole::kNone) {
        a.unsplit = true;
        a.why = Why::kPartialRanks;
      }
      run_->add(a);
    }
    // The profile knows calls that left no event, but not which thread made them: use it where there is one.
    int64_t mpi_ns = 0;
    profile_.bind(process.id);
    while (process.threads == 1 && profile_.next()) {
      const Operation& operation = catalog_.operation(profile_.integer(0));
      if (operation.op_class != OpClass::kLifecycle && !operation.on_device) mpi_ns += profile_.integer(1);
    }
    const Partition part = run_->finish(mpi_ns + open_ns);
    Why why = open_why == Why::kNone ? run_->why() : open_why;
    if (process.thinned) why = Why::kNoData;
    write(rows_.ranks, part.duration_ns, part, !process.thinned, why, run_->bounded(), run_->sigma_ns());
  }

  SQLite::Database& db_;
  StepSources& sources_;
  const Catalog& catalog_;
  const std::map<int64_t, BackgroundProcess>& background_;
  const Pipelines& pipelines_;
  InputRanges& inputs_;
  const bool messages_;
  ProcessSteps steps_;
  Query open_, profile_;
  StepRows rows_;
  std::set<int64_t> pending_;  ///< processes not seen yet
  /// of the current process, from the current step on; null: not told
  std::deque<Interval>* told_computing_ = nullptr;
  /// ranks of the current process's world (Catalog::unrecorded_ranks())
  const std::set<int64_t>* unrecorded_ = nullptr;
  bool staged_ = false;             ///< the current process is a stage of a pipeline
  std::deque<InputRange> loading_;  ///< of the current process, from the current step on
  int64_t current_ = 0;
  std::deque<Step> waiting_steps_;  ///< of the current process, by begin; the front ones are being filled
  std::optional<RunWindow> run_;
  std::optional<TrainingThread> training_;  ///< of the current process, if background threads communicate for it
  StepResults results_;
};

/// Where ranges of processes begin and end that several threads go through; one range of all where that cannot be told.
std::vector<ProcessRange> cut_processes(SQLite::Database& db, const StepSources& sources, size_t most) {
  const auto& processes = sources.catalog.processes;
  const size_t count = std::min(most, processes.size());
  // Imported runs have their events as the trace had them.
  const auto imported = [](const auto& process) { return process.second.ended == "imported"; };
  if (count < 2 || std::any_of(processes.begin(), processes.end(), imported)) return {ProcessRange()};
  Query first_event(db, "SELECT id FROM event WHERE process >= ? AND kind < 3 ORDER BY process, start_ns LIMIT 1");
  std::vector<ProcessRange> ranges(count);
  size_t place = 0, next = 0;
  for (const auto& [id, process] : processes) {
    if (place++ != next * processes.size() / count) continue;
    if (next > 0) {
      if (first_event.bind(id).next()) ranges[next].first_event = first_event.integer(0);
      ranges[next].first_process = id;
      ranges[next - 1].last_process = id - 1;
      ranges[next - 1].end_event =
          next > 0 && ranges[next].first_event == INT64_MIN ? INT64_MAX : ranges[next].first_event;
      // no process from here on left any
      if (ranges[next].first_event == INT64_MIN) ranges[next].first_event = INT64_MAX;
    }
    ++next;
  }
  const auto backwards = [](const ProcessRange& range) { return range.first_event > range.end_event; };
  if (std::any_of(ranges.begin(), ranges.end(), backwards)) return {ProcessRange()};
  return ranges;
}

}  // namespace

StepResults analyze_steps(SQLite::Database& db, const Catalog& catalog,
                          const std::map<int64_t, BackgroundProcess>& background, const InstanceEvents& events,
                          InputRanges& inputs, const PassProgress& progress, unsigned threads) {
  constexpr size_t kRangesPerThread = 8;
  StepSources sources(db, catalog, background, events, inputs);
  const std::vector<ProcessRange> ranges = cut_processes(db, sources, threads > 1 ? kRangesPerThread * threads : 1);
  StepResults results;
  if (ranges.size() == 1) {
    SQLite::Savepoint savepoint(db, "steps");
    StepRowsWriter writer(db);
    results = StepPass(db, sources).run(ranges[0], progress, [&](StepRows& rows) { writer.write(rows); });
    savepoint.release();
    return results;
  }
  std::vector<std::vector<StepRows>> rows(ranges.size());
  std::vector<StepResults> of_ranges(ranges.size());
  read_in_parallel(db, threads, ranges.size(), [&](size_t i, SQLite::Database& connection) {
    of_ranges[i] = StepPass(connection, sources).run(ranges[i], {}, [&](StepRows& some) {
      rows[i].push_back(std::exchange(some, {}));
    });
  });
  SQLite::Savepoint savepoint(db, "steps");
  StepRowsWriter writer(db);
  for (std::vector<StepRows>& of_range : rows)
    for (StepRows& some : of_range) writer.write(some);
  savepoint.release();
  for (const StepResults& of_range : of_ranges) {
    results.repeated_steps += of_range.repeated_steps;
    results.waits.add(of_range.waits);
  }
  return results;
}

}  // namespace ddl
