#include "reports/html/markup.h"

#include "reports/safe_text.h"

namespace ddl::reports::html {
namespace {

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : printable(text)) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
}

}  // namespace

void Markup::start(std::string_view tag, Attributes attributes, std::string_view end) {
  out_ += '<';
  out_ += tag;
  for (const Attribute& attribute : attributes) {
    if (attribute.value.empty()) continue;
    out_ += ' ';
    out_ += attribute.name;
    out_ += "=\"";
    append_escaped(out_, attribute.value);
    out_ += '"';
  }
  out_ += end;
}

Markup& Markup::open(std::string_view tag, Attributes attributes) {
  start(tag, attributes, ">");
  open_.push_back(tag);
  return *this;
}

Markup& Markup::close() {
  out_ += "</";
  out_ += open_.back();
  out_ += '>';
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  append_escaped(out_, shorten_middle(printable(text), kLongestText));
  return *this;
}

Markup& Markup::leaf(std::string_view tag, Attributes attributes) {
  start(tag, attributes, "/>");
  return *this;
}

Markup& Markup::raw(std::string_view markup) {
  out_ += markup;
  return *this;
}

std::string Markup::take() {
  while (!open_.empty()) close();
  return std::move(out_);
}

std::string shown_name(std::string_view name) { return shorten_middle(printable(name), kLongestName); }

}  // namespace ddl::reports::html
