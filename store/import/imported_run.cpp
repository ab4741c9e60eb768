#include "store/import/imported_run.h"

#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "store/database.h"
#include "store/import/columns.h"
#include "store/import/cpu_sweep.h"
#include "store/import/input_file.h"
#include "store/ingest/operations.h"
#include "store/ingest/run_facts.h"
#include "store/text.h"

namespace ddl::store {

namespace {

constexpr size_t kMaxNames = 1 << 20;    // of ranges and kernels
constexpr size_t kMaxTexts = 1 << 16;    // of other columns
constexpr size_t kMaxRegions = 1 << 16;  // as recorders
constexpr int64_t kMaxMembers = 1 << 20;
constexpr uint64_t kEventsBetweenReports = 1 << 14;
// about the year 2096; the difference of two is an int64_t
constexpr int64_t kLatestNs = 4'000'000'000'000'000'000;
constexpr int64_t kLongestNs = int64_t{12} * 86'400'000'000'000;  // of a trace

template <class T>
std::optional<T> unless_zero(T value) {
  return value != 0 ? std::optional<T>(value) : std::nullopt;
}
/// Sums over a run must stay what 64 bits hold.
void check_bytes(std::optional<int64_t> bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 50;
  if (bytes && (*bytes < 0 || *bytes > kMostBytes)) throw BadRecord{fmt::format("{} bytes are out of range", *bytes)};
}

void set(int64_t& value, bool& is_set, const std::optional<int64_t>& given) {
  value = given.value_or(0);
  is_set = given.has_value();
}

std::optional<std::string_view> unless_empty(std::string_view text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

}  // namespace

ImportedRun::ImportedRun(SQLite::Database& db, std::string format, std::string source)
    : db_(db), format_(std::move(format)), source_(std::move(source)) {
  db_.exec(
      "PRAGMA temp_store = FILE;"
      "CREATE TEMP TABLE stage_wait(process, context, stream, correlation, on_context, on_stream, on_correlation)");
  db_.exec("CREATE TEMP TABLE stage_value(process, time_ns, name, number)");
  db_.exec("CREATE TEMP TABLE stage_counter(process, name, start_ns, duration_ns, number)");
  insert_counter_.emplace(db_, "INSERT INTO temp.stage_counter VALUES (?, ?, ?, ?, ?)");
  db_.exec("CREATE TEMP TABLE stage_counted(process, thread, region, step, start_ns)");
  insert_counted_.emplace(db_, "INSERT INTO temp.stage_counted VALUES (?, ?, ?, ?, ?)");
  insert_value_.emplace(db_, "INSERT INTO temp.stage_value VALUES (?, ?, ?, ?)");
  insert_wait_.emplace(db_, "INSERT INTO temp.stage_wait VALUES (?, ?, ?, ?, ?, ?, ?)");
}

void ImportedRun::refuse_more_than(uint64_t most, const char* what) const {
  throw Error(fmt::format("{}: there are more than {} {}", source_, most, what), "take a part of the trace",
              ExitCode::kDataMissing);
}

// ------------------------------------------------------------------------------------------------ what the trace says

size_t ImportedRun::add_process(ImportedProcess process) {
  if (processes_.size() == kMostProcesses) refuse_more_than(kMostProcesses, "processes");
  processes_.push_back({});
  processes_.back().told = std::move(process);
  return processes_.size() - 1;
}

uint32_t ImportedRun::thread(size_t process, std::string_view key, int64_t tid) {
  Process& p = processes_[process];
  const auto known = p.threads.find(key);
  if (known != p.threads.end()) return known->second;
  if (threads_++ == kMostImportedThreads) refuse_more_than(kMostImportedThreads, "threads");
  const auto number = static_cast<uint32_t>(p.threads.size());
  p.threads.emplace(key, number);
  p.thread_rows.emplace_back(tid, "");
  return number;
}

void ImportedRun::name_thread(size_t process, uint32_t thread, std::string_view name) {
  processes_[process].thread_rows[thread].second = clean_name(name);
}

uint32_t ImportedRun::name_id(std::string_view name) {
  if (const auto known = name_ids_.find(name); known != name_ids_.end() && name.size() <= kMaxCleanNameBytes)
    return known->second;
  std::string text = clean_name(name);
  if (names_.size() >= kMaxNames && !name_ids_.contains(text)) {
    ++unnamed_;
    text = "(other names)";
  }
  const auto [entry, is_new] = name_ids_.try_emplace(std::move(text), static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(&entry->first);
  return entry->second;
}

uint32_t ImportedRun::text_id(std::string_view text) {
  if (text.empty()) return 0;
  auto known = text_ids_.find(text);
  if (known == text_ids_.end()) {
    if (texts_.size() >= kMaxTexts) {
      ++unnamed_;
      text = "(other names)";
    }
    bool is_new = false;
    std::tie(known, is_new) = text_ids_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size() + 1));
    if (is_new) texts_.push_back(&known->first);
  }
  return known->second;
}

int64_t ImportedRun::op_id(const ImportedOperation& o, ImportedTiming timing) {
  if (ops_.size() == kMostOperations && !ops_.contains(clean_name(o.op)))
    refuse_more_than(kMostOperations, "operations");
  const Op op{static_cast<int64_t>(ops_.size() + 1), o.op_class, o.nonblocking || timing != ImportedTiming::kCall};
  return ops_.try_emplace(clean_name(o.op), op).first->second.id;
}

bool ImportedRun::seen(size_t process, int64_t start_ns, int64_t duration_ns) {
  if (++told_events_ > most_events_) {
    throw Error(fmt::format("{}: there are more than {} events", source_, most_events_),
                "import a part of the trace, or raise the limit: --max-events N", ExitCode::kDataMissing);
  }
  if (told_ && told_events_ % kEventsBetweenReports == 0) told_();
  if (duration_ns < 0) {
    ++bad_intervals_;
    return false;
  }
  // Sums over events must stay what 64 bits hold.
  if (duration_ns > kLongestNs) throw BadRecord{"the event lasts longer than twelve days"};
  Process& p = processes_[process];
  if (std::abs(start_ns - p.begin_ns.value_or(start_ns)) > kLongestNs)
    throw BadRecord{"the event begins more than twelve days from the file's other events"};
  const int64_t end_ns = start_ns + duration_ns;
  p.begin_ns = std::min(p.begin_ns.value_or(start_ns), start_ns);
  p.end_ns = std::max(p.end_ns.value_or(end_ns), end_ns);
  return true;
}

void ImportedRun::step(size_t process, uint32_t thread, int64_t number, int64_t start_ns, int64_t duration_ns) {
  if (!seen(process, start_ns, duration_ns)) return;
  if (steps_++ == kMostSteps) refuse_more_than(kMostSteps, "steps of all ranks");
  processes_[process].steps.push_back({start_ns, duration_ns, number});
  ++cpu_rows_;
  cpu_->add({start_ns, duration_ns, static_cast<uint32_t>(process), thread, number, CpuKind::kStep});
}

void ImportedRun::range(size_t process, uint32_t thread, ContextKind kind, std::string_view name, int64_t start_ns,
                        int64_t duration_ns, std::optional<int64_t> seq, const ImportedOperation* launches) {
  if (!seen(process, start_ns, duration_ns)) return;
  ++cpu_rows_;
  CpuRecord r{start_ns,       duration_ns, static_cast<uint32_t>(process), thread, static_cast<int64_t>(kind),
              CpuKind::kRange};
  if (launches != nullptr) {
    check_bytes(launches->payload_bytes);
    r.op = static_cast<uint32_t>(op_id(*launches, ImportedTiming::kNcclProfiler));
    r.comm = launches->communicator;
    set(r.bytes, r.has_bytes, launches->payload_bytes);
    r.datatype = launches->datatype;
  }
  r.name = name_id(name);
  set(r.seq, r.has_seq, seq);
  cpu_->add(r);
}

void ImportedRun::launch(size_t process, uint32_t thread, int64_t correlation, int64_t start_ns, int64_t duration_ns,
                         bool is_kernel) {
  if (!seen(process, start_ns, duration_ns)) return;
  ++cpu_rows_;
  ++launches_;
  CpuRecord r{start_ns, duration_ns, static_cast<uint32_t>(process), thread, correlation, CpuKind::kLaunch};
  r.is_kernel = is_kernel;
  cpu_->add(r);
}

void ImportedRun::call(size_t process, uint32_t thread, const ImportedOperation& o, ImportedTiming timing,
                       int64_t start_ns, int64_t duration_ns) {
  if (!seen(process, start_ns, duration_ns)) return;
  check_bytes(o.payload_bytes);
  ++cpu_rows_;
  CpuRecord r{start_ns,      duration_ns, static_cast<uint32_t>(process), thread, static_cast<int64_t>(timing),
              CpuKind::kCall};
  if (!o.layer.empty()) r.name = name_id(o.layer);
  r.op = static_cast<uint32_t>(op_id(o, timing));
  r.comm = o.communicator;
  set(r.seq, r.has_seq, o.seq);
  set(r.bytes, r.has_bytes, o.payload_bytes);
  set(r.peer, r.has_peer, o.peer);
  set(r.tag, r.has_tag, o.tag);
  r.datatype = o.datatype;
  r.algorithm = text_id(o.algorithm);
  r.protocol = text_id(o.protocol);
  cpu_->add(r);
}

void ImportedRun::gpu(size_t process, const GpuActivity& a, const ImportedOperation* o) {
  if (!seen(process, a.start_ns, a.duration_ns)) return;
  check_bytes(a.bytes.value_or(0));
  GpuRecord r{};
  r.start_ns = a.start_ns;
  r.duration_ns = a.duration_ns;
  r.correlation = a.correlation;
  r.place = gpu_rows_++;
  r.process = static_cast<uint32_t>(process);
  r.kind = static_cast<uint8_t>(a.kind);
  r.is_nccl = o != nullptr;
  r.is_of_call = a.is_of_call;
  if (o != nullptr) {
    check_bytes(o->payload_bytes);
    if (!o->op.empty()) r.op = static_cast<uint32_t>(op_id(*o, ImportedTiming::kNcclProfiler));
    r.comm = o->communicator;
    set(r.payload, r.has_payload, o->payload_bytes);
    r.datatype = o->datatype;
    r.algorithm = text_id(o->algorithm);
    r.protocol = text_id(o->protocol);
  }
  r.name = name_id(a.name);
  set(r.device, r.has_device, a.device);
  set(r.context, r.has_context, a.context);
  set(r.stream, r.has_stream, a.stream);
  set(r.bytes, r.has_bytes, a.bytes);
  set(r.graph_node, r.has_graph_node, a.graph_node);
  r.copy = text_id(a.copy);
  r.source = text_id(a.source);
  r.destination = text_id(a.destination);
  gpu_->add(r);
}

void ImportedRun::stream_wait(size_t process, const ImportedWait& w) {
  insert_wait_->row(process, w.context, w.stream, w.correlation, w.on_context, w.on_stream, w.on_correlation);
}

void ImportedRun::value(size_t process, int64_t time_ns, std::string_view name, int64_t number) {
  if (!seen(process, time_ns, 0)) return;
  ++values_;
  insert_value_->row(static_cast<int64_t>(process), time_ns, text_id(name), number);
}

void ImportedRun::kernel_counter(size_t process, std::string_view counter, int64_t start_ns, int64_t duration_ns,
                                 int64_t value) {
  if (!seen(process, start_ns, duration_ns)) return;
  ++counters_;
  insert_counter_->row(static_cast<int64_t>(process), text_id(counter), start_ns, duration_ns, value);
}

/// The k-th kernel of a process was launched by its k-th call that launches one, if there are as many.
void ImportedRun::write_counters() {
  db_.exec(R"(
    CREATE TEMP TABLE stage_kernel AS
      SELECT process, start_ns, row_number() OVER (PARTITION BY process ORDER BY start_ns) AS place
      FROM (SELECT DISTINCT process, start_ns FROM temp.stage_counter);
    CREATE TEMP TABLE stage_launched AS
      SELECT *, row_number() OVER (PARTITION BY process ORDER BY start_ns, rowid) AS place FROM temp.stage_counted;
    CREATE INDEX temp.stage_launched_place ON stage_launched(process, place))");
  SQLite::Statement kernels(db_, "SELECT count(*) FROM temp.stage_kernel WHERE process = ?"),
      launches(db_, "SELECT count(*) FROM temp.stage_counted WHERE process = ?");
  SQLite::Statement rows(db_, R"(
    SELECT c.name, c.start_ns, c.duration_ns, c.number, l.thread, l.region, l.step
    FROM temp.stage_counter c
    JOIN temp.stage_kernel k ON k.process = c.process AND k.start_ns = c.start_ns
    LEFT JOIN temp.stage_launched l ON l.process = ?2 AND l.place = k.place AND ?3
    WHERE c.process = ?1
    ORDER BY c.start_ns, c.rowid)");
  struct Parent {
    int64_t region;
    bool is_counted;  ///< of operators inside each other the outermost is, as in column layer
  };
  std::map<int64_t, Parent> parents;
  SQLite::Statement regions(
      db_,
      "SELECT r.id, coalesce(r.parent, 0), r.kind = 'operator' AND p.kind = 'operator' FROM region r"
      " LEFT JOIN region p ON p.id = r.parent");
  while (regions.executeStep())
    parents[regions.getColumn(0).getInt64()] = {regions.getColumn(1).getInt64(), regions.getColumn(2).getInt() == 0};
  Insert insert_name(db_, "INSERT INTO counter VALUES (?, ?, ?, 'cupti', NULL)"),
      insert_event(db_, "INSERT INTO counter_event VALUES (?, ?, ?, ?, ?, ?, ?, ?)"),
      insert_sum(db_, "INSERT INTO counter_profile VALUES (?, ?, ?, ?, ?)");
  const auto count_of = [](SQLite::Statement& count, int64_t process) {
    count.reset();
    count.bind(1, process);
    return count.executeStep() ? count.getColumn(0).getInt64() : 0;
  };
  uint64_t unplaced = 0;
  for (size_t number = 0; counters_ > 0 && number < processes_.size(); ++number) {
    const Process& p = processes_[number];
    const int64_t counted = count_of(kernels, static_cast<int64_t>(number));
    const bool is_placed = counted == count_of(launches, p.id);
    if (!is_placed) unplaced += static_cast<uint64_t>(counted);
    std::map<int64_t, int64_t> numbers;                                       // by the text of the name
    std::map<std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>> sums;  // calls and value, by region and counter
    rows.reset();
    rows.bind(1, static_cast<int64_t>(number));
    rows.bind(2, p.id);
    rows.bind(3, is_placed ? 1 : 0);
    while (rows.executeStep()) {
      const auto [entry, is_new] =
          numbers.try_emplace(rows.getColumn(0).getInt64(), static_cast<int64_t>(numbers.size()));
      const int64_t counter = entry->second, start_ns = rows.getColumn(1).getInt64(),
                    value = rows.getColumn(3).getInt64();
      if (is_new) insert_name.row(p.id, counter, text_of(static_cast<uint32_t>(entry->first)).text);
      int64_t region = rows.getColumn(5).getInt64();
      insert_event.row(p.id, rows.getColumn(4).getInt64(), region,
                       is_placed ? maybe_integer(rows, 6) : step_at(number, start_ns), start_ns + p.shift_ns,
                       rows.getColumn(2).getInt64(), counter, value);
      do {
        const Parent& parent = parents.at(region);
        if (parent.is_counted) {
          auto& [calls, sum] = sums[{region, counter}];
          ++calls;
          sum += value;
        }
        region = parent.region;
      } while (region != 0);
    }
    for (const auto& [key, sum] : sums) insert_sum.row(p.id, key.first, key.second, sum.first, sum.second);
  }
  losses_.add(
      {}, "counters", unplaced,
      "kernels of which counters were read, in a process that launched more or fewer of them: which operator they belong to is not known");
  for (SQLite::Statement* statement : {&kernels, &launches, &rows, &regions}) statement->reset();
  db_.exec(
      "DROP TABLE temp.stage_kernel; DROP TABLE temp.stage_launched; DROP TABLE temp.stage_counter; DROP TABLE temp.stage_counted");
}

void ImportedRun::write_values() {
  SQLite::Statement rows(
      db_, "SELECT process, time_ns, name, number FROM temp.stage_value ORDER BY process, time_ns, rowid");
  Insert insert(db_, "INSERT INTO value VALUES (?, ?, ?, ?, ?)");
  while (rows.executeStep()) {
    const auto number = static_cast<size_t>(rows.getColumn(0).getInt64());
    const int64_t time_ns = rows.getColumn(1).getInt64();
    const Process& p = processes_[number];
    insert.row(p.id, step_at(number, time_ns), time_ns + p.shift_ns,
               text_of(static_cast<uint32_t>(rows.getColumn(2).getInt64())).text, rows.getColumn(3).getInt64());
  }
  rows.reset();
  db_.exec("DROP TABLE temp.stage_value");
}

uint32_t ImportedRun::communicator(std::string_view name, std::string_view label, CommunicatorOf of, int64_t size,
                                   const std::vector<int64_t>& ranks) {
  const std::string key = fmt::format("{}|{}|{}|{}", name, static_cast<int>(of), size, fmt::join(ranks, ","));
  if (communicators_.size() == kMostCommunicators && !communicator_numbers_.contains(key))
    refuse_more_than(kMostCommunicators, "communicators");
  const auto [entry, is_new] = communicator_numbers_.try_emplace(key, static_cast<uint32_t>(communicators_.size() + 1));
  if (is_new) communicators_.push_back({std::string(name), clean_name(label), of, size, ranks});
  return entry->second;
}

std::optional<int64_t> ImportedRun::step_at(size_t process, int64_t time_ns) const {
  const std::vector<Step>& steps = processes_[process].steps;
  auto after =
      std::upper_bound(steps.begin(), steps.end(), time_ns, [](int64_t ns, const Step& s) { return ns < s.start_ns; });
  if (after == steps.begin()) return std::nullopt;
  const Step& step = *(after - 1);
  const bool is_counted =
      time_ns < step.start_ns + step.duration_ns && time_ns >= step.counted_begin_ns && time_ns < step.counted_end_ns;
  return is_counted ? std::optional(step.number) : std::nullopt;
}

bool ImportedRun::is_counted_step(size_t process, int64_t number, int64_t start_ns) const {
  const std::vector<Step>& steps = processes_[process].steps;
  auto step =
      std::lower_bound(steps.begin(), steps.end(), start_ns, [](const Step& s, int64_t ns) { return s.start_ns < ns; });
  for (; step != steps.end() && step->start_ns == start_ns; ++step)
    if (step->number == number) return step->counted_begin_ns == start_ns;
  return true;
}

uint32_t ImportedRun::region(uint32_t parent, ContextKind kind, uint32_t name) {
  const auto key = std::make_tuple(parent, kind, name);
  const auto known = region_ids_.find(key);
  if (known != region_ids_.end()) return known->second;
  if (region_ids_.size() >= kMaxRegions) {
    ++unplaced_;
    return parent;
  }
  const uint32_t id = regions_.region(parent, kind, kind == ContextKind::kStep ? std::string() : *names_[name]);
  region_ids_.emplace(key, id);
  return id;
}

// -------------------------------------------------------------------------------------------- from there to the tables

/// Who is which rank, when the run began, and what each process's times are off by.
void ImportedRun::settle() {
  std::map<int64_t, size_t> by_rank;
  for (size_t i = 0; i < processes_.size(); ++i) {
    const std::optional<int64_t>& rank = processes_[i].told.rank;
    if (!rank) continue;
    const auto [entry, is_new] = by_rank.try_emplace(*rank, i);
    if (!is_new) {
      throw Error(fmt::format("{} and {} are both traces of rank {}", processes_[entry->second].told.file,
                              processes_[i].told.file, *rank),
                  "import one run at a time, with one trace of each rank", ExitCode::kDataMissing);
    }
  }
  int64_t next = 0;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].told.rank) continue;
    while (by_rank.contains(next)) ++next;
    processes_[i].told.rank = next;
    by_rank[next] = i;
  }
  std::optional<int64_t> first_ns;
  for (const auto& [rank, i] : by_rank) {
    Process& p = processes_[i];
    order_.push_back(i);
    p.id = static_cast<int64_t>(order_.size());
    world_size_ = std::max(world_size_, std::max(p.told.world_size.value_or(0), rank + 1));
    std::stable_sort(p.steps.begin(), p.steps.end(),
                     [](const Step& a, const Step& b) { return a.start_ns < b.start_ns; });
    std::unordered_map<int64_t, const Step*> first;
    for (Step& step : p.steps) {
      const Step& counted = *first.try_emplace(step.number, &step).first->second;
      step.counted_begin_ns = counted.start_ns;
      step.counted_end_ns = counted.start_ns + counted.duration_ns;
    }
    if (!p.begin_ns) continue;
    if (std::abs(p.told.base_ns) > kLatestNs || std::abs(p.told.base_ns + *p.begin_ns) > kLatestNs)
      throw Error(fmt::format("{} begins at a time that is out of range", p.told.file),
                  "leave it out, or correct its times", ExitCode::kDataMissing);
    first_ns = std::min(first_ns.value_or(INT64_MAX), p.told.base_ns + *p.begin_ns);
  }
  if (!first_ns) {
    throw Error(fmt::format("{} has no event that ddl knows", source_),
                fmt::format("is it a trace of {}? see: ddl import --help", format_), ExitCode::kDataMissing);
  }
  epoch_ns_ = *first_ns;
  for (const Process& p : processes_) {
    if (!p.begin_ns || p.told.base_ns + *p.begin_ns - epoch_ns_ <= kLongestNs) continue;
    throw Error(fmt::format("{} begins more than twelve days after the other files", p.told.file),
                "import the traces of one run at a time", ExitCode::kDataMissing);
  }
  db_.exec("CREATE TEMP TABLE stage_process(stage INTEGER PRIMARY KEY, id)");
  Insert insert(db_, "INSERT INTO temp.stage_process VALUES (?, ?)");
  for (size_t i = 0; i < processes_.size(); ++i) {
    processes_[i].shift_ns = processes_[i].told.base_ns - epoch_ns_;
    insert.row(i, processes_[i].id);
  }
}

