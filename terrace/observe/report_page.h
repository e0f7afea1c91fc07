// One HTML file that shows runs and predictions side by side, and opens in a browser without a network or a server.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/observe/metrics.h"
#include "terrace/observe/step_record.h"

namespace terrace::observe {

// A change of settings and the step that it leads to.
struct PlannedChange {
  std::string settings;  // "--set layout.tensor=4"
  double step_seconds = 0;
  double gain = 0;  // share of the step's time that it saves
};

// Statements of a plan on a configuration and a machine, beside the figures of its step.
struct PlanStatements {
  bool fits = true;
  std::string verdict = {}, limit = {};  // sentences: that it fits, or why not; what most of the step goes to
  std::vector<std::pair<std::string, std::string>> facts = {};  // such as {"precision", "bf16"}
  std::vector<std::string> warnings = {};
  std::string command = {};  // that makes the plan
  // The changes that would help most, or with which a run fits that does not.
  std::vector<PlannedChange> changes = {};
};

// A number that each step has, by step; steps in which it is not finite are left out.
struct StepCurve {
  std::string key;  // as in metrics.jsonl
  std::vector<std::pair<double, double>> points = {};
};

// The contents of the page for one run, or for a prediction that nothing has run yet.
struct ReportedRun {
  std::string name;
  std::optional<Json> figures = {};        // with keys of summarize_run; a prediction gives those that it knows
  std::optional<LossHistory> losses = {};  // none: a prediction alone
  // The learning rate, the gradient norm and the rate of what the family counts; only those that have a number.
  std::vector<StepCurve> curves = {};
  // (step, samples) of the gradient noise scales that were measured and are numbers.
  std::vector<std::pair<double, double>> noise_scales = {};
  std::optional<StepRecord> predicted = {}, measured = {};
  std::optional<PlanStatements> plan = {};
  // Whether it trains and how far it is, for a page that is asked for while it does; keys of terrace status.
  std::optional<Json> state = {};
  std::vector<std::string> notes = {};  // sentences that the page has beside those on what the run lacks
};

// Reads metrics.jsonl, run.json and, where they exist, the two step records of a run's folder. Throws UserError where
// the folder holds no run or a record cannot be read.
ReportedRun read_reported_run(const std::filesystem::path& folder);

// The data of the page: the title and for each run its name, figures, losses, curves, noise scales, records, state and
// plan (null where there are none) and notes, sentences that say how to get what is missing.
Json report_data(const std::string& title, const std::vector<ReportedRun>& runs);

// The whole page.
std::string report_page(const std::string& title, const std::vector<ReportedRun>& runs);

}  // namespace terrace::observe
