# The families of models: each folder NAME under terrace/models with a header NAME_family.h. The default of model.family
# stands first, the others follow by name.
set(TERRACE_DEFAULT_FAMILY gpt)
set(TERRACE_MODELS_FOLDER ${CMAKE_CURRENT_LIST_DIR}/../terrace/models)
file(GLOB TERRACE_FAMILIES CONFIGURE_DEPENDS RELATIVE ${TERRACE_MODELS_FOLDER} ${TERRACE_MODELS_FOLDER}/*/*_family.h)
list(TRANSFORM TERRACE_FAMILIES REPLACE "/.*" "")
list(SORT TERRACE_FAMILIES)
list(REMOVE_ITEM TERRACE_FAMILIES ${TERRACE_DEFAULT_FAMILY})
list(PREPEND TERRACE_FAMILIES ${TERRACE_DEFAULT_FAMILY})

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
