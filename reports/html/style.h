// The style sheet, embedded at build time from style.css by embed.cmake.
#pragma once

#include <string_view>

namespace ddl::reports::html {

extern const std::string_view kStyle;
extern const std::string_view kStyleHash;  ///< as a content security policy names it: sha256-...

}  // namespace ddl::reports::html
