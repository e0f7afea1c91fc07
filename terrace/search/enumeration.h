// Whether a search by predictions tries every point of its space or samples points.
#pragma once

#include <string>

#include "terrace/search/search.h"

namespace terrace::search {

// The longest that predictions of all points may take for a search without a time limit, in seconds. Estimate: a time
// for which a user waits without having asked for it.
inline constexpr double enumeration_seconds = 60;

// Replaces Method::automatic. Trials that are predictions are of all points (Method::exhaustive) if this takes no
// longer than half of SearchOptions::time_limit, or enumeration_seconds without a limit, as some random points say that
// are predicted for it (without a limit by the time of the cores, whatever else they do); other trials are proposed by
// Gaussian processes (Method::bayesian). So are trials of a search that begins from another one's results, since it is
// asked to learn from them. Returns a sentence for the user: which method it is, why, and how to have the other; "" if
// the method was given, or trials are no predictions. Throws as Simulation does.
std::string choose_method(Study& study, const SearchOptions& options);

}  // namespace terrace::search
