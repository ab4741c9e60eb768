// Replays a run from its store: the job at a moment of its life, a little later at each poll. Screens get their numbers
// as from a running job.
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
  /// `speed`: seconds of the job per second. `frames_to_end`: the last of that many frames shows the end; nothing:
  /// begin with the job.
  StoreSource(SQLite::Database& db, std::string shown, double speed, std::optional<int> frames_to_end);
  ~StoreSource() override;

  void poll(Job& job, double interval_s) override;

 private:
  struct Process;

  void load(Job& job, int64_t step_ns);
  void load_names(Job& job);
  void load_processes(Job& job);
  void move_on(Job& job, Process& p) const;
  static std::optional<RankPart> device_part(Process& p, int64_t step);
  void read_layers(Rank& rank, Process& p) const;
  void read_open_calls(Job& job);

  SQLite::Database& db_;
  std::string shown_;
  double speed_ = 1;
  int64_t from_ns_ = 0;  ///< what is before is not read
  int64_t now_ns_ = 0;
  int64_t end_ns_ = 0;
  int64_t epoch_realtime_ns_ = 0;
  bool loaded_ = false;
  std::optional<int> frames_to_end_;
  std::vector<std::unique_ptr<Process>> processes_;
  struct Region {
    bool is_layer = false;
    uint32_t outer = UINT32_MAX;  ///< the layer around it
    bool computes = false;        ///< a layer, not an operator
  };
  std::vector<Region> regions_;  ///< by id, as Job::layers
};

}  // namespace ddl::tui
