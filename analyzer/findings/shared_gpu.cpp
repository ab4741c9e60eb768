// Several ranks that compute on one GPU: they take turns on it, and nobody is told (CUDA_VISIBLE_DEVICES that says
// the same for all, or MPS). Which GPU it is says its place on the PCI bus of its host. The instances of a
// partitioned GPU (MIG) share that, and are told by their names; each has cores of its own. What the sharing costs
// is not known from here.
#include <fmt/format.h>

#include <vector>

#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

struct SharedGpu {
  std::string host, name, bus;
  std::vector<int64_t> ranks;
};

std::vector<SharedGpu> find_shared_gpus(const FindingInput& input) {
  std::vector<SharedGpu> shared;
  Query rows(input.db, R"(
    SELECT DISTINCT h.id, h.name, g.bus, coalesce(g.name, 'GPU'), p.rank
    FROM gpu g
    JOIN process p ON p.id = g.process
    JOIN host h ON h.id = p.host
    WHERE p.world = ?1 AND p.rank IS NOT NULL AND g.bus IS NOT NULL AND coalesce(g.name, '') NOT LIKE '%MIG%'
      AND EXISTS (SELECT 1 FROM gpu_event e WHERE e.process = g.process AND e.device = g.device AND e.kind = 1)
    ORDER BY h.id, g.bus, p.rank)");
  int64_t host = -1;
  for (rows.bind(input.world); rows.next();) {
    if (shared.empty() || rows.integer(0) != host || rows.text(2) != shared.back().bus) {
      shared.push_back({rows.text(1), rows.text(3), rows.text(2), {}});
      host = rows.integer(0);
    }
    shared.back().ranks.push_back(rows.integer(4));
  }
  std::erase_if(shared, [](const SharedGpu& gpu) { return gpu.ranks.size() < 2; });
  return shared;
}

}  // namespace

DDL_FINDING(shared_gpu, kSpeed, "gpu-timeline", "several ranks compute on one GPU and take turns there",
            "the GPU's place on the PCI bus of its host, by each rank that ran kernels on it; not the instances of a "
            "partitioned GPU (MIG)") {
  const std::vector<SharedGpu> shared = find_shared_gpus(input);
  if (shared.empty()) return {};
  const SharedGpu& first = shared.front();
  Finding finding;
  finding.sentence = fmt::format("{} compute on the same GPU ({} at {} of {})", ranks_text(first.ranks), first.name,
                                 first.bus, first.host);
  if (shared.size() > 1)
    finding.sentence += fmt::format(", and {} more GPU{} like it", shared.size() - 1, shared.size() == 2 ? "" : "s");
  finding.confidence = "sure";
  finding.evidence =
      "They take turns, or share its cores (MPS); what that costs is part of their computing and of the others' waiting.";
  finding.evidence_sql = fmt::format(
      "SELECT h.name AS host, g.bus, g.name, p.rank, g.device FROM gpu g JOIN process p ON p.id = g.process JOIN host h ON h.id = p.host"
      " WHERE p.world = {} AND g.bus IS NOT NULL ORDER BY h.name, g.bus, p.rank",
      input.world);
  finding.advice =
      "give each rank a GPU of its own: torch.cuda.set_device(local_rank), CUDA_VISIBLE_DEVICES by rank, srun --gpus-per-task=1; where several "
      "ranks are meant to share it, CUDA's MPS lets their kernels run side by side";
  return {finding};
}

}  // namespace ddl
