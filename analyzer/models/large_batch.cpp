#include "analyzer/models/large_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddl::models {
namespace {

constexpr double kGoyalWarmUpEpochs = 5;

constexpr RuleAdvice kRules[] = {
    {BatchRule::kLinear, kGoyalWarmUpEpochs, "SGD with momentum 0.9, weight decay 1e-4; warm-up from the base rate",
     "ResNet-50 to 8192 (+0.14 points of error), 16384 costs 1.2, 65536 10.4; without warm-up 8192 costs 1.2",
     "Goyal et al., 1706.02677"},
    {BatchRule::kSquareRoot, kGoyalWarmUpEpochs, "keeps the variance of an update",
     "with SGD worse than linear: ResNet-50, 8192: 26.2% error instead of 23.7; usual with Adam",
     "Krizhevsky, 1404.5997; Goyal et al."},
    {BatchRule::kLars, kGoyalWarmUpEpochs,
     "trust 0.001, momentum 0.9, polynomial decay of power 2; not for biases and normalisation",
     "AlexNet to 8192, ResNet-50 to 32768 \"without loss in accuracy\"; not for attention networks",
     "You et al., 1708.03888"},
    {BatchRule::kLarc, kGoyalWarmUpEpochs, "trust 0.02, the layer's rate clipped at the global one",
     "as LARS; clipped, so that it is never above the scheduled rate", "NVIDIA apex, parallel/LARC.py"},
    {BatchRule::kLamb, 0,
     "beta 0.9 and 0.999, epsilon 1e-6, weight decay 0.01; warm-up as long in samples: its share grows with the batch",
     "BERT to 32768 without loss (65536 with 128 tokens); only the rate is scaled", "You et al., 1904.00962"},
};

constexpr const char* kGoyal = "Goyal et al., 1706.02677";
constexpr const char* kLarsTable = "You et al., ICLR 2018 submission on LARS, table without LARS";
constexpr const char* kLarsAbstract = "You et al., 1708.03888, abstract";
constexpr const char* kLambAbstract = "You et al., 1904.00962, abstract";

constexpr PublishedBatch kBatches[] = {
    {"resnet50", BatchRule::kLinear, 256, 0.1, 23.60, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 512, 0.2, 23.48, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 1024, 0.4, 23.53, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 2048, 0.8, 23.49, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 4096, 1.6, 23.56, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 8192, 3.2, 23.74, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 16384, 6.4, 24.79, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 32768, 12.8, 27.55, 23.60, kGoyal},
    {"resnet50", BatchRule::kLinear, 65536, 25.6, 33.96, 23.60, kGoyal},
    {"resnet50", BatchRule::kSquareRoot, 8192, 0.5657, 26.22, 23.60, kGoyal},
    {"resnet50", BatchRule::kLars, 32768, 0, 0, 0, kLarsAbstract},
    {"resnet101", BatchRule::kLinear, 256, 0.1, 22.08, 22.08, kGoyal},
    {"resnet101", BatchRule::kLinear, 8192, 3.2, 22.36, 22.08, kGoyal},
    {"alexnet", BatchRule::kLinear, 512, 0.02, 41.2, 41.2, kLarsTable},
    {"alexnet", BatchRule::kLinear, 4096, 0.05, 46.9, 41.2, kLarsTable},
    {"alexnet", BatchRule::kLinear, 8192, 0.03, 55.2, 41.2, kLarsTable},
    {"alexnet", BatchRule::kLars, 8192, 0, 0, 0, kLarsAbstract},
    {"alexnet_bn", BatchRule::kLinear, 512, 0.02, 39.8, 39.8, kLarsTable},
    {"alexnet_bn", BatchRule::kLinear, 4096, 0.18, 41.1, 39.8, kLarsTable},
    {"alexnet_bn", BatchRule::kLinear, 8192, 0.3, 42.0, 39.8, kLarsTable},
    {"bert", BatchRule::kLamb, 32768, 0, 0, 0, kLambAbstract},
};

}  // namespace

std::string_view name_of(BatchRule rule) {
  constexpr std::string_view kNames[] = {"linear", "square root", "LARS", "LARC", "LAMB"};
  return kNames[static_cast<size_t>(rule)];
}

double scaled_rate(BatchRule rule, double base_rate, double base_batch, double batch) {
  const double k = batch / base_batch;
  return base_rate * (rule == BatchRule::kSquareRoot || rule == BatchRule::kLamb ? std::sqrt(k) : k);
}

std::span<const RuleAdvice> rule_advice() { return kRules; }
std::span<const PublishedBatch> published_batches() { return kBatches; }

std::vector<std::string> published_networks() {
  std::vector<std::string> names;
  for (const PublishedBatch& row : kBatches)
    if (names.empty() || names.back() != row.network) names.emplace_back(row.network);
  return names;
}

std::optional<SafeBatch> published_safe_batch(std::string_view network, std::optional<BatchRule> rule) {
  const PublishedBatch* best = nullptr;
  for (const PublishedBatch& row : kBatches)
    if (network == row.network && (!rule || row.rule == *rule) &&
        row.error_percent <= row.small_error + kAsGoodPoints && (!best || row.batch > best->batch))
      best = &row;
  if (!best) return std::nullopt;
  const std::string error = best->error_percent > 0
                                ? fmt::format("{:.2f}% error instead of {:.2f}", best->error_percent, best->small_error)
                                : "without loss";
  return SafeBatch{best->batch,
                   fmt::format("{} by {}, {} ({})", best->network, name_of(best->rule), error, best->source)};
}

std::vector<std::string> batch_change_advice(double base_batch, double batch, std::optional<double> noise_scale) {
  std::vector<std::string> advice;
  if (noise_scale && batch > *noise_scale)
    advice.push_back(
        fmt::format("{:g} samples a step are beyond the safe batch: the gradient noise scale of the default was {:.3g}",
                    batch, *noise_scale));
  double largest = 0;
  for (const PublishedBatch& row : kBatches)
    if (row.error_percent <= row.small_error + kAsGoodPoints) largest = std::max(largest, row.batch);
  if (batch > largest)
    advice.push_back(
        fmt::format("{:g} samples a step are more than any published batch that did ({:g})", batch, largest));
  advice.push_back(fmt::format(
      "{:g} samples a step instead of {:g}: the learning rate times {:.4g} (linear rule: SGD, published to 8192) or times {:.4g} (square "
      "root: Adam, LAMB), reached over the first {:g} epochs",
      batch, base_batch, batch / base_batch, std::sqrt(batch / base_batch), kGoyalWarmUpEpochs));
  if (batch > 8192)
    advice.emplace_back(
        "beyond 8192 LARS or LARC (convolutions) or LAMB (attention) were needed: ddl model largebatch");
  return advice;
}

}  // namespace ddl::models
