#include "analyzer/findings/contention.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/cpu_waits.h"
#include "analyzer/findings/findings.h"
#include "analyzer/query.h"

namespace ddl {
namespace {

struct Inflated {
  std::string_view id;
  bool on_gpus = false;  ///< its time is the host's also where GPUs compute and carry out collectives
};

/// Those whose saving is made of what threads compute or transfer. Not those whose cause is recorded (a range of a
/// checkpoint, of garbage collection, of compiling, bytes of experts), nor what devices do.
constexpr Inflated kInflated[] = {
    {"batch_too_small"},   {"blocking_collectives"}, {"busy_server"},        {"exposed_tail"},    {"host_bound", true},
    {"input_bound", true}, {"layer_imbalance"},      {"loader_stall", true}, {"pipeline_bubble"}, {"slow_algorithm"},
    {"slow_link"},         {"small_collectives"},    {"straggler"},          {"unused_overlap"},
};

std::vector<int64_t> late_ranks(const Finding& finding) {
  return finding.rank ? std::vector{*finding.rank} : finding.ranks;
}

}  // namespace

Contention::Contention(SQLite::Database& db, int64_t world) {
  for (const CpuWait& wait : read_cpu_waits(db, world)) {
    shares_[wait.rank] = wait.share();
    considerable_ = considerable_ || wait.share() > kLeastCpuWait;
  }
  if (!considerable_) return;
  Query row(db, "SELECT waits_by = 'device' FROM steady_world WHERE world = ?");
  on_gpus_ = row.bind(world).next() && row.integer(0) != 0;
}

bool Contention::is_told_by(std::string_view id) { return id == "cpu_contention" || id == "shared_cores"; }

bool Contention::inflates(std::string_view id) const {
  const auto* found = std::ranges::find(kInflated, id, &Inflated::id);
  return considerable_ && found != std::end(kInflated) && (found->on_gpus || !on_gpus_);
}

double Contention::mean_share(const std::vector<int64_t>& ranks, bool others) const {
  double sum = 0, count = 0;
  for (const auto& [rank, share] : shares_)
    if ((std::ranges::find(ranks, rank) == ranks.end()) == others) sum += share, ++count;
  return count > 0 ? sum / count : 0;
}

bool Contention::may_explain(const std::vector<int64_t>& waiting, std::string_view id, const Finding& finding,
                             double share) const {
  if (!inflates(id) || !finding.saving_ns) return false;
  if (const std::vector<int64_t> late = late_ranks(finding); !late.empty()) {
    const bool theirs =
        std::ranges::any_of(late, [&](int64_t rank) { return std::ranges::find(waiting, rank) != waiting.end(); });
    return theirs && 2 * (mean_share(late, false) - mean_share(late, true)) >= share;
  }
  std::vector<double> waits;
  for (const int64_t rank : waiting)
    if (const auto wait = shares_.find(rank); wait != shares_.end() && wait->second > kLeastCpuWait)
      waits.push_back(wait->second);
  std::ranges::sort(waits, std::greater());
  return !waits.empty() && waits[0] + (waits.size() > 1 ? waits[1] : 0) >= share;
}

std::string Contention::evidence(std::string_view id, const Finding& finding, double share) const {
  if (!inflates(id) || !finding.saving_ns) return "";
  std::vector<int64_t> all;
  for (const auto& [rank, own] : shares_) all.push_back(rank);
  const char* first = may_explain(all, id, finding, share) ? ": mend that first" : "";
  if (const std::vector<int64_t> late = late_ranks(finding); !late.empty()) {
    const double own = mean_share(late, false);
    if (own <= kLeastCpuWait) return "";
    return fmt::format(" {} waited for a CPU for {} of the run, the other{} for {}; that is in these times{}.",
                       late.size() == 1 ? "It" : "They", percent_text(own),
                       shares_.size() - late.size() == 1 ? "" : "s", percent_text(mean_share(late, true)), first);
  }
  const auto longest = std::ranges::max_element(shares_, {}, [](const auto& wait) { return wait.second; });
  const auto several = std::ranges::count_if(shares_, [](const auto& wait) { return wait.second > kLeastCpuWait; }) > 1;
  return fmt::format(" {} waited for a CPU for {}{} of the run, which is in these times{}.",
                     several ? "Ranks" : fmt::format("Rank {}", longest->first), several ? "up to " : "",
                     percent_text(longest->second), first);
}

}  // namespace ddl
