// CSV of two analyses of training jobs, told apart by their columns.
//
// Layers of PipeDream's profiler (op, fwd_ms, bwd_ms): a step of one rank that computes forwards through the layers and backwards again.
//
// Operations of a what-if analysis of stragglers (ByteDance's: dp_rank, stage, rank, step, optype, start_ts, duration, seq_id, mb_id; times
// in seconds since the step began): each rank's computing, messages between pipeline stages and collectives among replicas, step by step.
// Steps are put one behind the other; what lay between them is not in the file. Verified on the public job ST.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
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
  int64_t replicas = 0, stages = 0;
  std::map<int64_t, std::pair<int64_t, int64_t>> places;  ///< replica and stage of each rank
  std::map<int64_t, int64_t> length_ns;                   ///< of each step
};

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
    const int64_t start_ns = rows.decimal("start_ts", kSecondsToNs), duration_ns = rows.decimal("duration", kSecondsToNs);
    constexpr int64_t kLongestTimeNs = int64_t{1'000'000} * 1'000'000'000;
    if (start_ns < 0 || duration_ns < 0 || start_ns > kLongestTimeNs || duration_ns > kLongestTimeNs)
      rows.fail("a time that is out of range");
    int64_t& length_ns = job.length_ns[rows.integer("step")];
    length_ns = std::max(length_ns, start_ns + duration_ns);
  }
  std::set<std::pair<int64_t, int64_t>> taken;
  for (const auto& [rank, place] : job.places)
    if (!taken.insert(place).second) rows.fail(fmt::format("two ranks are replica {} of stage {}", place.first, place.second));
  return job;
}

class WhatIf {
 public:
  WhatIf(ImportedRun& run, const WhatIfJob& job, const fs::path& path, uint64_t bytes) : run_(run), job_(job) {
    for (const auto& [rank, place] : job.places) {
      ImportedProcess process;
      process.file = path.filename().string();
      process.file_bytes = bytes;
      process.rank = rank;
      process.host = "unknown, by one clock";
      process.facts = {{"pipeline_stage", fmt::to_string(place.second)}, {"replica", fmt::to_string(place.first)}, {"computes", "layers"}};
      processes_[rank] = run.add_process(std::move(process));
      run.thread(processes_[rank], "compute", 0);
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
    const int64_t rank = row.integer("rank"), step = row.integer("step");
    const auto [replica, stage] = job_.places.at(rank);
    const std::string& type = row.text("optype");
    const size_t process = processes_.at(rank);
    const int64_t start_ns = begins_ns_.at(step) + row.decimal("start_ts", kSecondsToNs),
                  duration_ns = row.decimal("duration", kSecondsToNs);
    const bool forward = type.starts_with("forward-"), backward = type.starts_with("backward-");
    ImportedOperation operation;
    operation.op = type;
    if ((forward || backward) && (type.ends_with("-send") || type.ends_with("-recv"))) {
      const bool sends = type.ends_with("-send");
      operation.op_class = sends ? OpClass::kSend : OpClass::kReceive;
      operation.communicator = stages_of(replica);
      operation.peer = forward == sends ? stage + 1 : stage - 1;
      operation.tag = forward ? 0 : 1;
      if (*operation.peer < 0 || *operation.peer >= job_.stages) row.fail(fmt::format("{} of stage {} of {}", type, stage, job_.stages));
      run_.call(process, run_.thread(process, type, 0), operation, ImportedTiming::kCall, start_ns, duration_ns);
      return;
    }
    if (const PipelineCollective* collective = find_pipeline_collective(type)) {
      operation.op_class = OpClass::kAllToAll;
      operation.communicator = among(collective->meets, replica, stage);
      if (operation.communicator != 0) operation.seq = number_of(row, step, collective - kPipelineCollectives);
      run_.call(process, 0, operation, ImportedTiming::kCall, start_ns, duration_ns);
      return;
    }
    if (forward || backward) run_.range(process, 0, ContextKind::kPhase, forward ? "forward" : "backward", start_ns, duration_ns);
    run_.range(process, 0, ContextKind::kLayer, type, start_ns, duration_ns);
  }

 private:
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
          for (const auto& [rank, place] : job_.places) members_.push_back(rank);
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
      entry->second = run_.communicator(name, name, CommunicatorOf::kProgram, static_cast<int64_t>(members_.size()), members_);
    }
    return entry->second;
  }

  void take(int64_t replica, int64_t stage) {
    if (const auto found = ranks_.find({replica, stage}); found != ranks_.end()) members_.push_back(found->second);
  }

  ImportedRun& run_;
  const WhatIfJob& job_;
  std::map<int64_t, size_t> processes_;                   ///< by rank
  std::map<std::pair<int64_t, int64_t>, int64_t> ranks_;  ///< by replica and stage
  std::map<int64_t, int64_t> begins_ns_;                  ///< of steps
  std::map<std::string, uint32_t> communicators_;         ///< by name
  std::vector<int64_t> members_;                          ///< of a new one
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
    throw Error("several files given: one CSV file holds one job", "import each by itself: ddl import pipedream trace.csv.gz",
                ExitCode::kUsage);
  const fs::path& path = files[0];
  const uint64_t bytes = file_bytes(path);
  if (is_parquet(path))
    throw Error(fmt::format("{} is a Parquet file, not CSV", path.string()),
                fmt::format("python3 -c 'import pandas; pandas.read_parquet(\"{}\").to_csv(\"trace.csv\", index=False)'", path.string()),
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
    } catch (const BadRecord& bad) {
      second.fail(bad.what);
    }
    return;
  }
  if (!rows.has("fwd_ms")) file.fail(0, "neither a column optype (what-if) nor fwd_ms (PipeDream)");
  read_layers(run, rows, path, bytes);
}

}  // namespace ddl::store
