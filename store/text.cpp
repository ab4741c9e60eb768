#include "store/text.h"

#include "core/secrets.h"

namespace ddl {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length of the valid UTF-8 sequence at the begin of `bytes`; 0 if there is none. Overlong forms, surrogates and what
/// is beyond U+10FFFF are invalid.
size_t utf8_length(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xC2 ? 0
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || length > bytes.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) >= 0xA0) || (first == 0xF0 && at(1) < 0x90) ||
      (first == 0xF4 && at(1) >= 0x90))
    return 0;
  return length;
}

}  // namespace

std::string clean_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    const unsigned char first = static_cast<unsigned char>(bytes[0]);
    const bool c1_control = length == 2 && first == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0;
    if (length == 0 || c1_control || (length == 1 && (first < 0x20 || first == 0x7F))) {
      text += kReplacement;
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

std::string clean_name(std::string_view bytes) { return clean_text(bytes.substr(0, kMaxCleanNameBytes)); }

std::string shell_quoted(std::string_view argument) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string_view::npos) return std::string(argument);
  std::string text = "'";
  for (const char c : argument) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

std::vector<std::string> without_secrets(const std::vector<std::string>& command) {
  std::vector<std::string> result;
  SecretArguments secrets;
  for (const std::string& argument : command) {
    std::string& shown = result.emplace_back();
    secrets.tell(argument.data(), argument.size(),
                 [&](const char* piece, size_t length) { shown.append(piece, length); });
  }
  return result;
}

std::string without_secrets(std::string_view text) {
  std::string shown;
  mask_secrets(text.data(), text.size(), [&](const char* piece, size_t length) { shown.append(piece, length); });
  return shown;
}

}  // namespace ddl
