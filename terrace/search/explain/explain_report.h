// Reports what an explanation found: tables for a terminal, JSON, and an HTML page.
#pragma once

#include <string>

#include "terrace/base/text/json.h"
#include "terrace/search/explain/explanation.h"

namespace terrace::search {

// The number of trials and why others failed, and for each attribution its fit, the ranking of the parameters and the
// largest effects of pairs.
std::string text_of(const TrialTable& trials, const Explanation& explanation);

// All of it, with the trials themselves: the data of the page, and what `--json` prints. docs/search.md lists the keys.
Json json_of(const TrialTable& trials, const Explanation& explanation);

// The whole page: ranking, dependence, interactions, convergence, parallel coordinates, Pareto front, best trials.
std::string explain_page(const TrialTable& trials, const Explanation& explanation);

}  // namespace terrace::search
