# find_package(ddl) for programs that mark their steps and layers: target ddl::annotate, one header and nothing to link.
if(NOT TARGET ddl::annotate)
  add_library(ddl::annotate INTERFACE IMPORTED)
  get_filename_component(ddl_prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
  target_include_directories(ddl::annotate INTERFACE ${ddl_prefix}/include)
  target_link_libraries(ddl::annotate INTERFACE ${CMAKE_DL_LIBS})
endif()
