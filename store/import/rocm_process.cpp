#include "store/import/rocm_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "core/range_names.h"
#include "store/import/nccl_operation.h"

namespace ddl::store {

namespace {

struct RocmCopyDirection {
  std::string_view camel, upper, name;
};
constexpr RocmCopyDirection kRocmDirections[] = {{"HostToDevice", "HOST_TO_DEVICE", "HtoD"},
                                                 {"DeviceToHost", "DEVICE_TO_HOST", "DtoH"},
                                                 {"DeviceToDevice", "DEVICE_TO_DEVICE", "DtoD"},
                                                 {"HostToHost", "HOST_TO_HOST", "HtoH"}};

}  // namespace

std::string_view rocm_copy_direction(std::string_view name) {
  const auto known =
      std::find_if(std::begin(kRocmDirections), std::end(kRocmDirections), [&](const RocmCopyDirection& d) {
        return name.find(d.camel) != std::string_view::npos || name.find(d.upper) != std::string_view::npos;
      });
  return known == std::end(kRocmDirections) ? std::string_view() : known->name;
}

std::string_view rocm_copy_direction(int64_t kind) {
  constexpr std::string_view kKinds[] = {"HtoH", "HtoD", "DtoH", "DtoD"};
  return kind >= 0 && kind < static_cast<int64_t>(std::size(kKinds)) ? kKinds[kind] : std::string_view();
}

bool rocm_gives_work(std::string_view call) {
  constexpr std::string_view kParts[] = {"Launch", "emcpy", "emset", "ynchronize", "StreamWait"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return call.find(part) != std::string_view::npos; });
}

uint32_t RocmProcess::thread(int64_t tid) {
  const auto known = threads_.find(tid);
  if (known != threads_.end()) return known->second;
  return threads_[tid] = run_.thread(number_, fmt::format_int(tid).c_str(), tid);
}

void RocmProcess::range(int64_t tid, std::string_view text, int64_t start_ns, int64_t duration_ns) {
  const RangeName name = parse_range_name(text.data(), text.size(), nullptr);
  if (name.kind == 0) return;
  const auto kind = static_cast<ContextKind>(name.kind);
  if (kind == ContextKind::kStep) {
    const int64_t step = name.has_step && name.step <= INT32_MAX ? static_cast<int64_t>(name.step) : next_step_;
    next_step_ = step + 1;
    return run_.step(number_, thread(tid), step, start_ns, duration_ns);
  }
  const auto seq = name.numbers.has_seq ? std::optional(static_cast<int64_t>(name.numbers.seq)) : std::nullopt;
  // RCCL marks its own calls.
  const bool of_rccl = kind == ContextKind::kLayer && find_torch_collective_of(text) != nullptr;
  run_.range(number_, thread(tid), of_rccl ? ContextKind::kOperator : kind, {name.text, name.length}, start_ns,
             duration_ns, seq);
}

void RocmProcess::rccl_call(int64_t tid, std::string_view name, int64_t start_ns, int64_t duration_ns) {
  const TorchCollective* known = find_torch_collective_of(name);
  if (known == nullptr) return;
  ImportedOperation launches;
  launches.op = known->op;
  launches.op_class = known->op_class;
  launches.payload_bytes.reset();
  run_.range(number_, thread(tid), ContextKind::kOperator, name, start_ns, duration_ns, std::nullopt, &launches);
}

void RocmProcess::launch(int64_t tid, int64_t correlation, int64_t start_ns, int64_t duration_ns) {
  run_.launch(number_, thread(tid), correlation, start_ns, duration_ns);
}

void RocmProcess::kernel(std::string_view name, GpuActivity activity) {
  activity.kind = DeviceKind::kKernel;
  // "matrixTranspose.kd" is the descriptor of the kernel.
  if (name.ends_with(".kd")) name.remove_suffix(3);
  activity.name = name.empty() ? "?" : name;
  const std::optional<ImportedOperation> collective = operation_of(parse_nccl_kernel(activity.name));
  run_.gpu(number_, activity, collective ? &*collective : nullptr);
}

void RocmProcess::copy(std::string_view direction, GpuActivity activity) {
  activity.kind = DeviceKind::kMemcpy;
  activity.copy = direction.empty() ? "?" : direction;
  const std::string name = fmt::format("[CUDA memcpy {}]", activity.copy);
  activity.name = name;
  run_.gpu(number_, activity);
}

void RocmProcess::fill(GpuActivity activity) {
  activity.kind = DeviceKind::kMemset;
  activity.name = "[CUDA memset]";
  run_.gpu(number_, activity);
}

}  // namespace ddl::store
