// CSV of two analyses of training jobs, told apart by their columns.
//
// Layers of PipeDream's profiler (op, fwd_ms, bwd_ms): a step of one rank that computes forwards through the layers
// and backwards again.
//
// Operations of a what-if analysis of stragglers (ByteDance's: dp_rank, stage, rank, step, optype, start_ts, duration,
// seq_id, mb_id; times in seconds since the step began): each rank's computing, messages between pipeline stages and
// collectives among replicas, step by step. Steps are put one behind the other; what lay between them is not in the
// file. Verified on the public jobs ST, AR and SE.
//
// A row's rank stands for all ranks of its replica and stage (tensor and sequence parallelism), so that the file's
// numbers have gaps: the ranks of the run are the replicas' stages, in the order of those numbers. Stages may hold
// several model chunks (column mc), which makes their messages go round: the last stage sends to the first. Two
// messages may be one operation (forward-send-backward-recv): they are two here, each of its whole time.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "store/import/csv_rows.h"
#include "store/import/decimal.h"
#include "store/import/formats.h"
#include "store/import/imported_run.h"
#include "store/import/pipeline_ops.h"

namespace ddl::store {

namespace {

namespace fs = std::filesystem;

// ------------------------------------------------------------------------------------------------ PipeDream

void read_layers(ImportedRun& run, CsvRows& rows, const fs::path& path, uint64_t bytes) {
  struct Layer {
    std::string name;
    int64_t backward_ns;
  };
  ImportedProcess process;
  process.file = path.filename().string();
  process.file_bytes = bytes;
  process.host = "unknown";
  const size_t rank = run.add_process(std::move(process));
  const uint32_t thread = run.thread(rank, "main", 0);
  std::vector<Layer> layers;
  int64_t time_ns = 0;
  const auto compute = [&](const std::string& name, int64_t duration_ns) {
    if (duration_ns < 0) rows.fail("a layer has a negative time");
    run.range(rank, thread, ContextKind::kLayer, name, time_ns, duration_ns);
    if (__builtin_add_overflow(time_ns, duration_ns, &time_ns)) rows.fail("the times of the layers overflow");
  };
  constexpr size_t kMostLayers = 1'000'000;
  try {
    while (rows.next()) {
      std::string name = rows.text("op");
      if (rows.has("node")) name = rows.text("node") + " " + name;
      compute(name, rows.decimal("fwd_ms", kMillisecondsToNs));
      layers.push_back({std::move(name), rows.decimal("bwd_ms", kMillisecondsToNs)});
      if (layers.size() > kMostLayers) rows.fail("more than a million layers");
    }
    const int64_t forward_ns = time_ns;
    run.range(rank, thread, ContextKind::kPhase, "forward", 0, forward_ns);
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) compute(layer->name, layer->backward_ns);
    run.range(rank, thread, ContextKind::kPhase, "backward", forward_ns, time_ns - forward_ns);
    if (!layers.empty()) run.step(rank, thread, 0, 0, time_ns);
  } catch (const BadRecord& bad) {
    rows.fail(bad.what);
  }
}

// ------------------------------------------------------------------------------------------------ what-if

struct WhatIfJob {
  int64_t replicas = 0, stages = 0, chunks = 1;           ///< chunks: of a stage
  std::map<int64_t, std::pair<int64_t, int64_t>> places;  ///< replica and stage of each rank of the file
  std::map<int64_t, int64_t> length_ns;                   ///< of each step
};

struct StageMessage {
  std::string_view type;
  bool forward, sends;
};
constexpr StageMessage kStageMessages[] = {{"forward-send", true, true},
                                           {"forward-recv", true, false},
                                           {"backward-send", false, true},
                                           {"backward-recv", false, false}};

/// The messages of an operation, by their names with hyphens between them. Empty: it is something else.
std::vector<const StageMessage*> messages_of(std::string_view type) {
  std::vector<const StageMessage*> messages;
  for (;; type.remove_prefix(1)) {
    const auto found = std::find_if(std::begin(kStageMessages), std::end(kStageMessages),
                                    [&](const StageMessage& message) { return type.starts_with(message.type); });
    if (found == std::end(kStageMessages)) return {};
    messages.push_back(found);
    type.remove_prefix(found->type.size());
    if (type.empty()) return messages;
    if (type.front() != '-') return {};
  }
}

/// Which model chunk of its stage the row is of. Nothing: the file does not tell, as the public ones do not
/// for messages (-1).
std::optional<int64_t> chunk_of(const CsvRows& row) {
  if (!row.has("mc")) return std::nullopt;
  const std::optional<int64_t> chunk = whole(row.text("mc"));
  return chunk && *chunk >= 0 && *chunk < kMaxRanks ? chunk : std::nullopt;
}

/// The first pass: who there is, and how long steps are.
WhatIfJob survey(CsvRows& rows) {
  WhatIfJob job;
  while (rows.next()) {
    const int64_t rank = rows.integer("rank"), replica = rows.integer("dp_rank"), stage = rows.integer("stage");
    for (const int64_t number : {rank, replica, stage})
      if (number < 0 || number >= kMaxRanks) rows.fail("a rank, dp_rank or stage that is out of range");
    if (job.places.try_emplace(rank, replica, stage).first->second != std::pair(replica, stage))
      rows.fail(fmt::format("rank {} has two places", rank));
    job.replicas = std::max(job.replicas, replica + 1);
    job.stages = std::max(job.stages, stage + 1);
    job.chunks = std::max(job.chunks, chunk_of(rows).value_or(0) + 1);
    const int64_t start_ns = rows.decimal("start_ts", kSecondsToNs),
                  duration_ns = rows.decimal("duration", kSecondsToNs);
    constexpr int64_t kLongestTimeNs = int64_t{1'000'000} * 1'000'000'000;
    if (start_ns < 0 || duration_ns < 0 || start_ns > kLongestTimeNs || duration_ns > kLongestTimeNs)
      rows.fail("a time that is out of range");
    int64_t& length_ns = job.length_ns[rows.integer("step")];
    length_ns = std::max(length_ns, start_ns + duration_ns);
  }
  std::set<std::pair<int64_t, int64_t>> taken;
  for (const auto& [rank, place] : job.places)
    if (!taken.insert(place).second)
      rows.fail(fmt::format("two ranks are replica {} of stage {}", place.first, place.second));
  return job;
}

class WhatIf {
 public:
  WhatIf(ImportedRun& run, const WhatIfJob& job, const fs::path& path, uint64_t bytes) : run_(run), job_(job) {
    // Where somebody is missing, the numbers without their stride say who.
    const bool all = static_cast<int64_t>(job.places.size()) == job.replicas * job.stages;
    const int64_t stride =
        std::accumulate(job.places.begin(), job.places.end(), int64_t{0},
                        [](int64_t divisor, const auto& place) { return std::gcd(divisor, place.first); });
    int64_t next = 0;
    for (const auto& [file_rank, place] : job.places) {
      const int64_t rank = all ? next++ : file_rank / std::max<int64_t>(stride, 1);
      ImportedProcess process;
      process.file = path.filename().string();
      process.file_bytes = bytes;
      process.rank = rank;
      if (!all) process.world_size = std::min(job.replicas * job.stages, kMaxRanks);
      process.host = "unknown, by one clock";
      process.facts = {{"pipeline_stage", fmt::to_string(place.second)},
                       {"replica", fmt::to_string(place.first)},
                       {"global_rank", fmt::to_string(file_rank)},
                       {"computes", "layers"}};
      if (job.chunks > 1) process.facts.emplace_back("model_chunks", fmt::to_string(job.chunks));
      processes_[file_rank] = run.add_process(std::move(process));
      run.thread(processes_[file_rank], "compute", 0);
      ranks_[place] = rank;
    }
    int64_t begin_ns = 0;
    for (const auto& [step, length_ns] : job.length_ns) {
      begins_ns_[step] = begin_ns;
      for (const auto& [rank, process] : processes_) run.step(process, 0, step, begin_ns, length_ns);
      begin_ns += length_ns;
    }
  }

