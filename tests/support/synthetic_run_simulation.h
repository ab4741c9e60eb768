// Runs a plan on the virtual clock (the time model is described in synthetic_run.h).
#pragma once

#include <filesystem>

#include "tests/support/synthetic_run.h"

namespace ddl::test {

/// `folder` NULL: nothing is written.
Truth simulate(const Plan& plan, const std::filesystem::path* folder);

}  // namespace ddl::test
