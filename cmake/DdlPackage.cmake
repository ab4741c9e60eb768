# What else is installed (a CMake package for ddl/annotate.h, module files, documentation), and the .deb. Packages are made by tools/package.
include(CMakePackageConfigHelpers)
set(package ${CMAKE_BINARY_DIR}/package)
configure_file(${CMAKE_SOURCE_DIR}/cmake/package/ddlConfig.cmake ${package}/ddlConfig.cmake COPYONLY)
write_basic_package_version_file(${package}/ddlConfigVersion.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
install(FILES ${package}/ddlConfig.cmake ${package}/ddlConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_DATADIR}/cmake/ddl)
foreach(modulefile ddl.tcl ddl.lua)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/package/${modulefile}.in ${package}/${modulefile} @ONLY)
  install(FILES ${package}/${modulefile} DESTINATION ${CMAKE_INSTALL_DATADIR}/ddl/modulefiles)
endforeach()
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/ddl)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/ddl/docs PATTERN style-words.txt EXCLUDE PATTERN grafana EXCLUDE)
install(FILES cmake/package/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/ddl)
configure_file(${CMAKE_SOURCE_DIR}/cmake/package/changelog.in ${package}/changelog.Debian @ONLY)
configure_file(${CMAKE_SOURCE_DIR}/CHANGELOG.md ${package}/changelog COPYONLY)
execute_process(COMMAND gzip -9nkf ${package}/changelog.Debian ${package}/changelog COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${package}/changelog.Debian.gz ${package}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/ddl)
install(FILES cmake/package/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ddl)

set(CPACK_PACKAGE_NAME ddl)
set(CPACK_PACKAGE_VENDOR "The ddl authors")
set(CPACK_PACKAGE_CONTACT "The ddl authors <maintainers@ddl.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "profiler and tuner of distributed deep-learning jobs")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Records unmodified MPI, PyTorch and NCCL jobs by a preloaded library, splits
every collective into waiting and transfer, and names the rank to blame.
Reports as text, one-file HTML, JSON and for Prometheus; a live terminal view
(ddl-top); a tuner that emits configuration files for Open MPI, NCCL, Horovod,
PyTorch DDP and DeepSpeed.")
set(CPACK_COMPONENTS_ALL ddl)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # of the installed programs and libraries; libddl.so and libddl-mpich.so link no MPI library
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "mpich | openmpi-bin, elfutils, libpapi7.0")
# A shared library whose name no program links against has no soname, no symbols file and no ldconfig.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
include(CPack)
