// The content of a report, without its looks. Builders (overview.h) fill it from a run; renderers (text.h, json.h)
// print it. A new format reads only this; a new report fills only this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/value.h"

namespace ddl::reports {

/// What to fix, most important first.
struct Finding {
  std::string id;
  std::string sentence;
  std::optional<int64_t> rank;
  std::optional<int64_t> saving_ns;
  std::optional<double> share_ratio;
  Value::Bound bound = Value::Bound::kNone;  ///< of both
  std::string confidence;
  /// "lower_bound": ranks left no record, so its waiting is only bounded from below (specification.md J7);
  /// empty: it is known.
  std::string estimator;
  std::string evidence;
  std::string try_next;
};

struct Metric {
  std::string id;
  std::string unit;
  std::optional<double> value;
  std::string why;
  std::optional<double> lo, hi;
  std::optional<double> sigma;  ///< of the clocks; nothing: compares none
  Value::Bound bound = Value::Bound::kNone;
};

/// "WHERE IT GOES   compute 69.0%   waiting 8.3%": a label and named numbers, then a remark.
struct NumberLine {
  struct Item {
    std::string key;   ///< of the JSON object; "" = text only
    std::string name;  ///< before the number; may be empty
    Value value;
    std::string note;  ///< after the number; may be empty
  };
  std::string id;
  std::string title;
  std::vector<Item> items = {};
  std::string remark = {};
};

struct Column {
  std::string key;    ///< JSON key, with its unit: time_ns
  std::string title;  ///< heading
  Unit unit;
  /// a narrow terminal drops the columns with the smallest number first; 9 = never, 0 = not in text at all
  int keep = 9;
  /// of a NULL in a row that a query made (cells() in overview.h); "": the row says it
  const char* why = "NOT_APPLICABLE";
};

struct Table {
  std::string id = {};       ///< name of the section
  std::string caption = {};  ///< one line above
  std::vector<Column> columns;
  std::vector<std::vector<Value>> rows = {};
  std::string note = {};        ///< below, e.g. how many rows were left out
  std::string when_empty = {};  ///< printed instead of a table without rows; "" = print nothing at all
  size_t left_out = 0;          ///< rows that follow and were not built (RunView::rows_wanted)
  size_t handed_on = 0;         ///< rows handed to RunView::each_row instead
};

/// A gap in the data.
struct Loss {
  std::optional<int64_t> rank;
  std::string kind;
  int64_t count = 0;
  std::string note;
};

/// A fact about the run, for the `run` object of the JSON: in the order of printing.
struct Fact {
  std::string key;
  Value value;
};

struct Document {
  std::vector<std::string> headline;  ///< parts of the first line: the job's name, ranks, steps, ...
  std::vector<std::string> data;      ///< parts of the second line: how much of it was seen
  std::string source;                 ///< run directory and version, at the right of the second line
  std::vector<Fact> facts;
  std::vector<std::string> alerts;  ///< before anything else: a rank that never arrived, a job that was killed
  std::vector<Finding> findings;
  std::string no_finding;           ///< printed if there is no finding
  std::string saving_per = "step";  ///< what saving_ns is counted per: step or run
  std::vector<NumberLine> lines;
  std::string verdict;
  std::vector<Metric> metrics;
  std::vector<Table> tables;
  std::vector<Loss> loss;
  std::vector<std::string> more;  ///< commands to type next
};

}  // namespace ddl::reports
