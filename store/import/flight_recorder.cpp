// Dumps of PyTorch's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE): the last operations that each rank enqueued, a
// file a rank, as pickle or as JSON (of _dump_nccl_trace_json()). Read as torch/csrc/distributed/c10d/FlightRecorder
// writes them, versions 1 and 2.
//
//   rank         "rank" of the dump; else the number behind "rank" in the file's name, else the last number there
//                (_dump_14)
//   pg_config    groups by name: description and ranks, which come as a text "[0, 1]". An empty list is all ranks. A
//                name may stand for several groups (split_group): the ranks tell them apart
//   pg_status    by the process's own number of the group: which that is, is told by the entries (pg_id), and where
//                groups are named by a counter by the order of both
//   entries      in the order in which the host enqueued them. Numbers are collective_seq_id, p2p_seq_id and op_id;
//                version 1 has one, seq_id. A message has its group's number of collectives so far. What was batched
//                (coalesced) has one number, and one entry "coalesced" behind it that alone has a state
//                A message has its group's number of collectives so far. What was batched (coalesced) has one number,
//                and one entry "coalesced" behind it that alone has a state
//   state        scheduled, started (only where events are timed), completed. A collective of which a later one
//                completed has, too
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"
#include "store/import/plain_data.h"
#include "store/import/rank_hints.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;
using Id = PlainData::Id;

constexpr uint64_t kMostDumpBytes = 128 << 20;
constexpr size_t kMostEntries = 1 << 20, kMostGroups = 1 << 20, kMostFrames = 64, kMostTensors = 4096,
                 kMostDimensions = 64;
constexpr int64_t kMostNumber = int64_t{1} << 53;  // of operations
constexpr size_t kMostFramesRead = 16 << 20;       // of a file: a pickle may hold one list many times

struct Group {
  std::string name, description;
  std::vector<int64_t> ranks;  ///< in the group's order; empty: all, or not told
  bool told = false;           ///< by pg_config
  std::set<int64_t> seen;      ///< ranks with entries, where it is not told
};

struct Entry {
  FlightEntry row;
  std::string key;  ///< of what completes in the order of its numbers
  int64_t number = 0;
  bool is_coalesced = false, done = false;
};

class FlightDumps {
 public:
  explicit FlightDumps(ImportedRun& run) : run_(run) {}

  void read(const fs::path& path, const BytesRead& progress) {
    InputFile file(path, progress);
    std::string bytes;
    while (!file.at_end()) {
      if (bytes.size() >= kMostDumpBytes)
        file.fail(bytes.size(), fmt::format("larger than {} MiB, the limit for a dump", kMostDumpBytes >> 20));
      if (bytes.size() % 4096 == 0) file.mark();
      bytes += file.take();
    }
    const size_t first = bytes.find_first_not_of(" \t\r\n");
    const bool pickled = !bytes.empty() && static_cast<unsigned char>(bytes[0]) == 0x80;
    if (!pickled && (first == std::string::npos || (bytes[first] != '{' && bytes[first] != '['))) {
      not_dumps_.push_back(path.filename().string());
      return;
    }
    data_.emplace();
    try {
      const Id root = pickled ? read_pickle(bytes, *data_) : read_json_document(bytes, *data_);
      frames_read_ = 0;
      here_ = root;
      if (is_dump(root)) {
        dump(root, path, rank_in_dump_name(path.filename().string()));
      } else {
        dumps_by_rank(root, path);
      }
    } catch (const BadData& bad) {
      file.fail(bad.offset, bad.what);
    } catch (const BadRecord& bad) {
      file.fail(data_->offset(here_), bad.what);
    }
    data_.reset();
  }

