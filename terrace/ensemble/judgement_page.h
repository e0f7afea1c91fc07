// The page of terrace predict: predictions beside labels, how the spread fits the errors, and the worst cases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/ensemble/judgement.h"

namespace terrace::ensemble {

struct JudgedStructure {
  std::string formula = {};
  int64_t atoms = 0;
};

struct JudgementPage {
  std::string data = {}, part = {};           // what was predicted; the part is "" of files
  std::vector<std::string> checkpoints = {};  // one for each model
  std::string scale_note = {};                // why there is no scale, as a sentence; "" where there is one
  std::vector<JudgedStructure> structures = {};
  std::vector<JudgedOutput> outputs = {};  // those without labels have no values
};

// The data of the page: {"title", "data", "part", "checkpoints", "structures", "scale_note", "outputs": [{"name",
// "units", "is_per_atom", "is_of_atoms", "figures" (json_of()), "parity", "coverage", "bins", "worst"}]}. "parity" has
// "points" [label, prediction, deviation, structure] of at most 2,000 values; of more it has "least", "most", "side"
// and "cells" [column, row, count]: the counts of all values in side x side squares between two numbers, columns by
// label and rows by prediction. "coverage" has "expected", "before" and, with a scale, "after"; "bins" lists of
// [deviation, rmse, count] "before" and "after"; both are null without a spread.
Json judgement_data(const JudgementPage& page);

// The whole page.
std::string judgement_page(const JudgementPage& page);

}  // namespace terrace::ensemble
