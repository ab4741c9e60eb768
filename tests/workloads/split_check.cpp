// Layers spread over ranks: mpirun -np 4 split_check. What network --split hands to MPI, counted between program and
// MPI and summed over the ranks, is what analyzer/models/parallel_forms.h predicts, to the byte.
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "analyzer/models/parallel_forms.h"
#include "workloads/network/split_job.h"
#include "workloads/train/ops.h"

namespace {

bool counting = false;
uint64_t handed_bytes = 0;

void handed(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  if (counting) handed_bytes += static_cast<uint64_t>(count) * static_cast<uint64_t>(size);
}

int all_of(const int counts[], MPI_Comm comm) {
  int ranks = 0, sum = 0;
  PMPI_Comm_size(comm, &ranks);
  for (int i = 0; i < ranks; ++i) sum += counts[i];
  return sum;
}

}  // namespace

extern "C" {

int MPI_Sendrecv(const void* out, int out_count, MPI_Datatype out_type, int to, int out_tag, void* in, int in_count,
                 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status* status) {
  if (to != MPI_PROC_NULL) handed(out_count, out_type);
  return PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, status);
}

int MPI_Allgatherv(const void* out, int count, MPI_Datatype type, void* in, const int counts[], const int offsets[],
                   MPI_Datatype in_type, MPI_Comm comm) {
  handed(all_of(counts, comm), in_type);
  return PMPI_Allgatherv(out, count, type, in, counts, offsets, in_type, comm);
}

int MPI_Reduce_scatter(const void* out, void* in, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  handed(all_of(counts, comm), type);
  return PMPI_Reduce_scatter(out, in, counts, type, op, comm);
}

int MPI_Allreduce(const void* out, void* in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  handed(count, type);
  return PMPI_Allreduce(out, in, count, type, op, comm);
}

int MPI_Iallreduce(const void* out, void* in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request* request) {
  handed(count, type);
  return PMPI_Iallreduce(out, in, count, type, op, comm, request);
}

}  // extern "C"

namespace ddl::network {
namespace {

int failures = 0;
uint64_t checked_bytes = 0;

/// For all ranks together.
double predicted(const LayerTable& table, const Options& options, const std::string& form, int ranks) {
  std::vector<models::ParallelLayer> layers;
  for (const Layer& layer : table.layers) {
    const models::NetworkLayer row{layer.name,
                                   static_cast<double>(layer.parameters),
                                   static_cast<double>(layer.macs),
                                   static_cast<double>(layer.activations),
                                   layer.type,
                                   layer.shape};
    layers.push_back({row, layer_shape(row), 0});
  }
  const auto group = static_cast<int64_t>(options.split.ranks);
  const models::ParallelMachine machine{
      ranks, group, static_cast<double>(options.batch) * ranks / static_cast<double>(group), 0, 0, 0};
  double sum = 0;
  for (const models::FormCost& cost : plan_of_one_form(layers, machine, form).layers) {
    double among = cost.forward_bytes + cost.backward_bytes;
    // For halos the prediction is for a rank with two neighbours; two ranks of a replica have one.
    if (cost.form == models::Form::kSpatial && group > 2)
      among *= static_cast<double>(group - 1) / static_cast<double>(group);
    sum += among + cost.moved_bytes + cost.gradient_bytes;
  }
  return sum * ranks;
}

void run(const LayerTable& table, const std::string& form, std::size_t group) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Options options;
  options.split = parse_split(form + ":" + std::to_string(group));
  options.batch = 1;
  options.scale = 0;
  options.bucket_mib = 1;
  options.overlap = group == 2;
  SplitJob job(options, table);
  counting = true, handed_bytes = 0;
  job.run_step(0);
  counting = false;
  const uint64_t said = job.cost().forward + job.cost().backward + job.cost().gradients;
  uint64_t sums[] = {handed_bytes, said};
  PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  const double wanted = predicted(table, options, form, ranks);
  checked_bytes += sums[0];
  if (static_cast<double>(sums[0]) == wanted && sums[1] == sums[0] && wanted > 0) return;
  ++failures;
  if (rank == 0)
    std::fprintf(stderr, "FAILED: %s %s:%zu: handed %llu bytes to MPI, counted by itself %llu, predicted %.0f\n",
                 table.name.c_str(), form.c_str(), group, static_cast<unsigned long long>(sums[0]),
                 static_cast<unsigned long long>(sums[1]), wanted);
}

}  // namespace
}  // namespace ddl::network

int main(int argc, char** argv) {
  using namespace ddl::network;
  MPI_Init(&argc, &argv);
  const std::filesystem::path folder = layer_table_folder();
  LayerTable resnet = find_layer_table("resnet50", folder), lenet = find_layer_table("lenet5", folder);
  LayerTable blocks = find_layer_table("gpt2_small", folder), gnmt = find_layer_table("gnmt", folder);
  // A block, without the embedding; layers with channels that do not divide evenly are in all of them.
  blocks.layers = {blocks.layers.begin() + 2, blocks.layers.begin() + 9};
  gnmt.layers = {gnmt.layers.begin() + 1, gnmt.layers.begin() + 3};
  resnet.layers = {resnet.layers.begin(), resnet.layers.begin() + 20};
  resnet.layers.push_back(find_layer_table("resnet50", folder).layers.back());
  for (const std::size_t group : {2, 4}) {
    for (const char* form : {"spatial", "channel", "filter"}) run(resnet, form, group), run(lenet, form, group);
    for (const char* form : {"channel", "filter", "tensor"}) run(blocks, form, group);
    run(gnmt, "filter", 2);
  }
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0)
    std::printf("%d ranks, failures: %d, %llu bytes as predicted\n", ranks, failures,
                static_cast<unsigned long long>(checked_bytes));
  MPI_Finalize();
  return failures > 0 ? 1 : 0;
}
