// Linear interpolation between the rows and columns of two grids of latitudes and longitudes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace terrace::models::vit {

// All matrices are [wanted, stored] in fp32, and their rows sum to 1.

// Each row is linear between the two nearest of the stored points, which divide the same interval evenly. On a circle
// the interval's ends are neighbours, elsewhere values beyond the outermost points are constant. Used for grids whose
// coordinates are not known.
at::Tensor interpolation_by_index(int64_t wanted, int64_t stored, bool is_circle);

// Interpolates linearly by latitudes in degrees, ascending. Values beyond the outermost stored latitudes are constant.
at::Tensor interpolation_of_latitudes(const std::vector<double>& wanted, const std::vector<double>& stored);

// Interpolates linearly by longitudes in degrees. Where the stored longitudes go around the globe, the last one is a
// neighbour of the first; else what lies outside of their region takes the value at its nearer end.
at::Tensor interpolation_of_longitudes(const std::vector<double>& wanted, const std::vector<double>& stored);

// The means of the coordinates of each `patch` places one after another, the last of them perhaps of fewer; those of
// longitudes are taken on the circle.
std::vector<double> patch_latitudes(const std::vector<double>& latitudes, int64_t patch);
std::vector<double> patch_longitudes(const std::vector<double>& longitudes, int64_t patch);

}  // namespace terrace::models::vit
