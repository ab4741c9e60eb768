// Every allreduce algorithm against MPI_Allreduce and against its formula: mpirun -np 9 allreduce_check. The first p
// ranks of the job form communicators of p = 1, 2, ... ranks. Sums are of small integers, so that they are exact in
// every order and equal byte for byte.
#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>

#include "analyzer/models/allreduce_cost.h"
#include "analyzer/models/collective_traffic.h"
#include "tests/workloads/allreduce_counts.h"
#include "workloads/allreduce/allreduce.h"

namespace ddl::allreduce {
namespace {

constexpr int kCounts[] = {0, 1, 7, 63, 64, 65, 1023, 1024, 1025};

int world_rank = 0;
int failures = 0;
int checks = 0;

void check(bool good, const std::string& what) {
  ++checks;
  if (good) return;
  if (++failures <= 20) std::fprintf(stderr, "FAILED: rank %d: %s\n", world_rank, what.c_str());
}

/** The first `p` ranks; the others have no part in it. */
struct Group {
  explicit Group(int p) : ranks(p) {
    MPI_Comm_split(MPI_COMM_WORLD, world_rank < p ? 0 : MPI_UNDEFINED, 0, &comm);
    if (takes_part()) MPI_Comm_rank(comm, &rank);
  }
  ~Group() {
    if (takes_part()) MPI_Comm_free(&comm);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  bool takes_part() const { return comm != MPI_COMM_NULL; }

  MPI_Comm comm = MPI_COMM_NULL;
  int ranks;
  int rank = 0;
};

/** Nodes of `per_node` neighbouring ranks; the last one may have fewer. */
Topology blocks_of(int ranks, int per_node) {
  std::vector<int> nodes;
  for (int r = 0; r < ranks; ++r) nodes.push_back(r / per_node);
  return Topology(nodes);
}

/** Ranks dealt out to nodes in turn, as mpirun --map-by node does. */
Topology dealt(int ranks, int nodes) {
  std::vector<int> names;
  for (int r = 0; r < ranks; ++r) names.push_back(r % nodes);
  return Topology(names);
}

/** Every algorithm and every grid; segments of one element, of a few and of more than there is, unless said
 * otherwise. */
std::vector<Choice> all_choices(int ranks, const std::vector<std::size_t>& segments = {1, 24, 1 << 20}) {
  std::vector<Choice> choices;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.preset && algorithm.run == ring) continue;  // only another name
    if (algorithm.takes_segment) {
      for (const std::size_t bytes : segments) choices.push_back({&algorithm, bytes, {}});
    } else if (algorithm.takes_dimensions) {
      for (const std::vector<int>& dimensions : ordered_factorisations(ranks))
        choices.push_back({&algorithm, 0, dimensions});
    } else {
      choices.push_back({&algorithm, 0, {}});
    }
  }
  return choices;
}

std::string described(const Choice& choice, int ranks, int count) {
  return choice.name() + " segment " + std::to_string(choice.segment_bytes) + " ranks " + std::to_string(ranks) +
         " count " + std::to_string(count);
}

/** Runs one allreduce and checks that it made no collective and that the library's count of what it sent is the true
 * one. */
const Algorithm& counted(Allreduce& allreduce, const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                         const std::string& what) {
  const Traffic before = allreduce.traffic();
  seen = {};
  counting = true;
  const Algorithm& ran = allreduce(send, receive, count, type, op);
  counting = false;
  const Traffic& after = allreduce.traffic();
  check(after.messages - before.messages == seen.sent_messages, what + ": messages counted");
  check(after.bytes - before.bytes == seen.sent_bytes, what + ": bytes counted");
  check(seen.collectives == 0, what + ": it makes collectives");
  return ran;
}

void sums(const Group& group, const Choice& choice, const Topology& topology, std::span<const int> counts) {
  Allreduce allreduce(group.comm, choice, topology);
  for (const int count : counts) {
    const std::string what = described(choice, group.ranks, count);
    const auto n = static_cast<std::size_t>(count);
    std::vector<float> own(n);
    std::vector<float> expected(n);
    for (std::size_t i = 0; i < n; ++i) {
      own[i] = static_cast<float>((static_cast<std::size_t>(group.rank + 1) * (i + 3)) % 101);
      for (std::size_t r = 1; r <= static_cast<std::size_t>(group.ranks); ++r)
        expected[i] += static_cast<float>(r * (i + 3) % 101);
    }
    std::vector<float> result(n + 1, -1);
    const std::vector<float> untouched = own;
    const Algorithm& ran = counted(allreduce, own.data(), result.data(), count, MPI_FLOAT, MPI_SUM, what);
    check(&ran == choice.algorithm, what + ": another algorithm ran");
    check(result.back() == -1, what + ": it writes behind the buffer");
    result.pop_back();
    check(result == expected, what + ": wrong sum");
    check(own == untouched, what + ": the send buffer changed");
    counted(allreduce, MPI_IN_PLACE, own.data(), count, MPI_FLOAT, MPI_SUM, what);
    check(own == expected, what + ": wrong sum in place");
  }
}

void every_size(const Group& group) {
  for (const Topology& topology :
       {blocks_of(group.ranks, 1), blocks_of(group.ranks, 2), blocks_of(group.ranks, 4), dealt(group.ranks, 2)}) {
    for (const Choice& choice : all_choices(group.ranks)) sums(group, choice, topology, kCounts);
  }
}

/** Beyond what MPI sends without asking the receiver. */
void large_messages(const Group& group) {
  constexpr int kLarge[] = {300007};
  for (const Choice& choice : all_choices(group.ranks, {10000, 100000}))
    sums(group, choice, blocks_of(group.ranks, 2), kLarge);
}

/** x -> ax + b modulo 65521, a in the upper half: composing them is associative and does not commute. */
void compose(void* left, void* right, int* count, MPI_Datatype* /*type*/) {
  const auto* f = static_cast<const uint64_t*>(left);
  auto* g = static_cast<uint64_t*>(right);
  for (int i = 0; i < *count; ++i) {
    const uint64_t a = (f[i] >> 32) * (g[i] >> 32) % 65521;
    const uint64_t b = ((f[i] >> 32) * (g[i] & 0xffffffffU) + (f[i] & 0xffffffffU)) % 65521;
    g[i] = a << 32 | b;
  }
}

void order_of_ranks(const Group& group) {
  MPI_Op composition = MPI_OP_NULL;
  MPI_Op_create(compose, 0, &composition);
  for (const Choice& choice : all_choices(group.ranks)) {
    Allreduce allreduce(group.comm, choice, dealt(group.ranks, 2));
    for (const int count : kCounts) {
      const std::string what = described(choice, group.ranks, count) + " composition";
      const auto maps_of = [&](uint64_t rank) {
        std::vector<uint64_t> maps(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < maps.size(); ++i) maps[i] = (rank + 2 + i) << 32 | (7 * rank + 3 * i);
        return maps;
      };
      std::vector<uint64_t> expected = maps_of(static_cast<uint64_t>(group.ranks) - 1);
      for (int r = group.ranks - 2; r >= 0; --r) {
        std::vector<uint64_t> left = maps_of(static_cast<uint64_t>(r));
        int n = count;
        compose(left.data(), expected.data(), &n, nullptr);
      }
      std::vector<uint64_t> result = maps_of(static_cast<uint64_t>(group.rank));
      const Algorithm& ran = counted(allreduce, MPI_IN_PLACE, result.data(), count, MPI_UINT64_T, composition, what);
      check(result == expected, what + ": not in the order of ranks");
      check(ran.keeps_order, what + ": an algorithm ran that loses the order");
    }
  }
  MPI_Op_free(&composition);
}

struct Kind {
  const char* name;
  MPI_Datatype type;
  std::vector<MPI_Op> ops;
  std::function<void(void* buffer, std::size_t i, int rank)> write;
  std::function<bool(const void* a, const void* b, std::size_t i)> equal;  ///< not the gaps in and between elements
};

template <typename T>
Kind number(const char* name, MPI_Datatype type, std::vector<MPI_Op> ops) {
  const auto write = [](void* buffer, std::size_t i, int rank) {
    static_cast<T*>(buffer)[i] =
        static_cast<T>(static_cast<float>((i + 2 * static_cast<std::size_t>(rank)) % 3 + (i % 2)));
  };
  return {name, type, std::move(ops), write, [](const void* a, const void* b, std::size_t i) {
            return static_cast<const T*>(a)[i] == static_cast<const T*>(b)[i];
          }};
}

template <typename T>
struct Pair {
  T value;
  int index;
  bool operator==(const Pair&) const = default;
};

template <typename T>
Kind pair(const char* name, MPI_Datatype type) {
  const auto write = [](void* buffer, std::size_t i, int rank) {
    static_cast<Pair<T>*>(buffer)[i].value = static_cast<T>((i * 7 + 5 * static_cast<std::size_t>(rank)) % 11);
    static_cast<Pair<T>*>(buffer)[i].index = rank;
  };
  return {name, type, {MPI_MINLOC, MPI_MAXLOC}, write, [](const void* a, const void* b, std::size_t i) {
            return static_cast<const Pair<T>*>(a)[i] == static_cast<const Pair<T>*>(b)[i];
          }};
}

std::vector<Kind> all_kinds() {
  const std::vector<MPI_Op> real = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
  const std::vector<MPI_Op> complex = {MPI_SUM, MPI_PROD};
  const std::vector<MPI_Op> logical = {MPI_LAND, MPI_LOR, MPI_LXOR};
  std::vector<MPI_Op> integer = real;
  for (MPI_Op op : {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR}) integer.push_back(op);
  return {
      number<signed char>("signed char", MPI_SIGNED_CHAR, integer),
      number<unsigned char>("unsigned char", MPI_UNSIGNED_CHAR, integer),
      number<short>("short", MPI_SHORT, integer),
      number<unsigned short>("unsigned short", MPI_UNSIGNED_SHORT, integer),
      number<int>("int", MPI_INT, integer),
      number<unsigned>("unsigned", MPI_UNSIGNED, integer),
      number<long>("long", MPI_LONG, integer),
      number<unsigned long>("unsigned long", MPI_UNSIGNED_LONG, integer),
      number<long long>("long long", MPI_LONG_LONG, integer),
      number<unsigned long long>("unsigned long long", MPI_UNSIGNED_LONG_LONG, integer),
      number<int8_t>("int8_t", MPI_INT8_T, integer),
      number<int16_t>("int16_t", MPI_INT16_T, integer),
      number<int32_t>("int32_t", MPI_INT32_T, integer),
      number<int64_t>("int64_t", MPI_INT64_T, integer),
      number<uint8_t>("uint8_t", MPI_UINT8_T, integer),
      number<uint16_t>("uint16_t", MPI_UINT16_T, integer),
      number<uint32_t>("uint32_t", MPI_UINT32_T, integer),
      number<uint64_t>("uint64_t", MPI_UINT64_T, integer),
      number<MPI_Aint>("MPI_Aint", MPI_AINT, integer),
      number<MPI_Offset>("MPI_Offset", MPI_OFFSET, integer),
      number<MPI_Count>("MPI_Count", MPI_COUNT, integer),
      number<bool>("bool", MPI_C_BOOL, logical),
      number<unsigned char>("byte", MPI_BYTE, {MPI_BAND, MPI_BOR, MPI_BXOR}),
      number<float>("float", MPI_FLOAT, real),
      number<double>("double", MPI_DOUBLE, real),
      number<long double>("long double", MPI_LONG_DOUBLE, real),
      number<std::complex<float>>("float complex", MPI_C_FLOAT_COMPLEX, complex),
      number<std::complex<double>>("double complex", MPI_C_DOUBLE_COMPLEX, complex),
      pair<float>("float, int", MPI_FLOAT_INT),
      pair<double>("double, int", MPI_DOUBLE_INT),
      pair<long>("long, int", MPI_LONG_INT),
      pair<int>("int, int", MPI_2INT),
      pair<short>("short, int", MPI_SHORT_INT),
      pair<long double>("long double, int", MPI_LONG_DOUBLE_INT),
  };
}

void every_datatype(const Group& group) {
  constexpr int kCount = 13;
  struct alignas(16) Elements {
    std::byte bytes[kCount * 32] = {};
  };
  for (const Choice& choice : all_choices(group.ranks)) {
    Allreduce allreduce(group.comm, choice, blocks_of(group.ranks, 2));
    for (const Kind& kind : all_kinds()) {
      for (MPI_Op op : kind.ops) {
        const std::string what = described(choice, group.ranks, kCount) + " " + kind.name;
        Elements own;
        Elements expected;
        Elements result;
        for (std::size_t i = 0; i < kCount; ++i) kind.write(&own, i, group.rank);
        PMPI_Allreduce(&own, &expected, kCount, kind.type, op, group.comm);
        counted(allreduce, &own, &result, kCount, kind.type, op, what);
        for (std::size_t i = 0; i < kCount; ++i) check(kind.equal(&result, &expected, i), what + ": wrong result");
      }
    }
  }
}

uint64_t sum_over(const Group& group, uint64_t value) {
  PMPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, group.comm);
  return value;
}

