#include "workloads/train/timeline.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include "workloads/train/error.h"
#include "workloads/train/step_log.h"

namespace ddl::train {

Timeline::Timeline(const std::string& path, std::span<const NamedTensor> tensors)
    : file_(std::fopen(path.c_str(), "w")), tensors_(tensors), start_ns_(monotonic_ns()), negotiates_(tensors.size()) {
  if (!file_) throw Error("cannot write the timeline " + path + ": " + std::strerror(errno));
  const auto date =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::fprintf(
      file_.get(),
      "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"start_time_since_epoch_in_micros\": %lld}},\n",
      static_cast<long long>(date));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    std::fprintf(file_.get(),
                 "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %zu, \"args\": {\"name\": \"%s\"}},\n", i + 1,
                 tensors[i].name.c_str());
}

void Timeline::event(const char* phase, const std::string& name, std::size_t tensor, std::int64_t at_ns,
                     const std::string& rest) {
  std::fprintf(file_.get(), "{\"ph\": \"%s\", \"name\": \"%s\", \"ts\": %lld, \"pid\": %zu%s},\n", phase, name.c_str(),
               static_cast<long long>((at_ns - start_ns_) / 1000), tensor + 1, rest.c_str());
}

void Timeline::rank_is_ready(std::size_t tensor, int rank) {
  const std::int64_t now_ns = monotonic_ns();
  if (!negotiates_[tensor]) event("B", "NEGOTIATE_ALLREDUCE", tensor, now_ns);
  negotiates_[tensor] = true;
  event("X", std::to_string(rank), tensor, now_ns, ", \"dur\": 0");
}

void Timeline::all_are_ready(std::size_t tensor) {
  event("E", "", tensor, monotonic_ns());
  negotiates_[tensor] = false;
}

void Timeline::reduced(std::span<const std::size_t> batch, std::int64_t begin_ns, std::int64_t end_ns) {
  for (const std::size_t tensor : batch) event("B", "ALLREDUCE", tensor, begin_ns);
  for (const std::size_t tensor : batch) event("B", "MPI_ALLREDUCE", tensor, begin_ns);
  for (const std::size_t tensor : batch) event("E", "", tensor, end_ns);
  for (const std::size_t tensor : batch)
    event("E", "", tensor, end_ns,
          ", \"args\": {\"dtype\": \"float32\", \"shape\": \"[" + std::to_string(tensors_[tensor].floats) + "]\"}");
  std::fflush(file_.get());
}

}  // namespace ddl::train
