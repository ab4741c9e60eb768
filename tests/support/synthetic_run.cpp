#include "tests/support/synthetic_run.h"

#include <stdlib.h>

#include <stdexcept>
#include <system_error>

#include "tests/support/synthetic_run_ops.h"
#include "tests/support/synthetic_run_simulation.h"

namespace ddl::test {

SyntheticRun& SyntheticRun::steps(uint64_t count, uint64_t first) {
  plan_.steps = count;
  plan_.first_step = first;
  return *this;
}

SyntheticRun& SyntheticRun::split(const std::string& name, int n_groups, bool strided, bool named) {
  plan_.splits.push_back({name, n_groups, strided, named});
  return *this;
}

SyntheticRun& SyntheticRun::add(Item item) {
  item.comm = next_.comm;
  item.every = next_.every;
  item.only_rank = next_.only_rank;
  item.synchronous |= next_.synchronous;
  next_ = {};
  (plan_.*items_).push_back(std::move(item));
  return *this;
}

SyntheticRun& SyntheticRun::compute(int64_t ns) {
  Item item;
  item.time_ns = ns;
  return add(item);
}

SyntheticRun& SyntheticRun::open(ContextKind kind, const std::string& name) {
  Item item;
  item.kind = ItemKind::kOpenRange;
  item.range = kind;
  item.name = name;
  return add(item);
}

SyntheticRun& SyntheticRun::close(ContextKind kind) {
  Item item;
  item.kind = ItemKind::kCloseRange;
  item.range = kind;
  return add(item);
}

SyntheticRun& SyntheticRun::in_phase(const std::string& name, const std::string& layer_name, int64_t ns) {
  std::vector<Item>& items = plan_.*items_;
  // The end of a phase made here carries its name: the next layer of the same phase goes in front of it.
  if (!items.empty() && items.back().kind == ItemKind::kCloseRange && items.back().name == name) {
    items.pop_back();
  } else {
    phase(name);
  }
  layer(layer_name, ns).end_phase();
  items.back().name = name;
  return *this;
}

SyntheticRun& SyntheticRun::names(const std::vector<std::string>& names) {
  for (const std::string& name : names) layer(name).end_layer();
  return *this;
}

SyntheticRun& SyntheticRun::value(const std::string& name, double value) {
  Item item;
  item.kind = ItemKind::kValue;
  item.name = name;
  item.value = value;
  return add(item);
}

SyntheticRun& SyntheticRun::collective(const std::string& op, int64_t bytes, int64_t transfer_ns, int root) {
  if (!synthetic::operation(op).is_collective()) throw std::invalid_argument(op + " is not a collective");
  Item item;
  item.kind = ItemKind::kCollective;
  item.name = op;
  item.bytes = bytes;
  item.time_ns = transfer_ns;
  item.root = synthetic::operation(op).is_rooted() && root < 0 ? 0 : root;
  return add(item);
}

SyntheticRun& SyntheticRun::waitall() {
  Item item;
  item.kind = ItemKind::kWaitall;
  return add(item);
}

SyntheticRun& SyntheticRun::wait() {
  Item item;
  item.kind = ItemKind::kWait;
  return add(item);
}

SyntheticRun& SyntheticRun::sendrecv_ring(int64_t bytes, int64_t transfer_ns) {
  Item item;
  item.kind = ItemKind::kSendrecvRing;
  item.bytes = bytes;
  item.time_ns = transfer_ns;
  return add(item);
}

SyntheticRun& SyntheticRun::isendrecv_ring(int64_t bytes, int64_t transfer_ns) {
  Item item;
  item.kind = ItemKind::kIsendrecvRing;
  item.bytes = bytes;
  item.time_ns = transfer_ns;
  return add(item);
}

SyntheticRun& SyntheticRun::halo(int64_t bytes, int64_t transfer_ns) {
  isendrecv_ring(bytes, transfer_ns);
  (plan_.*items_).back().kind = ItemKind::kHalo;
  return *this;
}

SyntheticRun& SyntheticRun::collect(int to, int64_t bytes, int64_t transfer_ns) {
  message(-1, to, bytes, transfer_ns);
  (plan_.*items_).back().kind = ItemKind::kCollect;
  return *this;
}

SyntheticRun& SyntheticRun::message(int from, int to, int64_t bytes, int64_t transfer_ns, bool synchronous) {
  Item item;
  item.kind = ItemKind::kMessage;
  item.root = from;
  item.to = to;
  item.synchronous = synchronous;
  item.bytes = bytes;
  item.time_ns = transfer_ns;
  return add(item);
}

SyntheticRun& SyntheticRun::isend(int from, int to, int64_t bytes, int64_t transfer_ns) {
  message(from, to, bytes, transfer_ns);
  (plan_.*items_).back().kind = ItemKind::kIsend;
  return *this;
}

SyntheticRun& SyntheticRun::receive(int from, int to) {
  message(from, to, 0, 0);
  (plan_.*items_).back().kind = ItemKind::kReceive;
  return *this;
}

SyntheticRun& SyntheticRun::polls(int64_t count, int64_t each_ns) {
  Item item;
  item.kind = ItemKind::kPolls;
  item.count = count;
  item.time_ns = each_ns;
  return add(item);
}

SyntheticRun& SyntheticRun::jitter(int64_t ns, uint64_t seed) {
  plan_.jitter_ns = ns;
  plan_.seed = seed;
  return *this;
}

SyntheticRun& SyntheticRun::slow(int rank, int64_t extra_ns, uint64_t from_step, uint64_t until_step) {
  plan_.slow.push_back({rank, extra_ns, from_step, until_step});
  return *this;
}

SyntheticRun& SyntheticRun::end(int rank, uint64_t step, Plan::Fate fate, int code) {
  plan_.ends.push_back({rank, step, fate, code});
  return *this;
}

SyntheticRun& SyntheticRun::missing(int rank) {
  plan_.missing.push_back(rank);
  return *this;
}

SyntheticRun& SyntheticRun::loss(int rank, LossKind kind, uint64_t count) {
  plan_.losses[{rank, kind}] += count;
  return *this;
}

SyntheticRun& SyntheticRun::window(uint64_t first, uint64_t last) {
  plan_.has_window = true;
  plan_.first_kept = first;
  plan_.last_kept = last;
  return *this;
}

SyntheticRun& SyntheticRun::keep_level(int rank, uint32_t level, uint64_t from_step) {
  plan_.thinning.push_back({rank, level, from_step});
  return *this;
}

SyntheticRun& SyntheticRun::hosts(int count, int64_t skew_ns) {
  plan_.hosts = count;
  plan_.host_skew_ns = skew_ns;
  return *this;
}

SyntheticRun& SyntheticRun::host_clock(int host, int64_t offset_ns, double drift_ppm) {
  plan_.host_clocks[host].offset_ns = offset_ns;
  plan_.host_clocks[host].drift_ppm = drift_ppm;
  return *this;
}

SyntheticRun& SyntheticRun::host_clock_step(int host, int64_t at_ns, int64_t ns) {
  plan_.host_clocks[host].step_at_ns = at_ns;
  plan_.host_clocks[host].step_ns = ns;
  return *this;
}

SyntheticRun& SyntheticRun::host_clock_bend(int host, int64_t at_ns, double ppm) {
  plan_.host_clocks[host].bend_at_ns = at_ns;
  plan_.host_clocks[host].bend_ppm = ppm;
  return *this;
}

SyntheticRun& SyntheticRun::fact(const std::string& key, const std::string& value) {
  plan_.facts.emplace_back(key, value);
  return *this;
}

SyntheticRun& SyntheticRun::world(uint64_t key, int64_t begin_ns, uint32_t first_pid) {
  plan_.world_key = key;
  plan_.begin_ns = begin_ns;
  plan_.first_pid = first_pid;
  return *this;
}

SyntheticRun& SyntheticRun::job_json(int exit_code) {
  plan_.job_json = true;
  plan_.exit_code = exit_code;
  return *this;
}

Truth SyntheticRun::write(const std::filesystem::path& folder) const {
  if (std::filesystem::create_directories(folder))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  return synthetic::simulate(plan_, &folder);
}

Truth SyntheticRun::truth() const { return synthetic::simulate(plan_, nullptr); }

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> names = {
      "\x1b[2J\x1b[31mred",             // clears the screen, changes its colour
      "a\nb\tc\r\x07\b",                // control characters
      "</script><script>alert(1)//",    // leaves an HTML report
      "\"quoted\", 'single', \\ ; --",  // CSV, JSON, SQL
      "=1+1",                           // a formula to spreadsheets
      "\xff\xfe\xc3(",                  // no UTF-8
      "\xe2\x80\xae"
      "desrever",  // right to left override
      "\xc2\x9b"
      "31m",                            // C1 control sequence introducer
      "\xe5\xb1\x82 \xf0\x9f\x94\xa5",  // wide characters
      std::string("nul\0inside", 10),
      "",
      std::string(255, 'x'),
  };
  return names;
}

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "ddl-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace ddl::test
