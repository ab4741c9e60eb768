// The numbers of NCCL that our mirror shares with its public header. The tuner's own layouts are in no installed
// header: nccl_plugin.py has the real library use them.
#include <nccl.h>

#include "autotuner/nccl_tuner/abi.h"

static_assert(kNcclSuccess == static_cast<int>(ncclSuccess));
static_assert(kNcclSystemError == static_cast<int>(ncclSystemError));
