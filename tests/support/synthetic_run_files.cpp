// From a simulated run to the files of its run directory.
#include <algorithm>
#include <set>
#include <stdexcept>

#include "tests/support/synthetic_run_simulation.h"

namespace ddl::test::synthetic {
namespace {

void write_job_json(const Plan& plan, const Truth& truth, const std::filesystem::path& folder) {
  std::string text = "{\n \"schema\": 1,\n \"command\": [";
  for (size_t i = 0; i < plan.command.size(); ++i) {
    text += i == 0 ? "\"" : ", \"";
    for (const char c : plan.command[i]) text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    text += "\"";
  }
  text += "],\n \"name\": \"train\",\n \"launcher\": \"mpirun\",\n \"started_realtime_ns\": " +
          std::to_string(truth.epoch_realtime_ns - 50000000) +
          ",\n \"ended_realtime_ns\": " + std::to_string(truth.epoch_realtime_ns + truth.end_ns + 50000000) +
          ",\n \"exit_code\": " + std::to_string(plan.exit_code) + ",\n \"signal\": null,\n \"env\": {}\n}\n";
  write_bytes(folder / "job.json", {reinterpret_cast<const unsigned char*>(text.data()), text.size()});
}

}  // namespace

Truth simulate(const Plan& plan, const std::filesystem::path* folder) {
  if (plan.ranks < 1) throw std::invalid_argument("synthetic run: no ranks");
  Ledger ledger(plan.ranks);
  Simulation simulation(plan, ledger);
  simulation.run();
  Truth truth = ledger.close();
  truth.epoch_realtime_ns = 1760000000000000000;
  const std::set<int> missing(plan.missing.begin(), plan.missing.end());
  for (int r = 0; r < plan.ranks; ++r) {
    Rank& rank = simulation.ranks()[static_cast<size_t>(r)];
    truth.end_ns = std::max(truth.end_ns, rank.now);
    truth.records.push_back(rank.process->records());
    truth.spools.push_back(missing.count(r) ? "" : rank.process->file_name());
    if (!folder || missing.count(r)) continue;
    rank.process->finish();
    rank.process->spool().write(*folder / truth.spools.back());
  }
  if (folder && plan.job_json) write_job_json(plan, truth, *folder);
  return truth;
}

}  // namespace ddl::test::synthetic
