// JSON documents as plain data. json_records.h reads what is large; this is for what must be looked at as a whole.
#include <fmt/format.h>
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <cmath>

#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

constexpr size_t kMostLevels = 64;

/// RapidJSON's handler. Every function returns true to go on: what is wrong is thrown.
class DocumentBuilder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, DocumentBuilder> {
 public:
  DocumentBuilder(const rapidjson::MemoryStream& text, PlainData& data) : text_(text), data_(data) {}

  bool Null() { return put(here().none()); }
  bool Bool(bool b) { return put(here().boolean(b)); }
  bool Int(int i) { return Int64(i); }
  bool Uint(unsigned u) { return Int64(u); }
  bool Int64(int64_t i) { return put(here().integer_of(i)); }
  bool Uint64(uint64_t u) { return Double(static_cast<double>(u)); }  // one that fits into int64_t does not come here
  bool Double(double d) { return put(std::isfinite(d) ? here().real(d) : here().none()); }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    return put(here().text_of(std::string(text, length)));
  }
  bool StartObject() { return open(&PlainData::dict); }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool StartArray() { return open(&PlainData::list); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  PlainData::Id root() const { return root_; }

 private:
  /// At the end of what was read last.
  PlainData& here() {
    data_.at(text_.Tell());
    return data_;
  }
  bool put(PlainData::Id id) {
    if (open_.empty()) {
      root_ = id;
    } else {
      data_.append(open_.back(), id);
    }
    return true;
  }
  bool open(PlainData::Id (PlainData::*make)()) {
    if (open_.size() > kMostLevels)
      throw BadData{text_.Tell(), fmt::format("nested deeper than {} levels", kMostLevels)};
    data_.at(text_.Tell() - 1);  // its first byte
    const PlainData::Id id = (data_.*make)();
    put(id);
    open_.push_back(id);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const rapidjson::MemoryStream& text_;
  PlainData& data_;
  std::vector<PlainData::Id> open_;
  PlainData::Id root_ = 0;
};

/// Puts a comma in place of the blank before each text that follows a value: all else stays where it is.
void add_commas(std::string& text) {
  const auto is_one_of = [](char c, std::string_view set) { return set.find(c) != std::string_view::npos; };
  constexpr std::string_view kBlanks = " \t\r\n";
  bool is_quoted = false;
  char before = '{';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted && c == '\\') ++i;
    if (!is_quoted && c == '"' && i > 0 && is_one_of(text[i - 1], kBlanks) && !is_one_of(before, "{[,:"))
      text[i - 1] = ',';
    if (c == '"') is_quoted = !is_quoted;
    if (!is_one_of(c, kBlanks)) before = c;
  }
}

}  // namespace

PlainData::Id read_json_document(std::string_view text, PlainData& data, bool commas_may_lack) {
  std::string whole(text);
  if (commas_may_lack) add_commas(whole);
  rapidjson::MemoryStream stream(whole.data(), whole.size());
  DocumentBuilder builder(stream, data);
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag | rapidjson::kParseFullPrecisionFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, builder);
  if (result.IsError() && result.Offset() >= text.size())
    throw BadData{result.Offset(), "the file ends in the middle of a document"};
  if (result.IsError()) throw BadData{result.Offset(), rapidjson::GetParseError_En(result.Code())};
  return builder.root();
}

}  // namespace ddl::store
