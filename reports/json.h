// The report for programs: {"schema":1,"run":{...},"findings":[...],"metrics":[...],...}. Keys end in their unit (_ns,
// _bytes, _ratio), absent is null.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/document.h"

namespace ddl::reports {

constexpr int kJsonSchema = 1;

/// Writes a document member by member and row by row as they become known: of a table of a million rows it holds
/// one. `out` gets the text in pieces: valid UTF-8 (invalid bytes become U+FFFD), two spaces of indentation, a
/// newline at the end.
class JsonStream {
 public:
  using Out = std::function<void(std::string_view)>;
  explicit JsonStream(Out out) : out_(std::move(out)) {}

  /// Everything except its tables and gaps.
  void begin(const Document& document);
  void begin_table(std::string_view id);
  void row(const std::vector<Column>& columns, const std::vector<Value>& cells);
  void end_table();
  /// "left_out": {"blame": 12, ...}; nothing if none was.
  void left_out(const std::vector<std::pair<std::string, size_t>>& rows_of_tables);
  /// The gaps, and the end.
  void end(const Document& document);

 private:
  void member(std::string_view key, const std::string& json);

  Out out_;
  std::string text_;  ///< not handed out yet
  bool any_row_ = false;
};

/// Likewise, as one text.
std::string render_json(const Document& document);

/// A model's answer: {"schema":1,"model":"fit","given":{...},"fit":[...],"notes":[...]}. `answer`: its lines are
/// the given values.
std::string render_json(std::string_view model, const Document& answer, const std::vector<std::string>& notes);

/// Rows as objects, as in the document's "calls", "layers", ...
std::string render_json(const Table& table);

}  // namespace ddl::reports
