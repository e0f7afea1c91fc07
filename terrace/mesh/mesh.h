// The ranks of a run as a grid with named axes: pure arithmetic, no communication.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/mesh/group.h"

namespace terrace::mesh {

// Where neighbouring ranks sit. Ranks fill pairs, and pairs fill nodes, in rank order.
struct Placement {
  int64_t ranks_per_pair = 1;  // share a package
  int64_t ranks_per_node = 1;  // share a machine

  bool operator==(const Placement&) const = default;
};

// The slowest link that a group of ranks needs.
enum class Tier { rank, pair, node, network };
std::string_view name_of(Tier tier);

Tier tier_of(const std::vector<int64_t>& ranks, const Placement& placement);

struct Axis {
  std::string name;  // "pipeline", "data", "tensor"
  int64_t size = 1;

  bool operator==(const Axis&) const = default;
};

class Mesh {
 public:
  // Axes from the outermost to the innermost, whose neighbours have neighbouring ranks. Throws UserError where the
  // sizes do not multiply to `ranks`, with sizes that do.
  Mesh(int64_t ranks, std::vector<Axis> axes, const Placement& placement);

  int64_t size() const { return size_; }
  int64_t size(std::string_view axis) const;
  const std::vector<Axis>& axes() const { return axes_; }
  const Placement& placement() const { return placement_; }

  int64_t coordinate(int64_t rank, std::string_view axis) const;
  // The rank with these coordinates, one for each axis in order.
  int64_t rank_at(const std::vector<int64_t>& coordinates) const;
  // The ranks that differ from this one in the axis alone, in order; the group has the axis' name.
  Group group(int64_t rank, std::string_view axis) const;

 private:
  size_t index_of(std::string_view axis) const;
  int64_t stride(size_t axis) const;

  int64_t size_;
  std::vector<Axis> axes_;
  Placement placement_;
};

// One line for each axis longer than 1 and for each further group: name, members of the first rank's group, tier.
//   data    4 ranks  node     0 1 2 3
std::string overview(const Mesh& mesh, const std::vector<Group>& further);

}  // namespace terrace::mesh
