#include "reports/trace/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "analyzer/query.h"
#include "core/error.h"
#include "reports/format.h"
#include "reports/trace/protobuf.h"
#include "store/import/chakra_types.h"

namespace ddl::reports {
namespace {

using chakra::NodeType;
constexpr size_t kChakraBufferBytes = 1 << 16;
constexpr uint32_t kNone = UINT32_MAX;

struct ChakraNode {
  NodeType type = NodeType::kCompute;
  bool on_host = false;
  std::string name;
  int64_t start_ns = 0, end_ns = 0;
  std::vector<uint32_t> deps{};
  std::optional<int64_t> stream{}, step{}, comm_type{}, bytes{}, comm{}, source{}, destination{}, tag{};
};

/// The nodes of one rank.
class ChakraRank {
 public:
  ChakraRank(const RunView& run, const TraceProcess& process) : run_(run), process_(process) {}

  void read() {
    Query window(
        run_.db,
        "SELECT begin_ns, end_ns, iif(first_step = last_step, first_step, NULL) FROM temp.trace_process WHERE process = ?");
    window.bind(process_.id).next();
    begin_ns_ = window.maybe_integer(0).value_or(process_.init_ns.value_or(process_.start_ns));
    end_ns_ = window.maybe_integer(1).value_or(process_.finalize_ns.value_or(process_.end_ns));
    step_ = window.maybe_integer(2);
    Query thread(run_.db,
                 "SELECT thread FROM step WHERE process = ? GROUP BY thread ORDER BY count(*) DESC, thread LIMIT 1");
    main_ = thread.bind(process_.id).next() ? thread.integer(0) : 0;
    read_kernels();
    read_stream_waits();
    read_calls();
    read_messages();
    read_launches();
    walk_host();
  }

  std::vector<ChakraNode> nodes;
  uint64_t collectives_left = 0, kernels_left = 0;

 private:
  // ---------------------------------------------------------------------------------------------- GPUs

  struct Lane {
    std::vector<std::pair<int64_t, uint32_t>> by_correlation, by_launch;  // and node
    uint32_t last = kNone;
  };
  using LaneKey = std::tuple<int64_t, int64_t, int64_t>;  // device, context, stream

  void read_kernels() {
    struct Collective {
      std::optional<int64_t> type, bytes;
    };
    std::map<std::pair<int64_t, int64_t>, Collective> collectives;
    Query carried(
        run_.db,
        "SELECT e.comm, e.seq, o.name, e.bytes FROM temp.trace_process t CROSS JOIN event e ON e.process = t.process JOIN op o ON o.id ="
        " e.op JOIN temp.chakra_whole w ON w.comm = e.comm AND w.seq = e.seq WHERE e.process = ? AND e.kind = 4 AND " +
            in_window("e"));
    carried.bind(process_.id);
    while (carried.next())
      collectives[{carried.integer(0), carried.integer(1)}] = {chakra::collective_type(carried.text(2)),
                                                               carried.maybe_integer(3)};

    Query row(
        run_.db,
        "SELECT g.kind, n.name, g.device, g.context, g.stream, g.start_ns, g.duration_ns, g.step, g.comm, g.seq, g.correlation,"
        " g.launch_ns, n.class = 'communication' FROM temp.trace_process t CROSS JOIN gpu_event g ON g.process ="
        " t.process JOIN gpu_name n ON n.id = g.name WHERE g.process = ? AND g.kind IN (1, 2, 3, 6) AND " +
            in_window("g") + " ORDER BY g.start_ns, g.id");
    row.bind(process_.id);
    while (row.next()) {
      ChakraNode node;
      node.name = row.text(1);
      node.start_ns = row.integer(5);
      node.end_ns = node.start_ns + row.integer(6);
      node.step = row.maybe_integer(7);
      node.stream = row.maybe_integer(4).value_or(0);
      if (!row.is_null(8) && !row.is_null(9)) {
        const auto known = collectives.find({row.integer(8), row.integer(9)});
        if (known != collectives.end() && known->second.type && known->second.bytes) {
          node.type = NodeType::kCollective;
          node.comm_type = known->second.type;
          node.bytes = known->second.bytes;
          node.comm = row.integer(8);
        }
      }
      if (node.type == NodeType::kCompute && (row.integer(12) != 0 || !row.is_null(8))) ++kernels_left;
      const auto number = static_cast<uint32_t>(nodes.size());
      const LaneKey key{row.maybe_integer(2).value_or(-1), row.maybe_integer(3).value_or(-1),
                        row.maybe_integer(4).value_or(-1)};
      Lane& lane = lanes_[key];
      if (lane.last != kNone) node.deps.push_back(lane.last);
      lane.last = number;
      lane.by_correlation.emplace_back(row.integer(10), number);
      lane.by_launch.emplace_back(row.maybe_integer(11).value_or(node.start_ns), number);
      if (!row.is_null(11)) launched_.emplace_back(row.integer(11), number);
      nodes.push_back(std::move(node));
    }
    if (lanes_.empty()) kernels_left += collectives.size();
    for (auto& [key, lane] : lanes_) {
      std::sort(lane.by_correlation.begin(), lane.by_correlation.end());
      std::sort(lane.by_launch.begin(), lane.by_launch.end());
    }
  }

