#include "workloads/network/layer_table.h"

#include <algorithm>
#include <boost/tokenizer.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "workloads/train/error.h"

namespace ddl::network {

namespace fs = std::filesystem;
using train::DataError;
using train::UsageError;

namespace {

constexpr const char* kPrefix = "layers_";
constexpr const char* kSuffix = ".csv";

/** One file; every error names it and the line. */
class Reader {
 public:
  explicit Reader(const fs::path& file) : file_(file), in_(file) {
    if (!in_) throw DataError(file_.string() + ": " + std::strerror(errno));
  }

  LayerTable read() {
    LayerTable table;
    table.name = file_.stem().string();
    if (table.name.starts_with(kPrefix)) table.name.erase(0, std::strlen(kPrefix));
    if (!next()) fail("no header");
    const std::size_t name = column("layer"), parameters = column("params"), macs = column("fwd_macs_per_sample"),
                      activations = column("act_out_elems_per_sample");
    columns_ = fields_.size();
    const std::optional<std::size_t> type = maybe_column("type"), shape = maybe_column("shape");
    while (next()) {
      if (fields_.size() != columns_) {
        fail(std::to_string(fields_.size()) + " fields, the header has " + std::to_string(columns_));
      }
      if (table.layers.size() == kMostLayers) fail("more than " + std::to_string(kMostLayers) + " layers");
      table.layers.push_back({text(name), number(parameters, "params", kMostElements),
                              number(macs, "fwd_macs_per_sample", kMostMacs),
                              number(activations, "act_out_elems_per_sample", kMostElements),
                              type ? fields_[*type] : "", shape ? fields_[*shape] : ""});
    }
    if (in_.bad()) throw DataError(file_.string() + ": cannot be read");
    if (table.layers.empty()) fail("no layers");
    return table;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(file_.string() + ":" + std::to_string(line_) + ": " + what);
  }

  bool next() {
    std::string line;
    do {
      if (!std::getline(in_, line)) return false;
      ++line_;
      if (!line.empty() && line.back() == '\r') line.pop_back();
    } while (line.empty());
    try {
      const boost::tokenizer<boost::escaped_list_separator<char>> fields(line);
      fields_.assign(fields.begin(), fields.end());
    } catch (const boost::escaped_list_error& error) {
      fail(error.what());
    }
    return true;
  }

  std::optional<std::size_t> maybe_column(const std::string& name) const {
    const auto at = std::find(fields_.begin(), fields_.end(), name);
    if (at == fields_.end()) return std::nullopt;
    return static_cast<std::size_t>(at - fields_.begin());
  }

  std::size_t column(const std::string& name) const {
    const auto at = maybe_column(name);
    if (!at) fail("no column '" + name + "'");
    return *at;
  }

  /** Names go to terminals and profiles: nothing that a terminal would obey. */
  std::string text(std::size_t column) const {
    const std::string& name = fields_[column];
    if (name.empty()) fail("a layer without a name");
    if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      fail("control character in a name");
    return name;
  }

  uint64_t number(std::size_t column, const char* name, uint64_t most) const {
    const std::string& text = fields_[column];
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most) {
      fail("column '" + std::string(name) + "': expected a whole number from 0 to " + std::to_string(most));
    }
    return value;
  }

  fs::path file_;
  std::ifstream in_;
  std::vector<std::string> fields_;
  std::size_t columns_ = 0;
  std::size_t line_ = 0;
};

}  // namespace

uint64_t LayerTable::parameters() const {
  uint64_t sum = 0;
  for (const Layer& layer : layers) sum += layer.parameters;
  return sum;
}

uint64_t LayerTable::macs() const {
  uint64_t sum = 0;
  for (const Layer& layer : layers) sum += layer.macs;
  return sum;
}

LayerTable read_layer_table(const fs::path& file) { return Reader(file).read(); }

LayerTable find_layer_table(const std::string& name, const fs::path& folder) {
  if (name.ends_with(kSuffix)) return read_layer_table(name);
  const std::vector<std::string> names = layer_table_names(folder);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string known;
    for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
    throw UsageError("--table '" + name + "': expected a file .csv or one of " + known);
  }
  return read_layer_table(folder / (kPrefix + name + kSuffix));
}

std::vector<std::string> layer_table_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    names.push_back(name.substr(std::strlen(kPrefix), name.size() - std::strlen(kPrefix) - std::strlen(kSuffix)));
  }
  if (error) throw DataError(folder.string() + ": " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path layer_table_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "share" / "ddl" / "networks";
}

}  // namespace ddl::network
