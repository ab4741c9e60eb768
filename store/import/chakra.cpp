// Chakra execution traces (et_def.proto of mlcommons/chakra), a file a rank, whose nodes carry times: as `ddl export
// chakra` and simulators write them. Unverified on a real file of another program.
//
//   rank             the number before ".et" (NAME.3.et), else that in the name, else the file's place among the files
//   COMP_NODE        with attribute "stream" a kernel (or copy) of a GPU; without one an operator, or if it is named
//                    "host" what lay between calls
//   COMM_COLL_NODE   with "stream" a kernel of NCCL; without one a call of MPI, numbered by its order on its group
//   COMM_SEND_NODE, COMM_RECV_NODE   a call of MPI among all ranks
//   METADATA_NODE    "## process_group:init ##" has the members of groups (pg_name); else they are the ranks whose
//                    files name the group
//   attribute step   nodes with one number are a step, which lasts as long as they do
//
// Dependencies are not read: times tell more. Nodes without times are refused: PyTorch's own execution
// traces have none.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "store/import/call_class.h"
#include "store/import/chakra_types.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/input_file.h"
#include "store/import/kernel_names.h"
#include "store/import/plain_data.h"
#include "store/import/rank_hints.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;
using chakra::NodeType;

constexpr uint64_t kMostNodeBytes = 16 << 20;
constexpr uint64_t kMostMicros = 4'000'000'000'000'000;
constexpr const char* kNoTimes =
    "nodes without times (start_time_micros), as PyTorch's execution traces have them: import the Kineto trace beside it";

/// Fields of one message.
class WireFields {
 public:
  explicit WireFields(std::string_view message) : rest_(message) {}

  /// False at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    field = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        number = varint();
        bytes = {};
        return true;
      case 1:
        skip(8);
        return true;
      case 2:
        bytes = take(varint());
        return true;
      case 5:
        skip(4);
        return true;
      default:
        throw BadRecord{fmt::format("field {} has an invalid wire type", field)};
    }
  }
  int64_t integer() const { return static_cast<int64_t>(number); }

  uint32_t field = 0;
  uint64_t number = 0;
  std::string_view bytes;

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) throw BadRecord{"a number is truncated"};
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    throw BadRecord{"a number of more than 64 bits"};
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw BadRecord{"a field is longer than its message"};
    const std::string_view taken = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  void skip(uint64_t size) {
    take(size);
    number = 0;
    bytes = {};
  }
  std::string_view rest_;
};

struct ChakraEvent {
  std::string name, group;
  NodeType type = NodeType::kInvalid;
  uint64_t start_us = 0, duration_us = 0;
  bool has_start = false;
  std::optional<int64_t> stream, step, thread, comm_type, bytes, source, destination, tag;
  std::string metadata;  ///< inputs.values of a METADATA_NODE
};

ChakraEvent read_node(std::string_view message) {
  ChakraEvent e;
  for (WireFields f(message); f.next();) {
    switch (f.field) {
      case chakra::kName:
        e.name = f.bytes;
        break;
      case chakra::kType:
        e.type = f.number <= 7 ? static_cast<NodeType>(f.number) : NodeType::kInvalid;
        break;
      case chakra::kStartMicros:
        e.start_us = f.number;
        e.has_start = true;
        break;
      case chakra::kDurationMicros:
        e.duration_us = f.number;
        break;
      case chakra::kInputs:
        if (e.type == NodeType::kMetadata)
          for (WireFields inputs(f.bytes); inputs.next();)
            if (inputs.field == 1) e.metadata = inputs.bytes;
        break;
      case chakra::kAttributes: {
        std::string_view name, text;
        std::optional<int64_t> number;
        for (WireFields attribute(f.bytes); attribute.next();) {
          if (attribute.field == chakra::kAttributeName)
            name = attribute.bytes;
          else if (attribute.field == chakra::kString)
            text = attribute.bytes;
          else if (attribute.bytes.empty() && attribute.field > 2)
            number = attribute.integer();
        }
        if (name == "pg_name") e.group = text;
        for (const auto& [known, to] : {std::pair{"stream", &e.stream},
                                        {"step", &e.step},
                                        {"tid", &e.thread},
                                        {"comm_type", &e.comm_type},
                                        {"comm_size", &e.bytes},
                                        {"comm_src", &e.source},
                                        {"comm_dst", &e.destination},
                                        {"comm_tag", &e.tag}})
          if (name == known) *to = number;
        break;
      }
      default:
        break;
    }
  }
  if (e.start_us > kMostMicros || e.duration_us > kMostMicros) throw BadRecord{"a time is out of range"};
  return e;
}