  void finish() {
    if (dumps_ == 0) {
      throw Error(
          fmt::format("{}, byte 0: neither a pickle of protocol 2 to 5 nor JSON", not_dumps_.front()),
          "dumps of the flight recorder are what PyTorch writes as TORCH_NCCL_DEBUG_INFO_TEMP_FILE<rank>, or a folder of them",
          ExitCode::kDataMissing);
    }
    if (!not_dumps_.empty()) {
      run_.losses().add(
          {}, "not_dumps", not_dumps_.size(),
          fmt::format("files that are not dumps: {}{}", not_dumps_.front(), not_dumps_.size() > 1 ? ", ..." : ""));
    }
    run_.losses().add({}, "stacks", stacks_left_out_, "stacks beyond 64 MiB of different ones: left out");
    run_.losses().add({}, "pg_status", unmapped_,
                      "ranks whose pg_status cannot be told by group: their entries alone count");
    std::vector<uint32_t> numbers;
    for (Group& group : groups_) {
      if (group.ranks.empty() && is_whole_job(group)) {
        for (int64_t rank = 0; rank < world_size_; ++rank) group.ranks.push_back(rank);
      } else if (group.ranks.empty()) {
        group.ranks.assign(group.seen.begin(), group.seen.end());
      }
      const std::string& words = group.description;
      std::string label =
          words.empty() || words == "undefined" ? "group " + group.name
          : words == group.name || words == "default_pg"
              ? words
              : fmt::format("{} {}", words, group.name.substr(0, std::min<size_t>(group.name.size(), 12)));
      numbers.push_back(run_.communicator(group.name, label, CommunicatorOf::kNccl,
                                          static_cast<int64_t>(group.ranks.size()), group.ranks));
    }
    for (const auto& [process, rank] : processes_) run_.process(process).world_size = world_size_;
    if (!any_time_) {
      for (const auto& [process, rank] : processes_) run_.moment(process, 0);
    }
    run_.flight_groups(numbers);
  }

 private:
  bool is_dump(Id id) const {
    return data_->find(id, "entries") || data_->find(id, "pg_config") || data_->find(id, "pg_status");
  }

  bool is_whole_job(const Group& group) const {
    return group.told || group.description == "default_pg" || group.name == "0";
  }

  /// Several ranks in one file: {"0": {...}, "1": {...}}, or a list of dumps that say their ranks.
  void dumps_by_rank(Id root, const fs::path& path) {
    const std::vector<Id>* members = data_->is_dict(root) || data_->is_list(root) ? &data_->members(root) : nullptr;
    const size_t stride = members != nullptr && data_->is_dict(root) ? 2 : 1;
    bool any = false;
    for (size_t i = stride - 1; members != nullptr && i < members->size(); i += stride) {
      if (!is_dump((*members)[i])) continue;
      any = true;
      dump((*members)[i], path, stride == 2 ? data_->integer((*members)[i - 1]) : std::nullopt);
    }
    if (!any) throw BadRecord{"not a flight recorder dump: neither entries nor pg_config"};
  }

  std::string_view word(Id dict, std::string_view key) const {
    const auto id = data_->find(dict, key);
    return id ? data_->text(*id) : std::string_view();
  }
  std::optional<int64_t> integer(Id dict, std::string_view key) const {
    const auto id = data_->find(dict, key);
    return id ? data_->integer(*id) : std::nullopt;
  }
  /// A number that something is counted by.
  std::optional<int64_t> number(Id dict, std::string_view key) const {
    const std::optional<int64_t> value = integer(dict, key);
    if (value && (*value < -1 || *value > kMostNumber)) throw BadRecord{fmt::format("{} is out of range", key)};
    return value;
  }
  std::optional<int64_t> moment(Id dict, std::string_view key) const {
    const std::optional<int64_t> value = integer(dict, key);
    return value && *value > 0 ? value : std::nullopt;
  }

