#include "store/import/kernel_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/number.h"

namespace ddl::store {

namespace {

constexpr TorchCollective kCollectives[] = {
    {"allreduce", "ncclAllReduce", OpClass::kAllToAll},
    {"allreduce_coalesced", "ncclAllReduce", OpClass::kAllToAll},
    {"all_reduce", "ncclAllReduce", OpClass::kAllToAll},
    {"barrier", "ncclAllReduce", OpClass::kAllToAll},  // an allreduce of one element
    {"all_reduce_barrier", "ncclAllReduce", OpClass::kAllToAll},
    {"allgather", "ncclAllGather", OpClass::kAllToAll},
    {"all_gather", "ncclAllGather", OpClass::kAllToAll},
    {"_allgather_base", "ncclAllGather", OpClass::kAllToAll},
    {"_all_gather_base", "ncclAllGather", OpClass::kAllToAll},
    {"allgather_into_tensor_coalesced", "ncclAllGather", OpClass::kAllToAll},
    {"all_gather_into_tensor_coalesced", "ncclAllGather", OpClass::kAllToAll},
    {"reduce_scatter", "ncclReduceScatter", OpClass::kAllToAll},
    {"_reduce_scatter_base", "ncclReduceScatter", OpClass::kAllToAll},
    {"reduce_scatter_tensor_coalesced", "ncclReduceScatter", OpClass::kAllToAll},
    {"all_to_all", "ncclAlltoAll", OpClass::kAllToAll},
    {"all_to_allv", "ncclAlltoAll", OpClass::kAllToAll},
    {"broadcast", "ncclBroadcast", OpClass::kRootToAll},
    {"_broadcast_oop", "ncclBroadcast", OpClass::kRootToAll},
    {"scatter", "ncclScatter", OpClass::kRootToAll},
    {"reduce", "ncclReduce", OpClass::kAllToRoot},
    {"_reduce_oop", "ncclReduce", OpClass::kAllToRoot},
    {"gather", "ncclGather", OpClass::kAllToRoot},
    {"send", "ncclSend", OpClass::kDeviceMessage},
    {"recv", "ncclRecv", OpClass::kDeviceMessage},
};

struct Type {
  std::string_view name;
  TorchType type;
};
// Codes of core/names.h. Signed integers of 16 bits, complex numbers and truth values are none of NCCL's types: torch
// sends their bytes.
constexpr Type kTypes[] = {
    {"Char", {64, 1}},        {"Byte", {65, 1}},          {"Bool", {65, 1}},        {"Int", {66, 4}},
    {"Long", {68, 8}},        {"Half", {70, 2}},          {"Float", {71, 4}},       {"Double", {72, 8}},
    {"BFloat16", {73, 2}},    {"Float8_e4m3fn", {74, 1}}, {"Float8_e5m2", {75, 1}}, {"Short", {0, 2}},
    {"ComplexFloat", {0, 8}}, {"ComplexDouble", {0, 16}},
};

/// As C++ spells them, which is how torch names them in "Input type".
constexpr Type kCppTypes[] = {
    {"float", {71, 4}},
    {"double", {72, 8}},
    {"c10::Half", {70, 2}},
    {"c10::BFloat16", {73, 2}},
    {"c10::Float8_e4m3fn", {74, 1}},
    {"c10::Float8_e5m2", {75, 1}},
    {"signed char", {64, 1}},
    {"unsigned char", {65, 1}},
    {"bool", {65, 1}},
    {"short", {0, 2}},
    {"short int", {0, 2}},
    {"int", {66, 4}},
    {"long", {68, 8}},
    {"long int", {68, 8}},
    {"long long", {68, 8}},
    {"c10::complex<float>", {0, 8}},
    {"c10::complex<double>", {0, 16}},
};

/// What names of kernels call operations, and torch's name of each. The first that fits counts:
/// ReduceScatter before Reduce.
constexpr std::pair<std::string_view, std::string_view> kKernelOperations[] = {{"AllReduce", "allreduce"},
                                                                               {"AllGather", "allgather"},
                                                                               {"ReduceScatter", "reduce_scatter"},
                                                                               {"Broadcast", "broadcast"},
                                                                               {"Reduce", "reduce"}};

constexpr std::string_view kAlgorithms[] = {"RING", "TREE", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS_TREE",
                                            "NVLS", "PAT"};
constexpr std::string_view kProtocols[] = {"LL128", "LL", "SIMPLE"};

constexpr int64_t kMostTensorBytes = int64_t{1} << 46;  // more than any GPU has: damaged

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

/// The table's memories, as people who wrote traces call them.
std::string memory(std::string_view name) {
  const std::string text = lower(name);
  for (const char* known : {"pageable", "pinned", "device", "array", "managed"})
    if (text == known) return text;
  return {};  // "Host": pinned or not is not said
}

}  // namespace

CopyName parse_copy_name(std::string_view name) {
  CopyName copy;
  const size_t open = name.find('('), close = name.find(')');
  const std::string_view memories = open != std::string_view::npos && close != std::string_view::npos && open < close
                                        ? name.substr(open + 1, close - open - 1)
                                        : std::string_view();
  const size_t arrow = memories.find(" -> ");
  if (name.starts_with("Memcpy ")) {
    const std::string_view rest = name.substr(7);
    const std::string_view kind = rest.substr(0, rest.find(' '));
    for (const std::string_view known :
         {"HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA"})
      if (kind == known) copy.kind = kind;
  }
  if (arrow != std::string_view::npos) {
    copy.source = memory(memories.substr(0, arrow));
    copy.destination = memory(memories.substr(arrow + 4));
  } else {
    copy.destination = memory(memories);
  }
  return copy;
}

NcclKernel parse_nccl_kernel(std::string_view name) {
  NcclKernel kernel;
  name = name.substr(0, name.find('('));
  if (!name.starts_with("nccl") || name.find("Kernel") == std::string_view::npos) return kernel;
  kernel.is_nccl = true;
  std::string_view operation = name.substr(4);
  for (const std::string_view prefix : {"DevKernel_", "Kernel_"})
    if (operation.starts_with(prefix)) operation.remove_prefix(prefix.size());
  kernel.is_exchange = operation.starts_with("SendRecv");
  for (const auto& [part, torch] : kKernelOperations) {
    if (!operation.starts_with(part)) continue;
    kernel.collective = find_torch_collective(torch);
    break;
  }
  const std::string text = fmt::format("_{}_", name);
  const auto word = [&](std::span<const std::string_view> known) -> std::string {
    for (const std::string_view candidate : known)
      if (text.find(fmt::format("_{}_", candidate)) != std::string::npos) return std::string(candidate);
    return {};
  };
  kernel.algorithm = word(kAlgorithms);
  kernel.protocol = word(kProtocols);
  return kernel;
}

const TorchCollective* find_torch_collective(std::string_view name) {
  for (const TorchCollective& known : kCollectives)
    if (known.name == name) return &known;
  return nullptr;
}

const TorchCollective* find_torch_range(std::string_view name) {
  if (!name.starts_with("nccl:")) return nullptr;
  name.remove_prefix(5);
  return find_torch_collective(name.substr(0, name.find(' ')));
}

const TorchCollective* find_torch_collective_of(std::string_view op) {
  for (const TorchCollective& known : kCollectives)
    if (known.op == op) return &known;
  return nullptr;
}

TorchTypeName find_torch_type_of(uint32_t code) {
  for (const Type& known : kTypes)
    if (code != 0 && known.type.code == code) return {known.name, known.type.bytes};
  return {};
}

TorchTensors parse_tensors(std::string_view dims, std::string_view types) {
  TorchTensors tensors;
  int64_t sum = 0;
  bool is_first = true;
  const auto take = [](std::string_view& text, char c) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
  };
  if (!take(dims, '[') || !take(types, '[')) return {};
  while (!take(dims, ']')) {
    if (!is_first && (!take(dims, ',') || !take(types, ','))) return {};
    if (!take(dims, '[') || !take(types, '"')) return {};
    const std::string_view name = types.substr(0, types.find('"'));
    types.remove_prefix(name.size());
    const Type* type =
        std::find_if(std::begin(kCppTypes), std::end(kCppTypes), [&](const Type& known) { return known.name == name; });
    if (!take(types, '"') || type == std::end(kCppTypes)) return {};
    int64_t bytes = type->type.bytes;
    for (bool is_first_extent = true; !take(dims, ']'); is_first_extent = false) {
      if (!is_first_extent && !take(dims, ',')) return {};
      while (dims.starts_with(' ')) dims.remove_prefix(1);
      const auto extent = take_number<int64_t>(dims);
      if (!(extent >= 0) || __builtin_mul_overflow(bytes, *extent, &bytes)) return {};
    }
    if (__builtin_add_overflow(sum, bytes, &sum)) return {};
    tensors.datatype = is_first || tensors.datatype == type->type.code ? type->type.code : 0;
    is_first = false;
  }
  if (is_first || sum > kMostTensorBytes || !take(types, ']') || !types.empty() || !dims.empty()) return {};
  tensors.bytes = sum;
  return tensors;
}

TorchType find_torch_type(std::string_view name) {
  for (const Type& known : kTypes)
    if (known.name == name) return known.type;
  return {};
}

std::vector<int64_t> parse_ranks(std::string_view list) {
  std::vector<int64_t> ranks;
  if (!list.starts_with('[') || !list.ends_with(']')) return ranks;
  list = list.substr(1, list.size() - 2);
  while (!list.empty()) {
    while (list.starts_with(' ')) list.remove_prefix(1);
    const auto rank = take_number<int64_t>(list);
    if (!(rank >= 0)) return {};
    ranks.push_back(*rank);
    if (list.empty()) break;
    if (!list.starts_with(',')) return {};
    list.remove_prefix(1);
  }
  return ranks;
}

}  // namespace ddl::store
