# How the tools are compiled where nobody looks at a single file: in batches (CMAKE_UNITY_BUILD, a preset's choice) and with the headers that nearly
# every file includes read once. Preset dev has neither, so that every file includes what it needs.
option(DDL_PRECOMPILE "Read the headers that most files include once (precompiled headers)" OFF)

# What the libraries of the tools share. Measured: these cost 1.7 s a batch.
set(DDL_COMMON_HEADERS
  <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory> <optional> <set> <string> <string_view> <unordered_map>
  <utility> <vector> <fmt/format.h> <SQLiteCpp/Database.h> <SQLiteCpp/Statement.h> <SQLiteCpp/Transaction.h>)

# Targets that stand for a set of flags: what is compiled with the same flags takes over the headers that they have precompiled.
function(ddl_add_precompiled name)  # then: compile options and headers, as "OPTIONS ... HEADERS ..."
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;HEADERS;LIBRARIES")
  add_library(${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE ddl_tool_flags ${arg_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

function(ddl_precompile target like)
  if(DDL_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${like})
    # Macros of these libraries, without which a target that does not use them could not take its headers over.
    target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:SQLiteCpp,INTERFACE_COMPILE_DEFINITIONS>
                               $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  endif()
endfunction()

# What the libraries of the tools are compiled with. Measured: of 21 s that a batch of the analyzer took with -O2, -O1 takes 15, and no verb is
# slower by more than 3 % (an import of 109 MB); most of what they do is done in SQLite. Four passes of -O1 take an eighth of a batch's time, and
# neither reading 400,000 events nor a report or a replay of them is slower without. Those that ask, print and draw take -Og, a fifth less again;
# with it imports would take 20 % and analyses 10 % more time. Below -O2 GCC takes an empty std::optional for one that is read, in some batches and
# in others not: dev, which optimises nothing, keeps that warning.
set(DDL_TOOL_OPTIONS)
foreach(option -O1 -fno-tree-pta -fno-tree-dominator-opts -fno-tree-loop-optimize -fno-move-loop-invariants -Wno-maybe-uninitialized)
  list(APPEND DDL_TOOL_OPTIONS $<$<CONFIG:Release>:${option}>)
endforeach()
if(DDL_PRECOMPILE)
  # GCC looks for what it may forget each time that its memory has grown by a third, which takes a twelfth of a batch's time. Told to begin at
  # 500 MB, the largest batch needs 1.6 GB.
  target_compile_options(ddl_tool_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=500000>)
  # fmt asks for -Og by a pragma where nothing is optimised and takes that back at its end. GCC keeps its macro __OPTIMIZE__ in precompiled headers all the
  # same, for which the intrinsics that Eigen includes then take constants that are none without optimisation.
  target_compile_options(ddl_tool_flags INTERFACE $<$<AND:$<CONFIG:Debug>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Og>)
  ddl_add_precompiled(ddl_headers OPTIONS ${DDL_TOOL_OPTIONS} HEADERS ${DDL_COMMON_HEADERS} LIBRARIES SQLiteCpp SQLite::SQLite3 fmt::fmt)
endif()
function(ddl_tool_library target)  # where little is computed: "ddl_tool_library(target -Og)"
  target_compile_options(${target} PRIVATE ${DDL_TOOL_OPTIONS})
  foreach(level ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  endforeach()
  ddl_precompile(${target} ddl_headers)
endfunction()
