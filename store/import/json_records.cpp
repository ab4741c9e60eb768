#include "store/import/json_records.h"

#include <fmt/format.h>

#include <cstring>

#include "store/import/decimal.h"

// The parser's own checks guard against wrong use of it, not against wrong input.
#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

namespace ddl::store {

namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFields = 4096;  // of a record
constexpr size_t kMaxList = 4096;    // bytes of a list that is told
constexpr size_t kMostPlainDepth = 16;

[[noreturn]] void wrong_type(const JsonField& field, const char* wanted) {
  constexpr size_t kShown = 40;
  std::string shown(field.text.substr(0, kShown));
  if (field.text.size() > kShown) shown += "...";
  throw BadRecord{fmt::format("{}{}{} is {}, which is not a {}", field.outer, field.outer.empty() ? "" : ".",
                              field.path, field.kind == JsonKind::kText ? fmt::format("\"{}\"", shown) : shown,
                              wanted)};
}

}  // namespace

const JsonField* JsonRecord::find(std::string_view path) const {
  for (const JsonField& field : fields_) {
    const size_t before = field.outer.empty() ? 0 : field.outer.size() + 1;
    if (before + field.path.size() != path.size() || !path.ends_with(field.path)) continue;
    if (before > 0 && (path[before - 1] != '.' || !path.starts_with(field.outer))) continue;
    return field.kind == JsonKind::kNull ? nullptr : &field;
  }
  return nullptr;
}

std::string_view JsonRecord::kept(std::string_view text) {
  if (kept_count_ == kept_.size()) kept_.emplace_back();
  return kept_[kept_count_++] = text;
}

