#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddl::network {

/** What one layer of a network costs. */
struct Layer {
  std::string name;
  uint64_t parameters = 0;
  uint64_t macs = 0;         ///< multiply-adds of one sample's forward pass
  uint64_t activations = 0;  ///< elements of one sample's output
  std::string type{};        ///< conv, fc, ...; empty: the table does not say
  std::string shape{};       ///< 64x128x3x3->56x56, ...; likewise
};

/** The layers of a network in forward order. */
struct LayerTable {
  std::string name;
  std::vector<Layer> layers;

  uint64_t parameters() const;
  uint64_t macs() const;
};

inline constexpr std::size_t kMostLayers = 100000;
/** The most parameters and activations that a layer may have: one MPI call takes a bucket. */
inline constexpr uint64_t kMostElements = INT32_MAX;
/** With it no sum over layers, samples and passes leaves 64 bits. */
inline constexpr uint64_t kMostMacs = 10'000'000'000'000;

/**
 * Reads a CSV file with a header and the columns layer, params, fwd_macs_per_sample and act_out_elems_per_sample, in
 * any order, among others; type and shape where they are there. Throws train::DataError with file and line. */
LayerTable read_layer_table(const std::filesystem::path& file);

/** NAME of `folder`/layers_NAME.csv, or a file where it ends in .csv. Throws train::UsageError where there
 * is no such name. */
LayerTable find_layer_table(const std::string& name, const std::filesystem::path& folder);
/** Names of the tables in the folder, sorted. Throws train::DataError where it cannot be read. */
std::vector<std::string> layer_table_names(const std::filesystem::path& folder);
/** Where the tables of this program are: ../share/ddl/networks, seen from it. */
std::filesystem::path layer_table_folder();

}  // namespace ddl::network
