#include "store/import/json_records.h"

#include <fmt/format.h>

#include "store/import/decimal.h"

// The parser's own checks guard against wrong use of it, not against wrong input.
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

namespace ddl::store {

namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFields = 4096;  // of a record
constexpr size_t kMaxList = 4096;    // bytes of a list that is told

[[noreturn]] void wrong_type(const JsonField& field, const char* wanted) {
  constexpr size_t kShown = 40;
  std::string shown = field.text.substr(0, kShown);
  if (field.text.size() > kShown) shown += "...";
  throw BadRecord{
      fmt::format("{} is {}, which is not a {}", field.path, field.kind == JsonKind::kText ? fmt::format("\"{}\"", shown) : shown, wanted)};
}

}  // namespace

const JsonField* JsonRecord::find(std::string_view path) const {
  for (size_t i = 0; i < count_; ++i)
    if (fields_[i].path == path) return fields_[i].kind == JsonKind::kNull ? nullptr : &fields_[i];
  return nullptr;
}

std::string_view JsonRecord::word(std::string_view path) const {
  const JsonField* field = find(path);
  return field ? std::string_view(field->text) : std::string_view();
}

std::optional<int64_t> JsonRecord::integer(std::string_view path) const {
  const JsonField* field = find(path);
  if (field == nullptr) return std::nullopt;
  const std::optional<int64_t> value = whole(field->text);
  if (!value) wrong_type(*field, "whole number that fits");
  return value;
}

std::optional<int64_t> JsonRecord::decimal(std::string_view path, int places) const {
  const JsonField* field = find(path);
  if (field == nullptr) return std::nullopt;
  const std::optional<int64_t> value = scaled(field->text, places);
  if (!value) wrong_type(*field, "number that fits");
  return value;
}

/// RapidJSON's handler. Every function returns false to stop, which is never: what is wrong is thrown.
class JsonRecords {
 public:
  /// Where records are: in one array at the top, the whole document, or where the visitor says.
  enum class In { kArray, kDocument, kChosen };

  JsonRecords(InputFile& file, In in, std::string_view records, JsonVisitor& visitor)
      : file_(file), in_(in), records_(records), visitor_(visitor) {}

  bool Null() { return value(JsonKind::kNull, "null"); }
  bool Bool(bool b) { return value(JsonKind::kBool, b ? "true" : "false"); }
  bool Int(int) { return false; }  // numbers come as text
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double d) { return value(JsonKind::kText, fmt::format("{}", d)); }  // NaN and Inf, which are not JSON and no numbers
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) { return value(JsonKind::kNumber, {text, length}); }
  bool String(const char* text, rapidjson::SizeType length, bool) { return value(JsonKind::kText, {text, length}); }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    file_.mark();
    path_.resize(levels_.back().path_bytes);
    if (!path_.empty()) path_ += '.';
    path_.append(text, length);
    return true;
  }
  bool StartObject() {
    begin_element();
    drop_list();
    if (!in_record_ && is_record()) {
      in_record_ = true;
      record_depth_ = levels_.size();
      record_offset_ = file_.offset();
      record_.count_ = 0;
      record_arrays_ = arrays_;
      outer_path_ = path_;
      path_.clear();
    }
    push(false);
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    pop();
    if (in_record_ && levels_.size() == record_depth_) {
      in_record_ = false;
      any_ = true;
      path_ = outer_path_;
      try {
        visitor_.on_record(record_);
      } catch (const BadRecord& bad) {
        file_.fail(record_offset_, bad.what);
      }
    }
    return true;
  }
  bool StartArray() {
    begin_element();
    if (!in_record_ && begins_records()) {
      records_depth_ = levels_.size() + 1;
      any_ = true;
    }
    if (list_depth_ > 0) {
      add_to_list("[");
    } else if (in_record_ && !in_array() && visitor_.wants_list(path_)) {
      list_ = "[";
      list_depth_ = levels_.size() + 1;
    }
    push(true);
    return true;
  }
  bool EndArray(rapidjson::SizeType) {
    if (levels_.size() == records_depth_) records_depth_ = 0;
    if (list_depth_ > 0) list_ += ']';
    if (levels_.size() == list_depth_) {
      list_depth_ = 0;
      add_field(JsonKind::kList, list_);
    }
    pop();
    return true;
  }

  bool any() const { return any_; }
  /// In a bare array, behind a record: programs that write their trace while they run leave off there.
  bool is_open() const { return levels_.size() == 1 && records_depth_ == 1; }

 private:
  struct Level {
    bool array;
    size_t path_bytes;  ///< of the path up to here
    uint64_t elements = 0;
  };

  void push(bool array) {
    if (levels_.size() >= kMaxDepth)
      file_.fail(file_.offset(), fmt::format("more than {} objects and arrays inside each other", kMaxDepth));
    levels_.push_back({array, path_.size()});
    arrays_ += array;
  }
  void pop() {
    arrays_ -= levels_.back().array;
    levels_.pop_back();
    if (!levels_.empty()) path_.resize(std::min(path_.size(), levels_.back().path_bytes));
  }
  /// An element of an array is told by its number.
  void begin_element() {
    file_.mark();
    if (levels_.empty() || !levels_.back().array || in_record_ || levels_.size() == records_depth_) return;
    path_.resize(levels_.back().path_bytes);
    if (!path_.empty()) path_ += '.';
    path_ += fmt::format_int(levels_.back().elements++).c_str();
  }
  bool begins_records() {
    switch (in_) {
      case In::kArray:
        return levels_.empty() || (levels_.size() == 1 && path_ == records_);
      case In::kDocument:
        return false;
      case In::kChosen:
        return records_depth_ == 0 && visitor_.begins_records(path_);
    }
    return false;
  }
  /// Inside a record.
  bool in_array() const { return levels_.back().array || arrays_ > record_arrays_; }
  void add_to_list(std::string_view text) {
    if (list_depth_ == 0) return;
    if (list_.back() != '[') list_ += ',';
    list_ += text;
    if (list_.size() > kMaxList) drop_list();
  }
  void drop_list() { list_depth_ = 0; }
  void add_field(JsonKind kind, std::string_view text) {
    if (record_.count_ == kMaxFields) file_.fail(record_offset_, fmt::format("an object of more than {} members", kMaxFields));
    if (record_.count_ == record_.fields_.size()) record_.fields_.emplace_back();
    JsonField& field = record_.fields_[record_.count_++];
    field.path = path_;
    field.kind = kind;
    field.text = text;
  }
  bool is_record() const { return in_ == In::kDocument ? levels_.empty() : records_depth_ > 0 && levels_.size() == records_depth_; }

  bool value(JsonKind kind, std::string_view text) {
    begin_element();
    if (in_record_) {
      if (in_array()) {
        if (list_depth_ == 0) return true;
        // Quotes inside a text would look like its end.
        const bool is_plain = kind != JsonKind::kText || text.find_first_of("\"\\") == std::string_view::npos;
        add_to_list(kind != JsonKind::kText ? std::string(text) : is_plain ? fmt::format("\"{}\"", text) : "\"?\"");
        return true;
      }
      add_field(kind, text);
    } else if (levels_.size() == records_depth_ && records_depth_ > 0) {
      file_.fail(file_.offset(), "an object was expected");
    } else {
      fact_.path = path_;
      fact_.kind = kind;
      fact_.text = text;
      try {
        visitor_.on_fact(fact_);
      } catch (const BadRecord& bad) {
        file_.fail(file_.offset(), bad.what);
      }
    }
    return true;
  }

  InputFile& file_;
  In in_;
  std::string_view records_;
  JsonVisitor& visitor_;
  std::vector<Level> levels_;
  int arrays_ = 0;                 ///< of levels_
  int record_arrays_ = 0;          ///< around the record
  std::string path_, outer_path_;  ///< in a record: its own, and that of the array around it
  bool any_ = false;
  bool in_record_ = false;
  size_t record_depth_ = 0, records_depth_ = 0;  ///< 0: not in the array of records
  uint64_t record_offset_ = 0;
  size_t list_depth_ = 0;  ///< of the list that is told; 0: none
  std::string list_;
  JsonRecord record_;
  JsonField fact_;
};

