#include "workloads/allreduce/allreduce.h"

#include <charconv>
#include <cstring>
#include <stdexcept>

namespace ddl::allreduce {

namespace {

std::string joined(const std::vector<int>& dimensions) {
  std::string text;
  for (const int d : dimensions) text.append(text.empty() ? "" : "x").append(std::to_string(d));
  return text;
}

std::string all_names() {
  std::string text;
  for (const Algorithm& algorithm : algorithms()) text.append(text.empty() ? "" : ", ").append(algorithm.name);
  return text;
}

/** Within the node first, if all nodes have as many ranks; otherwise there is no grid, and one ring remains. */
std::vector<int> dimensions_of(const Topology& topology) {
  const int per_node = topology.ranks() / topology.nodes();
  for (int node = 0; node < topology.nodes(); ++node) {
    if (static_cast<int>(topology.members(node).size()) != per_node) return {topology.ranks()};
  }
  if (per_node == 1 || topology.nodes() == 1) return {topology.ranks()};
  return {per_node, topology.nodes()};
}

}  // namespace

std::string Choice::name() const {
  std::string text(algorithm->name);
  if (algorithm->takes_dimensions && !dimensions.empty()) text.append(":").append(joined(dimensions));
  return text;
}

std::vector<int> parse_dimensions(const std::string& text) {
  std::vector<int> dimensions;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 1 || (next != end && *next != 'x')) {
      throw std::invalid_argument("'" + text + "': expected the ranks of each dimension, as in 2x4");
    }
    dimensions.push_back(value);
    if (next == end) return dimensions;
    at = next + 1;
  }
}

Choice parse_choice(const std::string& text, std::size_t segment_bytes) {
  const std::size_t colon = text.find(':');
  const Algorithm* algorithm = find_algorithm(text.substr(0, colon));
  if (!algorithm) throw std::invalid_argument("unknown algorithm '" + text + "'; known: " + all_names());
  Choice choice{algorithm, algorithm->takes_segment ? segment_bytes : 0, {}};
  if (colon != std::string::npos) {
    if (!algorithm->takes_dimensions)
      throw std::invalid_argument("'" + text + "': " + std::string(algorithm->name) + " takes no dimensions");
    choice.dimensions = parse_dimensions(text.substr(colon + 1));
  }
  return choice;
}

void check_dimensions(const Choice& choice, int ranks) {
  if (choice.dimensions.empty()) return;
  int64_t product = 1;
  for (const int d : choice.dimensions) {
    product *= d;
    if (product > ranks) break;  // before it overflows
  }
  if (product != ranks) {
    throw std::invalid_argument("dimensions " + joined(choice.dimensions) + " do not make " + std::to_string(ranks) +
                                " ranks");
  }
}

Allreduce::Allreduce(MPI_Comm comm, Choice choice, Topology topology)
    : choice_(std::move(choice)), topology_(std::move(topology)) {
  check_dimensions(choice_, topology_.ranks());
  if (choice_.algorithm->takes_dimensions && choice_.dimensions.empty()) choice_.dimensions = dimensions_of(topology_);
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
}

Allreduce::~Allreduce() { MPI_Comm_free(&comm_); }

const Algorithm& Allreduce::operator()(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op) {
  int commutes = 0;
  MPI_Op_commutative(op, &commutes);
  const Algorithm& algorithm =
      commutes || choice_.algorithm->keeps_order ? *choice_.algorithm : *find_algorithm("butterfly");
  if (count == 0) return algorithm;
  const auto elements = static_cast<std::size_t>(count);
  if (send != MPI_IN_PLACE) {
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type, &lower, &extent);
    std::memcpy(receive, send, elements * static_cast<std::size_t>(extent));
  }
  if (topology_.ranks() == 1) return algorithm;
  Exchange x(comm_, type, op, static_cast<std::byte*>(receive), elements, scratch_, traffic_);
  algorithm.run(x, {topology_, choice_.segment_bytes, choice_.dimensions});
  return algorithm;
}

}  // namespace ddl::allreduce
