#include "analyzer/passes/operation.h"

#include <algorithm>
#include <cctype>

namespace ddl {
namespace {

struct ClassName {
  std::string_view name;
  OpClass op_class;
};

constexpr ClassName kClassNames[] = {
    {"other", OpClass::kOther},
    {"lifecycle", OpClass::kLifecycle},
    {"all_to_all", OpClass::kAllToAll},
    {"barrier", OpClass::kBarrier},
    {"root_to_all", OpClass::kRootToAll},
    {"all_to_root", OpClass::kAllToRoot},
    {"scan", OpClass::kScan},
    {"neighbor", OpClass::kNeighbor},
    {"communicator", OpClass::kCommunicator},
    {"send", OpClass::kSend},
    {"receive", OpClass::kReceive},
    {"send_receive", OpClass::kSendReceive},
    {"probe", OpClass::kProbe},
    {"completion", OpClass::kCompletion},
    {"request_start", OpClass::kRequestStart},
    {"one_sided", OpClass::kOneSided},
    {"rma_sync", OpClass::kRmaSync},
    {"file", OpClass::kFile},
    {"file_collective", OpClass::kFileCollective},
    {"device_message", OpClass::kDeviceMessage},
    {"unknown", OpClass::kUnknown},
};

struct Family {
  std::string_view name;  ///< lower case, without MPI_, the I of non-blocking and the _init of persistent operations
  SizeRule size;
  BusRule bus;
  bool strict;
};

// Alltoallv, Alltoallw and Allgatherv may have nothing for some member, who then need not wait: not strict.
constexpr Family kFamilies[] = {
    {"allreduce", SizeRule::kSame, BusRule::kAllReduce, true},
    {"reduce_scatter", SizeRule::kSame, BusRule::kShare, true},
    {"reduce_scatter_block", SizeRule::kSame, BusRule::kShare, true},
    {"allgather", SizeRule::kEach, BusRule::kShare, true},
    {"allgatherv", SizeRule::kSum, BusRule::kShare, false},
    {"alltoall", SizeRule::kSame, BusRule::kShare, true},
    {"alltoallv", SizeRule::kLargest, BusRule::kShare, false},
    {"alltoallw", SizeRule::kLargest, BusRule::kShare, false},
    {"bcast", SizeRule::kRoot, BusRule::kOne, false},
    {"scatter", SizeRule::kRoot, BusRule::kShare, false},
    {"scatterv", SizeRule::kRoot, BusRule::kShare, false},
    {"reduce", SizeRule::kSame, BusRule::kOne, false},
    {"gather", SizeRule::kSum, BusRule::kShare, false},
    {"gatherv", SizeRule::kSum, BusRule::kShare, false},
    {"scan", SizeRule::kSame, BusRule::kNone, false},
    {"exscan", SizeRule::kSame, BusRule::kNone, false},
    {"barrier", SizeRule::kZero, BusRule::kNone, true},
    // As NCCL spells them; its gather and scatter, allgather and alltoall are those above.
    {"broadcast", SizeRule::kRoot, BusRule::kOne, false},
    {"reducescatter", SizeRule::kSame, BusRule::kShare, true},
};

bool is_persistent(std::string_view name) { return name.ends_with("_init") || name.ends_with("_init_c"); }

std::string family_name(std::string_view name, bool nonblocking) {
  for (const std::string_view prefix : {"MPI_", "MPIX_", "nccl", "gloo::"}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name.ends_with("_c")) name.remove_suffix(2);  // large counts
  if (name.ends_with("_init")) {
    name.remove_suffix(5);  // MPI_Allreduce_init: persistent, no I
  } else if (nonblocking && name.starts_with("I")) {
    name.remove_prefix(1);
  }
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

WaitRule wait_rule(OpClass op_class) {
  switch (op_class) {
    case OpClass::kAllToAll:
    case OpClass::kBarrier:
    case OpClass::kCommunicator:
      return WaitRule::kSymmetric;
    case OpClass::kRootToAll:
      return WaitRule::kLateRoot;
    case OpClass::kAllToRoot:
      return WaitRule::kEarlyRoot;
    default:
      return WaitRule::kNone;
  }
}

bool is_numbered(OpClass op_class, std::string_view family) {
  switch (op_class) {
    case OpClass::kAllToAll:
    case OpClass::kBarrier:
    case OpClass::kRootToAll:
    case OpClass::kAllToRoot:
    case OpClass::kScan:
    case OpClass::kNeighbor:
    case OpClass::kFileCollective:
      return true;
    case OpClass::kRmaSync:
      return family == "win_fence";
    case OpClass::kCommunicator:  // these are not collective over the communicator they are called with
      return family != "comm_create_group" && family != "intercomm_create" && family != "intercomm_merge" &&
             family != "comm_join" && family != "comm_get_parent" && !family.ends_with("_from_group") &&
             !family.ends_with("_from_groups");
    default:
      return false;
  }
}

/// MPI_Win_post is no exception: MPI says that it does not block, but in Open MPI it does.
bool waits_unnumbered(OpClass op_class, std::string_view family) {
  if (family == "comm_disconnect") return true;
  constexpr std::string_view kLocal[] = {"win_attach", "win_detach", "win_sync", "win_test", "comm_get_parent"};
  const bool local = std::find(std::begin(kLocal), std::end(kLocal), family) != std::end(kLocal);
  return !local &&
         (op_class == OpClass::kRmaSync || op_class == OpClass::kOneSided || op_class == OpClass::kCommunicator);
}

}  // namespace

Operation describe_operation(std::string name, std::string_view class_name, bool nonblocking) {
  Operation operation;
  operation.name = std::move(name);
  operation.nonblocking = nonblocking;
  for (const ClassName& known : kClassNames) {
    if (known.name == class_name) operation.op_class = known.op_class;
  }
  operation.wait = wait_rule(operation.op_class);
  operation.on_device = operation.name.starts_with("nccl");
  // Gloo sends when the receiver is ready: a root that is early waits for the others just as they do for it.
  if (operation.name.starts_with("gloo::") && operation.wait != WaitRule::kNone) operation.wait = WaitRule::kSymmetric;

  const std::string family = family_name(operation.name, nonblocking);
  for (const Family& known : kFamilies) {
    if (known.name != family) continue;
    operation.size = known.size;
    operation.bus = known.bus;
    operation.strict = known.strict;
  }
  // The call that makes a persistent collective has no number; its starts have.
  operation.numbered = is_numbered(operation.op_class, family) && !is_persistent(operation.name);
  operation.waits_unnumbered = !operation.numbered && waits_unnumbered(operation.op_class, family);
  if (operation.op_class == OpClass::kCommunicator) {
    operation.size = SizeRule::kZero;
  } else if (operation.op_class == OpClass::kNeighbor) {
    operation.size = SizeRule::kSum;
  }
  return operation;
}

std::optional<double> bus_factor(BusRule rule, int64_t ranks) {
  if (ranks < 2) return std::nullopt;
  const double n = static_cast<double>(ranks);
  switch (rule) {
    case BusRule::kNone:
      return std::nullopt;
    case BusRule::kOne:
      return 1.0;
    case BusRule::kAllReduce:
      return 2 * (n - 1) / n;
    case BusRule::kShare:
      return (n - 1) / n;
  }
  return std::nullopt;
}

}  // namespace ddl
