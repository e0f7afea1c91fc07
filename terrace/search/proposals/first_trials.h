// Ends a search whose first trials say that all others would fail too.
#pragma once

#include <vector>

#include "terrace/search/results.h"

namespace terrace::search {

// Without its program every trial would fail. Throws UserError if the trial, which is not among `trials` yet, failed to
// start before any succeeded.
void refuse_missing_program(const Trial& trial, const std::vector<Trial>& trials);

// A goal that no trial gives would make every trial fail. Throws UserError if the first three trials and all others
// gave none.
void refuse_missing_goal(const std::vector<Trial>& trials);

// A cause that makes all of the first trials fail in the same way lies in no parameter. Throws UserError if there are
// ten trials or more, fewer than ten of which were judged before, and all failed with the same reason.
void refuse_repeated_failure(const std::vector<Trial>& trials, size_t judged);

}  // namespace terrace::search
