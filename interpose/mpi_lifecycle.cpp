// MPI's beginning and end in this process.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collectors/collectors.h"
#include "core/dynamic_loading.h"
#include "core/lost_pages.h"
#include "interpose/clock_sync.h"
#include "interpose/payload.h"
#include "interpose/requests.h"
#include "interpose/wrapper.h"

namespace ddl {

Mpi g_mpi = {};

namespace {

bool g_standard_abi = false;  // what is_our_flavour() saw

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

/// What the MPI library says of itself, which may be asked at any time; empty: nothing.
const char* library_version(const void* caller) {
  // the largest MPI_MAX_LIBRARY_VERSION_STRING of any library is 8192, whatever our mpi.h says
  static char text[16384];
  const auto version =
      reinterpret_cast<decltype(&PMPI_Get_library_version)>(resolve("PMPI_Get_library_version", caller));
  int length = 0;
  if (!version || version(text, &length) != MPI_SUCCESS) text[0] = 0;
  return text;
}

/// Looks up what we call ourselves. False: something is missing.
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
  g_mpi.group_null = MPI_GROUP_NULL;
#ifndef OPEN_MPI
  int major = 0, minor = 0;
  const char* version = strstr(library_version(caller), "MPICH Version:");
  if (version && sscanf(version, "MPICH Version: %d.%d", &major, &minor) == 2) {
    g_mpi.failed_waitall_frees = major > 4 || (major == 4 && minor >= 2);
  }
#else
  g_mpi.request_empty = static_cast<MPI_Request>(mpi_object("ompi_request_empty"));
#endif
  reserve_request_slots();
  return true;
}

/// Before the first call is opened: a job that hangs in MPI_Init must be able to say so.
void describe_operations() {
  for (const OpRow& row : kOps) write_operation(row.op, row.op_class, row.nonblocking, row.name);
}

/// MPI is up: who are we, and what exists already. g_mpi.world_group is known.
void enter_running(int thread_level) {
  FileHeader* header = spool_header();
  int rank = -1, size = 0, length = 0;
  g_mpi.p.Group_rank(g_mpi.world_group, &rank);
  g_mpi.p.Group_size(g_mpi.world_group, &size);
  g_mpi.multiple = thread_level == MPI_THREAD_MULTIPLE;
  header->thread_level = thread_level;
  header->world_size = size;
  header->mpi_init_leave_ticks = ticks();
  begin_cpu_account();
  __atomic_store_n(&header->rank, rank, __ATOMIC_RELEASE);
  __atomic_fetch_or(&header->flags, kMpiInitialized, __ATOMIC_RELAXED);
  learn_datatypes_and_reductions();
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};  // the same flavour: its limit is our header's
  if (g_mpi.p.Get_library_version(version, &length) == MPI_SUCCESS) {
    version[strcspn(version, "\n")] = 0;
    write_fact("mpi", version);
  }
  write_modules();
  write_clock();
  reserve_null_slot();
  MpiState running = MpiState::kRunning;
  __atomic_store(&g_mpi.state, &running, __ATOMIC_RELEASE);
  allow_short_way(true);
}

/// MPI_Init has returned.
void enter_world(const void* caller) {
  int level = MPI_THREAD_SINGLE;
  if (!learn_mpi(caller) || g_mpi.p.Comm_group(g_mpi.comm_world, &g_mpi.world_group) != MPI_SUCCESS) {
    g_mpi.state = MpiState::kOff;
    return;
  }
  g_mpi.p.Query_thread(&level);
  g_mpi.world_is_up = true;
  enter_running(level);
  add_predefined_communicators();
}

/// No object of ours is left when MPI ends. The caller holds WorldGroupLock.
void forget_world_group() {
  if (g_mpi.world_group != g_mpi.group_null) g_mpi.p.Group_free(&g_mpi.world_group);
  g_mpi.world_group = g_mpi.group_null;
}

/// The recorder is on and knows our operations. A wrong library is told from its version before anything is recorded.
bool begin_recording(const void* caller) {
  if (g_mpi.state == MpiState::kRunning) return true;
  if (!is_our_flavour(caller)) {
    say_other_flavour();
    g_mpi.state = MpiState::kOff;
    return false;
  }
  if (!start_recorder(true)) {
    g_mpi.state = MpiState::kOff;
    return false;
  }
  describe_operations();
  return true;
}

/// The call is recorded that brought MPI up, if it did. The run begins now: what we did since the library returned is
/// not the job's time inside MPI.
void end_initializing(uint64_t left_before) {
  FileHeader* header = spool_header();
  if (header->mpi_init_leave_ticks != left_before) header->mpi_init_leave_ticks = ticks();
}

