// JSON as a stream of flat records, as traces have it, in the memory of one record.
//
// A record is an object: each element of the array `records` at the top of a file ({"traceEvents": [{..}, ..]}, or a
// bare array of objects), or a whole document (JSON lines). Its members are reported by path ("args.stream"); arrays
// inside are skipped unless the visitor asks for them. Values outside of records are reported one by one
// ("distributedInfo.pg_config.0.ranks.5").
//
// Numbers stay text (decimal.h). Nesting and text lengths are bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/import/input_file.h"

namespace ddl::store {

enum class JsonKind { kNull, kBool, kNumber, kText, kList };

/// Its texts live until the visitor returns.
struct JsonField {
  std::string_view outer;  ///< of a record: path of the inner object with the field, unless `path` has it
  std::string_view path;
  JsonKind kind = JsonKind::kNull;
  std::string_view text;  ///< as written; bool: "true" or "false"; list: [[8,16],["a"]], without blanks
};

/// The fields of one record. A typed access throws BadRecord if the field exists with another type, or does not fit.
class JsonRecord {
 public:
  const JsonField* find(std::string_view path) const;
  const std::vector<JsonField>& fields() const { return fields_; }
  /// Text, or a number as written: ids come as either.
  std::string_view word(std::string_view path) const;
  std::optional<int64_t> integer(std::string_view path) const;
  /// Times 10^places.
  std::optional<int64_t> decimal(std::string_view path, int places) const;

 private:
  friend class JsonRecords;
  std::string_view kept(std::string_view text);
  std::vector<JsonField> fields_;
  std::deque<std::string> kept_;  ///< texts outside the file's buffer; reused for the next record
  size_t kept_count_ = 0;
};

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void on_record(const JsonRecord& record) = 0;
  /// A value outside of records.
  virtual void on_fact(const JsonField& fact) = 0;
  /// For read_json() without a name: whether the elements of the array at this path are records. Called
  /// before the first one.
  virtual bool begins_records(std::string_view path) {
    (void)path;
    return false;
  }
  /// For a record: reports the array as one text. Left out if it is long, or contains objects.
  virtual bool wants_list(std::string_view path) const {
    (void)path;
    return false;
  }
};

/// Reads one file of a document with records. A bare array may end after any record, as while it is being written. All
/// throw Error, with file and byte, for invalid JSON, missing records, and the visitor's BadRecord.
void read_json(InputFile& file, std::string_view records, JsonVisitor& visitor);
/// With records in arrays anywhere, as the visitor chooses.
void read_json(InputFile& file, JsonVisitor& visitor);
/// A file of documents, each a record.
void read_json_lines(InputFile& file, JsonVisitor& visitor);

constexpr std::string_view kTraceEvents = "traceEvents";  ///< records of Chrome's format and its relatives

}  // namespace ddl::store
