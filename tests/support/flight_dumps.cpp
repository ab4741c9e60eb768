#include "tests/support/flight_dumps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ddl::test {

void FlightJob::all(size_t group, FlightOp op, const std::vector<int64_t>& but) {
  op.group = group;
  for (const int64_t rank : groups[group].ranks)
    if (std::find(but.begin(), but.end(), rank) == but.end()) add(rank, op);
}

FlightValue FlightValue::boolean(bool value) {
  FlightValue v(value ? 1 : 0);
  v.kind = Kind::kBool;
  return v;
}
FlightValue FlightValue::list(std::vector<FlightValue> members) {
  FlightValue v;
  v.kind = Kind::kList;
  v.members = std::move(members);
  return v;
}
FlightValue FlightValue::tuple(std::vector<FlightValue> members) {
  FlightValue v = list(std::move(members));
  v.kind = Kind::kTuple;
  return v;
}
FlightValue FlightValue::dict(std::vector<FlightValue> members) {
  FlightValue v = list(std::move(members));
  v.kind = Kind::kDict;
  return v;
}

namespace {

const char* state_name(FlightState state) {
  return state == FlightState::kCompleted ? "completed" : state == FlightState::kStarted ? "started" : "scheduled";
}

struct Counters {
  int64_t collectives = 0, messages = 0, operations = 0;
};

FlightValue sizes_value(const std::vector<int64_t>& sizes) {
  std::vector<FlightValue> dimensions(sizes.begin(), sizes.end());
  return FlightValue::list({FlightValue::list(std::move(dimensions))});
}

class DumpOfRank {
 public:
  DumpOfRank(const FlightJob& job, int64_t rank) : job_(job), rank_(rank), old_(job.version.starts_with("1")) {}

  FlightValue value() {
    const std::vector<FlightOp>& ops = job_.ranks[static_cast<size_t>(rank_)];
    for (size_t i = 0; i < ops.size(); ++i) {
      const bool begins = ops[i].batch != 0 && (i == 0 || ops[i - 1].batch != ops[i].batch);
      const bool ends = ops[i].batch != 0 && (i + 1 == ops.size() || ops[i + 1].batch != ops[i].batch);
      enqueue(ops[i], begins, ends);
    }
    std::vector<FlightValue> kept;
    for (size_t i = entries_.size() > job_.buffer ? entries_.size() - job_.buffer : 0; i < entries_.size(); ++i)
      if (!job_.only_active || !done_[i]) kept.push_back(entries_[i]);
    std::vector<FlightValue> config, status;
    for (size_t g = 0; g < job_.groups.size(); ++g) {
      const FlightGroup& group = job_.groups[g];
      if (std::find(group.ranks.begin(), group.ranks.end(), rank_) == group.ranks.end()) continue;
      config.insert(config.end(),
                    {group.name, FlightValue::dict({"name", group.name, "desc", group.description, "ranks",
                                                    fmt::format("[{}]", fmt::join(group.ranks, ", "))})});
      status.insert(status.end(),
                    {fmt::format("{}", local_id(g)),
                     FlightValue::dict({"last_enqueued_collective", last_[g].first, "last_started_collective",
                                        int64_t{-1}, "last_completed_collective", last_[g].second})});
    }
    std::vector<FlightValue> dump = {"version",      job_.version, "pg_config", FlightValue::dict(config),
                                     "nccl_version", "2.27.3"};
    if (job_.status && !old_) dump.insert(dump.end(), {"pg_status", FlightValue::dict(status)});
    dump.insert(dump.end(), {"entries", FlightValue::list(kept)});
    return FlightValue::dict(dump);
  }

 private:
  int64_t local_id(size_t group) const {  // counts the groups that the rank is in, with gaps
    int64_t id = 0;
    for (size_t g = 0; g < group; ++g)
      if (std::find(job_.groups[g].ranks.begin(), job_.groups[g].ranks.end(), rank_) != job_.groups[g].ranks.end())
        id += 2;
    return id;
  }

