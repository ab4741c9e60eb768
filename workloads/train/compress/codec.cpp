#include "workloads/train/compress/codec.h"

#include <charconv>

#include "workloads/train/compress/codecs.h"
#include "workloads/train/error.h"

namespace ddl::train {

namespace {

std::unique_ptr<Codec> make_top_k(const std::string& name) {
  const std::string text = name.substr(std::string("topk:").size());
  double ratio = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, ratio);
  if (error != std::errc() || rest != end || !(ratio > 0 && ratio <= 1)) {
    throw UsageError("--compress '" + name + "': expected the share that is sent, above 0 up to 1, as in topk:0.01");
  }
  return std::make_unique<TopK>(ratio);
}

}  // namespace

std::unique_ptr<Codec> make_codec(const std::string& name) {
  if (name == "fp16") return std::make_unique<HalfPrecision>();
  if (name == "bf16") return std::make_unique<BrainFloat>();
  if (name == "q8") return std::make_unique<Quantised>(8);
  if (name == "q4") return std::make_unique<Quantised>(4);
  if (name == "ternary") return std::make_unique<Ternary>();
  if (name == "onebit") return std::make_unique<OneBit>();
  if (name.starts_with("topk:")) return make_top_k(name);
  throw UsageError("--compress '" + name + "': expected none, fp16, bf16, q8, q4, onebit, ternary or topk:RATIO");
}

}  // namespace ddl::train