  void add(const CsvRows& row) {
    const int64_t file_rank = row.integer("rank"), step = row.integer("step");
    const auto [replica, stage] = job_.places.at(file_rank);
    const std::string& type = row.text("optype");
    const size_t process = processes_.at(file_rank);
    const int64_t start_ns = begins_ns_.at(step) + row.decimal("start_ts", kSecondsToNs),
                  duration_ns = row.decimal("duration", kSecondsToNs);
    if (const auto messages = messages_of(type); !messages.empty()) {
      for (const StageMessage* message : messages)
        add_message(*message, chunk_of(row), process, replica, stage, start_ns, duration_ns);
      return;
    }
    const bool forward = type.starts_with("forward-"), backward = type.starts_with("backward-");
    ImportedOperation operation;
    operation.op = type;
    if (const PipelineCollective* collective = find_pipeline_collective(type)) {
      operation.op_class = OpClass::kAllToAll;
      operation.communicator = among(collective->meets, replica, stage);
      if (operation.communicator != 0) operation.seq = number_of(row, step, collective - kPipelineCollectives);
      run_.call(process, 0, operation, ImportedTiming::kCall, start_ns, duration_ns);
      return;
    }
    if (forward || backward)
      run_.range(process, 0, ContextKind::kPhase, forward ? "forward" : "backward", start_ns, duration_ns);
    run_.range(process, 0, ContextKind::kLayer, type, start_ns, duration_ns);
  }

