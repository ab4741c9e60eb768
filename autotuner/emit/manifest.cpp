#include "autotuner/emit/manifest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "store/text.h"

namespace ddl::tune {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json count_or_null(int64_t count) { return count > 0 ? Json(count) : Json(nullptr); }
template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json gain(const std::optional<Gain>& gain) {
  if (!gain) return nullptr;
  return {{"ratio", gain->ratio},
          {"lo", gain->lo},
          {"hi", gain->hi},
          {"rounds", gain->rounds},
          {"noise_lo", gain->noise_lo},
          {"noise_hi", gain->noise_hi},
          {"of_rounds", gain->of_rounds},
          {"confidence", gain->confidence},
          {"spans_search", gain->spans_search}};
}

Json metric(const std::optional<Metric>& metric) {
  if (!metric) return nullptr;
  return {
      {"pattern", metric->pattern}, {"file", text_or_null(metric->file)}, {"lower_is_better", metric->lower_is_better}};
}

Json files_json(const std::vector<EmittedFile>& files) {
  Json list = Json::array();
  for (const EmittedFile& file : files) {
    list.push_back({{"name", file.name},
                    {"reader", file.reader},
                    {"bytes", file.bytes},
                    {"sha256", file.sha256},
                    {"changes", file.changes},
                    {"note", text_or_null(file.note)}});
  }
  return list;
}

}  // namespace

std::string manifest(const Emission& emission, const std::vector<EmittedFile>& files) {
  const Tuned& tuned = emission.tuned;
  Json choices = Json::array(), allreduce = Json::array(), nccl = Json::array(), environment = Json::object(),
       before = Json::object();
  for (const Choice& c : tuned.choices)
    choices.push_back({{"name", c.name}, {"value", c.value}, {"default", c.default_value}, {"numeric", c.numeric}});
  for (const AllreduceRule& r : tuned.allreduce_rules)
    allreduce.push_back({{"from_bytes", r.from_bytes},
                         {"algorithm", r.algorithm},
                         {"name", r.algorithm_name},
                         {"segment_bytes", r.segment_bytes}});
  for (const NcclRule& r : tuned.nccl_rules) {
    nccl.push_back({{"collective", r.collective},
                    {"min_bytes", r.min_bytes},
                    {"max_bytes", r.max_bytes < 0 ? Json(nullptr) : Json(r.max_bytes)},
                    {"algorithm", text_or_null(r.algorithm)},
                    {"protocol", text_or_null(r.protocol)},
                    {"channels", count_or_null(r.channels)}});
  }
  for (const auto& [name, value] : emission.environment) environment[name] = value;
  for (const auto& [name, value] : tuned.default_environment) before[name] = value;
  const Json json = {{"schema", 1},
                     {"ddl_version", DDL_VERSION},
                     {"run", text_or_null(tuned.run)},
                     {"date", text_or_null(tuned.date)},
                     {"machine", text_or_null(tuned.machine)},
                     {"mpi_library", text_or_null(tuned.mpi_library)},
                     {"ranks", count_or_null(tuned.ranks)},
                     {"nodes", count_or_null(tuned.nodes)},
                     {"command", without_secrets(tuned.command)},
                     {"tuned_command", without_secrets(tuned.tuned_command)},
                     {"goal", text_or_null(tuned.goal)},
                     {"goal_kind", text_or_null(tuned.goal_kind)},
                     {"target_loss", or_null(tuned.target_loss)},
                     {"metric", metric(tuned.metric)},
                     {"measured", tuned.in_run ? "in_run" : "launches"},
                     {"gain", gain(tuned.gain)},
                     {"kept", text_or_null(tuned.kept)},
                     {"changes_order_of_sums", changes_order_of_sums(tuned)},
                     {"choices", choices},
                     {"allreduce_rules", allreduce},
                     {"nccl_rules", nccl},
                     {"bucket_bytes", or_null(tuned.bucket_bytes)},
                     {"default_bucket_bytes", or_null(tuned.default_bucket_bytes)},
                     {"batch_per_rank", or_null(tuned.batch_per_rank)},
                     {"element_bytes", tuned.element_bytes},
                     {"environment", environment},
                     {"default_environment", before},
                     {"unset", tuned.unset},
                     {"default_unset", tuned.default_unset},
                     {"directory", emission.directory.string()},
                     {"files", files_json(files)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) != 1)
    throw Error("libcrypto cannot compute a SHA-256");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace ddl::tune