/// MPI_Init and MPI_Init_thread: `call_real` is called in either case.
template <class CallReal>
int initialize(uint32_t op, const void* site, CallReal call_real) {
  const bool records = begin_recording(site);
  const OpenCall call = records ? begin_call(op, site, kNoComm, false, kNoSequence, -1, 0) : OpenCall{};
  const uint64_t left_before = records ? spool_header()->mpi_init_leave_ticks : 0;
  const bool guarded = stop_guarding_against_lost_pages();
  const int result = call_real();
  if (guarded) guard_against_lost_pages();
  if (records && result == MPI_SUCCESS && g_mpi.state == MpiState::kUnknown) enter_world(site);
  // a session came first
  if (records && result == MPI_SUCCESS && g_mpi.state == MpiState::kRunning && !g_mpi.world_is_up) {
    g_mpi.world_is_up = true;
    add_predefined_communicators();
  }
  if (result == MPI_SUCCESS) sync_clocks_at_init(site);
  if (call.thread) end_call(call, 0);
  if (records) end_initializing(left_before);
  return result;
}

/// Copies a string that may not be one: MPI_Pcontrol is variadic, and a caller that passed no name leaves us whatever
/// was in the register.
bool copy_name(const void* address, char* name, size_t bytes) {
  const auto from = reinterpret_cast<uintptr_t>(address);
  for (size_t got = 0; got < bytes;) {  // page by page: the next one may not be there
    const size_t of_page = kPageBytes - (from + got) % kPageBytes;
    const size_t part = of_page < bytes - got ? of_page : bytes - got;
    const iovec to = {name + got, part}, there = {reinterpret_cast<void*>(from + got), part};
    if (process_vm_readv(getpid(), &to, 1, &there, 1, 0) != static_cast<ssize_t>(part)) return false;
    for (const size_t end = got + part; got < end; ++got) {
      const unsigned char c = static_cast<unsigned char>(name[got]);
      if (c == 0) return got > 0;
      if (c < 0x20 || c == 0x7f) return false;
    }
  }
  return false;
}

template <class Real>
int MPI_Init_recorded(Real real, const void* site, int* argc, char*** argv) {
  return initialize(kOp_MPI_Init, site, [&] { return real(argc, argv); });
}

template <class Real>
int MPI_Init_thread_recorded(Real real, const void* site, int* argc, char*** argv, int required, int* provided) {
  return initialize(kOp_MPI_Init_thread, site, [&] { return real(argc, argv, required, provided); });
}

template <class Real>
int MPI_Finalize_recorded(Real real, const void* site) {
  const OpenCall call = begin_call(kOp_MPI_Finalize, site, kNoComm, false, kNoSequence, -1, 0);
  FileHeader* header = spool_header();
  header->mpi_finalize_enter_ticks = call.start_ticks ? call.start_ticks : ticks();
  __atomic_fetch_or(&header->flags, kMpiFinalized, __ATOMIC_RELAXED);
  end_cpu_account();
  count_loss(kLossRequests, outstanding_requests());
  write_modules();  // what was loaded since
  flush_devices();
  sync_clocks_at_finalize();
  if (const WorldGroupLock lock; lock) forget_world_group();
  g_mpi.world_is_up = false;
  const int result = real();
  allow_short_way(false);
  g_mpi.state = MpiState::kOff;
  if (call.thread) end_call(call, 0);
  write_clock();
  return result;
}

template <class Real>
int MPI_Abort_recorded(Real real, const void* site, MPI_Comm comm, int errorcode) {
  // It does not return: the open record stays, and says from where the job was ended.
  begin_call(kOp_MPI_Abort, site, find_communicator(key_of(comm))->index, false, kNoSequence, -1, 0);
  FileHeader* header = spool_header();
  header->abort_code = errorcode;
  __atomic_fetch_or(&header->flags, kMpiAborted, __ATOMIC_RELAXED);
  end_cpu_account();
  flush_devices();
  write_clock();
  return real(comm, errorcode);
}

/// MPI leaves its meaning to tools. Ours is that of IPM: level 1 with a name opens a phase, level -1 with that name
/// closes it; other levels do nothing. The real one is called too, with the name, for tools further down the chain.
template <class Real>
int MPI_Pcontrol_recorded(Real real, const void* site, int level, const void* argument) {
  char name[128];
  const bool named = (level == 1 || level == -1) && copy_name(argument, name, sizeof name);
  if (named && level == -1) pop_range(static_cast<uint32_t>(ContextKind::kPhase));
  const OpenCall call = begin_call(kOp_MPI_Pcontrol, site, kNoComm, false, kNoSequence, -1, 0);
  const int result = real(level, argument);
  if (call.thread) end_call(call, 0);
  if (named && level == 1) push_range(static_cast<uint32_t>(ContextKind::kPhase), name, 0);
  return result;
}

