#include "reports/prometheus.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace ddl::reports {
namespace {

using Json = nlohmann::ordered_json;

/// Units of UCUM by the ends of names; empty: none, or a count of something.
const char* otlp_unit(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> kEnds[] = {{"_bytes_per_second", "By/s"},
                                                                {"_samples_per_second", "{sample}/s"},
                                                                {"_flop_per_second", "{FLOP}/s"},
                                                                {"_seconds", "s"},
                                                                {"_bytes", "By"},
                                                                {"_ratio", "1"},
                                                                {"_hertz", "Hz"}};
  for (const auto& [end, unit] : kEnds)
    if (name.ends_with(end)) return unit;
  return "";
}

Json attribute(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}

class OtlpMetrics : public SeriesSink {
 public:
  explicit OtlpMetrics(int64_t time_ns) : time_(std::to_string(time_ns)) {}

  void family(const PrometheusFamily& family) override {
    Json metric = {{"name", family.name}, {"description", family.help}, {"unit", otlp_unit(family.name)}};
    points_ = family.type == "counter" ? "sum" : "gauge";
    metric[points_] = {{"dataPoints", Json::array()}};
    if (family.type == "counter") {
      constexpr int kCumulative = 2;
      metric[points_]["aggregationTemporality"] = kCumulative;
      metric[points_]["isMonotonic"] = true;
    }
    metrics_.push_back(std::move(metric));
  }
  void sample(double value, const SeriesLabels& labels) override {
    if (!std::isfinite(value)) return;
    Json attributes = Json::array();
    for (const auto& [key, name] : labels) attributes.push_back(attribute(key, name));
    // 64-bit numbers are texts in the JSON of protocol buffers.
    metrics_.back()[points_]["dataPoints"].push_back(
        {{"attributes", std::move(attributes)}, {"timeUnixNano", time_}, {"asDouble", value}});
  }
  Json take() { return std::move(metrics_); }

 private:
  std::string time_;
  const char* points_ = "gauge";
  Json metrics_ = Json::array();
};

}  // namespace

std::string render_otlp(const JobNumbers& job, const PrometheusLimits& limits, int64_t time_ns) {
  OtlpMetrics metrics(time_ns);
  tell_job_series(job, limits, metrics);
  const Json scope = {{"scope", {{"name", "ddl"}, {"version", DDL_VERSION}}}, {"metrics", metrics.take()}};
  const Json resource = {{"resource", {{"attributes", Json::array({attribute("service.name", "ddl")})}}},
                         {"scopeMetrics", Json::array({scope})}};
  const Json request = {{"resourceMetrics", Json::array({resource})}};
  return request.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddl::reports
