// Tables of networks by layer, as the workload `network` has them (share/ddl/networks): a layer's needs,
// whatever the machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/models/partition.h"

namespace ddl::models {

struct NetworkLayer {
  std::string name;
  double parameters = 0;
  double macs = 0;         ///< multiply-adds of one sample's forward pass
  double activations = 0;  ///< elements of one sample's output
  std::string type{};      ///< conv, fc, ...; empty: the table does not say
  std::string shape{};     ///< 64x128x3x3->56x56, 768x3072, ...; likewise
};

struct NetworkTable {
  std::string name;
  std::vector<NetworkLayer> layers;  ///< in the order of the forward pass
};

/// Columns layer, params, fwd_macs_per_sample, act_out_elems_per_sample, among others; type and shape where they are
/// there. Throws ddl::Error.
NetworkTable read_network_table(const std::filesystem::path& file);

/// NAME of `folder`/layers_NAME.csv, or a file where it ends in .csv. Throws ddl::Error (kUsage), naming the
/// tables that there are.
NetworkTable find_network_table(const std::string& name, const std::filesystem::path& folder);

/// Values of 4 bytes, `batch` samples. A forward pass of 2 macs floating-point operations a sample at
/// `flops_per_second`, backward twice that.
std::vector<LayerCost> layer_costs(const NetworkTable& table, double batch, double flops_per_second);

}  // namespace ddl::models
