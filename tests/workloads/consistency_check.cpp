// Rules of consistency over MPI against their sequential definitions: mpirun -np 4 consistency_check. One process
// trains as all workers do, in the order that the server takes them, on the networks of `train`, and every loss must
// agree; bytes are counted between program and MPI.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/workloads/allreduce_counts.h"
#include "workloads/train/consistency_trainer.h"
#include "workloads/train/models.h"
#include "workloads/train/ops.h"

namespace ddl::train {
namespace {

using allreduce::seen;

int failures = 0;

void check(bool good, const std::string& what) {
  if (good) return;
  if (++failures <= 20) std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

using Values = std::vector<float>;

/** All workers of a job in one process, each with its own parameters; written from the rules' publications alone. */
class Sequential {
 public:
  Sequential(const Options& options, const Dataset& data, std::size_t workers)
      : options_(options), losses_(options.steps) {
    for (std::size_t w = 0; w < workers; ++w) replicas_.push_back(std::make_unique<Replica>(options, data, w, workers));
    const std::span<float> first = replicas_[0]->arena().values();
    server_.assign(first.begin(), first.end());
    velocity_.assign(server_.size(), 0);
    steps_.assign(workers, 0);
  }

  /** Gradients of worker w's next step, for the parameters that it has. */
  void next_gradients(std::size_t w) {
    replicas_[w]->load(steps_[w]);
    losses_[steps_[w]++] += replicas_[w]->forward().loss_sum / static_cast<double>(options_.batch * replicas_.size());
    replicas_[w]->backward();
  }
  void own_update(std::size_t w) {
    for (float& gradient : replicas_[w]->gradients()) gradient *= static_cast<float>(replicas_.size());
    replicas_[w]->arena().update(0, server_.size(), static_cast<float>(options_.rate),
                                 static_cast<float>(options_.momentum));
  }
  void push(std::size_t w) {
    const std::span<float> gradients = replicas_[w]->gradients();
    for (std::size_t i = 0; i < server_.size(); ++i) {
      velocity_[i] = static_cast<float>(options_.momentum) * velocity_[i] + gradients[i];
      server_[i] -= static_cast<float>(options_.rate) * velocity_[i];
    }
  }
  void pull(std::size_t w) { std::copy(server_.begin(), server_.end(), values(w).begin()); }
  void meet_centre(std::size_t w) {
    const float rate = 0.9F / static_cast<float>(replicas_.size());
    for (std::size_t i = 0; i < server_.size(); ++i) {
      const float distance = values(w)[i] - server_[i];
      values(w)[i] -= rate * distance;
      server_[i] += rate * distance;
    }
  }
  void average(const std::vector<std::vector<std::size_t>>& groups) {
    std::vector<Values> mixed;
    for (const auto& group : groups) {
      Values mean(server_.size(), 0);
      for (const std::size_t w : group)
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += values(w)[i] / static_cast<float>(group.size());
      mixed.push_back(std::move(mean));
    }
    for (std::size_t w = 0; w < groups.size(); ++w) std::copy(mixed[w].begin(), mixed[w].end(), values(w).begin());
  }
  std::size_t workers() const { return replicas_.size(); }
  const std::vector<double>& losses() const { return losses_; }

 private:
  std::span<float> values(std::size_t w) { return replicas_[w]->arena().values(); }
  Options options_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  Values server_, velocity_;
  std::vector<uint64_t> steps_;
  std::vector<double> losses_;
};

/** Pushes in this order; who pushed is answered at once, but not while it is more than `bound` steps ahead. */
void with_server(Sequential& job, const std::vector<std::size_t>& order, uint64_t steps, uint64_t bound) {
  std::vector<uint64_t> done(job.workers());
  std::deque<std::size_t> held;
  for (std::size_t w = 0; w < job.workers(); ++w) job.next_gradients(w);
  for (std::size_t i = 0; i < steps * job.workers(); ++i) {
    const std::size_t w = order[i % order.size()];
    job.push(w);
    ++done[w];
    held.push_back(w);
    uint64_t slowest = done[0];
    for (const uint64_t count : done) slowest = std::min(slowest, count);
    std::deque<std::size_t> still;
    for (const std::size_t h : held) {
      if (done[h] > slowest + bound) {
        still.push_back(h);
        continue;
      }
      job.pull(h);
      if (done[h] < steps) job.next_gradients(h);  // of what it has now, whenever they arrive
    }
    held = still;
  }
}

struct Case {
  std::string rule, order;
};

Options options_of(const Case& one, const std::string& model) {
  std::vector<std::string> words{"train",
                                 "--model",
                                 model,
                                 "--width",
                                 model == "mlp" ? "16" : "4",
                                 "--batch",
                                 "4",
                                 "--steps",
                                 "6",
                                 "--lr",
                                 "0.05",
                                 "--momentum",
                                 "0.5",
                                 "--consistency",
                                 one.rule,
                                 "--no-marks"};
  if (!one.order.empty()) words.insert(words.end(), {"--order", one.order});
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::vector<double> sequential_losses(const Options& options, const Dataset& data, std::size_t ranks) {
  using Kind = ConsistencyRule::Kind;
  const ConsistencyRule& rule = options.consistency;
  Sequential job(options, data, ranks - (rule.has_server() ? 1 : 0));
  const std::size_t workers = job.workers();
  if (rule.kind == Kind::kBounded || rule.kind == Kind::kAsynchronous) {
    with_server(job, rule.order, options.steps, rule.kind == Kind::kBounded ? rule.value : UINT64_MAX / 2);
    return job.losses();
  }
  if (rule.kind == Kind::kElastic) {  // meetings in the order given, the steps before them wherever
    for (std::size_t i = 0; i < options.steps / rule.value * workers; ++i) {
      const std::size_t w = rule.order[i % rule.order.size()];
      for (uint64_t step = 0; step < rule.value; ++step) job.next_gradients(w), job.own_update(w);
      job.meet_centre(w);
    }
    for (std::size_t w = 0; w < workers; ++w)
      for (uint64_t step = 0; step < options.steps % rule.value; ++step) job.next_gradients(w), job.own_update(w);
    return job.losses();
  }
  for (uint64_t step = 0; step < options.steps; ++step) {
    for (std::size_t w = 0; w < workers; ++w) job.next_gradients(w), job.own_update(w);
    std::vector<std::vector<std::size_t>> groups(workers);
    for (std::size_t w = 0; w < workers; ++w) {
      if (rule.kind == Kind::kLocal)
        for (std::size_t v = 0; v < workers; ++v) groups[w].push_back(v);
      else if (workers > 2)
        groups[w] = {w, (w + workers - 1) % workers, (w + 1) % workers};
      else
        groups[w] = {w, workers - 1 - w};
    }
    if (rule.kind == Kind::kGossip || (step + 1) % rule.value == 0) job.average(groups);
  }
  return job.losses();
}

/** For a rank in all steps, by the table in workloads/README.md. */
uint64_t sent_bytes(const Options& options, uint64_t rank, uint64_t ranks, uint64_t parameters) {
  using Kind = ConsistencyRule::Kind;
  const ConsistencyRule& rule = options.consistency;
  const uint64_t message = 4 * parameters, from_server = rank == 0 ? ranks - 1 : 1;
  if (rule.kind == Kind::kGossip) return options.steps * message * (ranks == 1 ? 0 : ranks == 2 ? 1 : 2);
  if (rule.kind == Kind::kLocal) return 0;
  if (rule.kind == Kind::kElastic) return options.steps / rule.value * message * from_server;
  return options.steps * message * from_server;
}

void run(const Case& one, const std::string& model, Mpi& mpi) {
  const Options options = options_of(one, model);
  const std::string what = model + ", " + one.rule + (one.order.empty() ? "" : " in order " + one.order);
  check_consistency(options.consistency, mpi.size());
  const std::unique_ptr<Dataset> data = make_drawn_set(options.seed);
  ConsistencyTrainer trainer(options, *data, mpi);
  trainer.start();
  seen = {};
  allreduce::counting = true;
  for (uint64_t step = 0; step < options.steps; ++step) trainer.run_step(step);
  allreduce::counting = false;
  const uint64_t wanted =
      sent_bytes(options, static_cast<uint64_t>(mpi.rank()), static_cast<uint64_t>(mpi.size()), trainer.parameters());
  check(seen.sent_bytes == wanted, what + ": rank " + std::to_string(mpi.rank()) + " sent " +
                                       std::to_string(seen.sent_bytes) + " bytes, by the formula " +
                                       std::to_string(wanted));
  check(trainer.sent().value_or(allreduce::Traffic{}).bytes == wanted, what + ": counted otherwise");
  const bool local = options.consistency.kind == ConsistencyRule::Kind::kLocal;
  check(seen.collectives == (local ? options.steps / options.consistency.value : 0), what + ": collectives");
  trainer.finish();
  if (mpi.rank() != 0) return;
  const std::vector<double> defined = sequential_losses(options, *data, static_cast<std::size_t>(mpi.size()));
  for (std::size_t step = 0; step < defined.size(); ++step) {
    const double got = (*trainer.results())[step].loss;
    check(std::fabs(got - defined[step]) <= 1e-5 * defined[step],
          what + ": loss of step " + std::to_string(step) + " is " + std::to_string(got) + ", by definition " +
              std::to_string(defined[step]));
  }
  if (one.rule == "async" &&
      // each push misses those of both others since its pull; in the first round what came before
      one.order == "0,1,2") {
    check(*trainer.staleness() == std::vector<uint64_t>{1, 1, 1 + 3 * (options.steps - 1)}, what + ": staleness");
  }
}

}  // namespace
}  // namespace ddl::train

int main(int argc, char** argv) {
  using namespace ddl::train;
  {
    Mpi mpi(&argc, &argv);
    use_one_blas_thread();
    for (const Case& one : {Case{"ssp:0", "0,1,2"},
                            {"ssp:0", "2,0,1"},
                            {"ssp:2", "0,0,0,1,1,1,2,2,2"},
                            {"ssp:1", "0,1,0,2,1,2"},
                            {"async", "0,1,2"},
                            {"async", "0,0,0,2,1,1,1,2,2"},
                            {"easgd:2", "0,1,2"},
                            {"easgd:4", "2,1,0"},
                            {"gossip", ""},
                            {"local:1", ""},
                            {"local:4", ""}}) {
      run(one, "mlp", mpi);
    }
    run({"async", "1,0,2"}, "cnn", mpi);
    int most = failures;
    PMPI_Allreduce(&failures, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (mpi.rank() == 0) std::printf("%d ranks, most failures on one: %d\n", mpi.size(), most);
    failures = most;
  }
  return failures > 0 ? 1 : 0;
}
