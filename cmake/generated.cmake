# Writes a text into a file if it differs from what is there, so that nothing is built again for the same text.
function(terrace_generated_text path text)
  file(WRITE ${path}.new "${text}")
  file(COPY_FILE ${path}.new ${path} ONLY_IF_DIFFERENT)
  file(REMOVE ${path}.new)
endfunction()

# Adds a source that cmake writes to a target: the file changes only if its text does, and it is compiled by itself, so that
# a changed text compiles nothing else.
function(terrace_generated_source target path text)
  terrace_generated_text(${path} "${text}")
  set_source_files_properties(${path} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${path})
endfunction()