  /// What a stream gets after it was told to wait begins behind what the other had got until the event.
  void read_stream_waits() {
    if (lanes_.empty()) return;
    std::map<std::pair<int64_t, int64_t>, const Lane*> lanes;  // by context and stream
    for (const auto& [key, lane] : lanes_) lanes[{std::get<1>(key), std::get<2>(key)}] = &lane;
    Query row(
        run_.db,
        "SELECT context, stream, correlation, on_context, on_stream, on_correlation FROM stream_wait WHERE process = ?");
    row.bind(process_.id);
    while (row.next()) {
      const auto waits = lanes.find({row.integer(0), row.integer(1)}),
                 on = lanes.find({row.integer(3), row.integer(4)});
      if (waits == lanes.end() || on == lanes.end()) continue;
      const auto& later = waits->second->by_correlation;
      const auto& earlier = on->second->by_correlation;
      const auto first = std::upper_bound(later.begin(), later.end(), std::make_pair(row.integer(2), kNone));
      const auto last = std::lower_bound(earlier.begin(), earlier.end(), std::make_pair(row.integer(5), uint32_t{0}));
      if (first != later.end() && last != earlier.begin()) nodes[first->second].deps.push_back(std::prev(last)->second);
    }
  }

  // ---------------------------------------------------------------------------------------------- the host

  enum class What { kBlocks, kPosts, kCompletes, kLaunches, kSynchronizes };
  struct Moment {
    int64_t at_ns;     // when the host got there
    int64_t until_ns;  // when it went on
    What what;
    uint32_t node = kNone;                       // that begins there
    std::optional<int64_t> stream{}, context{};  // that a synchronisation waited for
  };

  void read_calls() {
    Query row(
        run_.db,
        "SELECT e.id, e.thread, e.kind, o.class, o.name, o.nonblocking, e.comm, w.seq, e.step, e.start_ns, e.duration_ns, e.bytes, e.seq"
        " FROM temp.trace_process t CROSS JOIN event e ON e.process = t.process JOIN op o ON o.id = e.op LEFT JOIN temp.chakra_whole w ON"
        " w.comm = e.comm AND w.seq = e.seq WHERE e.process = ? AND e.kind IN (1, 2) AND " +
            in_window("e"));
    row.bind(process_.id);
    while (row.next()) {
      const int64_t start = row.integer(9), end = start + row.integer(10);
      const bool is_main = row.integer(1) == main_, is_request = row.integer(2) == 2;
      const bool posts = !is_request && row.integer(5) != 0;
      if (row.text(3) == "completion" && is_main) moments_.push_back({start, end, What::kCompletes});
      if (posts) continue;  // its request tells the rest
      const auto type = chakra::collective_type(row.text(4));
      if (!row.is_null(12) && (row.is_null(7) || !type || row.is_null(11))) ++collectives_left;
      if (row.is_null(7) || !type || row.is_null(11)) continue;
      ChakraNode node = call_node(row.text(4), start, end, row.maybe_integer(8));
      node.type = NodeType::kCollective;
      node.comm_type = type;
      node.bytes = row.integer(11);
      node.comm = row.integer(6);
      add(std::move(node), is_request || !is_main);
    }
  }