#if DDL_MPI4
// open at a time, that the world's group may be taken from; more are only counted
constexpr uint32_t kMaxSessions = 64;
struct {
  MPI_Session session[kMaxSessions];
  uint32_t listed;
  uint32_t open;
  uint64_t world;  ///< the one that g_mpi.world_group comes from; 0: none
} g_sessions;      // guarded by WorldGroupLock

/// From a session that is open, unless it is MPI_COMM_WORLD's. The caller holds WorldGroupLock.
void take_world_group(const void* caller) {
  if (g_mpi.world_is_up) {
    if (g_mpi.p.Comm_group(g_mpi.comm_world, &g_mpi.world_group) != MPI_SUCCESS) g_mpi.world_group = g_mpi.group_null;
    return;
  }
  const auto from_set =
      reinterpret_cast<decltype(&PMPI_Group_from_session_pset)>(resolve("PMPI_Group_from_session_pset", caller));
  for (uint32_t i = 0; from_set && i < g_sessions.listed; ++i) {
    if (from_set(g_sessions.session[i], "mpi://WORLD", &g_mpi.world_group) == MPI_SUCCESS) {
      g_sessions.world = key_of(g_sessions.session[i]);
      return;
    }
    g_mpi.world_group = g_mpi.group_null;
  }
}

/// A program without MPI_COMM_WORLD: its world is the process set of that name.
void begin_session(MPI_Session session, const void* caller) {
  const WorldGroupLock lock;
  if (!lock || g_mpi.state == MpiState::kOff) return;
  const bool first = g_mpi.state == MpiState::kUnknown;
  if (first) g_sessions = {};
  if (g_sessions.listed < kMaxSessions) g_sessions.session[g_sessions.listed++] = session;
  ++g_sessions.open;
  if (first) {
    const bool learned = learn_mpi(caller);
    g_mpi.world_group = g_mpi.group_null;
    if (learned) take_world_group(caller);
    if (!learned || g_mpi.world_group == g_mpi.group_null) {
      g_mpi.state = MpiState::kOff;
      return;
    }
    return enter_running(MPI_THREAD_MULTIPLE);  // each session says its own level: expect the highest
  }
  if (g_mpi.world_group == g_mpi.group_null) take_world_group(caller);
  FileHeader* header = spool_header();  // with the one before MPI seemed to have ended
  header->mpi_finalize_enter_ticks = 0;
  __atomic_fetch_and(&header->flags, ~static_cast<uint32_t>(kMpiFinalized), __ATOMIC_RELAXED);
}

/// The session is about to end. Returns whether MPI does with it. False: another one is open, and the world's group is
/// from there from now on.
bool end_session(MPI_Session session, const void* caller) {
  const WorldGroupLock lock;
  if (!lock) return false;
  uint32_t i = 0;
  while (i < g_sessions.listed && key_of(g_sessions.session[i]) != key_of(session)) ++i;
  if (i < g_sessions.listed) g_sessions.session[i] = g_sessions.session[--g_sessions.listed];
  if (g_sessions.open > g_sessions.listed) --g_sessions.open;
  if (key_of(session) == g_sessions.world) {
    forget_world_group();
    g_sessions.world = 0;
    take_world_group(caller);
  }
  return g_sessions.open == 0 && !g_mpi.world_is_up;
}

template <class Real>
int MPI_Session_init_recorded(Real real, const void* site, MPI_Info info, MPI_Errhandler errhandler,
                              MPI_Session* session) {
  if (!begin_recording(site)) return real(info, errhandler, session);
  const OpenCall call = begin_call(kOp_MPI_Session_init, site, kNoComm, false, kNoSequence, -1, 0);
  const uint64_t left_before = spool_header()->mpi_init_leave_ticks;
  const int result = real(info, errhandler, session);
  if (result == MPI_SUCCESS) begin_session(*session, site);
  if (call.thread) end_call(call, 0);
  end_initializing(left_before);
  return result;
}

template <class Real>
int MPI_Session_finalize_recorded(Real real, const void* site, MPI_Session* session) {
  const OpenCall call = begin_call(kOp_MPI_Session_finalize, site, kNoComm, false, kNoSequence, -1, 0);
  const MPI_Session ending = session ? *session : MPI_Session();
  if (key_of(ending) != 0 && end_session(ending, site)) {
    FileHeader* header = spool_header();
    header->mpi_finalize_enter_ticks = call.start_ticks ? call.start_ticks : ticks();
    __atomic_fetch_or(&header->flags, kMpiFinalized, __ATOMIC_RELAXED);
  }
  write_clock();
  const int result = real(session);
  if (result != MPI_SUCCESS && key_of(ending) != 0) begin_session(ending, site);  // it has not ended
  if (call.thread) end_call(call, 0);
  return result;
}
#endif

}  // namespace

