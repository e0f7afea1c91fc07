// Tells whether longitudes go around the globe, and where those of a region begin.
#pragma once

#include <cstddef>
#include <vector>

namespace terrace::data {

// Longitudes in the order in which they follow one another eastward, the first one behind their largest gap.
struct LongitudeCircle {
  std::vector<size_t> order = {};    // numbers of the longitudes
  std::vector<double> degrees = {};  // the longitudes in this order, ascending; those that lie behind 360 are above it
  // Whether the largest gap is about as wide as the others, so that the last longitude is a neighbour of the first.
  bool is_closed = true;
};

// Returns the circle of one or more different longitudes, in degrees.
LongitudeCircle longitude_circle(const std::vector<double>& longitudes);

}  // namespace terrace::data