class ChakraFiles {
 public:
  ChakraFiles(ImportedRun& run, const std::vector<fs::path>& files) : run_(run), files_(files) {
    for (const fs::path& path : files) ranks_.push_back(rank_in_name(path.filename().string()));
    if (std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return !rank; }))
      for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i] = static_cast<int64_t>(i);
    for (const auto& rank : ranks_) world_size_ = std::max(world_size_, *rank + 1);
  }

  void read(const BytesRead& read) {
    for (size_t i = 0; i < files_.size(); ++i) each_node(i, {}, [&](const ChakraEvent& e) { learn(e, *ranks_[i]); });
    for (size_t i = 0; i < files_.size(); ++i) {
      ImportedProcess process;
      process.file = files_[i].filename().string();
      process.file_bytes = file_bytes(files_[i]);
      process.rank = *ranks_[i];
      process.world_size = world_size_;
      process_ = run_.add_process(std::move(process));
      numbers_.clear();
      steps_.clear();
      each_node(i, read, [&](const ChakraEvent& e) { tell(e); });
      for (const auto& [number, times] : steps_)
        run_.step(process_, run_.thread(process_, "0", 0), number, times.first, times.second - times.first);
    }
    run_.losses().add({}, "not_understood", left_, "nodes of other kinds than computing and communication: left out");
  }

 private:
  static std::optional<int64_t> rank_in_name(const std::string& file) {
    if (const size_t end = file.rfind(".et"); end != std::string::npos && end > 0) {
      const size_t dot = file.rfind('.', end - 1);
      const std::string digits =
          file.substr(dot == std::string::npos ? 0 : dot + 1, end - (dot == std::string::npos ? 0 : dot + 1));
      if (!digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == std::string::npos)
        return std::stoll(digits);
    }
    return rank_in_trace_name(file);
  }

  template <typename Take>
  void each_node(size_t number, const BytesRead& progress, Take&& take) {
    InputFile file(files_[number], progress);
    if (file.peek() == '{' && file.buffered().size() > 1 &&
        (file.buffered()[1] == '"' || static_cast<unsigned char>(file.buffered()[1]) <= ' '))
      file.fail(0, fmt::format("JSON, not protocol buffers; {}", kNoTimes));
    std::string message;
    bool head = true, any_start = false;
    uint64_t nodes = 0;
    while (!file.at_end()) {
      const uint64_t offset = file.offset();
      file.mark();
      uint64_t size = 0;
      int shift = 0;
      for (unsigned char byte = 0x80; byte >= 0x80; shift += 7) {
        if (file.at_end() || shift > 28) file.fail(offset, "the length of a message is truncated or invalid");
        byte = static_cast<unsigned char>(file.take());
        size |= uint64_t{byte & 0x7fu} << shift;
      }
      if (size > kMostNodeBytes) file.fail(offset, fmt::format("a node of {} bytes", size));
      message.clear();
      while (message.size() < size) {
        if (file.at_end()) file.fail(offset, "the file ends inside a message");
        const std::string_view there = file.buffered().substr(0, static_cast<size_t>(size) - message.size());
        message += there;
        file.skip(there.size());
      }
      try {
        if (std::exchange(head, false)) {
          check_head(message);
          continue;
        }
        const ChakraEvent e = read_node(message);
        any_start = any_start || e.start_us > 0;
        if (e.type >= NodeType::kCompute) ++nodes;
        take(e);
      } catch (const BadRecord& bad) {
        file.fail(offset, bad.what);
      }
    }
    if (nodes > 1 && !any_start) file.fail(0, kNoTimes);
  }

  /// GlobalMetadata: a version and attributes.
  static void check_head(std::string_view message) {
    for (WireFields f(message); f.next();)
      if (f.field < 1 || f.field > 2 || f.bytes.empty())
        throw BadRecord{"not a Chakra trace: it does not begin with version and attributes"};
  }

  /// Who is in which group.
  void learn(const ChakraEvent& e, int64_t rank) {
    if (e.type == NodeType::kMetadata && !e.metadata.empty()) {
      const size_t begin = e.metadata.find("[{"), end = e.metadata.rfind("}]");
      if (begin == std::string::npos || end == std::string::npos || end < begin) return;
      PlainData data;
      try {
        const auto list = read_json_document(std::string_view(e.metadata).substr(begin, end + 2 - begin), data);
        for (const auto group : data.members(list)) {
          const auto name = data.find(group, "pg_name"), members = data.find(group, "ranks");
          if (!name || !members || !data.is_list(*members)) continue;
          std::vector<int64_t> ranks;
          for (const auto member : data.members(*members))
            if (const auto number = data.integer(member); number && *number >= 0 && *number < kMaxRanks)
              ranks.push_back(*number);
          if (told_groups_.size() == kMostCommunicators)
            throw BadRecord{fmt::format("more than {} groups", kMostCommunicators)};
          told_groups_[std::string(data.text(*name))] = std::move(ranks);
        }
      } catch (const BadData& bad) {
        throw BadRecord{fmt::format("process groups: {}", bad.what)};
      }
    }
    if (e.type != NodeType::kCollective) return;
    seen_groups_[e.group].insert(rank);
    if (seen_groups_.size() > kMostCommunicators)
      throw BadRecord{fmt::format("more than {} groups", kMostCommunicators)};
  }

  uint32_t group(const std::string& name, bool of_nccl) {
    const auto [known, is_new] = communicators_.try_emplace({name, of_nccl}, 0);
    if (!is_new) return known->second;
    std::vector<int64_t> ranks;
    if (const auto told = told_groups_.find(name); told != told_groups_.end() && !told->second.empty()) {
      ranks = told->second;
    } else if (const auto seen = seen_groups_.find(name); seen != seen_groups_.end() && !name.empty()) {
      ranks.assign(seen->second.begin(), seen->second.end());
    } else {
      for (int64_t rank = 0; rank < world_size_; ++rank) ranks.push_back(rank);
    }
    const auto size = static_cast<int64_t>(ranks.size());
    const std::string label = name.empty() ? "all ranks" : "group " + name;
    return known->second =
               run_.communicator(label, label, of_nccl ? CommunicatorOf::kNccl : CommunicatorOf::kProgram, size, ranks);
  }

  void tell(const ChakraEvent& e) {
    if (e.type < NodeType::kCompute) {
      left_ += e.type != NodeType::kMetadata;
      return;
    }
    const int64_t start_ns = static_cast<int64_t>(e.start_us) * 1000,
                  duration_ns = static_cast<int64_t>(e.duration_us) * 1000;
    if (e.step && *e.step >= 0) {
      auto& [begin, end] = steps_.try_emplace(*e.step, start_ns, start_ns + duration_ns).first->second;
      begin = std::min(begin, start_ns);
      end = std::max(end, start_ns + duration_ns);
      if (steps_.size() > kMostSteps) throw BadRecord{fmt::format("more than {} steps", kMostSteps)};
    }
    if (e.stream) {
      tell_kernel(e, start_ns, duration_ns);
    } else if (e.type == NodeType::kCompute) {
      run_.moment(process_, start_ns);
      if (e.name != "host" && !e.name.empty())
        run_.range(process_, thread(e), ContextKind::kOperator, e.name, start_ns, duration_ns);
      run_.moment(process_, start_ns + duration_ns);
    } else {
      tell_call(e, start_ns, duration_ns);
    }
  }

  uint32_t thread(const ChakraEvent& e) {
    return run_.thread(process_, fmt::to_string(e.thread.value_or(0)), e.thread.value_or(0));
  }

  void tell_kernel(const ChakraEvent& e, int64_t start_ns, int64_t duration_ns) {
    GpuActivity a;
    a.name = e.name;
    a.start_ns = start_ns;
    a.duration_ns = duration_ns;
    a.device = 0;
    a.stream = e.stream;
    const CopyName copy = parse_copy_name(e.name.starts_with("[CUDA memcpy ") ? std::string_view(e.name).substr(6)
                                                                              : std::string_view(e.name));
    if (e.name.starts_with("[CUDA memcpy ")) {
      a.kind = DeviceKind::kMemcpy;
      a.copy = copy.kind.empty() ? "?" : std::string_view(copy.kind);
    } else if (e.name.starts_with("[CUDA memset")) {
      a.kind = DeviceKind::kMemset;
    }
    if (e.type != NodeType::kCollective) return run_.gpu(process_, a);
    ImportedOperation operation;
    operation.op = chakra::nccl_operation(e.comm_type.value_or(-1));
    operation.op_class = class_of_call(operation.op).op_class;
    operation.payload_bytes = payload(e);
    operation.communicator = group(e.group, true);
    run_.gpu(process_, a, &operation);
  }

  static std::optional<int64_t> payload(const ChakraEvent& e) {
    if (e.bytes && *e.bytes < 0) throw BadRecord{"comm_size is negative"};
    return e.bytes;
  }

  void tell_call(const ChakraEvent& e, int64_t start_ns, int64_t duration_ns) {
    ImportedOperation operation;
    const CallClass call = class_of_call(e.name);
    if (e.type == NodeType::kCollective) {
      const std::string_view usual = chakra::mpi_operation(e.comm_type.value_or(-1));
      if (usual.empty()) throw BadRecord{"comm_type is missing or unknown to Chakra"};
      operation.op = chakra::collective_type(e.name) == e.comm_type && call.op_class != OpClass::kOther
                         ? std::string_view(e.name)
                         : usual;
      operation.communicator = group(e.group, false);
      operation.seq = ++numbers_[operation.communicator];
    } else {
      const bool sends = e.type == NodeType::kSend;
      const auto peer = sends ? e.destination : e.source;
      if (!peer || *peer < 0 || *peer >= world_size_)
        throw BadRecord{"the peer of a message is missing or not one of the ranks"};
      operation.op = call.op_class == (sends ? OpClass::kSend : OpClass::kReceive) ? std::string_view(e.name)
                     : sends                                                       ? "MPI_Send"
                                                                                   : "MPI_Recv";
      operation.communicator = group("", false);
      operation.peer = *peer;
      operation.tag = e.tag;
    }
    const CallClass known = class_of_call(operation.op);
    operation.op_class = known.op_class;
    operation.nonblocking = known.nonblocking;
    operation.payload_bytes = payload(e);
    run_.call(process_, thread(e), operation, known.nonblocking ? ImportedTiming::kRequest : ImportedTiming::kCall,
              start_ns, duration_ns);
  }

  ImportedRun& run_;
  const std::vector<fs::path>& files_;
  std::vector<std::optional<int64_t>> ranks_;
  int64_t world_size_ = 0;
  std::map<std::string, std::vector<int64_t>> told_groups_;
  std::map<std::string, std::set<int64_t>> seen_groups_;
  std::map<std::pair<std::string, bool>, uint32_t> communicators_;
  uint64_t left_ = 0;
  // The file that is being read:
  size_t process_ = 0;
  std::map<uint32_t, int64_t> numbers_;                   // collectives so far, by communicator
  std::map<int64_t, std::pair<int64_t, int64_t>> steps_;  // begin and end
};

}  // namespace

void read_chakra(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  ChakraFiles(run, files).read(read);
}

}  // namespace ddl::store
