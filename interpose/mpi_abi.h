// mpi.h of the MPI library that this flavour of the wrappers is for, without a reference to any of its
// symbols. Injected code.
//
// Two ABIs are known, each compiled into a library of its own from the same sources: Open MPI (libddl.so) and MPICH
// with its relatives Intel MPI, MVAPICH and Cray MPI (libddl-mpich.so). The differences are below; everything else says
// MPI_X and means either.
//
// Open MPI's handles (MPI_COMM_WORLD, MPI_FLOAT, ...) are addresses of objects inside libmpi. Using the macros as they
// are would make libddl.so need libmpi in every process it is preloaded into, and would bind too early where libmpi is
// loaded later (mpi4py). So the macro behind them is redirected to a look-up by name in the library that the job really
// uses. MPICH's are integers.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <stdint.h>

#ifdef OPEN_MPI
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) (static_cast<type>(::ddl::mpi_object(#global)))
// Open MPI 5 shares its ABI with Open MPI 4 and has most of MPI 4, large counts apart. Built with the mpi.h of either,
// libddl.so is for both.
#define DDL_MPI4 1
#if OMPI_MAJOR_VERSION < 5
typedef struct ompi_instance_t* MPI_Session;
extern "C" int PMPI_Group_from_session_pset(MPI_Session session, const char* set, MPI_Group* group);
#endif
#elif !defined(MPICH_VERSION)
#error "these wrappers are for the ABIs of Open MPI and MPICH"
#elif MPI_VERSION >= 4
#define DDL_MPI4 1
#else
#define DDL_MPI4 0
#endif

#if (defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40100000) || \
    (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION <= 5)
#define DDL_PARTITIONS int  // the standard's const is missing there
#else
#define DDL_PARTITIONS const int
#endif

#include "core/lock_and_pages.h"
#include "core/recorder.h"
#include "interpose/process.h"

namespace ddl {

/// Operation ids of Record::word, from the table.
enum MpiOp : uint32_t {
  kMpiOpBeforeFirst = kFirstCallOp - 1,
#define DDL_MPI_ROW(name, op_class, nonblocking) kOp_##name,
#include "interpose/mpi_calls.def"
  kMpiOpEnd
};
static_assert(kMpiOpEnd <= kFirstNcclOp, "NCCL's ids begin there");

/// Address of an object of the MPI library, by name; NULL if it has none. Slow; used while starting.
void* mpi_object(const char* name);

/// The next function of that name after ours: RTLD_NEXT, else the scope of the caller, else whatever loaded object
/// defines it. NULL: none.
void* resolve(const char* name, const void* caller);
/// The same for MPI_X; PMPI_X where it is not defined.
void* resolve_mpi(const char* name, const void* caller);

/// Handles as keys of our tables: addresses in Open MPI, numbers in MPICH (there each kind of object has numbers of its
/// own). Never 0 or 1 for a handle that MPI gave out.
template <class T>
inline uint64_t key_of(T* handle) {
  return reinterpret_cast<uintptr_t>(handle);
}
inline uint64_t key_of(int handle) { return static_cast<uint32_t>(handle); }

/// The MPI functions that we call ourselves, always as PMPI_X: hidden from other wrappers.
// clang-format off
#define DDL_PMPI_FUNCTIONS(X)                                                                               \
  X(Query_thread) X(Get_library_version) X(Comm_rank) X(Comm_size) X(Comm_group) X(Comm_remote_group)       \
  X(Comm_remote_size) X(Comm_test_inter) X(Group_translate_ranks) X(Group_free) X(Group_size) X(Group_rank) \
  X(Type_size_x) X(Win_get_group) X(File_get_group) X(Topo_test) X(Cartdim_get) X(Cart_get)                 \
  X(Graph_neighbors_count) X(Dist_graph_neighbors_count) X(Request_free)
// clang-format on

struct PmpiTable {
#define DDL_PMPI_POINTER(name) decltype(&PMPI_##name) name;
  DDL_PMPI_FUNCTIONS(DDL_PMPI_POINTER)
#undef DDL_PMPI_POINTER
};

enum class MpiState : uint32_t {
  kUnknown,  ///< MPI_Init was not seen to return
  kRunning,  ///< calls are recorded
  kOff,      ///< finalized, not wanted, or not our flavour of MPI: pass everything through
};

struct Mpi {
  MpiState state;
  bool multiple;     ///< MPI_THREAD_MULTIPLE
  bool world_is_up;  ///< MPI_Init has returned, and MPI_Finalize was not called
  /// MPI_Waitall that fails lets go of all requests if it is asked for no statuses (MPICH 4.2 and later)
  bool failed_waitall_frees;
  PmpiTable p;
  MPI_Comm comm_null;
  MPI_Comm comm_world;
  MPI_Request request_null;
  MPI_Request request_empty;  ///< Open MPI hands this out for operations that are complete when posted
  MPI_Datatype datatype_null;
  MPI_Group group_null;
  /// of MPI_COMM_WORLD, or of the process set mpi://WORLD where only sessions are used. Null before and after
  MPI_Group world_group;
  const void* world_group_owner;
};
extern Mpi g_mpi __attribute__((visibility("hidden")));

/// For g_mpi.world_group: another thread may end the session that it comes from. Never held across a call that
/// waits for other ranks.
class WorldGroupLock : public OwnedLock {
 public:
  WorldGroupLock() : OwnedLock(&g_mpi.world_group_owner) {}
};

/// Is this library the one for the MPI library of the process? Asks nothing but its version, which is
/// allowed at any time.
bool is_our_flavour(const void* caller);
void say_other_flavour();

/// A handle that stands for operations that were complete when they were posted; many may have it at a time.
inline bool is_shared_request(MPI_Request request) {
#ifdef OPEN_MPI
  return request == g_mpi.request_empty;
#else
  return key_of(request) >> 30 == 1;  // MPICH: the kind of a handle is in its two high bits, 1 = built in
#endif
}

/// A status read from its fields: exact beyond 2 GiB, and no call into the library.
inline bool is_cancelled(const MPI_Status& status) {
#ifdef OPEN_MPI
  return status._cancelled != 0;
#else
  return status.count_hi_and_cancelled & 1;
#endif
}
inline uint64_t status_bytes(const MPI_Status& status) {
#ifdef OPEN_MPI
  return status._ucount;
#else
  return static_cast<uint64_t>(static_cast<uint32_t>(status.count_hi_and_cancelled) >> 1) << 32 |
         static_cast<uint32_t>(status.count_lo);
#endif
}

bool start_late(const void* caller);

bool clock_sync_wanted();

}  // namespace ddl
