// What a table of performance results does not say, or says in a way that misleads: one code per rule, for the tables
// of `ddl scaling` and `ddl tune`. The rules follow Hoefler, "Twelve ways to fool the masses when reporting performance
// of deep learning workloads" (2018); specification.md S7. Pure; no run is needed.
//
//   LINT-01  accuracy is not said, unless all is strong scaling         LINT-07  precision is not said, or differs
//   LINT-02  accuracy is not that on test data                          LINT-08  other options for speed than for accuracy, or among rows
//   LINT-03  runs, their spread or the number of trials are not said    LINT-09  batch is not said, or larger than is known to converge
//   LINT-04  hardware is not said, or differs                           LINT-10  too few steps, or warm-up is in the numbers
//   LINT-05  kernels instead of the whole application                   LINT-11  weak or strong is not said, mixed, or not as the batches say
//   LINT-06  reading the input is not in the numbers                    LINT-12  the base was chosen, or is slower than it should be
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// The statements on one row, by the keys of lint_keys(). An absent or empty key makes none.
using Stated = std::map<std::string, std::string>;

struct LintKey {
  std::string_view key;      ///< --state KEY=VALUE, and the column of a CSV file
  std::string_view meaning;  ///< with the values that the rules know
};
std::span<const LintKey> lint_keys();

struct LintRemark {
  std::string code;  ///< LINT-01 ... LINT-12
  std::string text;  ///< one sentence
};

/// By code. One table: rows that are meant to be compared. None without rows.
std::vector<LintRemark> lint_results(const std::vector<Stated>& rows);

}  // namespace ddl
