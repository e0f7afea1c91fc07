// The Pareto front of trials with several objectives.
#pragma once

#include <cstddef>
#include <vector>

namespace terrace::search {

// The places, in order, of those values that no other ones better in one objective without being worse in another; the
// larger the better. Equal values all count; empty ones, of trials that failed, are left out.
std::vector<size_t> pareto_front(const std::vector<std::vector<double>>& values);

}  // namespace terrace::search
