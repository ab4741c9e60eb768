# Two rule books. ddl_tool_flags: our own processes. ddl_injected_flags: code that runs inside somebody else's job (see docs/injected-code.md).
add_library(ddl_tool_flags INTERFACE)
target_compile_options(ddl_tool_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                       $<$<BOOL:${DDL_WERROR}>:-Werror>)
target_include_directories(ddl_tool_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)

if(DDL_SANITIZE)
  target_compile_options(ddl_tool_flags INTERFACE -fsanitize=${DDL_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ddl_tool_flags INTERFACE -fsanitize=${DDL_SANITIZE})
  if(DDL_SANITIZE MATCHES thread)
    target_compile_options(ddl_tool_flags INTERFACE -Wno-tsan)  # it does not model fences; the recorder's one orders stores for readers outside
  endif()
endif()

add_library(ddl_injected_flags INTERFACE)
target_compile_options(ddl_injected_flags INTERFACE -Wall -Wextra -Wshadow -fvisibility=hidden -fno-strict-aliasing
                       $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>
                       -O2 -fno-tree-slp-vectorize  # moving two words at once through vector registers costs more than it saves
                       $<$<BOOL:${DDL_WERROR}>:-Werror>)
target_include_directories(ddl_injected_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)

# Unit tests of injected code have the objects of the preload libraries, which saves compiling them twice. Where sanitizers or warnings are asked for,
# they are compiled once more, under ddl_tool_flags.
set(DDL_TESTS_HAVE_INJECTED_OBJECTS ON)
if(DDL_SANITIZE OR DDL_WERROR)
  set(DDL_TESTS_HAVE_INJECTED_OBJECTS OFF)
endif()
