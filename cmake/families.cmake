# The families of models, each a folder of that name under terrace/models; the first is the default of model.family. A
# new family is a new word here.
set(TERRACE_FAMILIES gpt vit)

# Adds the definition of a list of families to a target: terrace::models::LIST() of each family's FUNCTION(), which
# HEADER declares, where @ stands for the family.
function(terrace_list_of_families target list function header)
  set(includes "")
  set(members "")
  foreach(family IN LISTS TERRACE_FAMILIES)
    string(REPLACE "@" ${family} path ${header})
    string(APPEND includes "#include \"${path}\"\n")
    string(APPEND members "&${family}::${function}(), ")
  endforeach()
  terrace_generated_source(${target} ${CMAKE_CURRENT_BINARY_DIR}/${list}.cpp
"#include \"terrace/models/${list}.h\"

${includes}
namespace terrace::models {

const config::Families& ${list}() {
  static const config::Families list = {${members}};
  return list;
}

}  // namespace terrace::models
")
endfunction()
