// A fit as text for people, as one JSON object, and as a machine's description.
#pragma once

#include <string>

#include "terrace/base/text/json.h"
#include "terrace/score/fit/fit.h"

namespace terrace::score {

// Errors before and after, a line for each constant and each run, and the errors to be expected by kind of layout.
std::string text_of(const Fit& fit);
// The keys: machine (the name), error_before, error_after, error_left_out (means of absolute errors), spread;
// constants, a list with key, before, after, least, most (each with its unit as in the file), factor, known and set_by
// (a list of run, by its place in runs, and share); unknown, a list of keys; runs, a list with table, line, id, model,
// devices, software, kind, measured_seconds, before_seconds, fitted_seconds, left_out_seconds and weight; errors, a
// list as terrace plan --score --errors writes it; and left_out, a list with table, line, id and problems.
Json json_of(const Fit& fit);
// The description as TOML with the name, and comments that say what set which figure.
std::string description_of(const Fit& fit, const std::string& name);

}  // namespace terrace::score
