// States how far predicted steps were from published ones, by kind of layout, and what follows for another prediction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/plan/prediction.h"

namespace terrace::plan {

// The kind of a layout, on which its errors depend most: "weights cut" (over data-parallel ranks), "tensor over nodes",
// "pipeline over nodes", "pipeline in one node", "one stage over nodes" or "one stage in one node"; the first that
// holds.
std::string layout_kind(const config::Config& config, const Target& target);

using PublishedErrors = machine::PredictionErrors;

// One run that was compared.
struct ComparedRun {
  std::string kind = {}, family = {}, machine = {}, program = {};
  int64_t devices = 0, parameters = 0;
  double error = 0;  // predicted over measured, less 1
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

// "17.9 s to 25.3 s by 109 published runs ...", or "outside what was compared: ..".
std::string text_of(const StepInterval& interval);
Json json_of(const StepInterval& interval);

}  // namespace terrace::plan
