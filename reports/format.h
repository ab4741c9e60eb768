// Numbers for people: five significant digits in tables, as nvprof, three in sentences. ASCII only: a log
// file has no locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/value.h"

namespace ddl::reports {

std::string table_duration(int64_t duration_ns);      ///< "4.9333ms"
std::string short_duration(int64_t duration_ns);      ///< "4.93 ms"; from a minute on "11m 44s"
std::string size_text(int64_t bytes);                 ///< "104MiB"
std::string bandwidth_text(double bytes_per_second);  ///< "58.2GB/s", decimal
std::string percent_text(double ratio);               ///< 0.0834 -> "8.3%"
std::string number_text(double number);               ///< three significant digits
std::string count_text(int64_t count);                ///< "40,320"

/// A table cell. Bounds print ">=21.0%", absent values n/a(why), undefined ones "-".
std::string table_text(const Value& value);
/// The same within a sentence or a line of numbers: spaced units, grouped digits, "at least 21.0%".
std::string line_text(const Value& value);
/// ">=", "<=", or nothing.
const char* sign_of(Value::Bound bound);
/// "at least ", "at most ", or nothing.
const char* words_of(Value::Bound bound);

/// "1 rank", "2 ranks".
std::string plural(int64_t count, std::string_view noun);
/// {0,1,2,5} -> "0-2, 5", at most `most` groups.
std::string rank_list(std::vector<int64_t> ranks, size_t most = 8);

}  // namespace ddl::reports