  void enqueue(const FlightOp& op, bool begins, bool ends) {
    const bool message = op.name == "send" || op.name == "recv";
    Counters& c = counters_[op.group];
    if (op.batch == 0 || begins) ++(message ? c.messages : c.collectives);
    ++c.operations;
    entry(op, op.batch != 0, message);
    if (ends) {
      FlightOp whole = op;
      whole.name = "coalesced";
      whole.peer.reset();
      entry(whole, false, message);
    }
  }

  void entry(const FlightOp& op, bool batched, bool message) {
    const FlightGroup& group = job_.groups[op.group];
    const Counters& c = counters_[op.group];
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank_) - group.ranks.begin();
    std::string name = "nccl:" + op.name;
    if (op.peer) name += fmt::format(" {}{}{}", place, op.name == "send" ? "->" : "<-", *op.peer);
    // Nobody watches what is batched by itself.
    const FlightState state = batched ? FlightState::kScheduled : op.state;
    const int64_t created = job_.start_ns + static_cast<int64_t>(entries_.size()) * job_.spacing_ns;
    std::vector<FlightValue> e = {"record_id",     static_cast<int64_t>(entries_.size()),
                                  "pg_id",         local_id(op.group),
                                  "process_group", FlightValue::tuple({group.name, group.description})};
    if (old_) {
      e.insert(e.end(), {"seq_id", c.collectives + c.messages});
    } else {
      e.insert(e.end(), {"collective_seq_id", c.collectives, "p2p_seq_id", message ? c.messages : int64_t{0}, "op_id",
                         c.operations, "is_p2p", FlightValue::boolean(message), "timeout_ms", int64_t{600000}});
    }
    e.insert(e.end(),
             {"profiling_name", name, "time_created_ns", created, "input_sizes", sizes_value(op.sizes), "output_sizes",
              sizes_value(op.output_sizes.empty() ? op.sizes : op.output_sizes), "state", state_name(state)});
    if (!old_)
      e.insert(e.end(), {"input_dtypes", FlightValue::list({op.type}), "output_dtypes", FlightValue::list({op.type})});
    const bool done = state == FlightState::kCompleted;
    e.insert(e.end(), {"time_discovered_started_ns",
                       state == FlightState::kScheduled ? FlightValue() : FlightValue(created + 1000),
                       "time_discovered_completed_ns", done ? FlightValue(created + 2000) : FlightValue(), "retired",
                       FlightValue::boolean(op.retired)});
    if (!op.stack.empty()) {
      const auto frame = [](const std::string& function, const std::string& file, int64_t line) {
        return FlightValue::dict({"name", function, "filename", file, "line", line});
      };
      e.insert(e.end(),
               {"frames", FlightValue::list(
                              {frame(op.name, "/usr/lib/python3/torch/distributed/distributed_c10d.py", 2696),
                               frame(op.stack, "/home/u/train.py", 15), frame("<module>", "/home/u/train.py", 40)})});
    }
    entries_.push_back(FlightValue::dict(e));
    done_.push_back(op.state == FlightState::kCompleted);
    auto& last = last_.try_emplace(op.group, -1, -1).first->second;
    last.first = message ? c.messages : c.collectives;
    if (op.state == FlightState::kCompleted) last.second = last.first;
  }

  const FlightJob& job_;
  int64_t rank_;
  bool old_;
  std::map<size_t, Counters> counters_;
  std::map<size_t, std::pair<int64_t, int64_t>> last_;
  std::vector<FlightValue> entries_;
  std::vector<bool> done_;
};

void put(std::string& out, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 255);
}

class Pickler {
 public:
  explicit Pickler(int protocol) : protocol_(protocol) {}

  std::string run(const FlightValue& value) {
    out_ = {'\x80', static_cast<char>(protocol_)};
    write(value);
    return out_ + ".";
  }

