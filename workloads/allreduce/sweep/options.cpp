#include "workloads/allreduce/sweep/options.h"

#include <boost/algorithm/string.hpp>
#include <boost/program_options.hpp>
#include <charconv>
#include <climits>
#include <sstream>

#include "workloads/command_line.h"

namespace ddl::allreduce {

namespace po = boost::program_options;

namespace {

struct Typed {
  std::string bytes, algorithms, segments;
  int64_t rounds, calls;
};

po::options_description describe(Options& options, Typed& typed) {
  po::options_description description("Options");
  description.add_options()("bytes",
                            po::value(&typed.bytes)
                                ->default_value("4,16,64,256,1K,4K,16K,64K,256K,1M,4M,16M", "4,16,...,16M")
                                ->value_name("LIST"),  //
                            "sizes of the buffers, multiples of 4; K, M and G are 2^10, 2^20 and 2^30")(
      "algorithms", po::value(&typed.algorithms)->default_value("all")->value_name("LIST"),
      "all, own, openmpi, or names as in the output. multi_ring stands for its two-dimensional grids; name others: multi_ring:2x2x2")  //
      ("segments", po::value(&typed.segments)->default_value("16K,128K,1M")->value_name("LIST"),
       "segments of the algorithms that have some, in bytes")(
          "rounds", po::value(&typed.rounds)->default_value(10)->value_name("N"), "how often each is measured")(
          "calls", po::value(&typed.calls)->default_value(1000)->value_name("N"),
          "at most so many calls back to back make one time")  //
      ("seconds", po::value(&options.seconds)->default_value(30.0, "30")->value_name("S"),
       "end after that time, rounds done or not")  //
      ("help,h", po::bool_switch(&options.help), "this text");
  return description;
}

std::vector<std::string> words_of(const std::string& option, const std::string& list) {
  std::vector<std::string> words;
  boost::split(words, list, boost::is_any_of(","));
  for (const std::string& word : words) {
    if (word.empty()) throw UsageError("--" + option + " '" + list + "': an item of the list is empty");
  }
  return words;
}

/** Bytes with K, M or G behind them. */
std::size_t size_of(const std::string& option, const std::string& word, uint64_t most) {
  uint64_t value = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, value);
  const std::string suffix(rest, end);
  const std::size_t power = std::string("KMG").find(suffix.empty() ? "-" : suffix);
  const int shift = suffix.empty() ? 0 : 10 * (static_cast<int>(power) + 1);
  if (error != std::errc() || suffix.size() > 1 || (!suffix.empty() && power == std::string::npos) || value < 1 ||
      value > most >> shift) {
    throw UsageError("--" + option + " '" + word + "': expected a number of bytes up to " + std::to_string(most) +
                     ", as in 64 or 16K");
  }
  return value << shift;
}

std::vector<std::size_t> sizes_of(const std::string& option, const std::string& list, uint64_t most) {
  std::vector<std::size_t> sizes;
  for (const std::string& word : words_of(option, list)) sizes.push_back(size_of(option, word, most));
  return sizes;
}

int up_to_a_million(const std::string& option, int64_t value) {
  if (value < 1 || value > 1'000'000)
    throw UsageError("--" + option + " " + std::to_string(value) + ": expected 1 to 1000000");
  return static_cast<int>(value);
}

void check(Options& options, const Typed& typed) {
  options.bytes = sizes_of("bytes", typed.bytes, uint64_t{INT_MAX} * sizeof(float));  // MPI counts in int
  for (const std::size_t bytes : options.bytes) {
    if (bytes % sizeof(float) != 0)
      throw UsageError("--bytes " + std::to_string(bytes) + ": not a multiple of a float's 4 bytes");
  }
  options.algorithms = words_of("algorithms", typed.algorithms);
  options.segments = sizes_of("segments", typed.segments, INT_MAX);  // Open MPI's variable is an int
  options.rounds = up_to_a_million("rounds", typed.rounds);
  options.calls = up_to_a_million("calls", typed.calls);
  if (!(options.seconds > 0 && options.seconds <= 1e6))
    throw UsageError("--seconds: expected more than 0, up to 1000000");
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  Options options;
  Typed typed{};
  const po::options_description description = describe(options, typed);
  try {
    parse_command_line(argc, argv, description);
  } catch (const po::error& error) {
    throw UsageError(error.what());
  }
  if (!options.help) check(options, typed);
  return options;
}

std::string help_text() {
  Options options;
  Typed typed{};
  std::ostringstream text;
  text
      << "allreduce - how long an allreduce takes, by algorithm and size, within one launch\n\n"
         "usage:   mpirun -np P allreduce [options]\n"
         "example: mpirun -np 4 allreduce --bytes 4K,64K,1M --algorithms own --rounds 20\n\n"
      << describe(options, typed)
      << "\nA row: algorithm, segment_bytes (0: none), bytes, round, seconds: the mean of back-to-back calls, the longest of all ranks, "
         "each sum\n"
         "checked. In a round all algorithms take a size in turn, each round beginning with another one: compare within rounds, not the\n"
         "rounds' times. `default` is MPI_Allreduce as it comes, `default_again` the same once more: how far apart two equals are.\n"
         "`openmpi:NAME` is MPI_Allreduce with Open MPI's algorithm of that name forced (MPI_T), others are made of messages:\n"
         "parameter_server, tree, butterfly, rabenseifner, ring, segmented_ring, hierarchical, multi_ring:AxB.\n"
         "Segmented rings are measured where blocks (bytes / ranks) are at least a segment long; below, they are the ring.\n"
         "Open MPI must be told at launch that algorithms will be forced; that is done here unless OMPI_MCA_coll_tuned_use_dynamic_rules "
         "is set.\n"
         "Comments (#) say what could not be measured and why. Exit codes: 0 good, 1 a sum was wrong or the output cannot be written, 2 "
         "usage.\n";
  return text.str();
}

}  // namespace ddl::allreduce
