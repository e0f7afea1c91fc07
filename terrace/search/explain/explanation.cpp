// Fits a model to each figure and averages its TreeSHAP values.
#include "terrace/search/explain/explanation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terrace/base/error.h"
#include "terrace/base/random.h"
#include "terrace/search/proposals/pareto.h"
#include "terrace/search/ties.h"

namespace terrace::search {
namespace {

constexpr size_t folds = 5;
constexpr size_t least_trials = folds;  // so that each fold has one
// Interactions cost twice as much for each parameter as contributions.
constexpr size_t most_contributions = 2000, most_interactions = 300;

// A figure of some trials, with mean 0 and variance 1 for the model.
struct Scaled {
  double mean = 0, deviation = 0;
  std::vector<double> values;

  explicit Scaled(const std::vector<double>& figures) {
    const auto count = static_cast<double>(figures.size());
    for (const double one : figures) mean += one / count;
    for (const double one : figures) deviation += (one - mean) * (one - mean) / count;
    deviation = std::sqrt(deviation);
    for (const double one : figures) values.push_back((one - mean) / deviation);
  }
};

template <typename T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<size_t>& indices) {
  std::vector<T> some;
  some.reserve(indices.size());
  for (const size_t index : indices) some.push_back(all[index]);
  return some;
}

// The indices from 0 to count in an order that is random, and the same every time.
std::vector<size_t> shuffled(size_t count, std::string_view name) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = permute(stream_key(1, name), count, i);
  return order;
}

std::vector<size_t> random_indices(size_t count, size_t most) {
  std::vector<size_t> order = shuffled(count, "explained trials");
  order.resize(std::min(count, most));
  std::ranges::sort(order);
  return order;
}

// 1 - (squared errors of the predictions) / (squared distances to the mean), each fifth predicted from the others.
std::optional<double> cross_validated(const TrialTable& trials, const std::vector<size_t>& rows,
                                      const std::vector<double>& targets) {
  if (rows.size() < 2 * folds) return std::nullopt;
  const std::vector<size_t> order = shuffled(rows.size(), "folds");
  double errors = 0;
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<size_t> seen, held;
    for (size_t i = 0; i < order.size(); ++i) (i % folds == fold ? held : seen).push_back(order[i]);
    const TreeModel model(features_of(trials, chosen(rows, seen)), chosen(targets, seen));
    const std::vector<double> predicted = model.predict(features_of(trials, chosen(rows, held)));
    for (size_t i = 0; i < held.size(); ++i) errors += std::pow(predicted[i] - targets[held[i]], 2);
  }
  return 1 - errors / static_cast<double>(rows.size());
}

void add_contributions(const TreeModel& model, const TrialTable& trials, double scale, Attribution& attribution) {
  const size_t parameters = trials.parameters.size();
  const std::vector<double> values = model.contributions(features_of(trials, attribution.rows));
  attribution.effects.assign(parameters, 0);
  std::vector<double> counts(parameters);
  for (size_t row = 0; row < attribution.rows.size(); ++row) {
    for (size_t i = 0; i < parameters; ++i) {
      attribution.contributions.push_back(scale * values[row * (parameters + 1) + i]);
      if (!trials.parameters[i].exists(attribution.rows[row])) continue;
      attribution.effects[i] += std::abs(attribution.contributions.back());
      ++counts[i];
    }
  }
  for (size_t i = 0; i < parameters; ++i) attribution.effects[i] /= std::max(1.0, counts[i]);
}

void add_interactions(const TreeModel& model, const TrialTable& trials, double scale, Attribution& attribution) {
  const size_t parameters = trials.parameters.size(), side = parameters + 1;
  const std::vector<size_t> rows = chosen(attribution.rows, random_indices(attribution.rows.size(), most_interactions));
  const std::vector<double> values = model.interactions(features_of(trials, rows));
  const auto mean = [&](size_t a, size_t b) {
    double sum = 0, count = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      if (!trials.parameters[a].exists(rows[row]) || !trials.parameters[b].exists(rows[row])) continue;
      sum += std::abs(values[(row * side + a) * side + b]);
      ++count;
    }
    return scale * sum / std::max(1.0, count);
  };
  for (size_t a = 0; a < parameters; ++a) {
    attribution.own_effects.push_back(mean(a, a));
    // Each of the two parameters has a half of what both contribute together.
    for (size_t b = a + 1; b < parameters; ++b) attribution.pairs.push_back({a, b, 2 * mean(a, b)});
  }
  std::ranges::stable_sort(attribution.pairs, std::greater(), &PairEffect::effect);
}

// `figure` has a number for each trial in `rows`.
Attribution attribution_of(const TrialTable& trials, const TriedFigure& figure, const std::vector<size_t>& rows) {
  const std::vector<double> values = chosen(figure.values, rows);
  if (std::ranges::min(values) == std::ranges::max(values)) {
    throw UserError::of(
        "{}: {} is {} in all {} trials that did not fail, so no parameter has an effect on it; search "
        "with other parameters",
        trials.path.string(), figure.name, values.front(), rows.size());
  }
  const Scaled scaled(values);
  Attribution attribution{.name = figure.name,
                          .smaller_is_better = figure.smaller_is_better,
                          .trials = rows.size(),
                          .mean = scaled.mean,
                          .fit = cross_validated(trials, rows, scaled.values)};
  for (const TriedParameter& parameter : trials.parameters) {
    const auto exists = [&](size_t row) { return parameter.exists(row); };
    attribution.trials_with.push_back(static_cast<size_t>(std::ranges::count_if(rows, exists)));
  }
  attribution.rows = chosen(rows, random_indices(rows.size(), most_contributions));
  const TreeModel model(features_of(trials, rows), scaled.values);
  add_contributions(model, trials, scaled.deviation, attribution);
  add_interactions(model, trials, scaled.deviation, attribution);
  return attribution;
}

