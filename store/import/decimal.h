// Numbers of traces as exact integers: a time of 1661938466265032.125 us has more digits than a double can hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddl::store {

// Places between the unit of a trace and ns.
constexpr int kSecondsToNs = 9, kMillisecondsToNs = 6, kMicrosecondsToNs = 3;

/// The decimal number `text`, with or without fraction and exponent, times 10^places, rounded half away from zero.
/// Nothing if it is not a number, or does not fit: its magnitude must stay below 4e18, so that the difference of
/// two is an int64_t.
std::optional<int64_t> scaled(std::string_view text, int places);

/// A whole number (1.0 and 1e3 are whole).
std::optional<int64_t> whole(std::string_view text);

}  // namespace ddl::store