  std::vector<int64_t> ranks_of(Id config) const {
    std::vector<int64_t> ranks;
    const auto id = data_->find(config, "ranks");
    if (!id) return ranks;
    const auto add = [&](int64_t rank) {
      if (rank < 0 || rank >= kMaxRanks) throw BadRecord{"a rank of a group is out of range"};
      ranks.push_back(rank);
    };
    if (data_->is_list(*id)) {
      for (const Id member : data_->members(*id)) add(data_->integer(member).value_or(-1));
    } else {
      const std::string_view text = data_->text(*id);
      for (size_t at = text.find_first_of("0123456789"); at != std::string_view::npos;
           at = text.find_first_of("0123456789", at)) {
        const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
        add(end - at > 9 ? -1 : std::stoll(std::string(text.substr(at, end - at))));
        at = end;
      }
    }
    return ranks;
  }

  size_t group_of(const std::string& key, std::string_view name, std::string_view description, bool told) {
    const auto [entry, is_new] = group_numbers_.try_emplace(key, groups_.size());
    if (is_new) {
      if (groups_.size() >= kMostGroups) throw BadRecord{fmt::format("more than {} groups", kMostGroups)};
      groups_.push_back({std::string(name), std::string(description), {}, told, {}});
    }
    Group& group = groups_[entry->second];
    if (group.description.empty()) group.description = description;
    return entry->second;
  }

  void dump(Id root, const fs::path& path, std::optional<int64_t> rank_of_name) {
    here_ = root;
    const std::string file = path.filename().string();
    std::map<std::string, size_t, std::less<>> local;  // the rank's groups by name
    std::set<int64_t> candidates;
    if (const auto config = data_->find(root, "pg_config"); config && data_->is_dict(*config)) {
      const std::vector<Id>& members = data_->members(*config);
      for (size_t i = 1; i < members.size(); i += 2) {
        std::string name(data_->text(members[i - 1]));
        if (name.empty()) name = fmt::format("{}", data_->integer(members[i - 1]).value_or(0));
        here_ = members[i];
        const std::vector<int64_t> ranks = ranks_of(members[i]);
        const size_t number =
            group_of(fmt::format("{}|{}", name, fmt::join(ranks, ",")), name, word(members[i], "desc"), true);
        groups_[number].ranks = ranks;
        local[name] = number;
        candidates.insert(ranks.begin(), ranks.end());
        if (!ranks.empty()) world_size_ = std::max(world_size_, *std::max_element(ranks.begin(), ranks.end()) + 1);
      }
    }
    here_ = root;
    const std::optional<int64_t> told = number(root, "rank");
    const std::optional<int64_t> rank = told && *told >= 0 ? told : rank_of_name;
    if (!rank || *rank < 0 || *rank >= kMaxRanks)
      throw BadRecord{"its rank is unknown: end the file's name in the rank, as in _dump_3"};
    if (!candidates.empty() && !candidates.contains(*rank))
      throw BadRecord{fmt::format("its name says rank {}, which is in none of its groups", *rank)};
    world_size_ = std::max(world_size_, *rank + 1);
    ++dumps_;

    ImportedProcess told_process;
    told_process.file = file;
    told_process.file_bytes = file_bytes(path);
    told_process.rank = rank;
    told_process.is_realtime = true;
    for (const char* key : {"version", "nccl_version", "comm_lib_version"})
      if (!word(root, key).empty())
        told_process.facts.emplace_back(fmt::format("flight_recorder.{}", key), word(root, key));
    const size_t process = run_.add_process(std::move(told_process));
    processes_.emplace_back(process, *rank);

    std::map<int64_t, size_t> by_id;  // groups by the process's own number
    if (const auto list = data_->find(root, "entries"); list && data_->is_list(*list))
      entries(process, *rank, *list, local, by_id);
    if (const auto status = data_->find(root, "pg_status"); status && data_->is_dict(*status))
      states(process, *status, local, by_id);
  }

  // ---------------------------------------------------------------------------------------------- entries

