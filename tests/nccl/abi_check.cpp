// Compiled where NCCL's header is: our mirror of its types and of its functions' parameters says the same.
#define ncclComm mirror_ncclComm
#define ncclComm_t mirror_ncclComm_t
#define ncclWindow_vidmem mirror_ncclWindow_vidmem
#define ncclWindow_t mirror_ncclWindow_t
#define CUstream_st mirror_CUstream_st
#define cudaStream_t mirror_cudaStream_t
#define ncclUniqueId mirror_ncclUniqueId
#define ncclConfig mirror_ncclConfig
#define ncclConfig_t mirror_ncclConfig_t
#define ncclSimInfo mirror_ncclSimInfo
#define ncclSimInfo_t mirror_ncclSimInfo_t
#define ncclResult_t mirror_ncclResult_t
#define ncclDataType_t mirror_ncclDataType_t
#define ncclRedOp_t mirror_ncclRedOp_t
#include "interpose/nccl_abi.h"
namespace mirror {
using ddl::OpClass;
#define DDL_NCCL_COLLECTIVE(name, op_class, parameters, ...) using name = mirror_ncclResult_t parameters;
#define DDL_NCCL_MESSAGE(name, parameters, ...) using name = mirror_ncclResult_t parameters;
#define DDL_NCCL_CALL(name, op_class, parameters, ...) using name = mirror_ncclResult_t parameters;
#define DDL_NCCL_BY_HAND(name, op_class, parameters, ...) using name = mirror_ncclResult_t parameters;
#include "interpose/nccl_calls.def"
}  // namespace mirror
#undef ncclComm
#undef ncclComm_t
#undef ncclWindow_vidmem
#undef ncclWindow_t
#undef CUstream_st
#undef cudaStream_t
#undef ncclUniqueId
#undef ncclConfig
#undef ncclConfig_t
#undef ncclSimInfo
#undef ncclSimInfo_t
#undef ncclResult_t
#undef ncclDataType_t
#undef ncclRedOp_t
#include <nccl.h>

#include <type_traits>

template <class A, class B>
constexpr bool is_passed_alike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> == std::is_class_v<B>;
template <class A, class B>
struct SameShape : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameShape<R(A...), S(B...)>
    : std::bool_constant<is_passed_alike<R, S> && (is_passed_alike<A, B> && ...)> {
};

#define DDL_NCCL_ROW(name, op_class, collective) static_assert(SameShape<mirror::name, decltype(::name)>::value, #name);
#include "interpose/nccl_calls.def"

static_assert(ddl::kNcclSuccess == ncclSuccess && ddl::kNcclInternalError == ncclInternalError &&
              ddl::kNcclInProgress == ncclInProgress);
static_assert(offsetof(ddl::NcclConfig, size) == offsetof(ncclConfig_t, size) &&
              offsetof(ddl::NcclConfig, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(ddl::NcclConfig, version) == offsetof(ncclConfig_t, version) &&
              offsetof(ddl::NcclConfig, net_name) == offsetof(ncclConfig_t, netName) &&
              offsetof(ddl::NcclConfig, comm_name) == offsetof(ncclConfig_t, commName) &&
              sizeof(ddl::NcclConfig) <= sizeof(ncclConfig_t));
static_assert(sizeof(mirror_ncclUniqueId) == sizeof(ncclUniqueId));
static_assert(ddl::kNcclDataTypes == ncclNumTypes && ddl::kNcclReductions == ncclAvg + 1 && ncclSum == 0);
static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 && ncclInt64 == 4 &&
              ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8 && ncclBfloat16 == 9 &&
              ncclFloat8e4m3 == 10 && ncclFloat8e5m2 == 11);
