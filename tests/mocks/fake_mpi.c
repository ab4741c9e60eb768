/* An MPI library of one process for tests of the wrappers: Open MPI's symbols and layouts, messages to oneself only,
 * and requests that are given out again as soon as they are free, which is what makes threads that post and threads
 * that complete get in each other's way. So are communicators.
 *
 * Everything is one lock, so that a sanitizer that sees this library sees no race in it. A request is complete when it
 * has been polled `polls_until_done` times (a knob of the test); waits poll. */
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

struct status { /* MPI_Status of Open MPI */
  int source, tag, error, cancelled;
  size_t bytes;
};
struct request {
  struct request* next;
  int polls_left, persistent, active, receive, source, tag;
  size_t bytes;
};

char ompi_mpi_comm_world[64], ompi_mpi_comm_self[64], ompi_mpi_comm_null[64], ompi_mpi_datatype_null[64],
    ompi_mpi_byte[64];
struct request ompi_request_null, ompi_request_empty;
char ompi_mpi_group_null[64];
static char group[64];

struct communicator {
  struct communicator* next;
  char rest[56];
};

int fake_mpi_polls_until_done = 2;
int fake_mpi_sends_at_once;    /* what MPI_Isend returns is ompi_request_empty */
int fake_mpi_cancels_receives; /* those that complete now were cancelled */

#define UNDEFINED (-32766)
#define PROC_NULL (-2)
#define ANY_SOURCE (-1)
#define POOL 4096
static struct request pool[POOL];
static struct request* free_requests;
static int pool_used, thread_level;
static struct communicator communicators[1 << 16];
static struct communicator* free_communicators;
static int communicators_used;
int fake_mpi_keeps_handles; /* none is given out again */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct request* take(int persistent, int receive, int count, int source, int tag) {
  pthread_mutex_lock(&lock);
  struct request* r = free_requests ? free_requests : &pool[pool_used++];
  if (r == free_requests) free_requests = r->next;
  *r = (struct request){NULL, fake_mpi_polls_until_done, persistent, !persistent, receive, source, tag, (size_t)count};
  pthread_mutex_unlock(&lock);
  return r;
}

/* One poll. Done: the status is filled, and the request is free again (persistent: inactive). */
static int poll_one(struct request** handle, struct status* status) {
  struct request* r = *handle;
  *status = (struct status){-1, -1, 0, 0, 0};
  if (r == &ompi_request_null) return 1;
  if (r == &ompi_request_empty) {
    *handle = &ompi_request_null;
    return 1;
  }
  pthread_mutex_lock(&lock);
  int done = !r->active || --r->polls_left <= 0, freed = done && !r->persistent;
  if (done) {
    if (r->active && r->receive) *status = (struct status){r->source, r->tag, 0, fake_mpi_cancels_receives, r->bytes};
    r->active = 0;
    if (freed) {
      r->next = free_requests;
      free_requests = r;
      *handle = &ompi_request_null;
    }
  }
  pthread_mutex_unlock(&lock);
  if (freed) sched_yield(); /* let another thread be given the handle before our caller knows that it is free */
  return done;
}
static int is_open(struct request* r) { return r != &ompi_request_null && (!r->persistent || r->active); }

#define BOTH(name, parameters, arguments, ...) \
  int PMPI_##name parameters __VA_ARGS__ int MPI_##name parameters { return PMPI_##name arguments; }

BOTH(Init_thread, (int* argc, char*** argv, int required, int* provided), (argc, argv, required, provided), {
  (void)argc, (void)argv;
  *provided = thread_level = required;
  return 0;
})
BOTH(Finalize, (void), (), { return 0; })
BOTH(Initialized, (int* flag), (flag), { return *flag = 0; })
BOTH(Finalized, (int* flag), (flag), { return *flag = 0; })
BOTH(Query_thread, (int* level), (level), {
  *level = thread_level;
  return 0;
})
BOTH(Get_library_version, (char* text, int* length), (text, length), {
  *length = (int)strlen(strcpy(text, "Open MPI, a mock library"));
  return 0;
})
BOTH(Comm_rank, (void* comm, int* rank), (comm, rank), { return (void)comm, *rank = 0; })
BOTH(Comm_size, (void* comm, int* size), (comm, size), {
  (void)comm;
  *size = 1;
  return 0;
})
BOTH(Comm_dup, (void* comm, struct communicator** made), (comm, made), {
  (void)comm;
  pthread_mutex_lock(&lock);
  *made = free_communicators ? free_communicators : &communicators[communicators_used++];
  if (*made == free_communicators) free_communicators = (*made)->next;
  pthread_mutex_unlock(&lock);
  return 0;
})
BOTH(Comm_free, (struct communicator * *comm), (comm), {
  pthread_mutex_lock(&lock);
  if (!fake_mpi_keeps_handles) {
    (*comm)->next = free_communicators;
    free_communicators = *comm;
  }
  pthread_mutex_unlock(&lock);
  *comm = (struct communicator*)ompi_mpi_comm_null;
  sched_yield(); /* as in poll_one */
  return 0;
})
BOTH(Barrier, (void* comm), (comm), { return (void)comm, 0; })
BOTH(Comm_group, (void* comm, void** g), (comm, g), {
  (void)comm;
  *g = group;
  return 0;
})
BOTH(Comm_remote_group, (void* comm, void** g), (comm, g), { return (void)comm, (void)g, 1; })
BOTH(Comm_remote_size, (void* comm, int* size), (comm, size), { return (void)comm, (void)size, 1; })
BOTH(Comm_test_inter, (void* comm, int* flag), (comm, flag), { return (void)comm, *flag = 0; })
BOTH(Group_translate_ranks, (void* a, int n, const int* from, void* b, int* to), (a, n, from, b, to), {
  (void)a, (void)b;
  memcpy(to, from, (size_t)n * sizeof *to);
  return 0;
})
BOTH(Group_free, (void** g), (g), { return (void)g, 0; })
BOTH(Group_size, (void* g, int* size), (g, size), {
  (void)g;
  *size = 1;
  return 0;
})
BOTH(Group_rank, (void* g, int* rank), (g, rank), { return (void)g, *rank = 0; })
BOTH(Type_size_x, (void* datatype, long long* size), (datatype, size), {
  (void)datatype;
  *size = 1;
  return 0;
})
BOTH(Win_get_group, (void* w, void** g), (w, g), { return (void)w, (void)g, 1; })
BOTH(File_get_group, (void* f, void** g), (f, g), { return (void)f, (void)g, 1; })
BOTH(Topo_test, (void* comm, int* topology), (comm, topology), {
  (void)comm;
  *topology = UNDEFINED;
  return 0;
})
BOTH(Cartdim_get, (void* comm, int* n), (comm, n), { return (void)comm, (void)n, 1; })
BOTH(Cart_get, (void* comm, int n, int* d, int* p, int* c), (comm, n, d, p, c),
     { return (void)comm, (void)n, (void)d, (void)p, (void)c, 1; })
