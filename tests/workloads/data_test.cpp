#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "workloads/train/dataset.h"
#include "workloads/train/error.h"
#include "workloads/train/random.h"

namespace ddl::train {
namespace {

namespace fs = std::filesystem;

/** A folder with data files that goes away with the test. */
class DataFolder : public testing::Test {
 protected:
  DataFolder() {
    std::string name = (fs::temp_directory_path() / "ddl-data-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~DataFolder() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void write_mnist(const std::string& images, const std::string& labels) const {
    write(kIdxImages, images);
    write(kIdxLabels, labels);
  }
  std::unique_ptr<Dataset> open() const { return open_dataset(folder_); }
  /** The message of the DataError that opening throws; "" if it does not. */
  std::string complaint() const {
    try {
      open();
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
  bool complains_of(const std::string& words) const { return complaint().find(words) != std::string::npos; }

  std::string folder_;
};

std::string word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

/** Two images of 2 x 3. */
const std::string kImages =
    word(0x803) + word(2) + word(2) + word(3) + std::string("\x00\x01\x02\x03\x04\x05\xff\x80\x40\x20\x10\x08", 12);
const std::string kLabels = word(0x801) + word(2) + "\x07\x02";

std::string cifar_record(char label, char red, char green, char blue) {
  return std::string(1, label) + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

TEST_F(DataFolder, ReadsMnist) {
  write_mnist(kImages, kLabels);
  const auto data = open();
  EXPECT_STREQ(data->name(), "mnist");
  ASSERT_EQ(data->size(), 2U);
  ASSERT_EQ(data->shape(), (Shape{1, 2, 3}));
  float pixels[6];
  EXPECT_EQ(data->load(0, pixels), 7);
  EXPECT_NEAR(pixels[5], (5.0 / 255.0 - 0.1307) / 0.3081, 1e-6);
  EXPECT_EQ(data->load(1, pixels), 2);
  EXPECT_NEAR(pixels[0], (1.0 - 0.1307) / 0.3081, 1e-6);
}

TEST_F(DataFolder, ReadsCifarFilesInOrder) {
  write("data_batch_2.bin", cifar_record(9, 1, 2, 3));
  write("data_batch_1.bin", cifar_record(0, '\xff', 0, '\x80') + cifar_record(4, 5, 6, 7));
  write("test_batch.bin", "not for training");
  const auto data = open();
  EXPECT_STREQ(data->name(), "cifar10");
  ASSERT_EQ(data->size(), 3U);
  ASSERT_EQ(data->shape(), (Shape{3, 32, 32}));
  std::vector<float> pixels(3072);
  EXPECT_EQ(data->load(0, pixels.data()), 0);
  EXPECT_NEAR(pixels[1023], (1.0 - 0.4914) / 0.2470, 1e-5);            // red
  EXPECT_NEAR(pixels[1024], (0.0 - 0.4822) / 0.2435, 1e-5);            // green
  EXPECT_NEAR(pixels[2048], (128.0 / 255.0 - 0.4465) / 0.2616, 1e-5);  // blue
  EXPECT_EQ(data->load(1, pixels.data()), 4);
  EXPECT_EQ(data->load(2, pixels.data()), 9);
}

TEST_F(DataFolder, RefusesEveryTruncationOfMnist) {
  for (std::size_t size = 0; size < kImages.size(); ++size) {
    write_mnist(kImages.substr(0, size), kLabels);
    ASSERT_TRUE(complains_of(kIdxImages)) << size << ": " << complaint();
  }
  for (std::size_t size = 0; size < kLabels.size(); ++size) {
    write_mnist(kImages, kLabels.substr(0, size));
    ASSERT_TRUE(complains_of(kIdxLabels)) << size << ": " << complaint();
  }
  write_mnist(kImages + "x", kLabels);
  EXPECT_TRUE(complains_of("13 bytes of data, but the header announces 2 x 2 x 3")) << complaint();
}

TEST_F(DataFolder, RefusesMalformedMnist) {
  write_mnist(kLabels, kImages);
  EXPECT_TRUE(complains_of("not an IDX file")) << complaint();
  write_mnist("\x1f\x8b" + kImages, kLabels);
  EXPECT_TRUE(complains_of("gunzip")) << complaint();
  // The product of these dimensions is 12 modulo 2^64: 2^32 * 2^32 * anything would be accepted by a reader that
  // multiplies.
  write_mnist(word(0x803) + word(0xffffffff) + word(0xffffffff) + word(0xffffffff) + std::string(12, '\1'), kLabels);
  EXPECT_TRUE(complains_of("header announces 4294967295 x")) << complaint();
  write_mnist(word(0x803) + word(0) + word(2) + word(3), word(0x801) + word(0));
  EXPECT_TRUE(complains_of("announces no data")) << complaint();
  write_mnist(kImages, word(0x801) + word(3) + std::string(3, '\1'));
  EXPECT_TRUE(complains_of("3 labels for 2 images")) << complaint();
  write_mnist(kImages, word(0x801) + word(2) + "\x07\x0a");
  EXPECT_TRUE(complains_of("label 10")) << complaint();
  fs::remove(folder_ + "/" + kIdxLabels);
  EXPECT_TRUE(complains_of(std::string(kIdxLabels) + ": no such file")) << complaint();
}

TEST_F(DataFolder, RefusesMalformedCifar) {
  const std::string good = cifar_record(1, 2, 3, 4);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, good.size() - 1}) {
    write("data_batch_1.bin", good.substr(0, size));
    EXPECT_TRUE(complains_of(std::to_string(size) + " bytes are not a whole number")) << complaint();
  }
  write("data_batch_1.bin", good + cifar_record(10, 0, 0, 0));
  EXPECT_TRUE(complains_of("label 10")) << complaint();
}

TEST_F(DataFolder, RefusesFoldersThatAreNotClear) {
  EXPECT_TRUE(complains_of("neither")) << complaint();
  write("data_batch_1.bin", cifar_record(1, 2, 3, 4));
  write_mnist(kImages, kLabels);
  EXPECT_TRUE(complains_of("both")) << complaint();
  EXPECT_THROW(open_dataset(folder_ + "/nowhere"), DataError);
  EXPECT_THROW(open_dataset(folder_ + "/data_batch_1.bin"), DataError);
}

TEST_F(DataFolder, NeverAcceptsNoise) {
  Random random(11, Draw::kImages, 0);
  for (int round = 0; round < 200; ++round) {
    std::string noise(random.below(5000), '\0');
    for (char& byte : noise) byte = static_cast<char>(random.next());
    // Half of them begin like the real thing, so that the noise reaches the dimensions.
    write_mnist(round % 2 ? word(0x803) + noise : noise, round % 2 ? word(0x801) + noise : noise);
    ASSERT_NE(complaint(), "") << "round " << round;
  }
}

TEST(DrawnSet, DependsOnSeedAndIndexOnly) {
  const auto draw = [](uint64_t seed, std::size_t index) {
    const auto set = make_drawn_set(seed);
    std::vector<float> pixels(set->shape().size());
    EXPECT_EQ(set->load(index, pixels.data()), index % 10);
    return pixels;
  };
  EXPECT_EQ(draw(1, 42), draw(1, 42));
  EXPECT_NE(draw(1, 42), draw(2, 42));
  EXPECT_NE(draw(1, 42), draw(1, 52));  // the same figure, drawn anew
}

/** One digit is marked (10 to 19); it is the label, but for about one sample in eleven: a tenth of the
 * labels is drawn. */
TEST(TokenSet, TheMarkedDigitIsTheLabel) {
  const std::unique_ptr<Dataset> data = make_token_set(5);
  std::vector<float> tokens(data->shape().size());
  std::vector<float> again(tokens.size());
  std::size_t right = 0;
  std::vector<int> labels(10);
  constexpr std::size_t kSamples = 5000;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const uint8_t label = data->load(i, tokens.data());
    ASSERT_EQ(data->load(i, again.data()), label);
    ASSERT_EQ(tokens, again);
    std::vector<float> marked;
    for (const float token : tokens) {
      ASSERT_TRUE(token >= 0 && token < 20 && token == std::floor(token));
      if (token >= 10) marked.push_back(token - 10);
    }
    ASSERT_EQ(marked.size(), 1U);
    right += marked[0] == static_cast<float>(label);
    labels.at(label) += 1;
  }
  // 91 % and 10 % each, within five standard deviations.
  EXPECT_NEAR(static_cast<double>(right) / kSamples, 0.91, 5 * std::sqrt(0.91 * 0.09 / kSamples));
  for (const int count : labels) EXPECT_NEAR(count, 500, 5 * std::sqrt(5000 * 0.1 * 0.9));
}

TEST(DrawnSet, IsRoughlyNormalised) {
  const auto set = make_drawn_set(1);
  std::vector<float> pixels(set->shape().size());
  double sum = 0.0;
  double squares = 0.0;
  constexpr std::size_t kImagesTaken = 500;
  for (std::size_t i = 0; i < kImagesTaken; ++i) {
    set->load(i, pixels.data());
    for (const float pixel : pixels) {
      sum += static_cast<double>(pixel);
      squares += static_cast<double>(pixel) * static_cast<double>(pixel);
    }
  }
  const double count = static_cast<double>(kImagesTaken * pixels.size());
  const double mean = sum / count;
  EXPECT_LT(std::fabs(mean), 0.3);
  EXPECT_GT(std::sqrt(squares / count - mean * mean), 0.5);
  EXPECT_LT(std::sqrt(squares / count - mean * mean), 1.5);
}

}  // namespace
}  // namespace ddl::train
