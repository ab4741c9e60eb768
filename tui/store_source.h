// Replays a run from its store: the job at a moment of its life, a little later at each poll. The numbers on the screen come to be in the
// same way as of a running job.
#pragma once

#include <SQLiteCpp/Database.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/query.h"
#include "tui/source.h"

namespace ddl::tui {

class StoreSource : public Source {
 public:
  /// `frames_to_end`: the last frame that will be asked for is to show the end; nothing: begin with the job.
  StoreSource(SQLite::Database& db, std::string shown, double step_s, std::optional<int> frames_to_end);
  ~StoreSource() override;

  /// Moves on by `step_s` of the job's time; the first call looks at the begin.
  void poll(Job& job) override;
  /// How far the next polls move on.
  void set_step(double step_s) { step_ns_ = static_cast<int64_t>(step_s * 1e9); }

 private:
  struct Process;

  void load(Job& job);

  SQLite::Database& db_;
  std::string shown_;
  int64_t step_ns_ = 0;
  int64_t now_ns_ = 0;
  int64_t end_ns_ = 0;
  int64_t epoch_realtime_ns_ = 0;
  bool loaded_ = false;
  std::optional<int> frames_to_end_;
  std::vector<std::unique_ptr<Process>> processes_;
  struct Region {
    bool is_layer = false;
    uint32_t outer = UINT32_MAX;  ///< the layer around it
  };
  std::vector<Region> regions_;  ///< by id, as Job::layers
};

}  // namespace ddl::tui
