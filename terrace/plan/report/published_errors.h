// States how far predicted steps were from published ones, by kind of layout, and what follows for another prediction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// The kind of a layout, on which its errors depend most: "weights cut" (over data-parallel ranks), "tensor over nodes",
// "pipeline over nodes", "pipeline in one node", "one stage over nodes" or "one stage in one node"; the first that
// holds.
std::string layout_kind(const config::Config& config, const Target& target);
std::string layout_kind(const PlannedRun& run, const Target& target);

using PublishedErrors = machine::PredictionErrors;

// Errors of so many runs or pairs are summed up by percentiles, and of fewer by their extremes.
inline constexpr int64_t enough_for_percentiles = 40;

// One run that was compared.
struct ComparedRun {
  std::string kind = {}, family = {}, machine = {}, program = {};
  int64_t devices = 0, parameters = 0;
  std::string layout = {};  // the sizes that stay when data-parallel ranks are added, as words
  double error = 0;         // predicted over measured, less 1
};

std::vector<PublishedErrors> summarize(const std::vector<ComparedRun>& runs);
Json json_of(const std::vector<PublishedErrors>& errors);
// Throws UserError where the text is no list of them.
std::vector<PublishedErrors> read_published_errors(const std::string& json);
// machines/published_errors.json, which terrace plan --score wrote, as it was when the program was built.
const std::vector<PublishedErrors>& published_errors();

// The errors of a kind; nullptr if no run has it.
const PublishedErrors* find_kind(const std::string& kind, const std::vector<PublishedErrors>& errors);
// As above: those that the machine's description has, or else those of `errors`.
const PublishedErrors* find_kind(const std::string& kind, const machine::Machine& machine,
                                 const std::vector<PublishedErrors>& errors);

// The errors that the machine's description has, and published ones of other kinds.
std::vector<PublishedErrors> known_errors(const machine::Machine& machine);

// The share by which one step of the kind may be predicted to be longer than another one, though both take equally
// long, if one errs as much as the highest and the other as the lowest error; 0 if no run has the kind.
double uncertainty_of(const std::string& kind, const std::vector<PublishedErrors>& errors);

// The interval within which a measured step lies if the prediction is as wrong as those of published runs were.
struct StepInterval {
  PublishedErrors errors = {};  // errors of the layout's kind; runs = 0: no run has this kind
  bool of_machine = false;      // the errors are those of the machine's description
  double shortest_seconds = 0, longest_seconds = 0;
  std::vector<std::string> outside = {};  // why nothing is known from published runs; empty: the interval holds
};
// Where the machine's description has errors of the layout's kind, they stand in place of those of `errors`.
StepInterval step_interval(const config::Config& config, const Prediction& prediction, const Target& target,
                           const std::vector<PublishedErrors>& errors);
StepInterval step_interval(const PlannedRun& run, const Prediction& prediction, const Target& target,
                           const std::vector<PublishedErrors>& errors);

// The interval within which the ratio of two measured steps lies, as a share of the predicted ratio: 0.9 to 1.1.
struct RatioInterval {
  double lowest = 1, highest = 1;
  // Layouts of one kind share the part of their errors that model, machine and program have in common, and it is not in
  // the ratio (PublishedErrors::ratio_error). Of two kinds nothing says that they share it: either may have its highest
  // and the other its lowest error.
  bool shares_errors = false;
};
// The step of `of` over that of `base`, which are of one model, machine and program; none if one has no interval.
std::optional<RatioInterval> ratio_interval(const StepInterval& of, const StepInterval& base);

// "17.9 s to 25.3 s by 109 published runs ...", or "outside what was compared: ..".
std::string text_of(const StepInterval& interval);
Json json_of(const StepInterval& interval);

}  // namespace terrace::plan
