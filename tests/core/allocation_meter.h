// Counts what operator new hands out in this program and refuses beyond a limit. Linking it replaces
// operator new and delete.
#pragma once

#include <cstddef>

namespace ddl::test {

/// While it lives, allocations that would bring the growth since its construction above `limit_bytes` throw
/// std::bad_alloc. One at a time.
class AllocationLimit {
 public:
  explicit AllocationLimit(size_t limit_bytes);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

  /// Largest growth since construction.
  size_t peak_bytes() const;
};

}  // namespace ddl::test
