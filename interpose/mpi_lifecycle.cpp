// MPI's beginning and end in this process.
#include <stdarg.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/payload.h"
#include "interpose/requests.h"

namespace ddl {

Mpi g_mpi = {};

namespace {

struct OpRow {
  uint32_t op;
  OpClass op_class;
  bool nonblocking;
  const char* name;
};
constexpr OpRow kOps[] = {
#define DDL_MPI_ROW(name, op_class, nonblocking) {kOp_##name, op_class, nonblocking, #name},
#include "interpose/mpi_calls.def"
};

/// Looks up what we call ourselves. False: an MPI library of another flavour (its handles are not what our mpi.h says), or none.
bool learn_mpi(const void* caller) {
#define DDL_PMPI_RESOLVE(name)                                                             \
  g_mpi.p.name = reinterpret_cast<decltype(&PMPI_##name)>(resolve("PMPI_" #name, caller)); \
  if (!g_mpi.p.name) return false;
  DDL_PMPI_FUNCTIONS(DDL_PMPI_RESOLVE)
#undef DDL_PMPI_RESOLVE
  g_mpi.comm_world = MPI_COMM_WORLD;
  g_mpi.comm_null = MPI_COMM_NULL;
  g_mpi.request_null = MPI_REQUEST_NULL;
  g_mpi.datatype_null = MPI_DATATYPE_NULL;
  g_mpi.request_empty = static_cast<MPI_Request>(mpi_object("ompi_request_empty"));
  return g_mpi.comm_world != nullptr && g_mpi.comm_null != nullptr && g_mpi.request_null != nullptr;
}

/// Before the first call is opened: a job that hangs in MPI_Init must be able to say so.
void describe_operations() {
  for (const OpRow& row : kOps) write_operation(row.op, row.op_class, row.nonblocking, row.name);
}

/// MPI is up: who are we, what may we call, what exists already.
void enter_running(const void* caller) {
  FileHeader* header = spool_header();
  if (!learn_mpi(caller)) {
    say("this MPI library is not the one that these wrappers are for; MPI calls pass through unrecorded");
    g_mpi.state = MpiState::kOff;
    return;
  }
  int rank = -1, size = 0, level = 0, length = 0;
  g_mpi.p.Comm_rank(g_mpi.comm_world, &rank);
  g_mpi.p.Comm_size(g_mpi.comm_world, &size);
  g_mpi.p.Query_thread(&level);
  g_mpi.multiple = level == MPI_THREAD_MULTIPLE;
  header->thread_level = level;
  header->world_size = size;
  header->mpi_init_leave_ticks = ticks();
  __atomic_store_n(&header->rank, rank, __ATOMIC_RELEASE);
  __atomic_fetch_or(&header->flags, kMpiInitialized, __ATOMIC_RELAXED);
  learn_datatypes_and_reductions();
  add_predefined_communicators();
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  if (g_mpi.p.Get_library_version(version, &length) == MPI_SUCCESS) {
    version[strcspn(version, "\n")] = 0;
    write_fact("mpi", version);
  }
  write_modules();
  write_clock();
  MpiState running = MpiState::kRunning;
  __atomic_store(&g_mpi.state, &running, __ATOMIC_RELEASE);
}

/// MPI_Init and MPI_Init_thread: `real` is called in either case.
template <class Real>
int initialize(uint32_t op, const void* site, Real real) {
  if (!start_recorder(true)) {
    g_mpi.state = MpiState::kOff;
    return real();
  }
  describe_operations();
  const OpenCall call = begin_call(op, site, kNoComm, false, kNoSequence, -1, 0);
  const int result = real();
  if (result == MPI_SUCCESS && g_mpi.state == MpiState::kUnknown) enter_running(site);
  if (call.thread) end_call(call, 0);
  return result;
}

/// Copies a string that may not be one: MPI_Pcontrol is variadic, and a caller that passed no name leaves us whatever was in the register.
bool copy_name(const void* address, char* name, size_t bytes) {
  size_t got = 0;
  while (got + 1 < bytes) {  // byte by byte is slow and safe: a longer read could cross into an unmapped page
    iovec to = {name + got, 1};
    iovec from = {const_cast<char*>(static_cast<const char*>(address)) + got, 1};
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) return false;
    const unsigned char c = static_cast<unsigned char>(name[got]);
    if (c == 0) return got > 0;
    if (c < 0x20 || c == 0x7f) return false;
    ++got;
  }
  return false;
}

}  // namespace

bool start_late(const void* caller) {
  if (is_forked_child()) return false;  // it inherited "MPI is initialized" from its parent; its calls are not those of a rank
  const auto initialized = reinterpret_cast<decltype(&PMPI_Initialized)>(resolve("PMPI_Initialized", caller));
  const auto finalized = reinterpret_cast<decltype(&PMPI_Finalized)>(resolve("PMPI_Finalized", caller));
  int is_initialized = 0, is_finalized = 0;
  if (!initialized || !finalized || initialized(&is_initialized) != MPI_SUCCESS || finalized(&is_finalized) != MPI_SUCCESS) return false;
  if (is_finalized) g_mpi.state = MpiState::kOff;
  if (!is_initialized || is_finalized) return false;
  if (!start_recorder(true)) {
    g_mpi.state = MpiState::kOff;
    return false;
  }
  describe_operations();
  write_fact("note", "MPI was initialized by a call that is not intercepted; what happened before the first intercepted call is missing");
  enter_running(caller);
  return g_mpi.state == MpiState::kRunning;
}

}  // namespace ddl

