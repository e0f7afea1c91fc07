// Compares the prediction of a step with what was measured.
#pragma once

#include <string>
#include <vector>

#include "terrace/observe/step_record.h"

namespace terrace::observe {

// A figure of both records.
struct ComparedFigure {
  double predicted = 0, measured = 0;

  // The prediction's error as a share of the measured figure; 0 if nothing was measured.
  double error() const { return measured > 0 ? predicted / measured - 1 : 0; }
};

struct StepComparison {
  ComparedFigure seconds;       // of the step
  ComparedFigure memory_bytes;  // of the stage that took most memory
  // The category that differs most, by its name in StageRecord: of the stage that computes longest, and of the fullest
  // stage.
  std::string seconds_category, memory_category;
  ComparedFigure category_seconds, category_bytes;
};

// An error above this share is warned of.
inline constexpr double most_error = 0.2;

StepComparison compare(const StepRecord& predicted, const StepRecord& measured);

// "a step: 512 ms predicted, 498 ms measured (+2.8%); memory of a rank: ..."
std::string text_of(const StepComparison& comparison);
// Lines of the step, of each part of the seconds of the stage that computes longest, and of each category of memory of
// the fullest stage: predicted, measured and the prediction's error.
std::string table_of(const StepRecord& predicted, const StepRecord& measured);
// A sentence for each figure whose error is above most_error, with the category that is off.
std::vector<std::string> warnings_of(const StepComparison& comparison);

}  // namespace terrace::observe