  ChakraNode call_node(const std::string& name, int64_t start, int64_t end, std::optional<int64_t> step) const {
    ChakraNode node;
    node.name = name;
    node.start_ns = start;
    node.end_ns = end;
    node.step = step;
    return node;
  }

  void add(ChakraNode node, bool posts) {
    moments_.push_back({node.start_ns, posts ? node.start_ns : node.end_ns, posts ? What::kPosts : What::kBlocks,
                        static_cast<uint32_t>(nodes.size())});
    nodes.push_back(std::move(node));
  }

  void read_messages() {
    for (const bool sends : {true, false}) {
      Query row(
          run_.db,
          fmt::format(
              "SELECT e.thread, e.kind, o.name, e.step, e.start_ns, e.duration_ns, m.bytes, m.tag, m.source, m.destination"
              " FROM temp.chakra_message m JOIN event e ON e.id = m.{} JOIN op o ON o.id = e.op WHERE e.process = ?",
              sends ? "send" : "receive"));
      row.bind(process_.id);
      while (row.next()) {
        ChakraNode node = call_node(row.text(2), row.integer(4), row.integer(4) + row.integer(5), row.maybe_integer(3));
        node.type = sends ? NodeType::kSend : NodeType::kReceive;
        node.bytes = row.integer(6);
        node.tag = row.integer(7);
        node.source = row.integer(8);
        node.destination = row.integer(9);
        add(std::move(node), row.integer(1) == 2 || row.integer(0) != main_);
      }
    }
  }

  void read_launches() {
    for (const auto& [at, node] : launched_) moments_.push_back({at, at, What::kLaunches, node});
    Query row(
        run_.db,
        "SELECT g.start_ns, g.duration_ns, g.stream, g.context FROM temp.trace_process t CROSS JOIN gpu_event g ON g.process = t.process JOIN"
        " gpu_name n ON n.id = g.name WHERE g.process = ? AND g.kind = 4 AND n.name NOT LIKE '%wait%' AND " +
            in_window("g"));
    row.bind(process_.id);
    while (row.next()) {
      moments_.push_back({row.integer(0), row.integer(0) + row.integer(1), What::kSynchronizes, kNone,
                          row.maybe_integer(2), row.maybe_integer(3)});
    }
  }

  void walk_host() {
    std::stable_sort(moments_.begin(), moments_.end(),
                     [](const Moment& a, const Moment& b) { return a.at_ns < b.at_ns; });
    std::vector<std::pair<int64_t, uint32_t>> requests;  // when they were completed
    for (const Moment& m : moments_)
      if (m.what == What::kPosts) requests.emplace_back(nodes[m.node].end_ns, m.node);
    std::sort(requests.begin(), requests.end());
    cursor_ns_ = begin_ns_;
    int64_t block_ns = INT64_MIN;
    std::vector<uint32_t> before;
    for (const Moment& m : moments_) {
      compute_until(m.at_ns);
      if (m.what == What::kBlocks) {  // a call that sends and receives is two nodes beside each other
        if (m.at_ns != block_ns) before = std::exchange(after_, {});
        block_ns = m.at_ns;
        append(nodes[m.node].deps, before);
        after_.push_back(m.node);
      } else if (m.node != kNone) {
        append(nodes[m.node].deps, after_);
      } else if (m.what == What::kCompletes) {
        const auto first = std::upper_bound(requests.begin(), requests.end(), std::make_pair(m.at_ns, kNone));
        for (auto r = first; r != requests.end() && r->first <= m.until_ns; ++r) after_.push_back(r->second);
      } else {
        wait_for_streams(m);
      }
      cursor_ns_ = std::max(cursor_ns_, m.until_ns);
    }
    compute_until(end_ns_);
  }

