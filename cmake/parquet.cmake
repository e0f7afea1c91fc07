# The module that reads Parquet with Arrow's C++ library, from the wheel of pyarrow that tools/setup installs: Debian has no
# package of it. A module of its own that the program loads with the first Parquet file, since Arrow takes longer to load than
# all the rest of the program. Where there is no Arrow, Parquet is refused with the way to it, by the same program.
set(TERRACE_ARROW_ROOT "${CMAKE_SOURCE_DIR}/.deps/python/lib/python3.11/site-packages/pyarrow" CACHE PATH
    "Folder of the pyarrow wheel, as tools/setup installs it; where there is none, no Parquet is read")

# The programs look for the module beside the build's, and in lib/terrace of an installation.
list(APPEND CMAKE_BUILD_RPATH ${CMAKE_BINARY_DIR})
list(PREPEND CMAKE_INSTALL_RPATH "$ORIGIN/../lib/terrace")

function(terrace_parquet_module)
  file(GLOB libraries ${TERRACE_ARROW_ROOT}/libparquet.so.* ${TERRACE_ARROW_ROOT}/libarrow.so.*)
  list(LENGTH libraries found)
  if(NOT found EQUAL 2 OR NOT EXISTS ${TERRACE_ARROW_ROOT}/include/parquet/file_reader.h)
    message(STATUS "Parquet will not be read: there is no pyarrow in ${TERRACE_ARROW_ROOT}, where tools/setup installs it")
    return()
  endif()
  add_library(terrace_parquet MODULE ${CMAKE_SOURCE_DIR}/terrace/data/parquet/module.cpp)
  set_target_properties(terrace_parquet PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden BUILD_RPATH ${TERRACE_ARROW_ROOT}
                                                   INSTALL_RPATH ${TERRACE_ARROW_ROOT})
  target_include_directories(terrace_parquet PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(terrace_parquet SYSTEM PRIVATE ${TERRACE_ARROW_ROOT}/include)
  target_link_libraries(terrace_parquet PRIVATE ${libraries})
  # Programs that read data need it when they run, not when they are linked.
  add_dependencies(terrace_data terrace_parquet)
  # Other programs that use the installed library look for the module there.
  target_link_options(terrace_data INTERFACE $<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/lib/terrace>)
  install(TARGETS terrace_parquet LIBRARY DESTINATION lib/terrace)
endfunction()
