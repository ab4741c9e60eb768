#include <algorithm>
#include <nlohmann/json.hpp>

#include "autotuner/emit/format.h"

namespace ddl::tune {

/// JSON has no comments: the heading is the value of "_comment", which DeepSpeed does not ask for. Bucket
/// sizes are elements.
Content emit_deepspeed(const Emission& emission, const Format& format) {
  const Tuned& tuned = emission.tuned;
  Content content;
  nlohmann::ordered_json json = {{"_comment", nullptr}};
  if (tuned.bucket_bytes) {
    const int64_t elements = std::max<int64_t>(1, *tuned.bucket_bytes / std::max<int64_t>(1, tuned.element_bytes));
    json["zero_optimization"] = {{"reduce_bucket_size", elements}};
    content.note = "reduce_bucket_size counts elements of " + std::to_string(tuned.element_bytes) +
                   " bytes and works where ZeRO is on";
  }
  if (tuned.batch_per_rank) json["train_micro_batch_size_per_gpu"] = *tuned.batch_per_rank;
  content.changes = json.size() > 1;
  if (!content.changes) content.note = "buckets and batch stay as they are";
  json["_comment"] = heading(emission, format, content);
  content.text = json.dump(2) + "\n";
  return content;
}

}  // namespace ddl::tune
