// Looks space groups up in gemmi's tables.
#include "terrace/data/graphs/formats/space_groups.h"

#include <cctype>
#include <cstddef>
#include <gemmi/symmetry.hpp>
#include <stdexcept>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

SymmetryOperation operation_of(const gemmi::Op& op) {
  SymmetryOperation operation;
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      operation.rotation[row][column] = static_cast<double>(op.rot[row][column]) / gemmi::Op::DEN;
    }
    operation.translation[row] = static_cast<double>(op.tran[row]) / gemmi::Op::DEN;
  }
  return operation;
}

std::vector<SymmetryOperation> all_of(const gemmi::GroupOps& group) {
  std::vector<SymmetryOperation> operations;
  for (const gemmi::Op& op : group) operations.push_back(operation_of(op));
  return operations;
}

const gemmi::SpaceGroup* found_group(const NamedSpaceGroup& group) {
  if (group.name.empty()) return gemmi::find_spacegroup_by_number(static_cast<int>(group.number));
  const gemmi::SpaceGroup* found = gemmi::find_spacegroup_by_name(group.name, group.alpha, group.gamma);
  // "Fm3m" of older tables is F m -3 m.
  std::string with_bar = group.name;
  const size_t three = with_bar.find('3', 1);
  if (found == nullptr && three != std::string::npos && with_bar.find('-') == std::string::npos) {
    with_bar.insert(three, "-");
    found = gemmi::find_spacegroup_by_name(with_bar, group.alpha, group.gamma);
    if (found != nullptr && found->number < 200) found = nullptr;
  }
  return found;
}

}  // namespace

bool knows_space_groups() { return true; }

std::vector<SymmetryOperation> operations_of(const NamedSpaceGroup& group) {
  if (!group.hall.empty()) {
    try {
      return all_of(gemmi::symops_from_hall(group.hall.c_str()));
    } catch (const std::runtime_error& error) {
      throw UserError::of("has the Hall symbol \"{}\": {}", group.hall, error.what());
    }
  }
  const gemmi::SpaceGroup* found = found_group(group);
  const std::string named = group.name.empty() ? "number " + std::to_string(group.number) : group.name;
  if (found == nullptr) {
    throw UserError::of("has the space group {}, which no table has; list its operations (_symmetry_equiv_pos_as_xyz)",
                        named);
  }
  if (group.number > 0 && found->number != group.number) {
    throw UserError::of("has the space group {}, which has the number {}, and says that it is number {}", named,
                        found->number, group.number);
  }
  const bool has_two_origins = found->ext == '1' || found->ext == '2';
  if (has_two_origins && group.name.find(':') == std::string::npos) {
    throw UserError::of(
        "has the space group {}, whose origin may lie at two places, and lists no symmetry operations; list them, or "
        "write {}:1 or {}:2",
        named, found->hm, found->hm);
  }
  return all_of(found->operations());
}

}  // namespace terrace::data
