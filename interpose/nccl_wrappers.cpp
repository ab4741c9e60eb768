// The wrappers of NCCL that the table alone defines. A collective is enqueued here and runs on the device, at the
// end of the group that it is in: the record of the call is what the host did, the device's part is told by CUPTI
// and by NCCL's profiler.
#include "core/names.h"
#include "interpose/mpi_abi.h"
#include "interpose/nccl.h"

namespace ddl {
namespace {

/// For a communicator that is not known: 1, its size cannot be told.
size_t ranks_of(const NcclCommunicator* c) { return c->size > 0 ? static_cast<size_t>(c->size) : 1; }

bool is_left_to_profiler(const NcclCommunicator* c) { return c->index == kNoComm && g_nccl_profiled; }

uint32_t reduction_code(ncclRedOp_t op) {
  // 0: made by the program
  return static_cast<uint32_t>(op) < kNcclReductions ? kFirstNcclCode + static_cast<uint32_t>(op) : 0;
}

uint64_t nccl_payload(size_t count, ncclDataType_t datatype, uint32_t reduction) {
  const uint32_t type = static_cast<uint32_t>(datatype);
  if (type >= kNcclDataTypes) return 0;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, kNcclDataTypeBytes[type], &bytes)) bytes = kMaxPayloadBytes;
  return record_payload(bytes, kFirstNcclCode + type, reduction);
}

/// What the end of the group will launch.
void add_to_group(uint32_t comm, uint32_t sequence) {
  NcclThread& t = t_nccl;
  uint32_t i = 0;
  while (i < t.group_parts && i < kMaxGroupParts && t.group[i].comm != comm) ++i;
  if (i == t.group_parts) {
    ++t.group_parts;
    if (i < kMaxGroupParts) t.group[i] = {comm, sequence, sequence != kNoSequence};
  } else if (i < kMaxGroupParts && sequence != kNoSequence) {
    if (t.group[i].count++ == 0) t.group[i].first = sequence;
  }
}

class Enqueue {
 public:
  Enqueue(uint32_t op, const void* site, NcclCommunicator* c, bool collective, int peer, uint64_t payload,
          const void* receive)
      : c_(c),
        sequence_(collective && c->index != kNoComm ? __atomic_add_fetch(&c->sequence, 1, __ATOMIC_RELAXED)
                                                    : kNoSequence),
        host_(op, site, c->index, collective, sequence_, peer, payload) {
    t_nccl.call = {c, op, sequence_, host_.context(), peer, payload};
    __atomic_store_n(&g_nccl_wrapped, true, __ATOMIC_RELAXED);
    if (sequence_ != kNoSequence) add_nccl_enqueued({c, op, sequence_, host_.context(), false, receive});
    if (t_nccl.group_depth > 0) {
      add_to_group(c->index, sequence_);
    } else if (host_.thread()) {
      host_.thread()->nccl_call = {c->index, sequence_};
    }
  }

  ncclResult_t end(ncclResult_t result) {
    t_nccl.call.communicator = nullptr;
    if (host_.thread()) host_.thread()->nccl_call = {};
    // What NCCL refused has not been enqueued, on no rank.
    if (result != kNcclSuccess && result != kNcclInProgress && sequence_ != kNoSequence) {
      forget_nccl_enqueued(c_, sequence_);
      uint32_t ours = sequence_;
      __atomic_compare_exchange_n(&c_->sequence, &ours, sequence_ - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
      host_.refused();
    }
    host_.end();
    return result;
  }

 private:
  NcclCommunicator* c_;
  uint32_t sequence_;
  NcclHostCall host_;
};

}  // namespace
}  // namespace ddl

using namespace ddl;

// clang-format off
#define DDL_NCCL_COLLECTIVE(NAME, CLASS, PARAMETERS, ARGUMENTS, ROOT, RECVBUFF, COUNT, SENT, REDUCTION)                  \
  DDL_NCCL_EXPORT(NAME) PARAMETERS;                                                                                      \
  namespace {                                                                                                            \
  template <class Real>                                                                                                  \
  ncclResult_t NAME##_recorded(Real real, const void* site, DDL_NCCL_UNLIST PARAMETERS) {                                \
    NcclCommunicator* c = use_nccl_communicator(comm, site);                                                             \
    if (__builtin_expect(is_left_to_profiler(c), 0)) return real ARGUMENTS;                                              \
    Enqueue enqueue(kOp_##NAME, site, c, true, ROOT, nccl_payload(SENT, datatype, REDUCTION), RECVBUFF);                           \
    return enqueue.end(real ARGUMENTS);                                                                                  \
  }                                                                                                                      \
  }                                                                                                                      \
  DDL_NCCL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)

#define DDL_NCCL_MESSAGE(NAME, PARAMETERS, ARGUMENTS)                                                                    \
  DDL_NCCL_EXPORT(NAME) PARAMETERS;                                                                                      \
  namespace {                                                                                                            \
  template <class Real>                                                                                                  \
  ncclResult_t NAME##_recorded(Real real, const void* site, DDL_NCCL_UNLIST PARAMETERS) {                                \
    NcclCommunicator* c = use_nccl_communicator(comm, site);                                                             \
    if (__builtin_expect(is_left_to_profiler(c), 0)) return real ARGUMENTS;                                              \
    Enqueue enqueue(kOp_##NAME, site, c, false, peer, nccl_payload(count, datatype, 0), nullptr); \
    return enqueue.end(real ARGUMENTS);                                                                                  \
  }                                                                                                                      \
  }                                                                                                                      \
  DDL_NCCL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)

#define DDL_NCCL_CALL(NAME, CLASS, PARAMETERS, ARGUMENTS, COMM)                                                          \
  DDL_NCCL_EXPORT(NAME) PARAMETERS;                                                                                      \
  namespace {                                                                                                            \
  template <class Real>                                                                                                  \
  ncclResult_t NAME##_recorded(Real real, const void* site, DDL_NCCL_UNLIST PARAMETERS) {                                \
    const NcclCommunicator* c = find_nccl_communicator(COMM);                                                            \
    NcclHostCall host(kOp_##NAME, site, c ? c->index : kNoComm, false, kNoSequence, -1, 0);                              \
    const ncclResult_t result = real ARGUMENTS;                                                                          \
    host.end();                                                                                                          \
    return result;                                                                                                       \
  }                                                                                                                      \
  }                                                                                                                      \
  DDL_NCCL_EXPORTS(NAME, PARAMETERS, ARGUMENTS)

#include "interpose/nccl_calls.def"
// clang-format on
