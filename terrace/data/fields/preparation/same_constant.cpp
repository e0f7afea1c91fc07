// Compares a constant of two files place by place.
#include "terrace/data/fields/preparation/same_constant.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"

namespace terrace::data {
namespace {

// Packing and interpolation by different programs round differently.
constexpr float same_constant = 1e-6F;  // of the largest value, about eight times the rounding of fp32

}  // namespace

void check_same_constant(const std::string& name, std::span<const float> field, const std::filesystem::path& file,
                         std::span<const float> known, const std::filesystem::path& of_file) {
  float largest = 0, difference = 0;
  for (const float value : known) largest = std::isnan(value) ? largest : std::max(largest, std::abs(value));
  size_t different = 0;
  for (size_t i = 0; i < field.size(); ++i) {
    if (std::isnan(field[i]) && std::isnan(known[i])) continue;
    const float apart = std::abs(field[i] - known[i]);
    if (apart <= same_constant * largest) continue;
    ++different;
    if (!std::isnan(apart)) difference = std::max(difference, apart);
  }
  if (different == 0) return;
  throw UserError::of(
      "{} and {} have different values of the constant {}: at {} of {} places, by up to {:g}; a dataset has each "
      "constant once, so leave one of the files out, or name the constants that are wanted with --constants",
      of_file.string(), file.string(), name, different, field.size(), difference);
}

}  // namespace terrace::data
