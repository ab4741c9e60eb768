#include "store/import/kernel_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

namespace ddl::store {

namespace {

constexpr TorchCollective kCollectives[] = {
    {"allreduce", "ncclAllReduce", OpClass::kAllToAll},
    {"allreduce_coalesced", "ncclAllReduce", OpClass::kAllToAll},
    {"all_reduce", "ncclAllReduce", OpClass::kAllToAll},
    {"barrier", "ncclAllReduce", OpClass::kAllToAll},  // an allreduce of one element
    {"allgather", "ncclAllGather", OpClass::kAllToAll},
    {"all_gather", "ncclAllGather", OpClass::kAllToAll},
    {"_allgather_base", "ncclAllGather", OpClass::kAllToAll},
    {"allgather_into_tensor_coalesced", "ncclAllGather", OpClass::kAllToAll},
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
// Codes of core/names.h. Signed integers of 16 bits, complex numbers and truth values are none of NCCL's types: torch sends their bytes.
constexpr Type kTypes[] = {
    {"Char", {64, 1}},        {"Byte", {65, 1}},  {"Bool", {65, 1}},        {"Int", {66, 4}},           {"Long", {68, 8}},
    {"Half", {70, 2}},        {"Float", {71, 4}}, {"Double", {72, 8}},      {"BFloat16", {73, 2}},      {"Float8_e4m3fn", {74, 1}},
    {"Float8_e5m2", {75, 1}}, {"Short", {0, 2}},  {"ComplexFloat", {0, 8}}, {"ComplexDouble", {0, 16}},
};

constexpr std::string_view kAlgorithms[] = {"RING", "TREE", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS_TREE", "NVLS", "PAT"};
constexpr std::string_view kProtocols[] = {"LL128", "LL", "SIMPLE"};

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
    for (const std::string_view known : {"HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA"})
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
  if (!name.starts_with("nccl")) return kernel;
  const std::string text = fmt::format("_{}_", name.substr(0, name.find('(')));
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
    int64_t rank = 0;
    const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), rank);
    if (error != std::errc() || rank < 0) return {};
    ranks.push_back(rank);
    list.remove_prefix(static_cast<size_t>(end - list.data()));
    if (list.empty()) break;
    if (!list.starts_with(',')) return {};
    list.remove_prefix(1);
  }
  return ranks;
}

}  // namespace ddl::store
