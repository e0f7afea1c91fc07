// Explains which parameters of a search matter: a tree model of the trials, and what each parameter and each pair of
// parameters contributes to it by exact TreeSHAP.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/search/explain/tree_model.h"
#include "terrace/search/explain/trial_table.h"

namespace terrace::search {

// The trials from which an objective is explained: those that did not fail, or all of them, with the worst value of the
// others in place of a failure, as the search itself sees them.
enum class FailuresAs { left_out, worst };

struct PairEffect {
  size_t first = 0, second = 0;  // parameters
  double effect = 0;             // mean over trials of |what both contribute together|
};

// The explanation of one figure of the trials by a model. Effects have the unit of the figure.
struct Attribution {
  std::string name;  // the objective's name, or "failure", which is 1 where a trial failed and 0 where it did not
  bool is_failure = false;
  bool smaller_is_better = false;
  size_t trials = 0;               // the number of trials that the model was fitted to
  double mean = 0;                 // the mean of the figure over these trials
  std::optional<double> fit = {};  // R^2 of trials that the model has not seen, in five folds; none if they are too few
  // Numbers by parameter. A parameter that some trials do not have counts by the trials that have it.
  std::vector<size_t> trials_with = {};    // the trials that have it
  std::vector<double> effects = {};        // mean |SHAP value|
  std::vector<double> own_effects = {};    // mean |the part of the SHAP value that needs no other parameter|
  std::vector<PairEffect> pairs = {};      // every pair once, by the trials that have both, the largest effect first
  std::vector<size_t> rows = {};           // the trials of `contributions`
  std::vector<double> contributions = {};  // [rows, parameters]: SHAP values

  // Parameters by falling effect, and the share of one in the sum of all.
  std::vector<size_t> ranking() const;
  double share(double effect) const;
  bool is_poor() const { return !fit || *fit < 0.5; }
};

struct Explanation {
  FailuresAs failures = FailuresAs::left_out;
  // The attributions: one for each objective, and one for failure if some trials failed and others did not.
  std::vector<Attribution> attributions = {};
  // The trials that did not fail by their first objective, the best first.
  std::vector<size_t> best = {};
  // The number of them, from the first on, that are tied with the first: of predictions by `terrace search` with one
  // objective, whose errors do not tell them apart (search/ties.h); otherwise 1.
  size_t tied = 1;
  // The best first objective up to each trial, by trial; none before the first trial that did not fail.
  std::vector<std::optional<double>> best_so_far = {};
  // The trials that no other one betters in one objective without being worse in another.
  std::vector<size_t> pareto_front = {};
};

// Throws UserError where there is nothing to explain: too few trials that did not fail, or an objective that is the
// same in all of them.
Explanation explain(const TrialTable& trials, FailuresAs failures);

// The features of these rows: the index of each parameter's value, by trial. There is one column for each parameter,
// also for words, so that its SHAP value is Shapley's of the parameter; trees cut between values, so that their
// distances have no effect. A trial without the parameter has the middle one of its values: no cut tells such trials
// from the others, so what they differ in is an effect of the parameter on which the existence depends.
Features features_of(const TrialTable& trials, const std::vector<size_t>& rows);

// The trials, in order, that no other one betters in one of the figures without being worse in another. Trials without
// one of the figures are left out.
std::vector<size_t> front_of(const std::vector<const TriedFigure*>& figures);

}  // namespace terrace::search
