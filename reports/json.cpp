#include "reports/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace ddl::reports {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json nullable_text(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json to_json(const Value& value) {
  if (value.is_absent()) return nullptr;
  if (value.unit() == Unit::kText) return value.as_text();
  if (is_integer(value.unit())) return value.as_integer();
  return std::isfinite(value.as_double()) ? Json(value.as_double()) : Json(nullptr);
}

const char* name_of(Value::Bound bound) { return bound == Value::Bound::kLower ? "lower" : "upper"; }

Json to_json(const Finding& finding) {
  return {{"id", finding.id},
          {"sentence", finding.sentence},
          {"rank", nullable(finding.rank)},
          {"saving_ns", nullable(finding.saving_ns)},
          {"share_ratio", nullable(finding.share_ratio)},
          {"confidence", finding.confidence},
          {"estimator", nullable_text(finding.estimator)},
          {"evidence", finding.evidence},
          {"try", finding.try_next}};
}

Json to_json(const Metric& metric) {
  return {{"id", metric.id},
          {"value", nullable(metric.value)},
          {"unit", metric.unit},
          {"why", nullable_text(metric.why)},
          {"lo", nullable(metric.lo)},
          {"hi", nullable(metric.hi)},
          {"sigma", nullable(metric.sigma)},
          {"bound", metric.bound == Value::Bound::kNone ? Json(nullptr) : Json(name_of(metric.bound))}};
}

Json to_json(const Loss& loss) { return {{"rank", nullable(loss.rank)}, {"kind", loss.kind}, {"count", loss.count}, {"note", loss.note}}; }

// A value that is absent says why beside itself: "busbw_bytes_per_second": null, "busbw_bytes_per_second_why": "PARTIAL_RANKS". One that is a bound
// says which: "waiting_ratio_bound": "lower".
void put(Json& object, const std::string& key, const Value& value) {
  object[key] = to_json(value);
  if (!value.why().empty()) object[key + "_why"] = value.why();
  if (value.bound() != Value::Bound::kNone) object[key + "_bound"] = name_of(value.bound());
}

Json to_json(const Table& table) {
  Json rows = Json::array();
  for (const auto& cells : table.rows) {
    Json row = Json::object();
    for (size_t c = 0; c < cells.size(); ++c) put(row, table.columns[c].key, cells[c]);
    rows.push_back(std::move(row));
  }
  return rows;
}

Json to_json(const NumberLine& line) {
  Json object = Json::object();
  for (const NumberLine::Item& item : line.items)
    if (!item.key.empty()) put(object, item.key, item.value);
  return object;
}

template <class T>
Json list(const std::vector<T>& items) {
  Json array = Json::array();
  for (const T& item : items) array.push_back(to_json(item));
  return array;
}

std::string dump(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string render_json(const Document& document) {
  Json json = {{"schema", kJsonSchema}};
  json["run"] = Json::object();
  for (const Fact& fact : document.facts) put(json["run"], fact.key, fact.value);
  json["alerts"] = document.alerts;
  json["findings"] = list(document.findings);
  json["saving_per"] = document.saving_per;
  json["verdict"] = nullable_text(document.verdict);
  json["metrics"] = list(document.metrics);
  for (const NumberLine& line : document.lines) json[line.id] = to_json(line);
  for (const Table& table : document.tables) json[table.id] = to_json(table);
  json["loss"] = list(document.loss);
  return dump(json);
}

std::string render_json(std::string_view model, const Document& answer, const std::vector<std::string>& notes) {
  Json json = {{"schema", kJsonSchema}, {"model", model}, {"given", Json::object()}};
  for (const NumberLine& line : answer.lines) json[line.id] = to_json(line);
  for (const Table& table : answer.tables) json[table.id] = to_json(table);
  json["notes"] = notes;
  return dump(json);
}

std::string render_json(const Table& table) { return dump(to_json(table)); }

}  // namespace ddl::reports
