// A finished trial as the proposals of a search learn from it.
#pragma once

#include <optional>
#include <string>

#include "terrace/search/study/space.h"

namespace terrace::search {

// A trial's objective: the larger the better; none if the trial failed.
using Objective = std::optional<double>;

struct LearnedTrial {
  Point scaled;  // Space::scaled of its point
  Objective objective;
  std::string failure;  // the kind
};

}  // namespace terrace::search