std::string_view JsonRecord::word(std::string_view path) const {
  const JsonField* field = find(path);
  return field ? field->text : std::string_view();
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
  // NaN and Inf, which are not JSON and no numbers
  bool Double(double d) { return value(JsonKind::kText, fmt::format("{}", d)); }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    return value(JsonKind::kNumber, {text, length});
  }
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
      clear_record();
      record_arrays_ = arrays_;
      outer_path_ = path_;
      path_.clear();
      push(false);
      read_plain();
      return true;
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
      file_.fail(file_.offset(), fmt::format("objects and arrays are nested deeper than {} levels", kMaxDepth));
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
  void clear_record() {
    record_.fields_.clear();
    record_.kept_count_ = 0;
  }
  void add_field(JsonKind kind, std::string_view text) {
    if (record_.fields_.size() == kMaxFields)
      file_.fail(record_offset_, fmt::format("an object has more than {} members", kMaxFields));
    record_.fields_.push_back({{}, record_.kept(path_), kind, record_.kept(text)});
  }

  // RapidJSON asks for one byte at a time, and for a handler's call for each value. Nearly all records lie whole in the
  // file's buffer and have nothing in them but the plain forms of JSON, no backslash and no exponent: those are read
  // here, and RapidJSON is left an empty object. All others, and whatever may be wrong, are left to it.

  /// At the begin of a record: what is left of it then is its last two bytes, of which RapidJSON takes the
  /// first for the begin.
  void read_plain() {
    const char* const begin = file_.buffered().data();
    at_ = begin;
    if (plain_object({}, 0)) {
      file_.skip(static_cast<size_t>(at_ - begin) - 2);
    } else {
      clear_record();
    }
    list_depth_ = 0;
  }

  // Each of these passes over what it is called after, and returns false where it is not plain. The buffer ends with a
  // NUL, which is plain nowhere.

  void skip_blanks() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }
  /// Eight bytes at a time, until there is a quote, a backslash or a control character in them.
  bool plain_string(std::string_view& text) {
    constexpr uint64_t kOnes = 0x0101010101010101U, kHigh = 0x8080808080808080U;
    const auto has_zero = [](uint64_t bytes) { return (bytes - kOnes) & ~bytes & kHigh; };
    const char* p = ++at_;
    for (uint64_t bytes;; p += sizeof bytes) {
      std::memcpy(&bytes, p, sizeof bytes);
      if ((((bytes - kOnes * 0x20) & ~bytes & kHigh) | has_zero(bytes ^ kOnes * '"') |
           has_zero(bytes ^ kOnes * '\\')) != 0)
        break;
    }
    while (*p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
    if (*p != '"') return false;
    text = {at_, static_cast<size_t>(p - at_)};
    at_ = p + 1;
    return true;
  }
  bool plain_number(std::string_view& text) {
    constexpr std::ptrdiff_t kMostDigits = 64;
    const char* p = at_;
    const auto digits = [&p] {
      const char* const first = p;
      while (*p >= '0' && *p <= '9') ++p;
      return p != first;
    };
    if (*p == '-') ++p;
    if (*p == '0') {
      ++p;
    } else if (!digits()) {
      return false;
    }
    if (*p == '.' && (++p, !digits())) return false;
    if (p - at_ > kMostDigits) return false;
    text = {at_, static_cast<size_t>(p - at_)};
    at_ = p;
    return true;
  }
  bool plain_scalar(JsonKind& kind, std::string_view& text) {
    const auto is_word = [&](std::string_view word, JsonKind of) {
      if (std::strncmp(at_, word.data(), word.size()) != 0) return false;
      kind = of;
      text = word;
      at_ += word.size();
      return true;
    };
    switch (*at_) {
      case '"':
        kind = JsonKind::kText;
        return plain_string(text);
      case 't':
        return is_word("true", JsonKind::kBool);
      case 'f':
        return is_word("false", JsonKind::kBool);
      case 'n':
        return is_word("null", JsonKind::kNull);
      default:
        kind = JsonKind::kNumber;
        return plain_number(text);
    }
  }
  /// `outer`: path of the object; what is in arrays is not told, and has none.
  bool plain_object(std::string_view outer, size_t depth, bool told = true) {
    if (depth > kMostPlainDepth) return false;
    ++at_;
    skip_blanks();
    if (*at_ == '}') return ++at_, true;
    while (true) {
      std::string_view key, text;
      if (*at_ != '"' || !plain_string(key)) return false;
      skip_blanks();
      if (*at_++ != ':') return false;
      skip_blanks();
      if (*at_ == '{') {
        const bool is_inner = told && !outer.empty();
        if (!plain_object(is_inner ? record_.kept(std::string(outer).append(".").append(key)) : key, depth + 1, told))
          return false;
      } else if (*at_ == '[') {
        const bool wanted = told && visitor_.wants_list(path_of(outer, key));
        if (wanted) list_ = "[";
        list_depth_ = wanted ? 1 : 0;
        if (!plain_array(depth + 1)) return false;
        if (list_depth_ > 0 && !add_plain({outer, key, JsonKind::kList, record_.kept(list_)})) return false;
        list_depth_ = 0;
      } else {
        JsonKind kind{};
        if (!plain_scalar(kind, text) || (told && !add_plain({outer, key, kind, text}))) return false;
      }
      skip_blanks();
      if (*at_ == '}') return ++at_, true;
      if (*at_++ != ',') return false;
      skip_blanks();
    }
  }
  /// The list that is told, if there is one, gets what is in it.
  bool plain_array(size_t depth) {
    if (depth > kMostPlainDepth) return false;
    ++at_;
    skip_blanks();
    if (*at_ == ']') return end_plain_array();
    while (true) {
      if (*at_ == '{') {
        drop_list();
        if (!plain_object({}, depth + 1, false)) return false;
      } else if (*at_ == '[') {
        add_to_list("[");
        if (!plain_array(depth + 1)) return false;
      } else {
        JsonKind kind{};
        std::string_view text;
        if (!plain_scalar(kind, text)) return false;
        if (list_depth_ > 0) add_to_list(kind == JsonKind::kText ? fmt::format("\"{}\"", text) : std::string(text));
      }
      skip_blanks();
      if (*at_ == ']') return end_plain_array();
      if (*at_++ != ',') return false;
      skip_blanks();
    }
  }
  bool end_plain_array() {
    ++at_;
    if (list_depth_ > 0) list_ += ']';
    return true;
  }
  bool add_plain(const JsonField& field) {
    if (record_.fields_.size() == kMaxFields) return false;
    record_.fields_.push_back(field);
    return true;
  }
  const std::string& path_of(std::string_view outer, std::string_view key) {
    list_path_.assign(outer);
    if (!outer.empty()) list_path_ += '.';
    return list_path_.append(key);
  }
  bool is_record() const {
    return in_ == In::kDocument ? levels_.empty() : records_depth_ > 0 && levels_.size() == records_depth_;
  }

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
      file_.fail(file_.offset(), "expected an object");
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
  std::string list_, list_path_;
  const char* at_ = nullptr;  ///< in the file's buffer
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
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseNanAndInfFlag | rapidjson::kParseTrailingCommasFlag |
                              rapidjson::kParseStopWhenDoneFlag;
  rapidjson::Reader reader;
  Bytes bytes(file);
  const rapidjson::ParseResult result = reader.Parse<kFlags>(bytes, records);
  if (!result.IsError() || (file.at_end() && records.is_open())) return;
  file.fail(result.Offset(), file.at_end()
                                 ? "the file ends in the middle of a record: it is truncated, or still being written"
                                 : fmt::format("invalid JSON: {}", rapidjson::GetParseError_En(result.Code())));
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
  if (!file.at_end()) file.fail(file.offset(), "text after the end of the document");
  if (!handler.any()) file.fail(0, fmt::format("no array \"{}\" in this file", records));
}

void read_json(InputFile& file, JsonVisitor& visitor) {
  JsonRecords handler(file, JsonRecords::In::kChosen, {}, visitor);
  parse(file, handler);
  skip_blanks(file);
  if (!file.at_end()) file.fail(file.offset(), "text after the end of the document");
}

void read_json_lines(InputFile& file, JsonVisitor& visitor) {
  bool any = false;
  for (skip_blanks(file); !file.at_end(); skip_blanks(file)) {
    JsonRecords handler(file, JsonRecords::In::kDocument, {}, visitor);
    const uint64_t offset = file.offset();
    parse(file, handler);
    if (!handler.any()) file.fail(offset, "expected a JSON object");
    any = true;
  }
  if (!any) file.fail(0, "the file is empty");
}

}  // namespace ddl::store
