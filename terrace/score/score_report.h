// A score as text for people, as one JSON object, as a CSV file and as an SVG picture.
#pragma once

#include <string>

#include "terrace/base/text/json.h"
#include "terrace/score/score.h"

namespace terrace::score {

// A line for each run, then the errors of all, by kind of layout and by model, and what was left out.
std::string text_of(const Score& score);
// The keys: runs, a list with table, line, id, model, devices, machine, software, kind, set, measured_seconds,
// predicted_seconds, error, measured_memory_bytes (null where none was published), predicted_memory_bytes, fits and
// notes; all, kinds and models with name, runs, mean_absolute_error, mean_error, lowest_error, highest_error,
// rank_correlation (null for fewer than three runs), cost_of_choice, memory_runs, mean_absolute_memory_error; and
// left_out, a list with table, line, id and problems.
Json json_of(const Score& score);
// One row for each run that was scored, with the columns of the JSON object's runs.
std::string csv_of(const Score& score);
// Predicted over measured seconds of a step, each run a point, on logarithmic axes, with lines for 10% more and less.
std::string picture_of(const Score& score);

// The row's name, or its line.
std::string label_of(const PublishedRun& run);
// Lines, and the JSON list, of runs that could not be compared, with their problems; "" if there are none.
std::string left_out_text(const std::vector<PublishedRun>& runs);
Json left_out_json(const std::vector<PublishedRun>& runs);

}  // namespace terrace::score
