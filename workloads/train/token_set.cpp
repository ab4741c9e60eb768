#include "workloads/train/dataset.h"
#include "workloads/train/models.h"
#include "workloads/train/random.h"

/*
 * Sequences for the transformer: digits, one of which is marked, and that one is the label. Which digits there are tells nothing, so a
 * network has to find the marked one; one label in ten is drawn at random, which keeps the loss away from zero (0.50 at best).
 */
namespace ddl::train {

namespace {

constexpr std::size_t kTexts = 20000;
constexpr std::size_t kLength = 32;
constexpr float kTextNoise = 0.1F;

class TokenSet : public Dataset {
 public:
  explicit TokenSet(uint64_t seed) : seed_(seed) {}
  const char* name() const override { return "tokens"; }
  std::size_t size() const override { return kTexts; }
  Shape shape() const override { return {1, 1, kLength}; }

  uint8_t load(std::size_t index, float* tokens) const override {
    Random random(seed_, Draw::kImages, index);
    for (std::size_t i = 0; i < kLength; ++i) tokens[i] = static_cast<float>(random.below(kClasses));
    const std::size_t marked = random.below(kLength);
    const auto label = static_cast<uint8_t>(tokens[marked]);
    tokens[marked] += static_cast<float>(kClasses);
    return random.uniform() < kTextNoise ? static_cast<uint8_t>(random.below(kClasses)) : label;
  }

 private:
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> make_token_set(uint64_t seed) { return std::make_unique<TokenSet>(seed); }

}  // namespace ddl::train
