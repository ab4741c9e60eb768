// Writes HTML and SVG. Every name of the run passes through text() or an attribute's value, which make it printable
// (safe_text.h) and escape it: there is no way to put markup of somebody else's into a page. Tags and names of
// attributes are literals of ours.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ddl::reports::html {

/// Left out where the value is empty.
struct Attribute {
  std::string_view name;
  std::string value;
};
using Attributes = std::initializer_list<Attribute>;

class Markup {
 public:
  Markup& open(std::string_view tag, Attributes attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  /// open, text, close.
  Markup& element(std::string_view tag, Attributes attributes, std::string_view text) {
    return open(tag, attributes).text(text).close();
  }
  /// An element without content: <rect .../>, <meta .../>.
  Markup& leaf(std::string_view tag, Attributes attributes);
  /// What is markup already: an SVG, a style sheet of ours.
  Markup& raw(std::string_view markup);

  /// Everything so far; all elements are closed.
  std::string take();

 private:
  void start(std::string_view tag, Attributes attributes, std::string_view end);

  std::string out_;
  std::vector<std::string_view> open_;
};

/// Names are printed up to this many columns, sentences (which may hold names) up to that many; longer ones
/// lose their middle.
constexpr size_t kLongestName = 160, kLongestText = 900;

/// Printable, at most kLongestName columns.
std::string shown_name(std::string_view name);

}  // namespace ddl::reports::html
