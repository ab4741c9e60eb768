#include "store/import/call_class.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace ddl::store {

namespace {

struct ClassifiedCall {
  /// lower case, without prefix, the I of non-blocking calls, _init of persistent ones and _c of large counts
  std::string_view name;
  OpClass op_class;
};

constexpr ClassifiedCall kMpi[] = {
    {"abort", OpClass::kLifecycle},
    {"allgather", OpClass::kAllToAll},
    {"allgatherv", OpClass::kAllToAll},
    {"allreduce", OpClass::kAllToAll},
    {"alltoall", OpClass::kAllToAll},
    {"alltoallv", OpClass::kAllToAll},
    {"alltoallw", OpClass::kAllToAll},
    {"barrier", OpClass::kBarrier},
    {"bcast", OpClass::kRootToAll},
    {"bsend", OpClass::kSend},
    {"exscan", OpClass::kScan},
    {"finalize", OpClass::kLifecycle},
    {"gather", OpClass::kAllToRoot},
    {"gatherv", OpClass::kAllToRoot},
    {"init", OpClass::kLifecycle},
    {"init_thread", OpClass::kLifecycle},
    {"mprobe", OpClass::kProbe},
    {"mrecv", OpClass::kReceive},
    {"neighbor_allgather", OpClass::kNeighbor},
    {"neighbor_allgatherv", OpClass::kNeighbor},
    {"neighbor_alltoall", OpClass::kNeighbor},
    {"neighbor_alltoallv", OpClass::kNeighbor},
    {"neighbor_alltoallw", OpClass::kNeighbor},
    {"parrived", OpClass::kCompletion},
    {"precv", OpClass::kReceive},
    {"probe", OpClass::kProbe},
    {"psend", OpClass::kSend},
    {"recv", OpClass::kReceive},
    {"reduce", OpClass::kAllToRoot},
    {"reduce_scatter", OpClass::kAllToAll},
    {"reduce_scatter_block", OpClass::kAllToAll},
    {"request_get_status", OpClass::kCompletion},
    {"rsend", OpClass::kSend},
    {"scan", OpClass::kScan},
    {"scatter", OpClass::kRootToAll},
    {"scatterv", OpClass::kRootToAll},
    {"send", OpClass::kSend},
    {"sendrecv", OpClass::kSendReceive},
    {"sendrecv_replace", OpClass::kSendReceive},
    {"session", OpClass::kLifecycle},  // MPI_Session_init
    {"session_finalize", OpClass::kLifecycle},
    {"ssend", OpClass::kSend},
    {"test", OpClass::kCompletion},
    {"testall", OpClass::kCompletion},
    {"testany", OpClass::kCompletion},
    {"testsome", OpClass::kCompletion},
    {"wait", OpClass::kCompletion},
    {"waitall", OpClass::kCompletion},
    {"waitany", OpClass::kCompletion},
    {"waitsome", OpClass::kCompletion},
};

constexpr ClassifiedCall kNccl[] = {
    {"allgather", OpClass::kAllToAll}, {"allreduce", OpClass::kAllToAll},  {"alltoall", OpClass::kAllToAll},
    {"bcast", OpClass::kRootToAll},    {"broadcast", OpClass::kRootToAll}, {"gather", OpClass::kAllToRoot},
    {"recv", OpClass::kDeviceMessage}, {"reduce", OpClass::kAllToRoot},    {"reducescatter", OpClass::kAllToAll},
    {"scatter", OpClass::kRootToAll},  {"send", OpClass::kDeviceMessage},
};

template <size_t N>
const ClassifiedCall* find(const ClassifiedCall (&calls)[N], std::string_view name) {
  const ClassifiedCall* found =
      std::find_if(std::begin(calls), std::end(calls), [&](const ClassifiedCall& call) { return call.name == name; });
  return found == std::end(calls) ? nullptr : found;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  const bool there = text.starts_with(prefix);
  if (there) text.remove_prefix(prefix.size());
  return there;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  const bool there = text.ends_with(suffix);
  if (there) text.remove_suffix(suffix.size());
  return there;
}

}  // namespace

CallClass class_of_call(std::string_view written) {
  std::string lower(written);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  std::string_view name = lower;
  if (take_prefix(name, "nccl")) {
    const ClassifiedCall* call = find(kNccl, name);
    return call ? CallClass{call->op_class, true} : CallClass{};
  }
  take_prefix(name, "p");
  if (!take_prefix(name, "mpi_") && !take_prefix(name, "mpix_")) return {};
  take_suffix(name, "_c");
  const bool persistent = take_suffix(name, "_init");
  const ClassifiedCall* call = find(kMpi, name);
  const bool immediate = call == nullptr && take_prefix(name, "i");
  if (immediate) call = find(kMpi, name);
  if (call == nullptr) return {};
  switch (call->op_class) {
    case OpClass::kProbe:
      return {call->op_class, false};  // Iprobe and Improbe look, and leave nothing to be completed
    case OpClass::kLifecycle:
      return {call->op_class, false};
    case OpClass::kSend:
    case OpClass::kReceive:
      return {call->op_class, immediate};  // the request that a persistent one makes is posted by MPI_Start
    default:
      return {call->op_class, immediate || persistent};
  }
}

}  // namespace ddl::store
