// manifest.json: what the files of a directory are and where they come from.
// docs/reference/tuned-manifest.schema.json describes it.
#pragma once

#include <string>
#include <vector>

#include "autotuner/emit.h"
#include "autotuner/emit/format.h"

namespace ddl::tune {

std::string manifest(const Emission& emission, const std::vector<EmittedFile>& files);

/// SHA-256 of `bytes`, as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace ddl::tune