void formulas(const Group& group) {
  using models::Algorithm;
  using models::allreduce_work;
  constexpr int kElements = 2520;  // a multiple of 1 to 9: blocks are equal
  constexpr uint64_t n = kElements * sizeof(float);
  const auto p = static_cast<uint64_t>(group.ranks);
  const auto rank = static_cast<uint64_t>(group.rank);
  const uint64_t lg = static_cast<uint64_t>(std::bit_width(p)) - 1;
  const uint64_t power = uint64_t{1} << lg;
  const uint64_t surplus = p - power;
  std::vector<float> values(kElements);

  const auto run = [&](const char* name, std::size_t segment, std::vector<int> dimensions, const Topology& topology,
                       int elements) {
    Allreduce allreduce(group.comm, {find_algorithm(name), segment, std::move(dimensions)}, topology);
    counted(allreduce, MPI_IN_PLACE, values.data(), elements, MPI_FLOAT, MPI_SUM, name);
    check(sum_over(group, seen.sent_bytes) == sum_over(group, seen.received_bytes),
          std::string(name) + ": sent is not received");
  };
  const auto sent = [&](const std::string& what, uint64_t messages, uint64_t bytes) {
    const std::string where = what + " of " + std::to_string(p) + " ranks: ";
    check(seen.sent_messages == messages,
          where + std::to_string(seen.sent_messages) + " messages, not " + std::to_string(messages));
    check(seen.sent_bytes == bytes, where + std::to_string(seen.sent_bytes) + " bytes, not " + std::to_string(bytes));
  };
  const auto model = [&](const std::string& what, const models::Work& work, uint64_t messages, uint64_t bytes) {
    check(static_cast<double>(messages) == work.messages && static_cast<double>(bytes) == work.moved_bytes,
          what + ": not as the model");
  };
  const Topology one_node = blocks_of(group.ranks, group.ranks);

  run("parameter_server", 0, {}, one_node, kElements);
  sent("parameter server", rank == 0 ? p - 1 : 1, rank == 0 ? (p - 1) * n : n);
  if (rank == 0) {
    // The model's server is a process of its own; ours is one of the ranks and serves the others.
    const uint64_t messages = seen.sent_messages + seen.received_messages;
    check(messages == 2 * (p - 1), "parameter server: messages through the server");
    if (p > 2)
      model("parameter server", allreduce_work(Algorithm::kParameterServer, group.ranks - 1, n), messages,
            seen.sent_bytes + seen.received_bytes);
  }

  run("tree", 0, {}, one_node, kElements);
  check(sum_over(group, seen.sent_messages) == 2 * (p - 1) && sum_over(group, seen.sent_bytes) == 2 * (p - 1) * n,
        "tree: total");
  if (rank == 0) {
    model("tree", allreduce_work(Algorithm::kTree, group.ranks, n), seen.sent_messages + seen.received_messages,
          seen.sent_bytes + seen.received_bytes);
  }

  // For two ranks that fold, the odd one sends once and is told once; the even one, besides, tells it. On the way
  // through the even one lie what it receives first, its exchanges, and what it sends last.
  const bool folds = rank < 2 * surplus;
  const bool waits = folds && rank % 2 == 1;
  run("butterfly", 0, {}, one_node, kElements);
  sent("butterfly", waits ? 1 : lg + folds, waits ? n : (lg + folds) * n);
  if (rank == 0) {
    model("butterfly", allreduce_work(Algorithm::kButterfly, group.ranks, n), seen.sent_messages + folds,
          seen.sent_bytes + folds * n);
  }

  // Blocks are halves of halves: equal where the elements are a multiple of the power of two.
  constexpr int kHalvable = 2048;
  constexpr uint64_t m = kHalvable * sizeof(float);
  run("rabenseifner", 0, {}, one_node, kHalvable);
  sent("rabenseifner", waits ? 1 : 2 * lg + folds, waits ? m : 2 * m * (power - 1) / power + folds * m);
  if (rank == 0) {
    model("rabenseifner", allreduce_work(Algorithm::kRabenseifner, group.ranks, m), seen.sent_messages + folds,
          seen.sent_bytes + folds * m);
  }

  run("ring", 0, {}, one_node, kElements);
  sent("ring", 2 * (p - 1), 2 * (p - 1) * n / p);
  model("ring", allreduce_work(Algorithm::kRing, group.ranks, n), seen.sent_messages, seen.sent_bytes);
  for (const int count : kCounts) {
    // All blocks but its own, then all but that of its right neighbour; of those, the ones that are not empty.
    const Range whole{0, static_cast<std::size_t>(count)};
    uint64_t messages = 0;
    uint64_t elements = 0;
    for (std::size_t block = 0; block < p; ++block) {
      const std::size_t size = whole.part(block, p).size();
      const uint64_t times = 2U - (block == rank) - (block == (rank + 1) % p);
      messages += size > 0 ? times : 0;
      elements += times * size;
    }
    run("ring", 0, {}, one_node, count);
    sent("ring, count " + std::to_string(count), messages, elements * sizeof(float));
  }

  for (const uint64_t segment : {uint64_t{4}, uint64_t{100}, uint64_t{4096}}) {
    run("segmented_ring", segment, {}, one_node, kElements);
    sent("segmented ring", 2 * (p - 1) * ((n / p + segment - 1) / segment), 2 * (p - 1) * n / p);
  }

  for (int per_node = 1; per_node <= group.ranks; ++per_node) {
    if (group.ranks % per_node != 0) continue;
    const Topology nodes = blocks_of(group.ranks, per_node);
    const auto q = p / static_cast<uint64_t>(per_node);
    run("hierarchical", 0, {}, nodes, kElements);
    if (group.rank % per_node == 0) {
      // Through a leader: a tree within its node, which it both receives and sends, and its part of a ring of leaders.
      const uint64_t ring_messages = 2 * (q - 1);
      const uint64_t ring_bytes = 2 * (q - 1) * n / q;
      models::Work work = allreduce_work(Algorithm::kTree, per_node, n);
      work += allreduce_work(Algorithm::kRing, static_cast<int64_t>(q), n);
      model("hierarchical", work, seen.sent_messages + seen.received_messages - ring_messages,
            seen.sent_bytes + seen.received_bytes - ring_bytes);
    }
    check(sum_over(group, seen.sent_messages) == 2 * (p - q) + q * 2 * (q - 1), "hierarchical: total");
  }

  run("baidu_ring", 0, {}, one_node, kElements);
  sent("Baidu's ring", 2 * (p - 1), 2 * (p - 1) * n / p);
  run("rabenseifner", 0, {}, one_node, kElements);
  const Seen halved = seen;
  run("gloo", 0, {}, one_node, kElements);
  sent("gloo, small", halved.sent_messages, halved.sent_bytes);
  constexpr int kMany = 400 * kElements;  // 4.03 MB
  values.resize(kMany);
  run("gloo", 0, {}, one_node, kMany);
  sent("gloo, large", 2 * (p - 1), 2 * (p - 1) * kMany * sizeof(float) / p);

  for (const std::vector<int>& dimensions : ordered_factorisations(group.ranks)) {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    uint64_t shard = n;
    for (const int d : dimensions) {
      const auto ranks = static_cast<uint64_t>(d);
      messages += 2 * (ranks - 1);
      bytes += 2 * (ranks - 1) * shard / ranks;
      shard /= ranks;
    }
    run("multi_ring", 0, dimensions, one_node, kElements);
    sent("multi-dimensional ring", messages, bytes);
    if (std::all_of(dimensions.begin(), dimensions.end(), [](int d) { return d == 2; })) {
      model("dimensions of two", allreduce_work(Algorithm::kRabenseifner, group.ranks, n), seen.sent_messages,
            seen.sent_bytes);
    }
  }
}

