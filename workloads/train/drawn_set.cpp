#include <algorithm>
#include <array>
#include <cmath>

#include "workloads/train/dataset.h"
#include "workloads/train/models.h"
#include "workloads/train/random.h"

/*
 * Images for machines without a data set: one of ten figures at a random place, size, slant and contrast, under noise. A class is not
 * told by the mean brightness or by a single pixel, so a network has something to learn; the noise keeps the loss away from zero for the
 * length of a test run, where relative comparisons of losses would lose their meaning.
 */
namespace ddl::train {

namespace {

constexpr std::size_t kSamples = 20000;
constexpr std::size_t kSide = 28;
constexpr float kNoise = 0.6F;  ///< half the width of the uniform noise; the figures have a contrast of about 1.5

float radius2(float x, float y) { return x * x + y * y; }
float reach(float x, float y) { return std::max(std::fabs(x), std::fabs(y)); }
bool odd_stripe(float x) { return (static_cast<int>((x + 1.0F) * 2.5F) & 1) == 0; }

/** The figure fills the square [-1, 1]^2. One row per class. */
struct Figure {
  const char* name;
  bool (*covers)(float x, float y);
};
constexpr std::array<Figure, kClasses> kFigures{{
    {"disk", [](float x, float y) { return radius2(x, y) < 0.8F; }},
    {"ring", [](float x, float y) { return radius2(x, y) < 1.0F && radius2(x, y) > 0.4F; }},
    {"square", [](float x, float y) { return reach(x, y) < 0.8F; }},
    {"frame", [](float x, float y) { return reach(x, y) < 0.95F && reach(x, y) > 0.6F; }},
    {"triangle", [](float x, float y) { return y < 0.9F && y > 2.0F * std::fabs(x) - 0.9F; }},
    {"plus", [](float x, float y) { return reach(x, y) < 1.0F && (std::fabs(x) < 0.3F || std::fabs(y) < 0.3F); }},
    {"cross", [](float x, float y) { return reach(x, y) < 1.0F && std::fabs(std::fabs(x) - std::fabs(y)) < 0.35F; }},
    {"rows", [](float x, float y) { return reach(x, y) < 1.0F && odd_stripe(y); }},
    {"columns", [](float x, float y) { return reach(x, y) < 1.0F && odd_stripe(x); }},
    {"checks", [](float x, float y) { return reach(x, y) < 1.0F && odd_stripe(x) == odd_stripe(y); }},
}};

class DrawnSet : public Dataset {
 public:
  explicit DrawnSet(uint64_t seed) : seed_(seed) {}
  const char* name() const override { return "drawn"; }
  std::size_t size() const override { return kSamples; }
  Shape shape() const override { return {1, kSide, kSide}; }

  uint8_t load(std::size_t index, float* pixels) const override {
    const auto label = static_cast<uint8_t>(index % kClasses);
    Random random(seed_, Draw::kImages, index);
    const float scale = random.uniform(0.55F, 0.9F);
    const float centre_x = random.uniform(-0.2F, 0.2F);
    const float centre_y = random.uniform(-0.2F, 0.2F);
    const float slant = random.uniform(-0.15F, 0.15F);
    const float contrast = random.uniform(1.0F, 2.0F);
    for (std::size_t iy = 0; iy < kSide; ++iy) {
      for (std::size_t ix = 0; ix < kSide; ++ix) {
        const float x = (to_unit(ix) - centre_x) / scale;
        const float y = (to_unit(iy) - centre_y) / scale;
        const bool covered = kFigures[label].covers(x + slant * y, y - slant * x);
        pixels[iy * kSide + ix] = (covered ? 0.7F : -0.3F) * contrast + random.uniform(-kNoise, kNoise);
      }
    }
    return label;
  }

 private:
  /** Pixel centre to [-1, 1]. */
  static float to_unit(std::size_t i) {
    return (2.0F * static_cast<float>(i) + 1.0F) / static_cast<float>(kSide) - 1.0F;
  }

  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> make_drawn_set(uint64_t seed) { return std::make_unique<DrawnSet>(seed); }

}  // namespace ddl::train