  static void append(std::vector<uint32_t>& to, const std::vector<uint32_t>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  void compute_until(int64_t at_ns) {
    if (at_ns <= cursor_ns_) return;
    ChakraNode node;
    node.on_host = !lanes_.empty();
    node.name = "host";
    node.start_ns = std::exchange(cursor_ns_, at_ns);
    node.end_ns = at_ns;
    node.step = step_;
    node.deps = std::exchange(after_, {static_cast<uint32_t>(nodes.size())});
    nodes.push_back(std::move(node));
  }

  void wait_for_streams(const Moment& m) {
    for (const auto& [key, lane] : lanes_) {
      if ((m.context && *m.context != std::get<1>(key) && std::get<1>(key) >= 0) ||
          (m.stream && *m.stream != std::get<2>(key)))
        continue;
      const auto behind =
          std::lower_bound(lane.by_launch.begin(), lane.by_launch.end(), std::make_pair(m.at_ns, uint32_t{0}));
      if (behind != lane.by_launch.begin()) after_.push_back(std::prev(behind)->second);
    }
  }

  const RunView& run_;
  const TraceProcess& process_;
  int64_t begin_ns_ = 0, end_ns_ = 0, main_ = 0, cursor_ns_ = 0;
  std::optional<int64_t> step_;  // of a window of one step
  std::map<LaneKey, Lane> lanes_;
  std::vector<std::pair<int64_t, uint32_t>> launched_;  // when the launching call was entered
  std::vector<Moment> moments_;
  std::vector<uint32_t> after_;  // what the host's next node waits for
};

/// By their begin, but each behind all that it depends on, whatever clocks say. Dependencies in a circle are dropped.
std::vector<uint32_t> in_order(std::vector<ChakraNode>& nodes) {
  std::vector<uint32_t> open(nodes.size()), by_start(nodes.size()), order;
  std::vector<std::vector<uint32_t>> next(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    std::vector<uint32_t>& deps = nodes[i].deps;
    std::sort(deps.begin(), deps.end());
    deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
    open[i] = static_cast<uint32_t>(deps.size());
    for (const uint32_t dep : deps) next[dep].push_back(i);
    by_start[i] = i;
  }
  std::stable_sort(by_start.begin(), by_start.end(),
                   [&](uint32_t a, uint32_t b) { return nodes[a].start_ns < nodes[b].start_ns; });
  using Ready = std::pair<int64_t, uint32_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (const uint32_t node : by_start)
    if (open[node] == 0) ready.emplace(nodes[node].start_ns, node);
  std::vector<char> done(nodes.size());
  for (size_t oldest = 0; order.size() < nodes.size();) {
    while (done[by_start[oldest]]) ++oldest;
    const uint32_t node = ready.empty() ? by_start[oldest] : ready.top().second;
    if (!ready.empty()) ready.pop();
    if (std::exchange(done[node], 1)) continue;
    std::erase_if(nodes[node].deps, [&](uint32_t dep) { return !done[dep]; });
    order.push_back(node);
    for (const uint32_t later : next[node])
      if (--open[later] == 0) ready.emplace(nodes[later].start_ns, later);
  }
  return order;
}

/// A message behind its length.
void add_message(std::string& to, const Message& message) {
  uint64_t size = message.encoded().size();
  for (; size >= 0x80; size >>= 7) to += static_cast<char>(size | 0x80);
  to += static_cast<char>(size);
  to += message.encoded();
}

void add_attribute(Message& node, std::string_view name, uint32_t field, const std::optional<int64_t>& value) {
  if (!value) return;
  Message attribute;
  attribute.bytes(chakra::kAttributeName, name).integer(field, *value);
  node.message(chakra::kAttributes, attribute);
}

void add_text(Message& node, uint32_t attributes, std::string_view name, std::string_view value) {
  Message attribute;
  attribute.bytes(chakra::kAttributeName, name).bytes(chakra::kString, value);
  node.message(attributes, attribute);
}

}  // namespace

ChakraTraces::ChakraTraces(const RunView& run, TraceRequest request) : run_(run), request_(std::move(request)) {
  if (!request_.steps && run.has_steps) {
    std::vector<std::pair<int64_t, int64_t>> steps;  // time of the slowest rank, and number
    Query row(
        run.db,
        "SELECT max(s.duration_ns), s.step FROM steady_number n JOIN step s ON s.step = n.step AND s.measured JOIN process p ON p.id = s.process AND p.world ="
        " n.world WHERE n.world = ? GROUP BY s.step ORDER BY 1, 2");
    for (row.bind(run.world); row.next();) steps.emplace_back(row.integer(0), row.integer(1));
    if (steps.empty())
      throw Error("the run has no step that all ranks recorded", "name steps with --steps A:B", ExitCode::kDataMissing);
    const int64_t middle = steps[steps.size() / 2].second;
    request_.steps = TraceRequest::Steps{middle, middle};
  }
  processes_ = select_processes(run, request_);
  std::erase_if(processes_, [](const TraceProcess& p) { return !p.rank || p.ended == "exec"; });
  missing_ = missing_ranks(run, request_);
  run.db.exec(fmt::format(R"(
    DROP TABLE IF EXISTS temp.chakra_whole;
    DROP TABLE IF EXISTS temp.chakra_end;
    DROP TABLE IF EXISTS temp.chakra_message;
    CREATE TEMP TABLE chakra_whole(comm INTEGER, seq INTEGER, PRIMARY KEY (comm, seq)) WITHOUT ROWID;
    INSERT INTO temp.chakra_whole
      SELECT e.comm, e.seq FROM temp.trace_process t CROSS JOIN event e ON e.process = t.process JOIN communicator c ON c.id = e.comm
      WHERE e.seq IS NOT NULL AND {0} GROUP BY e.comm, e.seq HAVING count(DISTINCT e.process) = max(c.size) AND max(c.size) > 1;
    CREATE TEMP TABLE chakra_end(id INTEGER PRIMARY KEY);
    INSERT INTO temp.chakra_end
      SELECT e.id FROM temp.trace_process t CROSS JOIN event e ON e.process = t.process JOIN op o ON o.id = e.op
      WHERE e.kind IN (1, 2) AND (e.kind = 2 OR NOT o.nonblocking) AND o.class IN ('send', 'receive', 'send_receive', 'probe') AND {0};
    CREATE TEMP TABLE chakra_message AS
      SELECT m.send, m.receive, coalesce(r.bytes, s.bytes, 0) AS bytes, coalesce(s.tag, r.tag, 0) AS tag, sp.rank AS source, rp.rank AS destination
      FROM message m JOIN temp.chakra_end se ON se.id = m.send JOIN temp.chakra_end re ON re.id = m.receive JOIN event s ON s.id = m.send
      JOIN event r ON r.id = m.receive JOIN process sp ON sp.id = s.process JOIN process rp ON rp.id = r.process)",
                          in_window("e")));
  Query left(
      run.db,
      "SELECT count(*) FROM temp.chakra_end x JOIN event e ON e.id = x.id JOIN op o ON o.id = e.op WHERE o.class != 'probe' AND x.id NOT IN"
      " (SELECT send FROM temp.chakra_message UNION SELECT receive FROM temp.chakra_message)");
  left.next();
  messages_left_ = static_cast<uint64_t>(left.integer(0));
  Query begin(
      run.db,
      "SELECT min(coalesce(t.begin_ns, p.init_ns, p.start_ns)) FROM temp.trace_process t JOIN process p ON p.id = t.process");
  begin.next();
  begin_ns_ = begin.integer(0);
}

std::string ChakraTraces::file_name(size_t trace) const { return fmt::format("ddl.{}.et", *processes_[trace].rank); }

void ChakraTraces::write(size_t trace, const Sink& sink) {
  ChakraRank rank(run_, processes_[trace]);
  rank.read();
  collectives_left_ += rank.collectives_left;
  kernels_left_ += rank.kernels_left;
  std::vector<ChakraNode>& nodes = rank.nodes;
  const std::vector<uint32_t> order = in_order(nodes);
  std::vector<uint32_t> number(nodes.size());
  for (uint32_t i = 0; i < order.size(); ++i) number[order[i]] = i;

  Message head;
  head.bytes(1, "0.0.4");
  add_text(head, 2, "schema", "1.0.2-chakra.0.0.4");
  add_text(head, 2, "made_by", "ddl export chakra");
  std::string buffer;
  add_message(buffer, head);
  // As PyTorch's traces tell groups: a list in a list, as Python prints it.
  std::string groups;
  Query row(
      run_.db,
      "SELECT communicator, '[' || group_concat(rank, ', ') || ']' FROM (SELECT communicator, rank FROM communicator_member WHERE communicator IN"
      " (SELECT comm FROM temp.chakra_whole) AND side = 0 ORDER BY communicator, comm_rank) GROUP BY communicator");
  while (row.next())
    groups += fmt::format("{}{{\"pg_name\": \"{}\", \"ranks\": {}}}", groups.empty() ? "" : ", ", row.integer(0),
                          row.text(1));
  if (!groups.empty()) {
    Message node, values;
    node.number(chakra::kId, nodes.size())
        .bytes(chakra::kName, "## process_group:init ##")
        .number(chakra::kType, static_cast<uint64_t>(NodeType::kMetadata));
    node.message(chakra::kInputs, values.bytes(1, fmt::format("['[{}]']", groups)));
    add_attribute(node, "is_cpu_op", chakra::kBool, 1);
    add_message(buffer, node);
  }
  const auto micros = [&](int64_t ns) { return static_cast<uint64_t>(std::max<int64_t>(0, ns - begin_ns_) / 1000); };
  for (uint32_t i = 0; i < order.size(); ++i) {
    ChakraNode& node = nodes[order[i]];
    Message message;
    message.number(chakra::kId, i)
        .bytes(chakra::kName, node.name)
        .number(chakra::kType, static_cast<uint64_t>(node.type));
    for (uint32_t& dep : node.deps) dep = number[dep];
    std::sort(node.deps.begin(), node.deps.end());
    for (const uint32_t dep : node.deps) message.number(chakra::kDataDeps, dep);
    message.number(chakra::kStartMicros, micros(node.start_ns));
    message.number(chakra::kDurationMicros, micros(std::max(node.start_ns, node.end_ns)) - micros(node.start_ns));
    add_attribute(message, "is_cpu_op", chakra::kBool, node.on_host ? 1 : 0);
    add_attribute(message, "stream", chakra::kInt64, node.stream);
    add_attribute(message, "step", chakra::kInt64, node.step);
    add_attribute(message, "comm_type", chakra::kInt64, node.comm_type);
    add_attribute(message, "comm_size", chakra::kInt64, node.bytes);
    add_attribute(message, "comm_src", chakra::kInt32, node.source);
    add_attribute(message, "comm_dst", chakra::kInt32, node.destination);
    add_attribute(message, "comm_tag", chakra::kInt32, node.tag);
    if (node.comm) add_text(message, chakra::kAttributes, "pg_name", fmt::to_string(*node.comm));
    add_message(buffer, message);
    if (buffer.size() >= kChakraBufferBytes) sink(std::exchange(buffer, {}));
  }
  sink(buffer);
}

std::string ChakraTraces::communicators() const {
  std::string text;
  Query row(
      run_.db,
      "SELECT m.communicator, m.rank FROM communicator_member m WHERE m.communicator IN (SELECT comm FROM temp.chakra_whole) AND m.side = 0 ORDER"
      " BY m.communicator, m.comm_rank");
  int64_t communicator = -1;
  while (row.next()) {
    if (row.integer(0) != communicator) {
      text += fmt::format("{}\"{}\": [", text.empty() ? "{" : "],\n ", row.integer(0));
    } else {
      text += ", ";
    }
    communicator = row.integer(0);
    text += fmt::to_string(row.integer(1));
  }
  return text.empty() ? "{}\n" : text + "]}\n";
}

std::vector<std::string> ChakraTraces::notes() const {
  std::vector<std::string> notes;
  if (request_.steps) {
    notes.push_back(request_.steps->first == request_.steps->last
                        ? fmt::format("step {} of {} rank{}", request_.steps->first, processes_.size(),
                                      processes_.size() == 1 ? "" : "s")
                        : fmt::format("steps {} to {} of {} rank{}", request_.steps->first, request_.steps->last,
                                      processes_.size(), processes_.size() == 1 ? "" : "s"));
  }
  if (!missing_.empty())
    notes.push_back(
        fmt::format("no file for ranks that left no record ({}): a simulator needs one for each", rank_list(missing_)));
  if (collectives_left_ > 0)
    notes.push_back(fmt::format(
        "{} calls of collectives count as computing: Chakra has no such type, or not all members are in these steps",
        collectives_left_));
  if (messages_left_ > 0)
    notes.push_back(fmt::format("{} sends and receives count as computing: their other ends are not in these steps",
                                messages_left_));
  if (kernels_left_ > 0)
    notes.push_back(fmt::format(
        "{} kernels of communication count as computing: what they carry out, or who takes part, is not known",
        kernels_left_));
  return notes;
}

}  // namespace ddl::reports
