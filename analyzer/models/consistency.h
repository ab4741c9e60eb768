// Replays the computing and transfer times of a data-parallel job under other rules of parameter consistency: the waits
// between workers, how long a step then takes, and how stale the parameters are that it begins with.
//
//   synchronous     all exchange gradients in every step; the job as it was recorded
//   bounded (SSP)   a rank may begin a step while the slowest has finished at most s steps less (Ho et al., NIPS 2013);
//                   s = 0: synchronous. Each rank pays the recorded transfer of the step for itself
//   asynchronous    a rank pushes its gradients to servers and pulls the parameters, and waits for no other rank (Dean
//                   et al., NIPS 2012; Li et al., OSDI 2014). Each server holds a part as large as another's; its link
//                   takes one message at a time in each direction, in the order in which ranks asked
//                   Li et al., OSDI 2014). Each server holds a part as large as another's; its link takes one message
//                   at a time in each direction, in the order in which ranks asked
//   gossip          each step ends with averaging parameters with the neighbours in a graph (Jin et al. 2016; Lian
//                   et al., NIPS 2017)
//   elastic (EASGD) ranks compute alone and meet a centre, held by one server, in every tau-th step (Zhang
//   et al., NIPS 2015)
//   local           ranks compute alone and average their parameters by the recorded transfer in every H-th step
//                   (Stich, ICLR 2019)
//   partial         the collective of a step begins when all but k ranks have come; late ranks join a later one (Li
//                   et al., PPoPP 2020)
//
// Ranks that are not held up go on, with their recorded steps again from the first, until the slowest has done as many
// as were recorded (of periods: whole ones). With a bound the recorded steps are repeated until they take as long as
// before, and the last ones count: being ahead at first is no rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ddl::models {

struct ConsistencyJob {
  std::vector<std::vector<double>> compute_s;  ///< [rank][step], above 0; as many steps of each rank, at least one
  /// [step]: exchanging the gradients of a step with all ranks, waiting not counted
  std::vector<double> exchange_s;
  double bytes = 0;                         ///< of the gradients of a step; of the parameters as well
  double alpha_s = 0, beta_s_per_byte = 0;  ///< of a message between two ranks, each direction of a link
};

enum class Consistency { kSynchronous, kBounded, kAsynchronous, kGossip, kElastic, kLocal, kPartial };

struct ConsistencyRule {
  Consistency kind = Consistency::kSynchronous;
  int64_t value = 0;                               ///< s (at least 0), servers, tau, H (at least 1), k (0 to ranks - 1)
  std::vector<std::pair<size_t, size_t>> graph{};  ///< of gossip: neighbours, each pair once
};

struct ConsistencyReplay {
  double step_s = 0;          ///< time in which the job does as many steps as it has ranks, each in its rank
  double idle_ratio = 0;      ///< of the time of ranks: waiting for other ranks, or until a server's link is free
  double transfer_ratio = 0;  ///< likewise: exchanging
  /// [n]: steps begun n steps ahead of the slowest rank: their staleness. For partial collectives: exchanged n
  /// collectives late.
  std::vector<int64_t> staleness;
  /// asynchronous, elastic: updates by other ranks between reading parameters and changing them, mean
  double missed_updates = 0;
  double sent_bytes = 0;    ///< by a rank, in a step, mean; allreduces by a ring: 2 (p-1)/p of the gradients
  double server_bytes = 0;  ///< into the busiest server, and out of it, while each rank does a step; 0: there is none
};

/// Throws ddl::Error (usage) for a rank that does not compute, a value out of range or an edge between ranks
/// that there are not.
ConsistencyReplay replay_consistency(const ConsistencyJob& job, const ConsistencyRule& rule);

/// Neighbours on a ring, of all with all, or in a hypercube (as many ranks as a power of two). Throws
/// ddl::Error (usage).
std::vector<std::pair<size_t, size_t>> gossip_graph(std::string_view name, size_t ranks);

}  // namespace ddl::models
