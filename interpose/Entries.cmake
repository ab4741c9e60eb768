# Entry points in assembler, made for every row of the table: only the preprocessor knows the rows, and only CMake can put their names into lower
# case. Fortran: mpi_x_, mpi_x_f08_ (Open MPI), mpi_x_f08ts_ (MPICH), see fortran_entries.cpp. GUARDED: MPI_X and PMPI_X themselves, see
# guarded_entries.cpp.
function(ddl_add_entries target guarded)  # then: include directories of its mpi.h
  if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    return()  # Fortran calls are recorded all the same, with call sites inside the MPI library
  endif()
  set(entries ${CMAKE_CURRENT_BINARY_DIR}/${target}_entries.s)
  list(TRANSFORM ARGN PREPEND "-I" OUTPUT_VARIABLE includes)
  file(GLOB tables CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/calls/*.def)
  add_custom_command(OUTPUT ${entries}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${entries} "-DPREPROCESS=${CMAKE_CXX_COMPILER};-std=c++20;-E;-P;-I${CMAKE_SOURCE_DIR};${includes}"
            -DTABLE=${CMAKE_CURRENT_SOURCE_DIR}/entry_rows.cpp -DGUARDED=${guarded} -P ${CMAKE_CURRENT_SOURCE_DIR}/WriteEntries.cmake
    DEPENDS entry_rows.cpp WriteEntries.cmake mpi_abi.h mpi_calls.def ${tables} VERBATIM)
  target_sources(${target} PRIVATE ${entries} fortran_entries.cpp)
  if(guarded)
    target_sources(${target} PRIVATE guarded_entries.cpp)
    foreach(part ${target} ${target}_wrappers)
      target_compile_definitions(${part} PRIVATE DDL_GUARDED_ENTRIES)
    endforeach()
  endif()
  set_source_files_properties(${entries} PROPERTIES LANGUAGE ASM)
endfunction()
