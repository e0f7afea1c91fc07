// The geometry of a crystal's cell, which may repeat along some of its vectors only.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace terrace::data {

using Vector3 = std::array<double, 3>;

// The rows are the vectors a, b and c, in angstrom for atoms. A vector without periodicity may be zero.
struct Cell {
  std::array<Vector3, 3> vectors = {};
  std::array<bool, 3> periodic = {};
  bool operator==(const Cell&) const = default;

  bool is_periodic() const { return periodic[0] || periodic[1] || periodic[2]; }
};

double dot(const Vector3& a, const Vector3& b);
Vector3 cross(const Vector3& a, const Vector3& b);
double length(const Vector3& a);

// Returns the volume of the three vectors as they are given, whatever is periodic: the volume by which ASE divides
// stress. 0 where a vector is zero or all lie in one plane: such a structure, as a molecule without a cell, has no
// stress.
double volume_of(const Cell& cell);

// Returns the offset from a position to its image that is `shift` times the periodic vectors away.
Vector3 image_offset(const std::array<int32_t, 3>& shift, const Cell& cell);

// Three vectors that span the space: those of the periodic directions, and for the others unit vectors that are
// perpendicular to these and to each other.
struct SpanningCell {
  std::array<Vector3, 3> vectors = {};
  std::array<Vector3, 3> reciprocal = {};  // fraction k of a position is its product with reciprocal[k]
  Vector3 heights = {};                    // between the two faces that vector k joins: volume / area
};

// Says what is wrong with the cell, "" if nothing is: a number that is not finite, a periodic vector that is zero, or
// periodic vectors of which one lies in the plane or on the line of the others.
std::string problem_of(const Cell& cell);

// Returns the spanning vectors of a cell without problems.
SpanningCell spanning_cell(const Cell& cell);

// Returns the cell of a crystal by its lengths and the angles (degrees) between b and c, a and c, a and b, with a along
// x and b in the plane of x and y, as ASE and most programs place it. The cell is periodic in all directions.
Cell cell_of_lengths(const Vector3& lengths, const Vector3& angles_degrees);

}  // namespace terrace::data