  void add_losses() const {
    run_.losses().add(
        {}, "stage_messages", ends_,
        "messages that would leave the pipeline at its first or last chunk, where nobody meets them: kept as ranges");
    run_.losses().add(
        {}, "stage_messages", untold_,
        "messages between the last and the first stage whose model chunk (mc) the file does not tell, and which perhaps nobody "
        "meets: kept as ranges");
  }

 private:
  void add_message(const StageMessage& message, std::optional<int64_t> chunk, size_t process, int64_t replica,
                   int64_t stage, int64_t start_ns, int64_t duration_ns) {
    const uint32_t thread = run_.thread(process, message.type, 0);
    const bool up = message.forward == message.sends;  // the other end computes the next chunk of the model
    int64_t peer = up ? stage + 1 : stage - 1;
    if (peer < 0 || peer >= job_.stages) {
      const bool goes_round = job_.chunks > 1 && job_.stages > 1;
      if (!goes_round || !chunk || *chunk == (up ? job_.chunks - 1 : 0)) {
        ++(goes_round && !chunk ? untold_ : ends_);
        // a layer would be computing
        run_.range(process, thread, ContextKind::kPhase, message.type, start_ns, duration_ns);
        return;
      }
      peer = (peer + job_.stages) % job_.stages;
    }
    ImportedOperation operation;
    operation.op = message.type;
    operation.op_class = message.sends ? OpClass::kSend : OpClass::kReceive;
    operation.communicator = stages_of(replica);
    operation.peer = peer;
    operation.tag = message.forward ? 0 : 1;
    run_.call(process, thread, operation, ImportedTiming::kCall, start_ns, duration_ns);
  }

  /// The same on all ranks, in whatever order rows come.
  int64_t number_of(const CsvRows& row, int64_t step, int64_t type) const {
    constexpr int64_t kMostInStep = 1 << 20;
    const int64_t number = row.integer("seq_id");
    if (number < 0 || number >= kMostInStep) row.fail(fmt::format("seq_id {} is out of range", number));
    const auto steps_before = std::distance(begins_ns_.begin(), begins_ns_.find(step));
    return (steps_before * static_cast<int64_t>(std::size(kPipelineCollectives)) + type) * kMostInStep + number + 1;
  }