using namespace ddl;

DDL_EXPORT int MPI_Init(int* argc, char*** argv) {
  DDL_REAL(MPI_Init);
  return initialize(kOp_MPI_Init, site, [&] { return real(argc, argv); });
}

DDL_EXPORT int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  DDL_REAL(MPI_Init_thread);
  return initialize(kOp_MPI_Init_thread, site, [&] { return real(argc, argv, required, provided); });
}

DDL_EXPORT int MPI_Finalize(void) {
  DDL_REAL(MPI_Finalize);
  if (!mpi_recording(site)) return real();
  const OpenCall call = begin_call(kOp_MPI_Finalize, site, kNoComm, false, kNoSequence, -1, 0);
  FileHeader* header = spool_header();
  header->mpi_finalize_enter_ticks = call.start_ticks ? call.start_ticks : ticks();
  __atomic_fetch_or(&header->flags, kMpiFinalized, __ATOMIC_RELAXED);
  count_loss(kLossRequests, outstanding_requests());
  write_modules();  // what was loaded since
  const int result = real();
  g_mpi.state = MpiState::kOff;
  if (call.thread) end_call(call, 0);
  write_clock();
  return result;
}

DDL_EXPORT int MPI_Abort(MPI_Comm comm, int errorcode) {
  DDL_REAL(MPI_Abort);
  if (!mpi_recording(site)) return real(comm, errorcode);
  // It does not return: the open record stays, and says from where the job was ended.
  begin_call(kOp_MPI_Abort, site, find_communicator(comm)->index, false, kNoSequence, -1, 0);
  FileHeader* header = spool_header();
  header->abort_code = errorcode;
  __atomic_fetch_or(&header->flags, kMpiAborted, __ATOMIC_RELAXED);
  write_clock();
  return real(comm, errorcode);
}

/// MPI leaves its meaning to tools. Ours is that of IPM: level 1 with a name opens a phase, level -1 with that name closes it; other levels
/// do nothing. The real one is called too, with the name, for tools further down the chain.
DDL_EXPORT int MPI_Pcontrol(const int level, ...) {
  DDL_REAL(MPI_Pcontrol);
  va_list arguments;
  va_start(arguments, level);
  const void* argument = va_arg(arguments, const void*);
  va_end(arguments);
  if (!mpi_recording(site)) return real(level, argument);
  char name[128];
  const bool named = (level == 1 || level == -1) && copy_name(argument, name, sizeof name);
  if (named && level == -1) pop_range(static_cast<uint32_t>(ContextKind::kPhase));
  const OpenCall call = begin_call(kOp_MPI_Pcontrol, site, kNoComm, false, kNoSequence, -1, 0);
  const int result = real(level, argument);
  if (call.thread) end_call(call, 0);
  if (named && level == 1) push_range(static_cast<uint32_t>(ContextKind::kPhase), name, 0);
  return result;
}
