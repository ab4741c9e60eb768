#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "workloads/train/negotiation.h"

namespace ddl::train {

/**
 * The timeline of the background runtime, in the form of Horovod's (Chrome trace events, a "process" a tensor): when
 * each rank had a tensor ready, as rank 0 heard, and what rank 0 did to reduce it. Times are of the monotonic clock,
 * which the first event ties to a date. */
class Timeline {
 public:
  /** Writes to the file `path`. Throws Error if it cannot be opened. */
  Timeline(const std::string& path, std::span<const NamedTensor> tensors);

  void rank_is_ready(std::size_t tensor, int rank);
  void all_are_ready(std::size_t tensor);
  /** Of tensors that were reduced together; begin and end of the call that did. */
  void reduced(std::span<const std::size_t> batch, std::int64_t begin_ns, std::int64_t end_ns);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void event(const char* phase, const std::string& name, std::size_t tensor, std::int64_t at_ns,
             const std::string& rest = {});

  std::unique_ptr<std::FILE, Close> file_;
  std::span<const NamedTensor> tensors_;
  std::int64_t start_ns_;
  std::vector<bool> negotiates_;  ///< by tensor
};

}  // namespace ddl::train
