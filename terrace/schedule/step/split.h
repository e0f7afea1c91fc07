// Divides the units of a model (embedding, layers, head) among the virtual stages of a pipeline, by the costs of the
// units, and checks a division that the user gives.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::schedule {

// The number of consecutive units of each virtual stage, at least one, such that the most expensive virtual stage costs
// as little as possible. Among those splits, the one with the smallest sum of squared costs; among several of these,
// the one whose earlier virtual stages have fewer units, since earlier stages keep more activations. Costs are at least
// 0. Takes about virtual_stages * units * log2(units) additions where no unit costs much more than the mean virtual
// stage, and at most virtual_stages * units^2. Throws UserError if there are more virtual stages than units.
std::vector<int64_t> split_by_cost(const std::vector<double>& costs, int64_t virtual_stages);

// Checks the numbers of layers that a user gives: one number for each virtual stage, with the model's number of layers
// as their sum. The first and the last virtual stage may have no layers, since they also have the embedding and the
// head. Throws UserError.
void check_given_split(const std::vector<int64_t>& layers_of_stage, int64_t layers, int64_t virtual_stages);

}  // namespace terrace::schedule
