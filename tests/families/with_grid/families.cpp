// The lists of families of a program that has grids too.
#include "terrace/models/families.h"

#include "terrace/models/gpt/gpt_family.h"
#include "terrace/models/gpt/planned_gpt.h"
#include "terrace/models/planned_families.h"
#include "tests/families/grid/grid_family.h"

namespace terrace::models {

const config::Families& planned_families() {
  static const config::Families list = {&gpt::planned_family(), &grid::planned_family()};
  return list;
}

const config::Families& families() {
  static const config::Families list = {&gpt::family(), &grid::family()};
  return list;
}

}  // namespace terrace::models
