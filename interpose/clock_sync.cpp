// Messages of our own, to read the clocks of other hosts (DDL_CLOCK_SYNC=1). Injected code.
//
// Off unless asked for: collectives tell the same without a message (store/ingest/clock_band.h), and where one rank
// runs without this library the others would wait for it for ever. It serves jobs whose collectives cannot tell: few of
// them, or one host always the last to enter.
//
// When MPI_Init returns and before MPI_Finalize begins, the first rank of each host bounces messages off rank 0, one
// host after the other. Between sending and receiving lies the moment at which rank 0 answered, whatever the network
// did: the ingest takes that as two bounds like those of a collective. The fastest exchanges bound best; kKept of them
// are written down, so that none has to be believed alone. That takes kRounds round trips per host, a few ms.
//
// All ranks of MPI_COMM_WORLD take part in forming the groups, also those that cannot record (a full disk on one host);
// if there is one, nobody goes on.
#include "interpose/clock_sync.h"

namespace ddl {

namespace {

constexpr int kRounds = 50;
constexpr int kKept = 8;

// clang-format off
#define DDL_SYNC_FUNCTIONS(X) \
  X(Allreduce) X(Comm_split_type) X(Comm_split) X(Comm_rank) X(Comm_size) X(Comm_set_errhandler) X(Comm_free) X(Send) X(Recv)
// clang-format on

struct Calls {
#define DDL_SYNC_POINTER(name) decltype(&PMPI_##name) name;
  DDL_SYNC_FUNCTIONS(DDL_SYNC_POINTER)
#undef DDL_SYNC_POINTER
};
Calls g_calls;
bool g_begun;  // MPI_Init of another tool may come back to us as PMPI_Init
bool g_everybody_records;

bool learn_calls(const void* caller) {
#define DDL_SYNC_RESOLVE(name)                                                             \
  g_calls.name = reinterpret_cast<decltype(&PMPI_##name)>(resolve("PMPI_" #name, caller)); \
  if (!g_calls.name) return false;
  DDL_SYNC_FUNCTIONS(DDL_SYNC_RESOLVE)
#undef DDL_SYNC_RESOLVE
  return true;
}

bool send(uint64_t ticks, int to, MPI_Comm comm) {
  return g_calls.Send(&ticks, sizeof ticks, MPI_BYTE, to, 0, comm) == MPI_SUCCESS;
}
bool receive(uint64_t* ticks, int from, MPI_Comm comm) {
  return g_calls.Recv(ticks, sizeof *ticks, MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

void answer(int from, MPI_Comm comm) {
  uint64_t asked;
  for (int round = 0; round < kRounds; ++round) {
    if (!receive(&asked, from, comm) || !send(ticks(), from, comm)) return;
  }
}

uint64_t round_trip(const ClockSyncMeta& exchange) { return exchange.receive_ticks - exchange.send_ticks; }

void ask(MPI_Comm comm) {
  ClockSyncMeta fastest[kKept + 1];  // by round trip; one more than is kept, to be pushed out
  int kept = 0;
  for (int round = 0; round < kRounds; ++round) {
    ClockSyncMeta exchange = {};
    exchange.send_ticks = ticks();
    if (!send(exchange.send_ticks, 0, comm) || !receive(&exchange.remote_ticks, 0, comm)) break;
    exchange.receive_ticks = ticks();
    int at = kept;
    for (; at > 0 && round_trip(fastest[at - 1]) > round_trip(exchange); --at) fastest[at] = fastest[at - 1];
    fastest[at] = exchange;
    if (kept < kKept) ++kept;
  }
  for (int i = 0; i < kept; ++i) write_clock_sync(fastest[i]);
}

/// Collective over MPI_COMM_WORLD.
void exchange_with_rank_0() {
  MPI_Comm host = MPI_COMM_NULL, first_ranks = MPI_COMM_NULL;
  int rank = 0, rank_on_host = 0, hosts = 0;
  if (g_calls.Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
      g_calls.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host) != MPI_SUCCESS ||
      g_calls.Comm_rank(host, &rank_on_host) != MPI_SUCCESS ||
      g_calls.Comm_split(MPI_COMM_WORLD, rank_on_host == 0 ? 0 : MPI_UNDEFINED, rank, &first_ranks) != MPI_SUCCESS)
    return;
  g_calls.Comm_free(&host);
  if (first_ranks == MPI_COMM_NULL) return;
  g_calls.Comm_set_errhandler(first_ranks, MPI_ERRORS_RETURN);
  if (g_calls.Comm_size(first_ranks, &hosts) == MPI_SUCCESS && g_calls.Comm_rank(first_ranks, &rank) == MPI_SUCCESS) {
    for (int other = 1; rank == 0 && other < hosts; ++other) answer(other, first_ranks);
    if (rank > 0) ask(first_ranks);
  }
  g_calls.Comm_free(&first_ranks);
}

}  // namespace

void sync_clocks_at_init(const void* caller) {
  if (g_begun || !clock_sync_wanted() || !is_our_flavour(caller) || !learn_calls(caller)) return;
  g_begun = true;
  const int records = g_mpi.state == MpiState::kRunning ? 1 : 0;
  int everybody = 0;
  if (g_calls.Allreduce(&records, &everybody, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD) != MPI_SUCCESS) return;
  g_everybody_records = everybody != 0;
  if (!g_everybody_records) return;
  exchange_with_rank_0();
  spool_header()->mpi_init_leave_ticks = ticks();
}

void sync_clocks_at_finalize() {
  if (g_everybody_records) exchange_with_rank_0();
}

}  // namespace ddl
