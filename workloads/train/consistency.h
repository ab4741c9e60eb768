#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddl::train {

/** Who waits for whose parameters (--consistency). Of P ranks all are workers, or all but rank 0, which
 * then is the server. */
struct ConsistencyRule {
  enum class Kind {
    kSynchronous,  ///< the sum of all gradients in every step
    /// SSP: a server; nobody begins a step more than `value` steps ahead of the slowest (Ho et al., NIPS 2013)
    kBounded,
    kAsynchronous,  ///< a server; nobody waits for another worker
    /// average of the own parameters and those of both neighbours on a ring, after every step (Lian et al., NIPS 2017)
    kGossip,
    kElastic,  ///< EASGD: a server holds the centre, met in every `value`-th step (Zhang et al., NIPS 2015)
    kLocal     ///< average of all parameters in every `value`-th step (Stich, ICLR 2019)
  };
  Kind kind = Kind::kSynchronous;
  uint64_t value = 0;
  /** Workers, from 0, in the order in which the server takes what they send, over and over; empty: as it comes. */
  std::vector<std::size_t> order{};

  bool has_server() const { return kind == Kind::kBounded || kind == Kind::kAsynchronous || kind == Kind::kElastic; }
};

/** Of --consistency and --order. Throws UsageError. */
ConsistencyRule parse_consistency(const std::string& rule, const std::string& order);

/** Throws UsageError: too few ranks, or an order that leaves a worker out or that the bound would hold up for good. */
void check_consistency(const ConsistencyRule& rule, int ranks);

}  // namespace ddl::train