/** What ddl model mapping takes an algorithm to send from rank to rank is what it sends. */
void messages_of_the_model(const Group& group) {
  constexpr int kElements = 2520, kHalvable = 2048;  // parts are equal
  const Topology one_node = blocks_of(group.ranks, group.ranks);
  const auto p = static_cast<std::size_t>(group.ranks);
  std::vector<std::size_t> members(p);
  for (std::size_t i = 0; i < p; ++i) members[i] = i;
  std::vector<float> values(kElements);
  const auto compare = [&](const char* name, const std::vector<int>& dimensions, const models::TrafficPlan& plan) {
    const int elements = plan.algorithm == models::Algorithm::kRabenseifner ? kHalvable : kElements;
    models::Traffic traffic(p, std::vector<double>(p, 0));
    models::add_collective(traffic, models::Collective::kAllreduce, plan, members, 0, elements * 4.0, 1);
    Allreduce allreduce(group.comm, {find_algorithm(name), 0, dimensions}, one_node);
    std::vector<uint64_t> sent_to(p, 0);
    uint64_t before = 0;
    between_nodes = [&](int to) {  // asked after each send has been counted
      sent_to[static_cast<std::size_t>(to)] += seen.sent_bytes - before;
      before = seen.sent_bytes;
      return false;
    };
    counted(allreduce, MPI_IN_PLACE, values.data(), elements, MPI_FLOAT, MPI_SUM, name);
    between_nodes = nullptr;
    for (std::size_t to = 0; to < p; ++to) {
      const double wanted = traffic[static_cast<std::size_t>(group.rank)][to];
      check(std::abs(static_cast<double>(sent_to[to]) - wanted) < 1e-6,
            std::string(name) + " to " + std::to_string(to) + " of " + std::to_string(p) + ": " +
                std::to_string(sent_to[to]) + " bytes, not " + std::to_string(wanted));
    }
  };
  for (const models::Algorithm algorithm : models::kAlgorithms)
    compare(std::string(name_of(algorithm)).c_str(), {}, {algorithm, {}, {}});
  for (const std::vector<int>& dimensions : ordered_factorisations(group.ranks))
    compare("multi_ring", dimensions, {models::Algorithm::kRing, {dimensions.begin(), dimensions.end()}, {}});
}

