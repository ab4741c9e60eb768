#include <fmt/format.h>

#include <cmath>

#include "analyzer/models/large_batch.h"
#include "autotuner/emit/format.h"
#include "core/number.h"

namespace ddl::tune {

namespace {

/// MiB, as DDP computes bytes from them: int(bucket_cap_mb * 1024 * 1024). As they were given if that is them, else the
/// shortest decimal that is the same double.
std::string mib_of(const Tuned& tuned) {
  constexpr double kMib = 1024.0 * 1024.0;
  for (const Choice& choice : tuned.choices)
    if (const auto given = choice.name == "bucket_mb" ? number_in<double>(choice.value) : std::nullopt;
        given && static_cast<int64_t>(*given * kMib) == *tuned.bucket_bytes)
      return fmt::format("{}", *given);
  return fmt::format("{}", static_cast<double>(*tuned.bucket_bytes) / kMib);
}

}  // namespace

/// DistributedDataParallel takes its buckets as an argument and nowhere else. The module imports torch only when it is
/// used.
Content emit_ddp(const Emission& emission, const Format&) {
  const Tuned& tuned = emission.tuned;
  Content content;
  content.changes = tuned.bucket_bytes || tuned.batch_per_rank;
  if (!content.changes) content.note = "buckets and batch stay as they are: wrap() is DistributedDataParallel";
  if (tuned.bucket_bytes)
    content.note =
        "bucket_cap_mb is MiB; the first bucket stays 1 MiB (torch.distributed._DEFAULT_FIRST_BUCKET_BYTES) in PyTorch whose default is "
        "bucket_cap_mb=25 (1.13), and is as large as the others where it is None (newer); a tensor that is larger than a bucket is not "
        "split";
  content.text = fmt::format("BUCKET_CAP_MB = {}\n", tuned.bucket_bytes ? mib_of(tuned) : "None");
  content.text +=
      fmt::format("BATCH_PER_RANK = {}\n", tuned.batch_per_rank ? std::to_string(*tuned.batch_per_rank) : "None");
  if (const auto factor = batch_factor(tuned)) {
    content.text += "# To be multiplied with the learning rate: linear with SGD, square root with Adam and LAMB.\n";
    content.text +=
        fmt::format("LEARNING_RATE_FACTOR_LINEAR = {:.6g}\nLEARNING_RATE_FACTOR_SQRT = {:.6g}\nWARM_UP_EPOCHS = {:g}\n",
                    *factor, std::sqrt(*factor), models::rule_advice()[0].warm_up_epochs);
  }
  content.text += R"~(

def ddp_arguments():
    """Keyword arguments for DistributedDataParallel."""
    return {} if BUCKET_CAP_MB is None else {"bucket_cap_mb": BUCKET_CAP_MB}


def wrap(model, **arguments):
    """DistributedDataParallel(model) with the tuned buckets; arguments of the caller win."""
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, **{**ddp_arguments(), **arguments})
)~";
  return content;
}

}  // namespace ddl::tune
