// Random damage to spools, texts and databases. The same seed does the same damage.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ddl::test {

using Image = std::vector<unsigned char>;

/// One to a few of: flipped bits, extreme numbers, zeroed or repeated or swapped pages, bytes copied elsewhere,
/// garbage, truncation, growth. Prefers places where something is written; repairs the check of a damaged chunk header
/// half of the time, so that what is behind it is reached.
void damage(Image& image, std::mt19937_64& random);

/// One to three of what traces and tables suffer: cut, wrong types, huge numbers, deep nesting, hostile strings,
/// swapped and repeated pieces, any byte.
std::string damage_text(std::string text, std::mt19937_64& random);
/// An SQLite file whose values, in one to three columns, are others, or whose table is missing.
std::string damage_cells(const std::string& database, std::mt19937_64& random);

/// Seed of this run: $DDL_FUZZ_SEED or 1. Printed, so that a failure can be had again.
uint64_t fuzz_seed();
/// $DDL_FUZZ_CASES or `cases`.
int fuzz_cases(int cases);

}  // namespace ddl::test
