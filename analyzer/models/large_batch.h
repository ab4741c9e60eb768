// What a larger batch asks of the recipe of training, as published: learning rates by rule, warm-up, layer-wise
// optimisers, and how large a batch was seen to do. Advice, and no prediction: nothing here knows the network's loss.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::models {

enum class BatchRule { kLinear, kSquareRoot, kLars, kLarc, kLamb };
std::string_view name_of(BatchRule rule);

/// `base_rate` belongs to `base_batch`. Linear: k times (Goyal et al., 1706.02677; LARS and LARC take it for their
/// global rate); square root: sqrt(k) times (Krizhevsky, 1404.5997; LAMB). k = batch / base_batch.
double scaled_rate(BatchRule rule, double base_rate, double base_batch, double batch);

struct RuleAdvice {
  BatchRule rule;
  double warm_up_epochs;  ///< from the base rate up, linearly
  const char* settings;   ///< as published
  const char* valid;      ///< where it was seen to hold, and where not
  const char* source;
};
std::span<const RuleAdvice> rule_advice();

/// A network trained with a batch by a rule; a row of tests/published or a claim of a publication's abstract.
struct PublishedBatch {
  const char* network;  ///< resnet50, ...
  BatchRule rule;
  double batch, rate;    ///< rate 0: not told
  double error_percent;  ///< top-1; 0: only told to be as good as a small batch's
  double small_error;    ///< of the same network by a small batch
  const char* source;
};
std::span<const PublishedBatch> published_batches();
/// Names of the networks in it, each once.
std::vector<std::string> published_networks();

/// A published batch does if its error is at most this much above a small batch's, in percent points.
constexpr double kAsGoodPoints = 0.5;

struct SafeBatch {
  double batch = 0;
  std::string why;  ///< "the noise scale", "resnet50 by linear, 23.74% error, ..."
};
/// The largest published batch of `network` by any rule, or by this one, that did; nothing if there is none.
std::optional<SafeBatch> published_safe_batch(std::string_view network, std::optional<BatchRule> rule = {});

/// A few sentences for who changes the batch: rates as factors, warm-up, optimisers beyond. The first one warns if
/// `batch` is beyond `noise_scale`, or beyond the largest that any table has; samples of all ranks.
std::vector<std::string> batch_change_advice(double base_batch, double batch, std::optional<double> noise_scale);

}  // namespace ddl::models