BOTH(Graph_neighbors_count, (void* comm, int r, int* n), (comm, r, n), { return (void)comm, (void)r, (void)n, 1; })
BOTH(Dist_graph_neighbors_count, (void* comm, int* i, int* o, int* w), (comm, i, o, w),
     { return (void)comm, (void)i, (void)o, (void)w, 1; })

BOTH(Isend, (const void* buf, int count, void* type, int dest, int tag, void* comm, struct request** r),
     (buf, count, type, dest, tag, comm, r), {
       (void)buf, (void)type, (void)dest, (void)comm;
       *r = fake_mpi_sends_at_once ? &ompi_request_empty : take(0, 0, count, 0, tag);
       return 0;
     })
BOTH(Irecv, (void* buf, int count, void* type, int source, int tag, void* comm, struct request** r),
     (buf, count, type, source, tag, comm, r), {
       (void)buf, (void)type, (void)comm;
       *r = source == PROC_NULL ? &ompi_request_empty : take(0, 1, count, source == ANY_SOURCE ? tag % 5 : source, tag);
       return 0;
     })
BOTH(Recv_init, (void* buf, int count, void* type, int source, int tag, void* comm, struct request** r),
     (buf, count, type, source, tag, comm, r), {
       (void)buf, (void)type, (void)source, (void)comm;
       *r = take(1, 1, count, 0, tag);
       return 0;
     })
BOTH(Start, (struct request * *r), (r), {
  pthread_mutex_lock(&lock);
  (*r)->active = 1;
  (*r)->polls_left = fake_mpi_polls_until_done;
  pthread_mutex_unlock(&lock);
  return 0;
})
BOTH(Request_free, (struct request * *r), (r), {
  pthread_mutex_lock(&lock);
  (*r)->next = free_requests;
  free_requests = *r;
  pthread_mutex_unlock(&lock);
  *r = &ompi_request_null;
  return 0;
})

BOTH(Test, (struct request * *r, int* flag, struct status* s), (r, flag, s), {
  *flag = poll_one(r, s);
  return 0;
})
BOTH(Wait, (struct request * *r, struct status* s), (r, s), {
  while (!poll_one(r, s)) {
  }
  return 0;
})
BOTH(Waitall, (int n, struct request** r, struct status* s), (n, r, s), {
  for (int i = 0; i < n; ++i) PMPI_Wait(&r[i], &s[i]);
  return 0;
})
BOTH(Testsome, (int n, struct request** r, int* done, int* indices, struct status* s), (n, r, done, indices, s), {
  int open = 0;
  *done = 0;
  for (int i = 0; i < n; ++i) {
    if (!is_open(r[i])) continue;
    ++open;
    if (poll_one(&r[i], &s[*done])) indices[(*done)++] = i;
  }
  if (!open) *done = UNDEFINED;
  return 0;
})
BOTH(Testany, (int n, struct request** r, int* index, int* flag, struct status* s), (n, r, index, flag, s), {
  int open = 0;
  *index = UNDEFINED;
  *flag = 0;
  for (int i = 0; i < n && !*flag; ++i) {
    if (!is_open(r[i])) continue;
    ++open;
    if ((*flag = poll_one(&r[i], s))) *index = i;
  }
  if (!open) *flag = 1;
  return 0;
})
BOTH(Waitany, (int n, struct request** r, int* index, struct status* s), (n, r, index, s), {
  int flag = 0;
  while (!flag) PMPI_Testany(n, r, index, &flag, s);
  return 0;
})