void say_other_flavour() {
  if (g_standard_abi)
    return say(
        "this MPI library has the standard ABI of MPI 5.0 (libmpi_abi), which is not known here: its calls pass through unrecorded");
#ifdef OPEN_MPI
  say("libddl.so is for Open MPI, and this is another MPI: its calls pass through unrecorded (preload libddl-mpich.so instead)");
#else
  say("libddl-mpich.so is for MPICH and its relatives, and this is Open MPI: its calls pass through unrecorded (preload libddl.so "
      "instead)");
#endif
}

bool is_our_flavour(const void* caller) {
  // That ABI has handles and constants of its own; the library's version names its maker and does not tell.
  Dl_info info;
  const void* function = resolve("PMPI_Get_library_version", caller);
  g_standard_abi =
      function && &dladdr && dladdr(function, &info) && info.dli_fname && strstr(info.dli_fname, "libmpi_abi.so");
  if (g_standard_abi) return false;
  const char* version = library_version(caller);
#ifdef OPEN_MPI
  return strstr(version, "Open MPI") != nullptr;
#else
  return version[0] && strstr(version, "Open MPI") == nullptr;
#endif
}

bool start_late(const void* caller) {
  // it inherited "MPI is initialized" from its parent; its calls are not those of a rank
  if (is_forked_child()) return false;
  const auto initialized = reinterpret_cast<decltype(&PMPI_Initialized)>(resolve("PMPI_Initialized", caller));
  const auto finalized = reinterpret_cast<decltype(&PMPI_Finalized)>(resolve("PMPI_Finalized", caller));
  int is_initialized = 0, is_finalized = 0;
  if (!initialized || !finalized || initialized(&is_initialized) != MPI_SUCCESS ||
      finalized(&is_finalized) != MPI_SUCCESS)
    return false;
  if (is_finalized) g_mpi.state = MpiState::kOff;
  if (!is_initialized || is_finalized) return false;
  if (!begin_recording(caller)) return false;
  write_fact(
      "note",
      "MPI was initialized by a call that is not intercepted; what happened before the first intercepted call is missing");
  enter_world(caller);
  return g_mpi.state == MpiState::kRunning;
}

}  // namespace ddl

using namespace ddl;

namespace {

// The first call of all: there is nothing to start late from.
bool always(const void*, bool, const void*) { return g_mpi.state != MpiState::kOff; }
bool unless_inside(const void* site, bool fortran, const void* frame) {
  return always(site, fortran, frame) && (fortran || !is_inside_call(frame));
}

}  // namespace

// clang-format off
DDL_EXPORTS_IF(MPI_Init, (int* argc, char*** argv), (argc, argv), always, unless_inside)
DDL_EXPORTS_IF(MPI_Init_thread, (int* argc, char*** argv, int required, int* provided), (argc, argv, required, provided), always, unless_inside)
DDL_EXPORTS(MPI_Abort, (MPI_Comm comm, int errorcode), (comm, errorcode))
#if DDL_MPI4
DDL_EXPORTS_IF(MPI_Session_init, (MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session), (info, errhandler, session), always, unless_inside)
DDL_EXPORTS(MPI_Session_finalize, (MPI_Session* session), (session))
#endif

// Without arguments, or with a varying number of them.
#define DDL_FINALIZE(KIND, RESOLVE, RECORDS)                       \
  const auto enter = [](const void* site, const void* frame) {    \
    DDL_ENTER_FROM(MPI_Finalize, KIND, RESOLVE, (), RECORDS, frame) \
  };                                                              \
  const int result = enter(DDL_CALLER, __builtin_dwarf_cfa());    \
  forget_functions();                                             \
  return result;
DDL_EXPORT(MPI_Finalize)(void) { DDL_FINALIZE(mpi, resolve_mpi("MPI_Finalize", site), records_mpi) }
DDL_EXPORT(PMPI_Finalize)(void) { DDL_FINALIZE(pmpi, resolve("PMPI_Finalize", site), records_pmpi) }

#define DDL_PCONTROL(KIND, RESOLVE, RECORDS)                      \
  va_list arguments;                                              \
  va_start(arguments, level);                                     \
  const void* argument = va_arg(arguments, const void*);          \
  va_end(arguments);                                              \
  DDL_ENTER(MPI_Pcontrol, KIND, RESOLVE, (level, argument), RECORDS)
DDL_EXPORT(MPI_Pcontrol)(const int level, ...) { DDL_PCONTROL(mpi, resolve_mpi("MPI_Pcontrol", site), records_mpi) }
DDL_EXPORT(PMPI_Pcontrol)(const int level, ...) { DDL_PCONTROL(pmpi, resolve("PMPI_Pcontrol", site), records_pmpi) }
// clang-format on
