/* Datatypes and addresses of every kind in messages and collectives: derived types, freed while they are in use, pairs,
 * MPI_BOTTOM, parts of an element, nothing, and more than an int can count. conformance: ranks=2 threads=yes */
#include <limits.h>
#include <stddef.h>

#include "support/transcript.h"

typedef struct Particle {
  char kind;
  double place[3];
  int id;
} Particle;

enum { kTypes = 12, kRoom = 4096 };
static __thread unsigned char data[kRoom], got[kRoom];

static void fill(void) {
  for (int i = 0; i < kRoom; ++i) data[i] = (unsigned char)(i * 7 + me);
  POISON(got);
}

static MPI_Datatype make(int which, const char** name) {
  MPI_Datatype type = MPI_DATATYPE_NULL, inner = MPI_DATATYPE_NULL;
  const int lengths[3] = {1, 3, 1}, starts[3] = {4, 0, 9}, sizes[2] = {6, 5}, parts[2] = {2, 3}, first[2] = {1, 1};
  const MPI_Aint places[3] = {offsetof(Particle, kind), offsetof(Particle, place), offsetof(Particle, id)},
                 bytes[3] = {64, 0, 128};
  const MPI_Datatype members[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  switch (which) {
    case 0:
      *name = "contiguous";
      PMPI_Type_contiguous(3, MPI_SHORT, &type);
      break;
    case 1:
      *name = "vector";
      PMPI_Type_vector(4, 2, 5, MPI_INT, &type);
      break;
    case 2:
      *name = "hvector";
      PMPI_Type_create_hvector(3, 1, 24, MPI_DOUBLE, &type);
      break;
    case 3:
      *name = "indexed";
      PMPI_Type_indexed(3, lengths, starts, MPI_FLOAT, &type);
      break;
    case 4:
      *name = "hindexed";
      PMPI_Type_create_hindexed(3, lengths, bytes, MPI_DOUBLE, &type);
      break;
    case 5:
      *name = "struct";
      PMPI_Type_create_struct(3, lengths, places, members, &type);
      break;
    case 6:
      *name = "resized struct";
      PMPI_Type_create_struct(3, lengths, places, members, &inner);
      PMPI_Type_create_resized(inner, 0, sizeof(Particle), &type);
      PMPI_Type_free(&inner);
      break;
    case 7:
      *name = "subarray";
      PMPI_Type_create_subarray(2, sizes, parts, first, MPI_ORDER_C, MPI_INT, &type);
      break;
    case 8:
      *name = "of nothing";
      PMPI_Type_contiguous(0, MPI_INT, &type);
      break;
    case 9:
      *name = "vector of structs";
      PMPI_Type_create_struct(3, lengths, places, members, &inner);
      PMPI_Type_vector(2, 1, 2, inner, &type);
      PMPI_Type_free(&inner);
      break;
    case 10:
      *name = "a duplicate";
      PMPI_Type_dup(MPI_LONG_DOUBLE, &type);
      break;
    default:
      *name = "blocks";
      PMPI_Type_create_indexed_block(3, 2, starts, MPI_SHORT, &type);
  }
  PMPI_Type_commit(&type);
  return type;
}

/* With the type on both sides, on one, and freed before it has arrived. */
static void messages(void) {
  for (int which = 0; which < kTypes; ++which) {
    const char* name;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int bytes = 0;
    MPI_Datatype type = make(which, &name), kept = make(which, &name);
    PMPI_Type_size(type, &bytes);
    note("== %s, %d bytes", name, bytes);
    for (int count = 0; count < 4; count += 3) {
      fill();
      poison_statuses(statuses, 2);
      CALLC(MPI_Sendrecv, data, count, type, 1 - me, 1, got, 5, type, 1 - me, 1, world, statuses);
      note_status("status", statuses, type);
      DATA(got);
      poison_statuses(statuses, 2);
      CALLC(MPI_Sendrecv, data, count, type, 1 - me, 1, got, kRoom, MPI_PACKED, 1 - me, 1, world, statuses);
      note_status("as packed", statuses, MPI_PACKED);
      note_bytes("got", got, (size_t)(bytes * count));
      fill();
      CALLC(MPI_Bcast, me ? got : data, count, type, 0, world);
      DATA(got);
    }
    fill();
    poison_statuses(statuses, 2);
    CALLC(MPI_Irecv, got, 4, type, 1 - me, 2, world, &requests[0]);
    CALLC(MPI_Isend, data, 2, type, 1 - me, 2, world, &requests[1]);
    PMPI_Type_free(&type);
    CALL(MPI_Waitall, 2, requests, statuses);
    note_status("status", &statuses[0], kept);
    DATA(got);
    fill();
    CALLC(MPI_Recv_init, got, 4, kept, 1 - me, 3, world, &requests[0]);
    CALLC(MPI_Send_init, data, 1, kept, 1 - me, 3, world, &requests[1]);
    PMPI_Type_free(&kept);
    for (int again = 0; again < 2; ++again) {
      CALL(MPI_Startall, 2, requests);
      CALL(MPI_Waitall, 2, requests, statuses);
      note_status("status", &statuses[0], MPI_BYTE);
      DATA(got);
    }
    CALL(MPI_Request_free, &requests[0]);
    CALL(MPI_Request_free, &requests[1]);
  }
}

/* A message that ends within an element of the receiver's type. */
static void parts_of_elements(void) {
  const char* name;
  MPI_Status status;
  MPI_Datatype type = make(0, &name);
  const short values[7] = {1, 2, 3, 4, 5, 6, 7};
  note("== parts of elements");
  for (int n = 0; n < 8; ++n) {
    fill();
    poison_statuses(&status, 1);
    CALLC(MPI_Sendrecv, values, n, MPI_SHORT, 1 - me, 4, got, 3, type, 1 - me, 4, world, &status);
    note_status("status", &status, type);
  }
  PMPI_Type_free(&type);
}

static void absolute_addresses(void) {
  MPI_Aint places[2];
  const int lengths[2] = {2, 1};
  const MPI_Datatype members[2] = {MPI_INT, MPI_DOUBLE};
  int ints[2] = {me, me + 10}, got_ints[2] = {-1, -1};
  double number = me + 0.5, got_number = -1;
  MPI_Datatype sent, received;
  MPI_Request request;
  note("== absolute addresses");
  PMPI_Get_address(ints, &places[0]);
  PMPI_Get_address(&number, &places[1]);
  PMPI_Type_create_struct(2, lengths, places, members, &sent);
  PMPI_Get_address(got_ints, &places[0]);
  PMPI_Get_address(&got_number, &places[1]);
  PMPI_Type_create_struct(2, lengths, places, members, &received);
  PMPI_Type_commit(&sent);
  PMPI_Type_commit(&received);
  CALLC(MPI_Irecv, MPI_BOTTOM, 1, received, 1 - me, 5, world, &request);
  CALLC(MPI_Send, MPI_BOTTOM, 1, sent, 1 - me, 5, world);
  wait_and_note(&request, received);
  note("  %d %d %g", got_ints[0], got_ints[1], got_number);
  CALLC(MPI_Bcast, MPI_BOTTOM, 1, me ? received : sent, 0, world);
  note("  %d %d %g", got_ints[0], got_ints[1], got_number);
  CALLC(MPI_Allgather, MPI_BOTTOM, 0, sent, MPI_BOTTOM, 0, received, world);
  PMPI_Type_free(&sent);
  PMPI_Type_free(&received);
}

static void sum_of_particles(void* in, void* inout, int* length, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *length; ++i) ((Particle*)inout)[i].id += ((Particle*)in)[i].id;
}

