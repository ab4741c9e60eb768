// The operations that synthetic runs can contain. A table of its own: ids and order differ from the
// recorder's on purpose.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/format.h"

namespace ddl::test::synthetic {

/// How S of an instance follows from what one rank sends.
enum class Size { kNone, kSent, kSentByAll, kSentByRoot };

/// Codes of core/names.h: what synthetic runs move and how they reduce it.
constexpr uint32_t kMpiFloat = 14, kMpiSum = 1;

struct Op {
  std::string_view name;
  OpClass op_class;
  bool nonblocking;
  Size size;
  bool reduces;
  uint32_t id = 0;

  bool is_collective() const;
  /// Each call takes the next number of its communicator.
  bool is_numbered() const;
  bool is_rooted() const { return op_class == OpClass::kRootToAll || op_class == OpClass::kAllToRoot; }
  /// Nobody leaves before everybody entered.
  bool is_symmetric() const;
};

std::span<const Op> operations();
/// Throws std::out_of_range.
const Op& operation(std::string_view name);

}  // namespace ddl::test::synthetic