 private:
  void remember() {
    if (protocol_ >= 4) {
      out_ += '\x94';
    } else if (memo_ < 256) {
      out_ += 'q';
      put(out_, memo_, 1);
    } else {
      out_ += 'r';
      put(out_, memo_, 4);
    }
    ++memo_;
  }
  void write(const FlightValue& v) {
    using Kind = FlightValue::Kind;
    switch (v.kind) {
      case Kind::kNone:
        out_ += 'N';
        return;
      case Kind::kBool:
        out_ += v.integer != 0 ? '\x88' : '\x89';
        return;
      case Kind::kInteger:
        if (v.integer >= 0 && v.integer < 256) {
          out_ += 'K';
          put(out_, static_cast<uint64_t>(v.integer), 1);
        } else if (v.integer >= INT32_MIN && v.integer <= INT32_MAX) {
          out_ += 'J';
          put(out_, static_cast<uint64_t>(v.integer), 4);
        } else {
          out_ += "\x8a\x08";
          put(out_, static_cast<uint64_t>(v.integer), 8);
        }
        return;
      case Kind::kText:
        text(v.text);
        return;
      case Kind::kList:
        out_ += ']';
        remember();
        if (v.members.empty()) return;
        out_ += '(';
        for (const FlightValue& member : v.members) write(member);
        out_ += 'e';
        return;
      case Kind::kTuple:
        for (const FlightValue& member : v.members) write(member);
        out_ += static_cast<char>(0x84 + v.members.size());
        remember();
        return;
      case Kind::kDict:
        out_ += '}';
        remember();
        out_ += '(';
        for (const FlightValue& member : v.members) write(member);
        out_ += 'u';
        return;
    }
  }
  void text(const std::string& text) {
    const auto known = texts_.find(text);
    if (known != texts_.end()) {
      out_ += 'j';
      put(out_, known->second, 4);
      return;
    }
    if (protocol_ >= 4 && text.size() < 256) {
      out_ += '\x8c';
      put(out_, text.size(), 1);
    } else {
      out_ += 'X';
      put(out_, text.size(), 4);
    }
    out_ += text;
    texts_[text] = memo_;
    remember();
  }

  int protocol_;
  std::string out_;
  uint64_t memo_ = 0;
  std::map<std::string, uint64_t> texts_;
};

}  // namespace

FlightValue flight_dump(const FlightJob& job, int64_t rank) { return DumpOfRank(job, rank).value(); }

std::string as_pickle(const FlightValue& value, int protocol) { return Pickler(protocol).run(value); }

std::string as_json(const FlightValue& v) {
  using Kind = FlightValue::Kind;
  std::string text;
  switch (v.kind) {
    case Kind::kNone:
      return "null";
    case Kind::kBool:
      return v.integer != 0 ? "true" : "false";
    case Kind::kInteger:
      return fmt::format("{}", v.integer);
    case Kind::kText:
      return "\"" + v.text + "\"";  // names of ours: nothing to escape
    case Kind::kDict:
      for (size_t i = 0; i + 1 < v.members.size(); i += 2)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", as_json(v.members[i]), as_json(v.members[i + 1]));
      return "{" + text + "}";
    default:
      for (const FlightValue& member : v.members) text += (text.empty() ? "" : ", ") + as_json(member);
      return "[" + text + "]";
  }
}

std::vector<std::pair<std::string, std::string>> flight_files(const FlightJob& job, int protocol,
                                                              const std::vector<int64_t>& absent) {
  std::vector<std::pair<std::string, std::string>> files;
  for (int64_t rank = 0; rank < static_cast<int64_t>(job.ranks.size()); ++rank) {
    if (std::find(absent.begin(), absent.end(), rank) != absent.end()) continue;
    const FlightValue dump = flight_dump(job, rank);
    files.emplace_back(fmt::format("nccl_trace_rank_{}", rank),
                       protocol == 0 ? as_json(dump) : as_pickle(dump, protocol));
  }
  return files;
}

}  // namespace ddl::test
