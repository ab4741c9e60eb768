// JSON documents as plain data. json_records.h reads what is large; this is for what must be looked at as a whole.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "store/import/plain_data.h"

namespace ddl::store {

namespace {

constexpr int kMostLevels = 64;

class JsonDocument {
 public:
  JsonDocument(std::string_view text, PlainData& data, bool commas_may_lack)
      : text_(text), data_(data), commas_may_lack_(commas_may_lack) {}

  PlainData::Id run() {
    const PlainData::Id id = value(0);
    blanks();
    if (at_ != text_.size()) fail("something behind the end of the document");
    return id;
  }

 private:
  using Id = PlainData::Id;

  [[noreturn]] void fail(const std::string& what) const { throw BadData{at_, what}; }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void blanks() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  void expect(char c) {
    blanks();
    if (peek() != c) fail(fmt::format("no '{}'", c));
    ++at_;
  }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Id value(int level) {
    if (level > kMostLevels) fail(fmt::format("nested deeper than {} levels", kMostLevels));
    blanks();
    data_.at(at_);
    switch (peek()) {
      case '{':
        return members(level, '}', true);
      case '[':
        return members(level, ']', false);
      case '"':
        return data_.text_of(quoted());
      case 't':
        if (take("true")) return data_.boolean(true);
        break;
      case 'f':
        if (take("false")) return data_.boolean(false);
        break;
      case 'n':
        if (take("null")) return data_.none();
        break;
      case 'N':
        if (take("NaN")) return data_.none();
        break;
      case 'I':
        if (take("Infinity")) return data_.none();
        break;
      default:
        return number();
    }
    fail("no value");
  }

  Id members(int level, char end, bool keys) {
    const Id id = keys ? data_.dict() : data_.list();
    ++at_;
    blanks();
    if (peek() == end) return ++at_, id;
    for (;;) {
      if (keys) {
        blanks();
        if (peek() != '"') fail("a key is to be a text");
        data_.append(id, data_.text_of(quoted()));
        expect(':');
      }
      const Id member = value(level + 1);
      data_.append(id, member);
      blanks();
      if (peek() == end) return ++at_, id;
      if (!(keys && commas_may_lack_ && peek() == '"')) expect(',');
    }
  }

  Id number() {
    const size_t end = std::min(text_.find_first_not_of("0123456789+-.eE", at_), text_.size());
    const std::string word(text_.substr(at_, end - at_));
    if (word.empty()) {
      if (take("-Infinity")) return data_.none();
      fail(at_ == text_.size() ? "the file ends in the middle of a document" : "no value");
    }
    int64_t integer = 0;
    if (const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), integer);
        error == std::errc() && stop == word.data() + word.size()) {
      at_ = end;
      return data_.integer_of(integer);
    }
    char* stop = nullptr;
    const double real = std::strtod(word.c_str(), &stop);
    if (word == "-" && take("-Infinity")) return data_.none();
    if (*stop != '\0') fail("no number");
    at_ = end;
    return data_.real(real);
  }

  unsigned hex4() {
    unsigned code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4) fail("an escape without its four digits");
    at_ += 4;
    return code;
  }
  static void add_utf8(std::string& text, unsigned code) {
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    } else if (code < 0x10000) {
      text += {static_cast<char>(0xe0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
    } else {
      text += {static_cast<char>(0xf0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
               static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
    }
  }
  std::string quoted() {
    std::string text;
    ++at_;
    for (;;) {
      const size_t end = text_.find_first_of("\"\\", at_);
      if (end == std::string_view::npos) fail("a text without its end");
      text.append(text_, at_, end - at_);
      at_ = end + 1;
      if (text_[end] == '"') return text;
      const char escape = peek();
      ++at_;
      static constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      if (escape == 'u') {
        unsigned code = hex4();
        if (code >= 0xd800 && code < 0xdc00 && take("\\u")) code = 0x10000 + ((code - 0xd800) << 10) + (hex4() & 0x3ff);
        add_utf8(text, code);
      } else if (const size_t known = kEscapes.find(escape); known != std::string_view::npos) {
        text += kMeant[known];
      } else {
        fail("an escape that JSON does not know");
      }
    }
  }

  std::string_view text_;
  PlainData& data_;
  bool commas_may_lack_;
  size_t at_ = 0;
};

}  // namespace

PlainData::Id read_json_document(std::string_view text, PlainData& data, bool commas_may_lack) {
  return JsonDocument(text, data, commas_may_lack).run();
}

}  // namespace ddl::store
