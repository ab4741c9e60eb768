#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddl::allreduce {

struct Options {
  std::vector<std::size_t> bytes;  ///< message sizes, each a multiple of a float
  std::vector<std::string> algorithms{"all"};
  std::vector<std::size_t> segments;
  int rounds = 10;
  int calls = 1000;  ///< at most so many back to back
  double seconds = 30;
  bool help = false;
};

/** The command line is wrong. The same on all ranks. */
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** Throws UsageError. Names of algorithms are checked later, when it is known which ones there are. */
Options parse_options(int argc, const char* const* argv);
std::string help_text();

}  // namespace ddl::allreduce
