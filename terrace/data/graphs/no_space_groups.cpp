// Refuses space groups without their operations in builds without gemmi.
#include "terrace/base/error.h"
#include "terrace/data/graphs/formats/space_groups.h"

namespace terrace::data {

bool knows_space_groups() { return false; }

std::vector<SymmetryOperation> operations_of(const NamedSpaceGroup& group) {
  throw UserError::of(
      "has the space group {} and lists no symmetry operations (_symmetry_equiv_pos_as_xyz); list them, give all atoms "
      "in P 1, or install gemmi-dev, run cmake again and build: this program was built without the tables of gemmi",
      !group.name.empty()   ? group.name
      : !group.hall.empty() ? group.hall
                            : "number " + std::to_string(group.number));
}

}  // namespace terrace::data