std::string ImportedRun::host_of(const Process& process) const {
  return clean_name(process.told.host.value_or(fmt::format("host of {}", process.told.file)));
}

bool ImportedRun::is_one_clock() const {
  return one_clock_ || std::all_of(order_.begin(), order_.end(), [&](size_t i) {
           return host_of(processes_[i]) == host_of(processes_[order_.front()]);
         });
}

void ImportedRun::write_hosts_and_processes() {
  std::map<std::string, int64_t> hosts;
  std::vector<std::string> names;
  for (const size_t i : order_) {
    const std::string name = host_of(processes_[i]);
    if (hosts.try_emplace(name, static_cast<int64_t>(hosts.size() + 1)).second) names.push_back(name);
  }
  const bool single = is_one_clock();
  Insert insert_host(db_, "INSERT INTO host VALUES (?, ?, '', 'imported', 1e9, NULL, ?, ?, ?, ?)");
  for (const std::string& name : names) {
    insert_host.row(hosts[name], name, -epoch_ns_, single ? std::optional(0.0) : std::nullopt,
                    single ? std::optional(0.0) : std::nullopt, single ? "single-host" : "realtime");
  }
  Insert insert(
      db_,
      "INSERT INTO process VALUES (?, 0, ?, ?, ?, ?, ?, ?, NULL, NULL, 'imported', NULL, NULL, 'imported', 0, NULL, NULL, NULL, ?, ?)");
  Insert insert_fact(db_, "INSERT INTO process_fact VALUES (?, ?, ?)");
  Insert insert_thread(db_, "INSERT INTO thread VALUES (?, ?, ?, ?)");
  Insert insert_gpu(db_, "INSERT INTO gpu VALUES (?, ?, ?, NULL, NULL, NULL)");
  for (const size_t i : order_) {
    const Process& p = processes_[i];
    insert.row(p.id, *p.told.rank, world_size_, hosts[host_of(p)], p.told.pid.value_or(0),
               p.begin_ns.value_or(epoch_ns_ - p.told.base_ns) + p.shift_ns,
               p.end_ns.value_or(epoch_ns_ - p.told.base_ns) + p.shift_ns, clean_text(p.told.file), p.told.file_bytes);
    for (const auto& [key, value] : p.told.facts) insert_fact.row(p.id, key, clean_text(value));
    for (size_t t = 0; t < p.thread_rows.size(); ++t)
      insert_thread.row(p.id, t, p.thread_rows[t].first, unless_empty(p.thread_rows[t].second));
    for (const auto& [device, gpu] : p.told.gpus) insert_gpu.row(p.id, device, clean_name(gpu));
  }
  std::vector<int64_t> missing;
  auto next = order_.begin();  // by rank
  for (int64_t rank = 0; rank < world_size_ && missing.size() < 4; ++rank) {
    if (next != order_.end() && processes_[*next].told.rank == rank) {
      ++next;
    } else {
      missing.push_back(rank);
    }
  }
  const uint64_t absent =
      static_cast<uint64_t>(world_size_) - std::min<uint64_t>(order_.size(), static_cast<uint64_t>(world_size_));
  if (!missing.empty()) {
    losses_.add({0, {}}, "missing_rank", absent,
                fmt::format("of {} ranks without a trace: rank {}{}", world_size_, fmt::join(missing, ", "),
                            absent > missing.size() ? ", ..." : ""));
  }
}