static void own_operation(void) {
  const char* name;
  MPI_Datatype type = make(6, &name);
  MPI_Op op;
  Particle mine[2] = {{.id = me + 1}, {.id = 10 * (me + 1)}}, sum[2] = {{.id = -1}, {.id = -1}};
  struct {
    double value;
    int index;
  } pairs[2] = {{me, me}, {-me, me}}, best[2];
  note("== own operation");
  PMPI_Op_create(sum_of_particles, 1, &op);
  CALLC(MPI_Allreduce, mine, sum, 2, type, op, world);
  note("  %d %d", sum[0].id, sum[1].id);
  CALLC(MPI_Scan, mine, sum, 2, type, op, world);
  note("  %d %d", sum[0].id, sum[1].id);
  CALLC(MPI_Allreduce, pairs, best, 2, MPI_DOUBLE_INT, MPI_MAXLOC, world);
  note("  best %g at %d, %g at %d", best[0].value, best[0].index, best[1].value, best[1].index);
  PMPI_Op_free(&op);
  PMPI_Type_free(&type);
}

/* More bytes than an int can count, on paper: to nobody, and on a communicator of one, nothing moves. */
static void huge(void) {
  MPI_Datatype megabyte, terabyte;
  MPI_Status status;
  MPI_Request request;
  double value = 1;
  note("== huge");
  PMPI_Type_contiguous(1 << 20, MPI_BYTE, &megabyte);
  PMPI_Type_contiguous(1 << 20, megabyte, &terabyte);
  PMPI_Type_commit(&terabyte);
  CALLC(MPI_Send, &value, 3, terabyte, MPI_PROC_NULL, 0, world);
  CALLC(MPI_Isend, &value, INT_MAX, MPI_DOUBLE, MPI_PROC_NULL, 0, world, &request);
  wait_and_note(&request, MPI_DOUBLE);
  poison_statuses(&status, 1);
  CALLC(MPI_Recv, &value, 7, terabyte, MPI_PROC_NULL, 0, world, &status);
  note_status("status", &status, terabyte);
  CALLC(MPI_Bcast, &value, INT_MAX, MPI_DOUBLE, 0, MPI_COMM_SELF);
  CALLC(MPI_Bcast, &value, 5, terabyte, 0, MPI_COMM_SELF);
  CALLC(MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, &value, INT_MAX, MPI_DOUBLE, MPI_COMM_SELF);
  CALLC(MPI_Allreduce, MPI_IN_PLACE, &value, INT_MAX, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
  note("  value %g", value);
  PMPI_Type_free(&megabyte);
  PMPI_Type_free(&terabyte);
}

static void body(void) {
  messages();
  parts_of_elements();
  absolute_addresses();
  own_operation();
  huge();
}

int main(int argc, char** argv) { return conformance(&argc, &argv, body); }
