#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>

#include "workloads/train/dataset.h"
#include "workloads/train/error.h"
#include "workloads/train/models.h"

/*
 * MNIST:    big-endian header (magic, then one uint32 per dimension), then bytes.
 *           images 0x00000803: count, rows, columns;  labels 0x00000801: count.
 * CIFAR-10: no header; records of 1 label byte and 3 planes (red, green, blue) of 32 x 32 bytes.
 *
 * Both formats state or imply the exact length of the file, so a length that does not fit is an error: a truncated download must not
 * turn into a different training set. Files are read whole rather than mapped: one that shrinks later would kill the job with SIGBUS.
 */
namespace ddl::train {

namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes read_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw DataError(path + ": no such file");
  const auto size = static_cast<std::size_t>(fs::file_size(path));
  Bytes bytes(size);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size)))
    throw DataError(path + ": cannot be read");
  return bytes;
}

/** Mean and deviation of the pixels (0..1) of one channel, as commonly used for the set. */
struct Normalisation {
  float mean;
  float deviation;
  float operator()(uint8_t byte) const { return (static_cast<float>(byte) / 255.0F - mean) / deviation; }
};

/** Samples held as bytes. */
class ByteSet : public Dataset {
 public:
  ByteSet(const char* name, Shape shape, std::vector<Normalisation> channels, Bytes pixels, Bytes labels)
      : name_(name),
        shape_(shape),
        channels_(std::move(channels)),
        pixels_(std::move(pixels)),
        labels_(std::move(labels)) {}
  const char* name() const override { return name_; }
  std::size_t size() const override { return labels_.size(); }
  Shape shape() const override { return shape_; }

  uint8_t load(std::size_t index, float* pixels) const override {
    const uint8_t* bytes = pixels_.data() + index * shape_.size();
    for (const Normalisation& normalise : channels_) {
      pixels = std::transform(bytes, bytes + shape_.plane(), pixels, normalise);
      bytes += shape_.plane();
    }
    return labels_[index];
  }

 private:
  const char* name_;
  Shape shape_;
  std::vector<Normalisation> channels_;
  Bytes pixels_;
  Bytes labels_;
};

void check_label(uint8_t label, const std::string& path) {
  if (label >= kClasses) throw DataError(path + ": label " + std::to_string(label) + ", expected 0 to 9");
}

/** Checks magic number and length; returns the dimensions. */
template <std::size_t kDimensions>
std::array<std::size_t, kDimensions> idx_header(const Bytes& bytes, const std::string& path) {
  constexpr std::size_t kHeader = 4 * (1 + kDimensions);
  const auto word = [&bytes](std::size_t i) {
    return std::size_t{bytes[4 * i]} << 24 | std::size_t{bytes[4 * i + 1]} << 16 | std::size_t{bytes[4 * i + 2]} << 8 |
           bytes[4 * i + 3];
  };
  if (bytes.size() >= 4 && word(0) != (0x800U | kDimensions)) {
    const bool gzip = bytes[0] == 0x1f && bytes[1] == 0x8b;
    throw DataError(path + ": not an IDX file of unsigned bytes with " + std::to_string(kDimensions) + " dimension(s)" +
                    (gzip ? "; it is compressed, run gunzip first" : ""));
  }
  if (bytes.size() < kHeader)
    throw DataError(path + ": " + std::to_string(bytes.size()) + " bytes, too short for an IDX header");
  std::array<std::size_t, kDimensions> dimensions;
  // divide instead of multiply: the product of three 32-bit numbers may overflow
  std::size_t left = bytes.size() - kHeader;
  bool fits = true;
  for (std::size_t i = kDimensions; i-- > 0;) {
    dimensions[i] = word(i + 1);
    if (dimensions[i] == 0) throw DataError(path + ": the header announces no data");
    fits = fits && left % dimensions[i] == 0;
    left /= dimensions[i];
  }
  if (!fits || left != 1) {
    std::string announced;
    for (const std::size_t dimension : dimensions)
      announced += (announced.empty() ? "" : " x ") + std::to_string(dimension);
    throw DataError(path + ": " + std::to_string(bytes.size() - kHeader) + " bytes of data, but the header announces " +
                    announced + "; truncated?");
  }
  return dimensions;
}

}  // namespace

std::unique_ptr<Dataset> read_idx(const std::string& images_path, const std::string& labels_path) {
  Bytes images = read_file(images_path);
  Bytes labels = read_file(labels_path);
  const auto [count, rows, columns] = idx_header<3>(images, images_path);
  const auto [label_count] = idx_header<1>(labels, labels_path);
  if (count != label_count) {
    throw DataError(labels_path + ": " + std::to_string(label_count) + " labels for " + std::to_string(count) +
                    " images");
  }
  images.erase(images.begin(), images.begin() + 16);
  labels.erase(labels.begin(), labels.begin() + 8);
  for (const uint8_t label : labels) check_label(label, labels_path);
  return std::make_unique<ByteSet>("mnist", Shape{1, rows, columns}, std::vector<Normalisation>{{0.1307F, 0.3081F}},
                                   std::move(images), std::move(labels));
}

std::unique_ptr<Dataset> read_cifar(const std::vector<std::string>& paths) {
  constexpr Shape kShape{3, 32, 32};
  constexpr std::size_t kRecord = 1 + 3 * 32 * 32;
  Bytes pixels;
  Bytes labels;
  for (const std::string& path : paths) {
    const Bytes bytes = read_file(path);
    if (bytes.empty() || bytes.size() % kRecord != 0) {
      throw DataError(path + ": " + std::to_string(bytes.size()) +
                      " bytes are not a whole number of CIFAR-10 records of " + std::to_string(kRecord) +
                      " bytes; truncated?");
    }
    for (auto record = bytes.begin(); record != bytes.end(); record += kRecord) {
      check_label(*record, path);
      labels.push_back(*record);
      pixels.insert(pixels.end(), record + 1, record + kRecord);
    }
  }
  const std::vector<Normalisation> channels{{0.4914F, 0.2470F}, {0.4822F, 0.2435F}, {0.4465F, 0.2616F}};
  return std::make_unique<ByteSet>("cifar10", kShape, channels, std::move(pixels), std::move(labels));
}

std::unique_ptr<Dataset> open_dataset(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw DataError(folder + ": no such folder");
  const std::string images = folder + "/" + kIdxImages;
  const std::string labels = folder + "/" + kIdxLabels;
  std::vector<std::string> batches;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("data_batch_") && name.ends_with(".bin")) batches.push_back(entry.path().string());
  }
  std::sort(batches.begin(), batches.end());  // the folder's own order differs from host to host
  const bool idx = fs::exists(images) || fs::exists(labels);
  if (idx && !batches.empty())
    throw DataError(folder + ": holds both MNIST and CIFAR-10 files; keep one set per folder");
  if (idx) return read_idx(images, labels);
  if (!batches.empty()) return read_cifar(batches);
  throw DataError(folder + ": neither " + kIdxImages + " nor data_batch_*.bin lies there");
}

}  // namespace ddl::train
