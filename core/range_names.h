// What a range is, from its name: programs and frameworks write steps, layers, operators and their numbers into one
// string, with NVTX and in the traces of their own profilers. Injected code, and used by the importers.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/format.h"

namespace ddl {

constexpr size_t kMaxRangeNameBytes = 255;

struct RangeName {
  const char* text;  ///< the part that names it: within the string that was parsed
  size_t length;
  uint32_t kind;     ///< ContextKind; 0: a wrapper of frameworks that says nothing
  bool is_backward;  ///< an operator of the backward pass
  bool has_step;     ///< steps: the name holds a number
  uint64_t step;
  RangeNumbers numbers;
};

/// `text`: any bytes. `step_names`: more names of steps, separated by commas; NULL: none.
RangeName parse_range_name(const char* text, size_t length, const char* step_names);

/// Kind that a category of that name gives to its ranges ("step", "phase", "layer"); 0: none of ours.
uint32_t kind_of_category(const char* name);

/// Wide text as UTF-8, terminated and cut at `capacity`; what is not a character becomes '?'. Returns the length.
size_t narrow(const wchar_t* wide, char* to, size_t capacity);

}  // namespace ddl
