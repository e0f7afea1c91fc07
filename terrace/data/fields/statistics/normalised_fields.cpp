// Normalises in double precision, and rounds once.
#include "terrace/data/fields/statistics/normalised_fields.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace terrace::data {
namespace {

double unit_of(const Moments& moments) { return moments.deviation > 0 ? moments.deviation : 1; }

}  // namespace

void normalise(std::span<const float> field, const Moments& moments, std::span<float> numbers) {
  const double unit = unit_of(moments), mean = moments.mean;
  float* const to = numbers.data();
  // The loop has no branch, so that the compiler computes several values at once.
  for (size_t i = 0; i < field.size(); ++i) {
    const auto number = static_cast<float>((static_cast<double>(field[i]) - mean) / unit);
    to[i] = std::isnan(field[i]) ? 0.0F : number;
  }
}

void denormalise(std::span<float> numbers, const Moments& moments) {
  const double unit = unit_of(moments);
  for (float& number : numbers) number = static_cast<float>(moments.mean + unit * static_cast<double>(number));
}

std::vector<double> cosine_weights(const std::vector<double>& latitudes) {
  std::vector<double> weights;
  for (const double latitude : latitudes) weights.push_back(std::cos(latitude * std::numbers::pi / 180));
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  for (double& weight : weights) weight /= mean;
  return weights;
}

}  // namespace terrace::data
