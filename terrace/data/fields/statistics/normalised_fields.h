// Turns fields into the numbers that models compute with, and back.
#pragma once

#include <span>
#include <vector>

#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// Computes the numbers of value = mean + deviation * number; a deviation of 0 counts as 1, and a missing value becomes
// 0. The field and its numbers are equally long.
void normalise(std::span<const float> field, const Moments& moments, std::span<float> numbers);
// Turns numbers into the values of a field, in place.
void denormalise(std::span<float> numbers, const Moments& moments);

// Returns the cosines of the latitudes over their mean.
std::vector<double> cosine_weights(const std::vector<double>& latitudes);

}  // namespace terrace::data