void ImportedRun::number_communicators() {
  std::vector<size_t> by_size;
  size_t members = 0;
  for (size_t i = 0; i < communicators_.size(); ++i) {
    Communicator& c = communicators_[i];
    by_size.push_back(i);
    if (!c.ranks.empty() || c.size != world_size_ || c.size > kMaxMembers) continue;
    if ((members += static_cast<size_t>(c.size)) > kMostCommunicatorMembers) continue;
    for (int64_t rank = 0; rank < c.size; ++rank) c.ranks.push_back(rank);
  }
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return communicators_[a].size > communicators_[b].size; });
  for (size_t i = 0; i < by_size.size(); ++i) communicators_[by_size[i]].id = static_cast<int64_t>(i + 1);
}

std::optional<int64_t> ImportedRun::communicator_id(int64_t number) const {
  return number > 0 ? std::optional(communicators_[static_cast<size_t>(number - 1)].id) : std::nullopt;
}

int64_t ImportedRun::add_inferred_communicator(const std::string& label, int64_t size) {
  Communicator communicator{label, label, CommunicatorOf::kNccl, size, {}};
  communicator.id = static_cast<int64_t>(communicators_.size() + 1);
  for (int64_t rank = 0; size <= kMaxMembers && rank < size; ++rank) communicator.ranks.push_back(rank);
  communicators_.push_back(std::move(communicator));
  return communicators_.back().id;
}

