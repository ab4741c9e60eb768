// Names from a spool are any bytes; the store holds text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// Valid UTF-8 without control characters: each control character and each invalid byte becomes U+FFFD. SQLite would
/// cut at a NUL, JSON would refuse the rest.
std::string clean_text(std::string_view bytes);

/// The same for names of ranges, communicators and operations: cut at 255 bytes as recorders do, so that a damaged
/// length cannot fill the store.
std::string clean_name(std::string_view bytes);
constexpr size_t kMaxCleanNameBytes = 255;

/// A command line as one would type it: arguments with blanks or quotes in single quotes.
std::string shell_quoted(std::string_view argument);

/// A command line for files that are passed on: *** for secrets in its arguments (core/secrets.h).
std::vector<std::string> without_secrets(const std::vector<std::string>& command);

/// The same for any text: the value of a variable, a table's cell.
std::string without_secrets(std::string_view text);

}  // namespace ddl
