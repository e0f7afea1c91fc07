// Fills the matrices row by row.
#include "terrace/models/vit/grid_interpolation.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "terrace/data/fields/longitude_circle.h"

namespace terrace::models::vit {
namespace {

constexpr double circle_degrees = 360;

at::Tensor empty_matrix(size_t wanted, size_t stored) {
  return at::zeros({static_cast<int64_t>(wanted), static_cast<int64_t>(stored)}, at::kFloat);
}

// The place of a coordinate among ascending points: the index of the point below the coordinate, and the share of the
// way to the next point. It is constant beyond the outermost points.
struct Place {
  size_t below = 0;
  double share = 0;
};

Place place_among(const std::vector<double>& points, double at) {
  if (at <= points.front()) return {0, 0};
  if (at >= points.back()) return {points.size() - 1, 0};
  const auto above = static_cast<size_t>(std::ranges::upper_bound(points, at) - points.begin());
  return {above - 1, (at - points[above - 1]) / (points[above] - points[above - 1])};
}

// The mean of the coordinates of each patch; `step(a, b)` is the way from a to b.
template <typename Step>
std::vector<double> patch_means(const std::vector<double>& coordinates, int64_t patch, Step step) {
  std::vector<double> means;
  const auto size = static_cast<size_t>(patch);
  for (size_t first = 0; first < coordinates.size(); first += size) {
    const size_t end = std::min(first + size, coordinates.size());
    double sum = 0;
    for (size_t i = first; i < end; ++i) sum += step(coordinates[first], coordinates[i]);
    means.push_back(coordinates[first] + sum / static_cast<double>(end - first));
  }
  return means;
}

}  // namespace

at::Tensor interpolation_by_index(int64_t wanted, int64_t stored, bool is_circle) {
  const at::Tensor matrix = at::zeros({wanted, stored}, at::kFloat);
  auto weights = matrix.accessor<float, 2>();
  for (int64_t i = 0; i < wanted; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(stored) / static_cast<double>(wanted) - 0.5;
    const auto below = static_cast<int64_t>(std::floor(at));
    const auto share = static_cast<float>(at - static_cast<double>(below));
    const auto inside = [&](int64_t j) {
      return is_circle ? (j + stored) % stored : std::clamp<int64_t>(j, 0, stored - 1);
    };
    weights[i][inside(below)] += 1 - share;
    weights[i][inside(below + 1)] += share;
  }
  return matrix;
}

at::Tensor interpolation_of_latitudes(const std::vector<double>& wanted, const std::vector<double>& stored) {
  const at::Tensor matrix = empty_matrix(wanted.size(), stored.size());
  auto weights = matrix.accessor<float, 2>();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto [below, share] = place_among(stored, wanted[i]);
    const auto row = static_cast<int64_t>(i), first = static_cast<int64_t>(below);
    weights[row][first] += static_cast<float>(1 - share);
    if (share > 0) weights[row][first + 1] += static_cast<float>(share);
  }
  return matrix;
}

at::Tensor interpolation_of_longitudes(const std::vector<double>& wanted, const std::vector<double>& stored) {
  const data::LongitudeCircle circle = data::longitude_circle(stored);
  std::vector<double> points = circle.degrees;
  const double first = points.front(), last = points.back();
  if (circle.is_closed) points.push_back(first + circle_degrees);
  const at::Tensor matrix = empty_matrix(wanted.size(), stored.size());
  auto weights = matrix.accessor<float, 2>();
  for (size_t i = 0; i < wanted.size(); ++i) {
    double at = wanted[i] - circle_degrees * std::floor((wanted[i] - first) / circle_degrees);  // first .. first + 360
    const bool is_outside = !circle.is_closed && at > last;
    if (is_outside && first + circle_degrees - at < at - last) at = first;
    const auto [below, share] = place_among(points, at);
    const auto row = static_cast<int64_t>(i);
    const auto column = [&](size_t point) { return static_cast<int64_t>(circle.order[point % stored.size()]); };
    weights[row][column(below)] += static_cast<float>(1 - share);
    if (share > 0) weights[row][column(below + 1)] += static_cast<float>(share);
  }
  return matrix;
}

std::vector<double> patch_latitudes(const std::vector<double>& latitudes, int64_t patch) {
  return patch_means(latitudes, patch, [](double from, double to) { return to - from; });
}

std::vector<double> patch_longitudes(const std::vector<double>& longitudes, int64_t patch) {
  return patch_means(longitudes, patch,
                     [](double from, double to) { return std::remainder(to - from, circle_degrees); });
}

}  // namespace terrace::models::vit
