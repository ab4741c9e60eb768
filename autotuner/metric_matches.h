// The numbers that a job says of itself, by the user's regular expression (--metric).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ddl::tune {

struct MetricMatch {
  std::string text;  ///< the group for the number: "100"
  /// what the line has there where the number does not end, or begin, with the group: "1,900.5"; else empty
  std::string whole = {};
  bool operator==(const MetricMatch&) const = default;
};

/// All matches, line by line. Lines end at \n or \r: progress bars write one over the other. `pattern` has a group.
std::vector<MetricMatch> matches_in(std::istream& text, const std::string& pattern);

/// The numbers; matches that are none are left out. Throws ddl::Error for a match that is a part of a number.
std::vector<double> numbers_of(const std::vector<MetricMatch>& matches);

}  // namespace ddl::tune
