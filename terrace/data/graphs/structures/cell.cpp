// Computes heights, fractions and missing vectors of cells.
#include "terrace/data/graphs/structures/cell.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <numbers>

namespace terrace::data {
namespace {

// The least ratio of the volume to the product of the lengths. The flattest cells of real crystals are far above it.
constexpr double least_relative_volume = 1e-6;

Vector3 scaled(const Vector3& a, double factor) { return {a[0] * factor, a[1] * factor, a[2] * factor}; }
Vector3 unit(const Vector3& a) { return scaled(a, 1 / length(a)); }

// Returns a unit vector at a right angle to `a` and to the axis that is farthest from `a`.
Vector3 perpendicular_to(const Vector3& a) {
  size_t farthest = 0;
  for (size_t k = 1; k < 3; ++k) {
    if (std::abs(a[k]) < std::abs(a[farthest])) farthest = k;
  }
  Vector3 axis = {};
  axis[farthest] = 1;
  return unit(cross(a, axis));
}

// Returns the vectors of the cell, with those that have no periodicity replaced.
std::array<Vector3, 3> completed(const Cell& cell) {
  std::array<Vector3, 3> vectors = cell.vectors;
  const int count = cell.periodic[0] + cell.periodic[1] + cell.periodic[2];
  for (size_t k = 0; k < 3; ++k) {
    const size_t next = (k + 1) % 3, last = (k + 2) % 3;
    if (count == 0) {
      vectors[k] = {};
      vectors[k][k] = 1;
    } else if (count == 1 && cell.periodic[k]) {
      vectors[next] = perpendicular_to(vectors[k]);
      vectors[last] = unit(cross(vectors[k], vectors[next]));
    } else if (count == 2 && !cell.periodic[k]) {
      vectors[k] = unit(cross(vectors[next], vectors[last]));
    }
  }
  return vectors;
}

}  // namespace

double dot(const Vector3& a, const Vector3& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector3 cross(const Vector3& a, const Vector3& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

double length(const Vector3& a) { return std::sqrt(dot(a, a)); }

Vector3 image_offset(const std::array<int32_t, 3>& shift, const Cell& cell) {
  Vector3 offset = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    for (size_t k = 0; k < 3; ++k) {
      if (cell.periodic[k]) offset[axis] += shift[k] * cell.vectors[k][axis];
    }
  }
  return offset;
}

double volume_of(const Cell& cell) {
  const auto& [a, b, c] = cell.vectors;
  const double volume = std::abs(dot(a, cross(b, c)));
  return volume > least_relative_volume * length(a) * length(b) * length(c) ? volume : 0;
}

std::string problem_of(const Cell& cell) {
  double lengths = 1;
  for (size_t k = 0; k < 3; ++k) {
    const double size = length(cell.vectors[k]);
    if (!std::isfinite(size)) return fmt::format("vector {} of the cell is not finite", k + 1);
    if (!cell.periodic[k]) continue;
    if (size == 0) return fmt::format("vector {} of the cell is periodic and zero", k + 1);
    lengths *= size;
  }
  if (!cell.is_periodic()) return "";
  // With one periodic vector alone the completed volume is its length.
  const std::array<Vector3, 3> all = completed(cell);
  const double volume = std::abs(dot(all[0], cross(all[1], all[2])));
  const double relative = volume / lengths;
  if (relative >= least_relative_volume && volume > 0) return "";
  return fmt::format(
      "the periodic vectors of the cell lie in one plane or line (volume {:g} of the product of lengths)",
      std::isfinite(relative) ? relative : 0.0);
}

SpanningCell spanning_cell(const Cell& cell) {
  SpanningCell all;
  all.vectors = completed(cell);
  const double volume = dot(all.vectors[0], cross(all.vectors[1], all.vectors[2]));
  for (size_t k = 0; k < 3; ++k) {
    const Vector3 area = cross(all.vectors[(k + 1) % 3], all.vectors[(k + 2) % 3]);
    all.reciprocal[k] = scaled(area, 1 / volume);
    all.heights[k] = std::abs(volume) / length(area);
  }
  return all;
}

Cell cell_of_lengths(const Vector3& lengths, const Vector3& angles_degrees) {
  Vector3 cosines, sines;
  for (size_t k = 0; k < 3; ++k) {
    // A right angle gives exactly 0.
    const bool is_right = angles_degrees[k] == 90;
    const double angle = angles_degrees[k] * std::numbers::pi / 180;
    cosines[k] = is_right ? 0 : std::cos(angle);
    sines[k] = is_right ? 1 : std::sin(angle);
  }
  const double y = (cosines[0] - cosines[1] * cosines[2]) / sines[2];
  const double square = 1 - cosines[1] * cosines[1] - y * y;
  Cell cell;
  cell.periodic = {true, true, true};
  cell.vectors[0] = {lengths[0], 0, 0};
  cell.vectors[1] = {lengths[1] * cosines[2], lengths[1] * sines[2], 0};
  cell.vectors[2] = {lengths[2] * cosines[1], lengths[2] * y, lengths[2] * std::sqrt(square)};
  return cell;
}

}  // namespace terrace::data
