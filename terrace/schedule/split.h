// How the units of a model (embedding, layers, head) are shared out over the parts of a pipeline: consecutive units to
// each part, by their costs or as the user says.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::schedule {

// How many units each part gets, at least one, so that the most expensive part costs as little as possible; among such
// splits the one whose parts' costs differ least (in the sum of squares), then the one whose earlier parts have fewer
// units, since earlier stages keep more activations. Costs are at least 0. Takes parts * units^2 additions.
// Throws UserError where there are more parts than units.
std::vector<int64_t> split_by_cost(const std::vector<double>& costs, int64_t parts);

// Checks the numbers of layers that a user gives to each part: one number a part, in sum all layers. The first and the
// last part may have none, since the embedding and the head are theirs besides. Throws UserError.
void check_given_split(const std::vector<int64_t>& layers_of_part, int64_t layers, int64_t parts);

}  // namespace terrace::schedule
