# ddl_sources(VARIABLE FOLDER... [EXCEPT FILE...]): the .cpp files of the folders, relative to this one ("." is this one), so that a new file is built
# without a line of CMake. CONFIGURE_DEPENDS looks again at every build.
function(ddl_sources variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "EXCEPT")
  set(patterns)
  foreach(folder ${arg_UNPARSED_ARGUMENTS})
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(APPEND folder *.cpp)
    list(APPEND patterns ${folder})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  foreach(file ${arg_EXCEPT})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    if(NOT file IN_LIST sources)
      message(FATAL_ERROR "ddl_sources: EXCEPT ${file}, which is not there")
    endif()
    list(REMOVE_ITEM sources ${file})
  endforeach()
  list(SORT sources)
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# An SQL file as a C++ constant that `header` declares: `out` is set to the source to compile.
function(ddl_embed_sql out file header constant)
  get_filename_component(name ${file} NAME_WE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_sql.cpp)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DHEADER=${header} -DCONSTANT=${constant} -DOUTPUT=${source}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_sql.cmake
    DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed_sql.cmake
    VERBATIM)
  set(${out} ${source} PARENT_SCOPE)
endfunction()
