#include "tests/workloads/allreduce_counts.h"

#include <mpi.h>

namespace ddl::allreduce {

Seen seen;
bool counting = false;
std::function<bool(int to)> between_nodes;

namespace {

uint64_t bytes(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

void sent(int count, MPI_Datatype type, int to) {
  if (!counting || to == MPI_PROC_NULL) return;
  seen.sent_messages += 1;
  seen.sent_bytes += bytes(count, type);
  if (between_nodes && between_nodes(to)) seen.sent_between_nodes += bytes(count, type);
}

void received(int count, MPI_Datatype type, int from) {
  if (!counting || from == MPI_PROC_NULL) return;
  seen.received_messages += 1;
  seen.received_bytes += bytes(count, type);
}

}  // namespace
}  // namespace ddl::allreduce

using ddl::allreduce::received;
using ddl::allreduce::sent;

extern "C" {

int MPI_Send(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  sent(count, type, to);
  return PMPI_Send(buffer, count, type, to, tag, comm);
}

int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  sent(count, type, to);
  return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Recv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  received(count, type, from);
  return PMPI_Recv(buffer, count, type, from, tag, comm, status);
}

int MPI_Irecv(void* buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  received(count, type, from);
  return PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  sent(out_count, out_type, to);
  received(in_count, in_type, from);
  return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ddl::allreduce::seen.collectives += ddl::allreduce::counting;
  return PMPI_Allreduce(send, receive, count, type, op, comm);
}

int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ddl::allreduce::seen.collectives += ddl::allreduce::counting;
  return PMPI_Bcast(buffer, count, type, root, comm);
}

}  // extern "C"
