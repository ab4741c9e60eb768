// What an allreduce costs by its algorithm: the alpha-beta-gamma models (specification.md "Cost of allreduces"; Thakur,
// Rabenseifner and Gropp 2005; the parameter server, tree, butterfly and ring rows as in Ben-Nun and Hoefler's survey
// of 2018, the multi-dimensional ring after IBM DDL, 1708.02188).
//
// Times are seconds, sizes are bytes of one rank's buffer. The models know neither congestion nor what an
// implementation does well or badly: in them ring never beats Rabenseifner, on machines it does. They prune,
// they do not decide.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddl::models {

/// One rank's link while all others use theirs.
struct Link {
  double alpha_s = 0;           ///< per message
  double beta_s_per_byte = 0;   ///< moving a byte
  double gamma_s_per_byte = 0;  ///< reducing a byte
};

enum class Algorithm { kParameterServer, kTree, kButterfly, kRabenseifner, kRing };
constexpr Algorithm kAlgorithms[] = {Algorithm::kParameterServer, Algorithm::kTree, Algorithm::kButterfly,
                                     Algorithm::kRabenseifner, Algorithm::kRing};
/// "parameter_server", "tree", "butterfly", "rabenseifner", "ring".
std::string_view name_of(Algorithm algorithm);

/// How often each of the link's three costs is paid on the critical path. All models are linear in them, which is what
/// makes a fit possible.
struct Work {
  double messages = 0;
  double moved_bytes = 0;
  double reduced_bytes = 0;
  Work& operator+=(const Work& other);
  double seconds(const Link& link) const;
};

/// An allreduce of `bytes` on `ranks`. Where the number of ranks is not a power of two the tree takes ceil(lg p)
/// rounds, and butterfly and Rabenseifner first fold the surplus ranks onto others and unfold at the end: 2 alpha + 2 n
/// beta + n gamma. One rank: nothing.
Work allreduce_work(Algorithm algorithm, int64_t ranks, double bytes);
double allreduce_seconds(Algorithm algorithm, int64_t ranks, double bytes, const Link& link);

/// One dimension of a multi-dimensional ring: rings of `ranks` over `link`, on the shards that the
/// dimensions before it left.
struct Dimension {
  int64_t ranks;
  Link link;
  /// As tier of a cluster (ring_plan.h): time of a byte where one rank alone uses a link that others could use as well;
  /// unset: each has a link of its own.
  std::optional<double> alone_s_per_byte = {};
};
/// A dimension for each tier is the hierarchical allreduce: ring within each node (reduce-scatter), ring between
/// nodes on the shards, ring within each node (allgather). Every rank sends between nodes, the outer link is what
/// one of them gets.
double multi_ring_seconds(const std::vector<Dimension>& dimensions, double bytes);
/// Binomial reduce to one leader per node, and on to one per group of each tier but the last, ring between those
/// leaders on whole buffers, binomial broadcast back. Tiers innermost first, at least one.
double leader_seconds(const std::vector<Dimension>& tiers, double bytes);

/// No algorithm can be faster: bandwidth 2 (p-1)/p n beta, latency alpha lg p.
double lower_bound_seconds(int64_t ranks, double bytes, const Link& link);

/// Size from which Rabenseifner beats the butterfly; ranks is a power of two, at least 2. Infinite if bytes cost
/// nothing.
double butterfly_to_rabenseifner_bytes(int64_t ranks, const Link& link);

}  // namespace ddl::models
