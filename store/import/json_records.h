// JSON as a stream of flat records: the form in which traces come, read in the memory of one record.
//
// A record is an object: each element of the array `records` at the top of a file ({"traceEvents": [{..}, ..]}, or a bare array of
// objects), or a whole document (JSON lines). Its members are told by their path ("args.stream"); arrays inside of it are passed over but
// for those that the visitor asks for. What lies outside of records is told value by value ("distributedInfo.pg_config.0.ranks.5").
//
// Numbers stay text (decimal.h). Nesting, and the length of a text, are bounded.
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

/// Its texts are there until the visitor returns.
struct JsonField {
  std::string_view outer;  ///< of a record: path of the object inside of it that the field is in, where `path` does not tell
  std::string_view path;
  JsonKind kind = JsonKind::kNull;
  std::string_view text;  ///< as written; bool: "true" or "false"; list: [[8,16],["a"]], without blanks
};

/// The fields of one record. What says "of type T" throws BadRecord if the field is there and is of another type, or does not fit.
class JsonRecord {
 public:
  const JsonField* find(std::string_view path) const;
  const std::vector<JsonField>& fields() const { return fields_; }
  /// Text, or a number as it is written: ids come as either.
  std::string_view word(std::string_view path) const;
  std::optional<int64_t> integer(std::string_view path) const;
  /// Times 10^places.
  std::optional<int64_t> decimal(std::string_view path, int places) const;

 private:
  friend class JsonRecords;
  std::string_view kept(std::string_view text);
  std::vector<JsonField> fields_;
  std::deque<std::string> kept_;  ///< texts that are not in the file's buffer; reused for the next record
  size_t kept_count_ = 0;
};

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void on_record(const JsonRecord& record) = 0;
  /// A value outside of records.
  virtual void on_fact(const JsonField& fact) = 0;
  /// For read_json() without a name: whether the elements of the array at this path are records. What they were is told before the first one.
  virtual bool begins_records(std::string_view path) {
    (void)path;
    return false;
  }
  /// For a record: tells it as one text. It is left out if it is long, or has objects in it.
  virtual bool wants_list(std::string_view path) const {
    (void)path;
    return false;
  }
};

/// Reads one file of a document that holds records. A bare array may end behind any of its records: that is how it looks while it is being
/// written. All throw Error, with file and byte, for what is not JSON, for what has no records, and
/// for what the visitor throws as BadRecord.
void read_json(InputFile& file, std::string_view records, JsonVisitor& visitor);
/// One whose records lie in arrays anywhere that the visitor chooses.
void read_json(InputFile& file, JsonVisitor& visitor);
/// A file of documents, each of them a record.
void read_json_lines(InputFile& file, JsonVisitor& visitor);

constexpr std::string_view kTraceEvents = "traceEvents";  ///< records of Chrome's format and its relatives

}  // namespace ddl::store