/** Nodes of two ranks, each node's far apart in rank order: the first dimension must stay within the nodes all the
 * same. */
void dimensions_follow_nodes(const Group& group) {
  const Topology nodes = dealt(group.ranks, group.ranks / 2);
  Allreduce allreduce(group.comm, {find_algorithm("multi_ring"), 0, {}}, nodes);
  check(allreduce.choice().name() == "multi_ring:2x" + std::to_string(group.ranks / 2),
        "default dimensions: " + allreduce.choice().name());
  std::vector<float> values(2520);
  between_nodes = [&](int to) { return nodes.node_of(to) != nodes.node_of(group.rank); };
  counted(allreduce, MPI_IN_PLACE, values.data(), 2520, MPI_FLOAT, MPI_SUM, "2-D ring");
  between_nodes = nullptr;
  const auto q = static_cast<uint64_t>(group.ranks) / 2;
  check(seen.sent_between_nodes == 2 * (q - 1) * 2520 / 2 / q * sizeof(float), "2-D ring: bytes between nodes");
}

void mistakes(const Group& group) {
  const auto refused = [&](const std::function<void()>& f, const char* words) {
    try {
      f();
      check(false, std::string("not refused: ") + words);
    } catch (const std::invalid_argument& error) {
      check(std::strstr(error.what(), words) != nullptr, std::string("said: ") + error.what());
    }
  };
  refused([] { parse_choice("rings"); }, "unknown algorithm");
  refused([] { parse_choice("ring:2x2"); }, "takes no dimensions");
  for (const char* text : {"multi_ring:", "multi_ring:2x", "multi_ring:0x4", "multi_ring:-2x2", "multi_ring:2*2",
                           "multi_ring:99999999999"}) {
    refused([&] { parse_choice(text); }, "expected the ranks of each dimension");
  }
  refused([&] { Allreduce(group.comm, parse_choice("multi_ring:3x5"), blocks_of(group.ranks, 2)); },
          "dimensions 3x5 do not make 4 ranks");
  refused([&] { Allreduce(group.comm, parse_choice("multi_ring:65536x65536x65536x65536"), blocks_of(group.ranks, 2)); },
          "do not make");
  check(parse_choice("multi_ring:2x4").name() == "multi_ring:2x4", "name of a choice with dimensions");
  check(parse_choice("segmented_ring", 5).segment_bytes == 5, "segment of a choice");
}