TriedFigure with_worst_values(const TriedFigure& figure, const std::vector<size_t>& done) {
  const std::vector<double> values = chosen(figure.values, done);
  const double worst = figure.smaller_is_better ? std::ranges::max(values) : std::ranges::min(values);
  TriedFigure filled = figure;
  for (double& value : filled.values) value = std::isnan(value) ? worst : value;
  return filled;
}

Attribution failure_attribution(const TrialTable& trials, const std::vector<size_t>& all) {
  TriedFigure failure{.name = "failure", .smaller_is_better = true};
  for (const std::string& one : trials.failures) failure.values.push_back(one.empty() ? 0 : 1);
  Attribution attribution = attribution_of(trials, failure, all);
  attribution.is_failure = true;
  return attribution;
}

void check_enough(const TrialTable& trials, size_t done) {
  const std::string path = trials.path.string();
  if (trials.size() == 0) throw UserError::of("{}: has no trial; search first", path);
  if (done == 0) {
    throw UserError::of("{}: all {} trials failed, so there is no objective to explain; search where some do not fail",
                        path, trials.size());
  }
  if (done < least_trials) {
    throw UserError::of(
        "{}: {} of {} trials did not fail; an explanation needs at least {}: go on with the search by "
        "a larger --trials",
        path, done, trials.size(), least_trials);
  }
}

// Whether the value, of a trial that did not fail, is better.
bool is_better(const TriedFigure& figure, double value, double than) {
  return figure.smaller_is_better ? value < than : value > than;
}

// The number of trials, from the best one on, that are tied with it.
size_t count_ties(const TrialTable& trials, const std::vector<size_t>& best) {
  const TriedFigure& objective = trials.objectives.front();
  const auto difference = std::ranges::find(trials.figures, "median_difference", &TriedFigure::name);
  if (trials.objectives.size() > 1 || difference == trials.figures.end() || !follows_step_time(objective.name))
    return 1;
  const double most = difference->values[best.front()];
  const auto behind = std::ranges::find_if_not(best, [&](size_t row) {
    return row == best.front() ||
           is_tied(objective.values[best.front()], objective.values[row], objective.smaller_is_better, most);
  });
  return static_cast<size_t>(behind - best.begin());
}

}  // namespace

std::vector<size_t> Attribution::ranking() const {
  std::vector<size_t> order(effects.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return effects[i]; });
  return order;
}

double Attribution::share(double effect) const {
  const double sum = std::accumulate(effects.begin(), effects.end(), 0.0);
  return sum > 0 ? effect / sum : 0;
}

Features features_of(const TrialTable& trials, const std::vector<size_t>& rows) {
  Features features{.columns = trials.parameters.size()};
  features.values.reserve(rows.size() * features.columns);
  for (const size_t row : rows) {
    for (const TriedParameter& parameter : trials.parameters) {
      const size_t middle = parameter.values.size() / 2;
      features.values.push_back(static_cast<float>(parameter.exists(row) ? parameter.indices[row] : middle));
    }
  }
  return features;
}

std::vector<size_t> front_of(const std::vector<const TriedFigure*>& figures) {
  std::vector<std::vector<double>> values(figures.empty() ? 0 : figures.front()->values.size());
  for (size_t row = 0; row < values.size(); ++row) {
    if (std::ranges::any_of(figures, [&](const auto* one) { return std::isnan(one->values[row]); })) continue;
    for (const TriedFigure* one : figures) {
      values[row].push_back(one->smaller_is_better ? -one->values[row] : one->values[row]);
    }
  }
  return pareto_front(values);
}

Explanation explain(const TrialTable& trials, FailuresAs failures) {
  std::vector<size_t> all(trials.size()), done;
  std::iota(all.begin(), all.end(), size_t{0});
  std::ranges::copy_if(all, std::back_inserter(done), [&](size_t row) { return trials.failures[row].empty(); });
  check_enough(trials, done.size());
  Explanation explanation{.failures = failures};
  for (const TriedFigure& objective : trials.objectives) {
    explanation.attributions.push_back(failures == FailuresAs::worst
                                           ? attribution_of(trials, with_worst_values(objective, done), all)
                                           : attribution_of(trials, objective, done));
  }
  if (done.size() < all.size()) explanation.attributions.push_back(failure_attribution(trials, all));

  const TriedFigure& first = trials.objectives.front();
  explanation.best = done;
  std::ranges::stable_sort(explanation.best,
                           [&](size_t a, size_t b) { return is_better(first, first.values[a], first.values[b]); });
  explanation.tied = count_ties(trials, explanation.best);
  std::optional<double> best;
  for (const size_t row : all) {
    const double value = first.values[row];
    if (!std::isnan(value) && (!best || is_better(first, value, *best))) best = value;
    explanation.best_so_far.push_back(best);
  }
  std::vector<const TriedFigure*> objectives;
  for (const TriedFigure& objective : trials.objectives) objectives.push_back(&objective);
  explanation.pareto_front = front_of(objectives);
  return explanation;
}

}  // namespace terrace::search