void ImportedRun::write_communicators() {
  Insert insert(db_, "INSERT INTO communicator VALUES (?, 0, ?, ?, ?, NULL, NULL, ?, NULL)");
  Insert insert_member(db_, "INSERT INTO communicator_member VALUES (?, 0, ?, ?)");
  std::set<std::string> labels;
  std::map<std::string, int> numbers;  // of the last one that is called so
  for (const Communicator& c : communicators_) {
    const std::string name = c.label.empty() ? clean_name(c.name) : c.label;
    std::string label = name;
    for (int& number = numbers.try_emplace(name, 1).first->second; !labels.insert(label).second;)
      label = fmt::format("{}#{}", name, ++number);
    insert.row(c.id, c.id, label, unless_zero(c.size), c.of == CommunicatorOf::kNccl ? "nccl" : "intra");
    for (size_t i = 0; i < c.ranks.size(); ++i) insert_member.row(c.id, i, c.ranks[i]);
  }
}

void ImportedRun::write_operations() {
  Insert insert(db_, "INSERT INTO op VALUES (?, ?, ?, ?)");
  for (const auto& [name, op] : ops_) insert.row(op.id, name, name_of(op.op_class), op.nonblocking);
}

void ImportedRun::write_meta() {
  const bool realtime = std::all_of(processes_.begin(), processes_.end(),
                                    [](const Process& p) { return !p.begin_ns || p.told.is_realtime; });
  meta_["schema_version"] = fmt::to_string(kSchemaVersion);
  if (realtime) meta_["epoch_realtime_ns"] = fmt::to_string(epoch_ns_);
  meta_["imported_from"] = format_;
  meta_["duration_ns"] = db_.execAndGet("SELECT coalesce(max(end_ns), 0) FROM process").getString();
  Insert insert(db_, "INSERT INTO meta VALUES (?, ?)");
  for (const auto& [key, value] : meta_) insert.row(key, clean_text(value));
}

