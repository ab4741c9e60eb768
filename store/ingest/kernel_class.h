// Which set a GPU kernel belongs to, by its name alone (specification.md J5).
#pragma once

#include <string_view>

namespace ddl::store {

/// "communication", "compute", or "unclassified": no rule knows the name. Demangled names are what the rules are made for; a mangled one that
/// was cut off and cannot be demangled is told by what is left of it.
const char* kernel_class(std::string_view name);

}  // namespace ddl::store
