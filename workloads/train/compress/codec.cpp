#include "workloads/train/compress/codec.h"

#include <charconv>
#include <cmath>

#include "workloads/train/compress/codecs.h"
#include "workloads/train/error.h"

namespace ddl::train {

namespace {

std::unique_ptr<Codec> make_threshold(const std::string& name) {
  const std::string text = name.substr(std::string("threshold:").size());
  float threshold = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, threshold);
  if (error != std::errc() || rest != end || !(threshold > 0) || !std::isfinite(threshold)) {
    throw UsageError("--compress '" + name +
                     "': expected the least magnitude that is sent, above 0, as in threshold:0.001");
  }
  return std::make_unique<Threshold>(threshold);
}

}  // namespace

double share_that_is_sent(const std::string& name) {
  const std::string text = name.substr(name.find(':') + 1);
  double ratio = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, ratio);
  if (error != std::errc() || rest != end || !(ratio > 0 && ratio <= 1)) {
    throw UsageError("--compress '" + name + "': expected the share that is sent, above 0 up to 1, as in topk:0.01");
  }
  return ratio;
}

std::unique_ptr<Codec> make_codec(const std::string& name) {
  if (name == "fp16") return std::make_unique<HalfPrecision>();
  if (name == "bf16") return std::make_unique<BrainFloat>();
  if (name == "q8") return std::make_unique<Quantised>(8);
  if (name == "q4") return std::make_unique<Quantised>(4);
  if (name == "ternary") return std::make_unique<Ternary>();
  if (name == "onebit") return std::make_unique<OneBit>();
  if (name == "top16_q4") return std::make_unique<TopOfGroup>();
  if (name.starts_with("topk:")) return std::make_unique<TopK>(share_that_is_sent(name));
  if (name.starts_with("threshold:")) return make_threshold(name);
  throw UsageError(
      "--compress '" + name +
      "': expected none, fp16, bf16, q8, q4, onebit, ternary, top16_q4, topk:RATIO, threshold:T, dgc:RATIO or sparcml:RATIO");
}

}  // namespace ddl::train