/// A sample at each begin and end of what operators cover, as the recorder takes them of the kernel.
void ImportedRun::sample_training_threads() {
  db_.exec(R"(
    INSERT OR IGNORE INTO thread_sample (process, at_ns, cpu_ns, ready_ns, spun_ns)
    WITH operator AS (
      SELECT e.process, e.start_ns, e.start_ns + e.duration_ns AS end_ns,
             max(e.start_ns + e.duration_ns) OVER (PARTITION BY e.process ORDER BY e.start_ns, e.duration_ns DESC
                                                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ns
      FROM range_event e
      JOIN process p ON p.id = e.process
      JOIN thread t ON t.process = e.process AND t.thread = e.thread AND t.tid = p.pid
      JOIN region r ON r.id = e.region AND r.kind = 'operator'
    ), piece AS (
      SELECT process, max(start_ns, coalesce(covered_ns, start_ns)) AS start_ns, end_ns
      FROM operator
      WHERE end_ns > coalesce(covered_ns, start_ns)
    ), summed AS (
      SELECT process, start_ns, end_ns, sum(end_ns - start_ns) OVER (PARTITION BY process ORDER BY start_ns) AS cpu_ns FROM piece
    )
    SELECT process, start_ns, cpu_ns - (end_ns - start_ns), NULL, 0 FROM summed
    UNION ALL
    SELECT process, end_ns, cpu_ns, NULL, 0 FROM summed)");
}

uint64_t ImportedRun::finish(const std::function<void(double)>& step_done) {
  settle();
  number_communicators();
  write_names(db_);
  write_hosts_and_processes();
  {
    MadeRows made(db_);
    CpuSweep(*this, made, step_done).run();
    cpu_.reset();
    join_launches();
    place_gpu(made);
  }
  infer_communicators();
  step_done(0.9);
  number_collectives();
  place_flight();
  write_communicators();
  write_operations();
  regions_.write(db_);
  if (has_background_calls_) sample_training_threads();
  gpu_names_.write(db_);
  losses_.add({}, "bad_times", bad_intervals_, "events that end before they begin: left out");
  losses_.add({}, "contexts", unplaced_ + unnamed_,
              "ranges and kernels that count as their parents', because the trace has too many different ones");
  write_values();
  write_counters();
  losses_.write(db_);
  write_meta();
  db_.exec("DROP TABLE temp.stage_wait; DROP TABLE temp.stage_process");
  create_indices(db_);
  return events_ + cpu_rows_ + gpu_rows_ + flight_rows_ + values_ + counters_;
}

}  // namespace ddl::store