void topologies(const Group& group) {
  const Topology found = Topology::discover(group.comm);
  check(found.nodes() == 1 && found.ranks() == group.ranks, "this machine is one node");
  check(dealt(5, 2).by_node() == std::vector<int>({0, 2, 4, 1, 3}) && dealt(5, 2).leaders() == std::vector<int>({0, 1}),
        "order by nodes");
  check(ordered_factorisations(12).size() == 8, "ordered factorisations of 12");
  check(ordered_factorisations(7) == std::vector<std::vector<int>>({{7}}), "ordered factorisations of 7");
}

}  // namespace
}  // namespace ddl::allreduce

int main(int argc, char** argv) {
  using namespace ddl::allreduce;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int p = 1; p <= ranks; ++p) {
    const Group group(p);
    if (!group.takes_part()) continue;
    every_size(group);
    order_of_ranks(group);
    if (p > 1) formulas(group);
    if (p > 1) messages_of_the_model(group);
    if (p == 4) mistakes(group);
    if (p == 4) topologies(group);
    if (p == 3 || p == 4) large_messages(group);
    if (p == 5 || p == 8) every_datatype(group);
    if (p == 6 || p == 8) dimensions_follow_nodes(group);
  }
  int worst[] = {failures, -checks};
  PMPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (world_rank == 0)
    std::printf("%d ranks, at least %d checks on each, most failures on one: %d\n", ranks, -worst[1], worst[0]);
  MPI_Finalize();
  return worst[0] > 0 ? 1 : 0;
}
