# machines/published_errors.json as a C++ constant, so that the program finds it anywhere.
function(terrace_published_errors target)
  set(file ${CMAKE_SOURCE_DIR}/machines/published_errors.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} json)
  terrace_generated_source(${target} ${CMAKE_BINARY_DIR}/machines/built_in_published_errors.cpp
    "// Written by cmake/published_errors.cmake.\n#include <string_view>\n\nnamespace terrace::plan {\n\nstd::string_view built_in_published_errors();\nstd::string_view built_in_published_errors() { return R\"json(${json})json\"; }\n\n}  // namespace terrace::plan\n")
endfunction()
