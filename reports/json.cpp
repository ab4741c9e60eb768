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
          {"bound", finding.bound == Value::Bound::kNone ? Json(nullptr) : Json(name_of(finding.bound))},
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

Json to_json(const Loss& loss) {
  return {{"rank", nullable(loss.rank)}, {"kind", loss.kind}, {"count", loss.count}, {"note", loss.note}};
}

// A value that is absent says why beside itself: "busbw_bytes_per_second": null, "busbw_bytes_per_second_why":
// "PARTIAL_RANKS". One that is a bound says which: "waiting_ratio_bound": "lower".
void put(Json& object, const std::string& key, const Value& value) {
  object[key] = to_json(value);
  if (!value.why().empty()) object[key + "_why"] = value.why();
  if (value.bound() != Value::Bound::kNone) object[key + "_bound"] = name_of(value.bound());
}

Json to_json(const std::vector<Column>& columns, const std::vector<Value>& cells) {
  Json row = Json::object();
  for (size_t c = 0; c < cells.size(); ++c) put(row, columns[c].key, cells[c]);
  return row;
}

Json to_json(const Table& table) {
  Json rows = Json::array();
  for (const auto& cells : table.rows) rows.push_back(to_json(table.columns, cells));
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

constexpr int kIndent = 2;
constexpr size_t kPieceBytes = 256 << 10;  // of what is handed out at a time

std::string text_of(const Json& json) { return json.dump(kIndent, ' ', false, Json::error_handler_t::replace); }

std::string dump(const Json& json) { return text_of(json) + "\n"; }

/// `json` as it stands inside of `depth` others: every line but the first is moved in. Strings of JSON hold no line
/// ends.
void append_inside(std::string& to, std::string_view json, size_t depth) {
  for (size_t end = 0; (end = json.find('\n')) != std::string_view::npos; json.remove_prefix(end + 1)) {
    to += json.substr(0, end + 1);
    to.append(depth * kIndent, ' ');
  }
  to += json;
}

}  // namespace

void JsonStream::member(std::string_view key, const std::string& json) {
  text_ += text_of(Json(key));
  text_ += ": ";
  append_inside(text_, json, 1);
  text_ += ",\n  ";
}

void JsonStream::begin(const Document& document) {
  text_ += "{\n  ";
  member("schema", text_of(kJsonSchema));
  Json facts = Json::object();
  for (const Fact& fact : document.facts) put(facts, fact.key, fact.value);
  member("run", text_of(facts));
  member("alerts", text_of(document.alerts));
  member("findings", text_of(list(document.findings)));
  member("saving_per", text_of(document.saving_per));
  member("verdict", text_of(nullable_text(document.verdict)));
  member("metrics", text_of(list(document.metrics)));
  for (const NumberLine& line : document.lines) member(line.id, text_of(to_json(line)));
}

void JsonStream::begin_table(std::string_view id) {
  text_ += text_of(Json(id));
  text_ += ": [";
  any_row_ = false;
}

void JsonStream::row(const std::vector<Column>& columns, const std::vector<Value>& cells) {
  text_ += any_row_ ? ",\n    " : "\n    ";
  any_row_ = true;
  append_inside(text_, text_of(to_json(columns, cells)), 2);
  if (text_.size() < kPieceBytes) return;
  out_(text_);
  text_.clear();
}

void JsonStream::end_table() { text_ += any_row_ ? "\n  ],\n  " : "],\n  "; }

void JsonStream::left_out(const std::vector<std::pair<std::string, size_t>>& rows_of_tables) {
  if (rows_of_tables.empty()) return;
  Json json = Json::object();
  for (const auto& [table, rows] : rows_of_tables) json[table] = rows;
  member("left_out", text_of(json));
}

void JsonStream::end(const Document& document) {
  text_ += "\"loss\": ";
  append_inside(text_, text_of(list(document.loss)), 1);
  text_ += "\n}\n";
  out_(text_);
  text_.clear();
}

std::string render_json(const Document& document) {
  std::string text;
  JsonStream stream([&text](std::string_view piece) { text += piece; });
  stream.begin(document);
  for (const Table& table : document.tables) {
    stream.begin_table(table.id);
    for (const auto& cells : table.rows) stream.row(table.columns, cells);
    stream.end_table();
  }
  stream.end(document);
  return text;
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