  /// 0: nobody but the rank itself.
  uint32_t among(Meets whom, int64_t replica, int64_t stage) {
    switch (whom) {
      case Meets::kReplicas:
        return communicator(fmt::format("replicas of stage {}", stage), [&] {
          for (int64_t r = 0; r < job_.replicas; ++r) take(r, stage);
        });
      case Meets::kEnds:
        return communicator(fmt::format("first and last stage of replica {}", replica), [&] {
          take(replica, 0);
          take(replica, job_.stages - 1);
        });
      case Meets::kAll:
        return communicator("all ranks", [&] {
          for (const auto& [place, rank] : ranks_) members_.push_back(rank);
          std::sort(members_.begin(), members_.end());
        });
      case Meets::kAlone:
        break;
    }
    return 0;
  }

  uint32_t stages_of(int64_t replica) {
    return communicator(fmt::format("pipeline of replica {}", replica), [&] {
      for (int64_t s = 0; s < job_.stages; ++s) take(replica, s);
    });
  }

  /// `take_members` is called the first time only: there are as many as ranks.
  template <class TakeMembers>
  uint32_t communicator(const std::string& name, TakeMembers take_members) {
    const auto [entry, is_new] = communicators_.try_emplace(name, 0);
    if (is_new) {
      members_.clear();
      take_members();
      entry->second =
          run_.communicator(name, name, CommunicatorOf::kProgram, static_cast<int64_t>(members_.size()), members_);
    }
    return entry->second;
  }

  void take(int64_t replica, int64_t stage) {
    if (const auto found = ranks_.find({replica, stage}); found != ranks_.end()) members_.push_back(found->second);
  }

  ImportedRun& run_;
  const WhatIfJob& job_;
  std::map<int64_t, size_t> processes_;                   ///< by the file's rank
  std::map<std::pair<int64_t, int64_t>, int64_t> ranks_;  ///< by replica and stage
  std::map<int64_t, int64_t> begins_ns_;                  ///< of steps
  std::map<std::string, uint32_t> communicators_;         ///< by name
  std::vector<int64_t> members_;                          ///< of a new one
  uint64_t ends_ = 0, untold_ = 0;                        ///< messages that are ranges
};

bool is_parquet(const fs::path& path) {
  if (std::error_code error; !fs::is_regular_file(path, error)) return false;  // what a pipe holds can be read once
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "PAR1";
}

}  // namespace

void read_pipedream(ImportedRun& run, const std::vector<fs::path>& files, const BytesRead& read) {
  if (files.size() > 1)
    throw Error("several files given: one CSV file holds one job",
                "import each by itself: ddl import pipedream trace.csv.gz", ExitCode::kUsage);
  const fs::path& path = files[0];
  const uint64_t bytes = file_bytes(path);
  if (is_parquet(path))
    throw Error(
        fmt::format("{} is a Parquet file, not CSV", path.string()),
        fmt::format("python3 -c 'import pandas; pandas.read_parquet(\"{}\").to_csv(\"trace.csv\", index=False)'",
                    path.string()),
        ExitCode::kUsage);
  InputFile file(path, read);
  CsvRows rows(file);
  if (rows.has("optype")) {
    const WhatIfJob job = survey(rows);
    InputFile again(path, {});
    CsvRows second(again);
    try {
      WhatIf what_if(run, job, path, bytes);
      while (second.next()) what_if.add(second);
      what_if.add_losses();
    } catch (const BadRecord& bad) {
      second.fail(bad.what);
    }
    return;
  }
  if (!rows.has("fwd_ms")) file.fail(0, "neither a column optype (what-if) nor fwd_ms (PipeDream)");
  read_layers(run, rows, path, bytes);
}

}  // namespace ddl::store
