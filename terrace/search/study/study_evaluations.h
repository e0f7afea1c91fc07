// Whether the runs of a study evaluate what its objectives need.
#pragma once

#include <string>

#include "terrace/search/study/study.h"

namespace terrace::search {

// Says what is wrong with an objective that is a figure of held-out data, behind the key's name; "" if nothing is. Such
// a figure is known only where the runs of the configuration evaluate.
std::string evaluation_problem(const StudySettings& settings, const config::Config& config);

}  // namespace terrace::search