  void entries(size_t process, int64_t rank, Id list, std::map<std::string, size_t, std::less<>>& local,
               std::map<int64_t, size_t>& by_id) {
    const std::vector<Id>& members = data_->members(list);
    if (members.size() > kMostEntries) throw BadRecord{fmt::format("more than {} entries", kMostEntries)};
    std::vector<Entry> rows;
    rows.reserve(members.size());
    for (const Id member : members) {
      here_ = member;
      if (!data_->is_dict(member)) throw BadRecord{"an entry is not a dictionary"};
      rows.push_back(entry(rank, member, rows.size(), local, by_id));
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Entry& a, const Entry& b) { return a.row.record < b.row.record; });
    settle_batches(rows);
    settle_order(rows);
    for (Entry& e : rows) {
      e.row.is_open = !e.done;
      if (e.row.created_ns) {
        run_.moment(process, *e.row.created_ns);
        any_time_ = true;
      }
      if (e.row.completed_ns) {
        run_.moment(process, *e.row.completed_ns);
        any_time_ = true;
      }
      run_.flight(process, e.row);
    }
  }

  Entry entry(int64_t rank, Id id, size_t place, std::map<std::string, size_t, std::less<>>& local,
              std::map<int64_t, size_t>& by_id) {
    Entry e;
    FlightEntry& row = e.row;
    std::string name, description;
    if (const auto group = data_->find(id, "process_group");
        group && data_->is_list(*group) && !data_->members(*group).empty()) {
      const std::vector<Id>& words = data_->members(*group);
      name = data_->text(words[0]);
      if (words.size() > 1) description = data_->text(words[1]);
    } else if (group) {
      name = data_->text(*group);
    }
    const std::optional<int64_t> pg_id = number(id, "pg_id");
    if (name.empty()) name = word(id, "pg_name");
    if (name.empty()) name = fmt::format("{}", pg_id.value_or(0));
    const auto known = local.find(name);
    row.group = known != local.end() ? known->second : local[name] = group_of("|" + name, name, description, false);
    if (pg_id) by_id[*pg_id] = row.group;
    Group& group = groups_[row.group];
    if (!group.told) group.seen.insert(rank);

    row.record = number(id, "record_id").value_or(static_cast<int64_t>(place));
    row.seq = number(id, "collective_seq_id");
    row.p2p_seq = number(id, "p2p_seq_id");
    row.op_id = number(id, "op_id");
    const std::optional<int64_t> only = number(id, "seq_id");  // version 1
    std::string_view op = word(id, "profiling_name");
    if (const size_t colon = op.find(':'); colon != std::string_view::npos) op.remove_prefix(colon + 1);
    const size_t blank = op.find(' ');
    row.op = op.substr(0, blank);
    if (row.op.empty()) throw BadRecord{"an entry without profiling_name"};
    e.is_coalesced = row.op == "coalesced";
    const bool named_message = row.op == "send" || row.op == "recv";
    const auto flag = data_->find(id, "is_p2p");
    row.is_message = named_message || (flag && data_->integer(*flag).value_or(0) != 0);
    if (named_message && blank != std::string_view::npos) row.peer = peer_of(op.substr(blank + 1), group);
    if (!row.seq && only && !row.is_message) row.seq = only;
    if (!row.p2p_seq && only && row.is_message) row.p2p_seq = only;
    if (!row.is_message) row.p2p_seq = std::nullopt;
    // nobody says whose: of messages not all ranks take part
    if (e.is_coalesced && !flag && !row.is_message) row.is_message = true;
    e.number = (row.is_message && !e.is_coalesced ? row.p2p_seq : row.seq).value_or(0);
    if (e.is_coalesced && row.is_message) e.number = row.p2p_seq.value_or(row.seq.value_or(0));
    if (row.is_message) {
      e.key = row.peer ? fmt::format("{}>{}", row.group, *row.peer) : "";
    } else {
      e.key = fmt::format("{}", row.group);
    }

    row.created_ns = moment(id, "time_created_ns");
    row.started_ns = moment(id, "time_discovered_started_ns");
    row.completed_ns = moment(id, "time_discovered_completed_ns");
    row.timeout_ms = integer(id, "timeout_ms");
    row.state = word(id, "state");
    if (row.state.empty()) row.state = row.completed_ns ? "completed" : row.started_ns ? "started" : "scheduled";
    const auto retired = data_->find(id, "retired");
    row.retired = retired && data_->integer(*retired).value_or(0) != 0;
    e.done = row.state == "completed" || row.retired;
    row.input_sizes = sizes(id, "input_sizes", row.input_elements);
    row.output_sizes = sizes(id, "output_sizes", row.output_elements);
    row.input_types = types(id, "input_dtypes");
    row.output_types = types(id, "output_dtypes");
    row.stack = stack(id);
    return e;
  }

  /// Of "1->0" and "0<-1", in the group's ranks: the other one is the second.
  static std::optional<int64_t> peer_of(std::string_view text, const Group& group) {
    const size_t at = text.find_last_not_of("0123456789");
    if (at == std::string_view::npos || at + 1 >= text.size() || text.size() - at > 9) return std::nullopt;
    const auto place = static_cast<size_t>(std::stoll(std::string(text.substr(at + 1))));
    if (group.ranks.empty()) return static_cast<int64_t>(place);
    return place < group.ranks.size() ? std::optional(group.ranks[place]) : std::nullopt;
  }

  /// "[[8192, 1], [16]]"; elements of each in `elements`, "8192 16".
  std::string sizes(Id id, std::string_view key, std::string& elements) const {
    const auto list = data_->find(id, key);
    if (!list || !data_->is_list(*list)) return {};
    std::string text = "[";
    for (const Id tensor : data_->members(*list)) {
      if (text.size() > kMostTensors * 8) return text + ", ...]";
      std::vector<int64_t> dimensions;
      if (data_->is_list(tensor)) {
        for (const Id dimension : data_->members(tensor)) {
          if (dimensions.size() >= kMostDimensions) throw BadRecord{"a tensor of more than 64 dimensions"};
          dimensions.push_back(data_->integer(dimension).value_or(0));
        }
      }
      int64_t count = 1;
      for (const int64_t dimension : dimensions)
        if (__builtin_mul_overflow(count, dimension, &count)) throw BadRecord{"the size of a tensor is out of range"};
      text += fmt::format("{}[{}]", text.size() > 1 ? ", " : "", fmt::join(dimensions, ", "));
      elements += fmt::format("{}{}", elements.empty() ? "" : " ", count);
    }
    return text + "]";
  }
  std::string types(Id id, std::string_view key) const {
    const auto list = data_->find(id, key);
    std::string text;
    if (!list || !data_->is_list(*list)) return text;
    size_t count = 0;
    for (const Id type : data_->members(*list)) {
      if (++count > kMostTensors) return text;
      const std::string_view name = data_->text(type);
      text += fmt::format("{}{}", text.empty() ? "" : ", ", name.substr(0, 32));
    }
    return text;
  }

  /// Innermost frame first, as PyTorch has them.
  std::optional<int64_t> stack(Id id) {
    const auto frames = data_->find(id, "frames");
    if (!frames || !data_->is_list(*frames) || data_->members(*frames).empty()) return std::nullopt;
    std::string text;
    size_t count = 0;
    for (const Id frame : data_->members(*frames)) {
      if (++frames_read_ > kMostFramesRead) throw BadRecord{"more stack frames than a dump can hold"};
      if (++count > kMostFrames) break;
      text += fmt::format("{}{} ({}:{})", text.empty() ? "" : " < ", word(frame, "name").substr(0, 256),
                          word(frame, "filename").substr(0, 512), integer(frame, "line").value_or(0));
    }
    return run_.flight_stack(text, stacks_left_out_);
  }

  /// What was batched has the state of the entry behind it.
  static void settle_batches(std::vector<Entry>& rows) {
    std::map<int64_t, std::vector<size_t>> batches;  // by group: entries of one number
    for (size_t i = 0; i < rows.size(); ++i) {
      Entry& e = rows[i];
      std::vector<size_t>& batch = batches[static_cast<int64_t>(e.row.group)];
      if (!e.is_coalesced) {
        const bool joins = !batch.empty() && rows[batch.front()].number == e.number &&
                           rows[batch.front()].row.is_message == e.row.is_message;
        if (!joins) batch.clear();
        batch.push_back(i);
        continue;
      }
      if (!batch.empty() &&
          (rows[batch.front()].number == e.number || rows[batch.front()].number == e.row.p2p_seq.value_or(-1) ||
           rows[batch.front()].number == e.row.seq.value_or(-1))) {
        e.row.is_message = rows[batch.front()].row.is_message;
        for (const size_t child : batch) {
          rows[child].done = e.done;
          if (rows[child].row.state == "scheduled") rows[child].row.state = e.row.state;
        }
      }
      if (e.row.is_message) e.key.clear();
      batch.clear();
    }
  }

  /// What is enqueued behind something else on the same connection completes after it.
  static void settle_order(std::vector<Entry>& rows) {
    std::set<std::string> later_completed;
    for (auto e = rows.rbegin(); e != rows.rend(); ++e) {
      if (e->key.empty()) continue;
      if (e->row.state == "completed" && !e->is_coalesced) later_completed.insert(e->key);
      if (later_completed.contains(e->key)) e->done = true;
    }
  }

  // ---------------------------------------------------------------------------------------------- pg_status

  void states(size_t process, Id status, const std::map<std::string, size_t, std::less<>>& local,
              std::map<int64_t, size_t>& by_id) {
    std::map<int64_t, Id> states;
    const std::vector<Id>& members = data_->members(status);
    for (size_t i = 1; i < members.size(); i += 2)
      if (const auto id = data_->integer(members[i - 1]); id && data_->is_dict(members[i])) states[*id] = members[i];
    map_by_order(states, local, by_id);
    bool all = true;
    for (const auto& [id, state] : states) {
      here_ = state;
      const auto group = by_id.find(id);
      if (group == by_id.end()) {
        all = false;
        continue;
      }
      run_.flight_status(process, group->second, number(state, "last_enqueued_collective"),
                         number(state, "last_started_collective"), number(state, "last_completed_collective"));
    }
    if (!all) ++unmapped_;
  }

  /// Groups that a counter names were made in the order of their names, which is that of the process's own numbers.
  static void map_by_order(const std::map<int64_t, Id>& states, const std::map<std::string, size_t, std::less<>>& local,
                           std::map<int64_t, size_t>& by_id) {
    std::map<int64_t, size_t> by_name;
    for (const auto& [name, group] : local) {
      if (name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != std::string::npos) return;
      by_name[std::stoll(name)] = group;
    }
    if (by_name.size() != states.size()) return;
    std::map<int64_t, size_t> mapped;
    auto group = by_name.begin();
    for (const auto& [id, state] : states) mapped[id] = (group++)->second;
    for (const auto& [id, known] : by_id)
      if (!mapped.contains(id) || mapped[id] != known) return;
    by_id = mapped;
  }

  ImportedRun& run_;
  std::optional<PlainData> data_;
  std::vector<Group> groups_;
  std::map<std::string, size_t> group_numbers_;
  std::vector<std::pair<size_t, int64_t>> processes_;  // and their ranks
  std::vector<std::string> not_dumps_;
  int64_t world_size_ = 0;
  uint64_t dumps_ = 0, stacks_left_out_ = 0, unmapped_ = 0;
  size_t frames_read_ = 0;
  Id here_ = 0;  ///< what is being read
  bool any_time_ = false;
};

}  // namespace

void read_flight_recorder(ImportedRun& run, const std::vector<fs::path>& paths, const BytesRead& read) {
  FlightDumps dumps(run);
  for (const fs::path& path : paths) dumps.read(path, read);
  dumps.finish();
}

}  // namespace ddl::store
