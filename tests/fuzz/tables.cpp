#include <algorithm>
#include <fstream>
#include <iterator>

#include "analyzer/models/topology.h"
#include "core/error.h"
#include "tests/analyzer/models/topology_samples.h"
#include "tests/autotuner/sweep_sample.h"
#include "tests/fuzz/target.h"

namespace ddl::fuzz {
namespace {

constexpr const char* kPlainLinks =
    "from,to,gb_per_s,tier,alpha_us\na,b,20,board,2\nb,c,80,rack,9\nc,switch:s,\"12.5\",rack,9\n";
constexpr const char* kSweepTable = "bytes,time_us\n4096,20\n65536,80\n1048576,1000\n16777216,15900\n";

std::string published(const std::string& name) {
  std::ifstream file(std::string(DDL_SOURCE_DIR) + "/tests/published/" + name + ".csv", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<std::string> topologies() {
  using namespace test::topologies;
  return {kPlainLinks, kPcieServer, kHwloc, kSlurmTree,
          "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"};
}

bool take_topology(const std::string& input) {
  try {
    const models::Topology topology = models::parse_topology(input, "links");
    if (topology.places > 200) return true;
    models::shape_of(topology);
    const auto groups = topology.all_groups();
    if (topology.places > 1) models::widest_tier(groups, {0, topology.places - 1});
    for (size_t tier = 0; tier < topology.tiers.size(); ++tier) models::rate_of_tier(topology, tier);
    models::nested(models::star({"h0", "h1"}, "core", "leaf"), topology);
    topology.place_links();
  } catch (const Error&) {
    return false;
  }
  const std::string links = write(scratch() / "links", input);
  verb({"model", "allreduce", "--links", links, "--bytes", "1MB", "--alpha-us", "5"});
  return true;
}

std::vector<std::string> sweeps() { return {test::sweep_text(), kSweepTable}; }

bool take_sweep(const std::string& input) {
  const std::string file = write(scratch() / "sweep.csv", input);
  const std::string tensors = write(scratch() / "tensors.csv", "name,bytes\na,4000000\nb,1000\n");
  const bool taken = verb({"model", "fusion", "--tensors", tensors, "--forward-ms", "60", "--backward-ms", "120",
                           "--ranks", "4", "--sweep", file});
  return verb({"model", "fit", "--csv", file, "--ranks", "4"}) || taken;
}

std::vector<std::string> profiles() {
  return {
      published("pipedream_profile_vgg16"),
      "layer,params,fwd_macs_per_sample,act_out_elems_per_sample,type,shape\na,1000,100,10,fc,10x10\nb,2000,10,20,conv,64x3x3x3->8x8\n",
      "name,bytes,ready_ms\na,4000000,30\nb,1000,10\n",
      "from,to,bytes\n0,2,80e9\n2,0,80e9\n1,2,80e9\n",
      "micro_batch,time_ms,workspace_bytes\n256,30,67108864\n128,16,33554432\n64,9,1\n",
      "batch,epochs\n1024,60\n4096,62\n16384,66\n65536,86\n",
      "samples,error\n1e4,0.31698\n1e5,0.2\n1e6,0.126191\n1e7,0.0796214\n"};
}

bool take_profile(const std::string& input) {
  const std::string file = write(scratch() / "profile.csv", input);
  const std::string head = input.substr(0, input.find('\n'));
  const auto has = [&](const char* column) { return head.find(column) != std::string::npos; };
  // Each reader for the columns that it knows: all of them for every input would only cost time.
  if (has("micro_batch")) return verb({"model", "microbatch", "--csv", file, "--batch", "256"});
  if (has("epochs")) return verb({"model", "epochs", "--csv", file, "--batch", "4096"});
  if (has("error")) return verb({"model", "dataset", "--csv", file, "--error", "0.1"});
  if (has("from"))
    return verb({"model", "mapping", "--links", write(scratch() / "links", kPlainLinks), "--traffic", file});
  if (has("bytes") && !has("activation"))
    return verb({"model", "fusion", "--tensors", file, "--forward-ms", "60", "--backward-ms", "120", "--ranks", "16",
                 "--alpha-us", "20", "--bandwidth", "1.25"});
  if (has("params"))
    return verb({"model", "partition", "--table", file, "--batch", "8", "--tflops", "50", "--workers", "4",
                 "--bandwidth", "12.5"}) &&
           verb({"model", "parallel", "--table", file, "--ranks", "4"});
  return verb({"model", "partition", "--profile", file, "--stages", "2"});
}

std::vector<std::string> scaling_tables() {
  return {"gpus,throughput,local_batch,precision\n1,100.0,32,fp16\n2,190.0,32,fp16\n4,370.0,32,fp32\n",
          published("ddl_resnet50_scaling")};
}

bool take_scaling_table(const std::string& input) { return verb({"scaling", write(scratch() / "scaling.csv", input)}); }

}  // namespace ddl::fuzz
