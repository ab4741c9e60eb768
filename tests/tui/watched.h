// A run directory as ddl-top sees it, look by look.
#pragma once

#include <filesystem>

#include "store/run_directory.h"
#include "tui/observer.h"
#include "tui/spool_source.h"

namespace ddl::test {

struct Watched {
  explicit Watched(const std::filesystem::path& folder) : source(find_run(folder.string()), "run.ddl") {}
  tui::Snapshot look() {
    source.poll(job, 1);
    return observer.look(job, false);
  }

  tui::SpoolSource source;
  tui::Job job;
  tui::Observer observer;
};

}  // namespace ddl::test