namespace {

/// RapidJSON's view of an InputFile.
class Bytes {
 public:
  using Ch = char;
  explicit Bytes(InputFile& file) : file_(file) {}
  Ch Peek() const { return file_.peek(); }
  Ch Take() { return file_.take(); }
  size_t Tell() const { return file_.offset(); }
  // For streams that are written to.
  void Put(Ch) {}
  void Flush() {}
  Ch* PutBegin() { return nullptr; }
  size_t PutEnd(Ch*) { return 0; }

 private:
  InputFile& file_;
};

void parse(InputFile& file, JsonRecords& records) {
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseNanAndInfFlag |
                              rapidjson::kParseTrailingCommasFlag | rapidjson::kParseStopWhenDoneFlag;
  rapidjson::Reader reader;
  Bytes bytes(file);
  const rapidjson::ParseResult result = reader.Parse<kFlags>(bytes, records);
  if (!result.IsError() || (file.at_end() && records.is_open())) return;
  file.fail(result.Offset(), file.at_end() ? "the file ends in the middle: it was cut, or is still being written"
                                           : fmt::format("this is not JSON: {}", rapidjson::GetParseError_En(result.Code())));
}

void skip_blanks(InputFile& file) {
  file.mark();
  while (file.peek() == ' ' || file.peek() == '\n' || file.peek() == '\r' || file.peek() == '\t') {
    file.take();
    file.mark();
  }
}

}  // namespace

void read_json(InputFile& file, std::string_view records, JsonVisitor& visitor) {
  JsonRecords handler(file, JsonRecords::In::kArray, records, visitor);
  parse(file, handler);
  skip_blanks(file);
  if (!file.at_end()) file.fail(file.offset(), "there is more behind the end of the document");
  if (!handler.any()) file.fail(0, fmt::format("no array \"{}\" in this file", records));
}

void read_json(InputFile& file, JsonVisitor& visitor) {
  JsonRecords handler(file, JsonRecords::In::kChosen, {}, visitor);
  parse(file, handler);
  skip_blanks(file);
  if (!file.at_end()) file.fail(file.offset(), "there is more behind the end of the document");
}

void read_json_lines(InputFile& file, JsonVisitor& visitor) {
  bool any = false;
  for (skip_blanks(file); !file.at_end(); skip_blanks(file)) {
    JsonRecords handler(file, JsonRecords::In::kDocument, {}, visitor);
    const uint64_t offset = file.offset();
    parse(file, handler);
    if (!handler.any()) file.fail(offset, "a JSON object was expected");
    any = true;
  }
  if (!any) file.fail(0, "the file is empty");
}

}  // namespace ddl::store
