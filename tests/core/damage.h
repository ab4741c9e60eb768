// Random damage to a spool's bytes: bits, words, pages, lengths, order. The same seed does the same damage.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace ddl::test {

using Image = std::vector<unsigned char>;

/// One to a few of: flipped bits, extreme numbers, zeroed or repeated or swapped pages, bytes copied elsewhere, garbage, truncation,
/// growth. Prefers places where something is written; repairs the check of a damaged chunk header half of the time, so that what is behind
/// it is reached.
void damage(Image& image, std::mt19937_64& random);

/// Seed of this run: $DDL_FUZZ_SEED or 1. Printed, so that a failure can be had again.
uint64_t fuzz_seed();
/// $DDL_FUZZ_CASES or `cases`.
int fuzz_cases(int cases);

}  // namespace ddl::test
