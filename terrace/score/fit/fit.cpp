// Steps of Gauss and Newton on the logarithms of the constants' factors, with weights against outliers.
#include "terrace/score/fit/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "terrace/base/error.h"
#include "terrace/base/system/on_all_cores.h"
#include "terrace/base/terminal/progress.h"
#include "terrace/plan/prediction.h"
#include "terrace/score/fit/constants.h"
#include "terrace/score/fit/least_squares.h"

namespace terrace::score {
namespace {

// Runs of programs whose constants are known are predicted to 5% on average (docs/accuracy.md). The spread of a fit
// begins there, as if it had been seen in so many runs.
constexpr double usual_spread = 0.05, runs_of_usual_spread = 4;
// A run that is more than two spreads off counts less, by the square of how much more.
constexpr double usual_deviation = 2;
// A constant of which the runs remove less of the doubt stays as it is.
constexpr double least_known = 0.1;
// All three in logarithms: the change of a factor by which slopes are measured, the step below which a fit has ended,
// and the longest step of one factor.
constexpr double slope_change = 0.02, small_step = 0.002, longest_step = 0.5;
constexpr int most_iterations = 8;

class Fitter {
 public:
  Fitter(std::vector<ScoredRun> runs, machine::Machine machine)
      : runs_(std::move(runs)), machine_(std::move(machine)), constants_(constants_of(machine_)) {}

  Fit run() {
    x_.assign(constants_.size(), 0);
    logs_ = predicted_logs(x_);
    iterate();
    if (drop_unknown()) iterate();
    return result();
  }

 private:
  machine::Machine scaled(const std::vector<double>& x) const {
    machine::Machine machine = machine_;
    for (size_t k = 0; k < constants_.size(); ++k) {
      if (x[k] != 0) constants_[k].scale(machine, std::exp(x[k]));
    }
    return machine;
  }

  // The number of links of a node is that of the run, whose table may have stated it.
  double predicted_seconds(size_t run, const machine::Machine& machine) const {
    plan::Target target = runs_[run].run.target;
    std::vector<machine::Tier> tiers = machine.tiers;
    for (size_t tier = 0; tier < tiers.size(); ++tier) {
      tiers[tier].devices_per_link = target.machine.tiers[tier].devices_per_link;
    }
    target.machine = machine;
    target.machine.tiers = std::move(tiers);
    return plan::predict(runs_[run].config, target).step_seconds;
  }

  // The logarithms of the seconds of all runs.
  std::vector<double> predicted_logs(const std::vector<double>& x) const {
    const machine::Machine machine = scaled(x);
    std::vector<double> logs(runs_.size());
    on_all_cores(runs_.size(), [&](size_t run) { logs[run] = std::log(predicted_seconds(run, machine)); });
    return logs;
  }

  // Measures all slopes, and sets weights and spread by the remainders.
  void linearize() {
    equations_ = {.weights = equations_.weights, .spread = equations_.spread};
    equations_.slopes.assign(runs_.size(), std::vector<double>(constants_.size()));
    for (const Constant& constant : constants_) equations_.doubts.push_back(constant.doubt);
    for (size_t run = 0; run < runs_.size(); ++run) {
      equations_.remainders.push_back(std::log(runs_[run].measured) - logs_[run]);
    }
    for (size_t k = 0; k < constants_.size(); ++k) {
      std::vector<double> changed = x_;
      changed[k] += slope_change;
      const std::vector<double> logs = predicted_logs(changed);
      for (size_t run = 0; run < runs_.size(); ++run) {
        equations_.slopes[run][k] = (logs[run] - logs_[run]) / slope_change;
      }
    }
  }

  void weigh(double known_unknowns) {
    const std::vector<double>& remainders = equations_.remainders;
    double sum = 0;
    for (size_t run = 0; run < runs_.size(); ++run) {
      const double deviation = std::abs(remainders[run]) / equations_.spread;
      equations_.weights[run] = deviation <= usual_deviation ? 1 : std::pow(usual_deviation / deviation, 2);
      sum += equations_.weights[run] * remainders[run] * remainders[run];
    }
    const double freedom = std::max(0.0, static_cast<double>(runs_.size()) - known_unknowns);
    equations_.spread =
        std::sqrt((runs_of_usual_spread * usual_spread * usual_spread + sum) / (runs_of_usual_spread + freedom));
  }

  // The sum that the fit makes small.
  double badness(const std::vector<double>& x, const std::vector<double>& logs) const {
    double sum = 0;
    for (size_t run = 0; run < runs_.size(); ++run) {
      const double remainder = (std::log(runs_[run].measured) - logs[run]) / equations_.spread;
      sum += equations_.weights[run] * remainder * remainder;
    }
    for (size_t k = 0; k < x.size(); ++k) sum += x[k] * x[k] / (constants_[k].doubt * constants_[k].doubt);
    return sum;
  }

  // Takes the step, or the part of it that makes the fit better; returns the longest change of a factor.
  double take(std::vector<double> step) {
    const double longest = std::abs(*std::ranges::max_element(step, {}, [](double one) { return std::abs(one); }));
    double part = std::min(1.0, longest_step / std::max(longest, longest_step / 2));
    const double before = badness(x_, logs_);
    for (int attempt = 0; attempt < 4; ++attempt, part /= 2) {
      std::vector<double> x = x_;
      for (size_t k = 0; k < x.size(); ++k) x[k] += part * step[k];
      std::vector<double> logs = predicted_logs(x);
      if (badness(x, logs) > before) continue;
      x_ = std::move(x);
      logs_ = std::move(logs);
      return part * longest;
    }
    return 0;
  }

  void iterate() {
    equations_.weights.assign(runs_.size(), 1);
    equations_.spread = usual_spread;
    Progress progress("fitting the machine", most_iterations);
    for (int iteration = 0; iteration < most_iterations; ++iteration) {
      progress.update(static_cast<uint64_t>(iteration));
      linearize();
      // The first remainders are those of the description as it was, of which no run is an outlier.
      if (iteration > 0) weigh(equations_.known_unknowns(equations_.covariance()));
      if (take(equations_.step(equations_.covariance(), x_)) < small_step) break;
    }
    progress.clear();
    linearize();
    weigh(equations_.known_unknowns(equations_.covariance()));
  }

  // Takes the constants of which the runs say nothing out of the fit; returns whether there are any.
  bool drop_unknown() {
    const SquareMatrix covariance = equations_.covariance();
    std::vector<Constant> kept;
    std::vector<double> kept_x;
    for (size_t k = 0; k < constants_.size(); ++k) {
      if (equations_.known(k, covariance) < least_known) {
        unknown_.push_back(constants_[k].key);
      } else {
        kept.push_back(constants_[k]);
        kept_x.push_back(x_[k]);
      }
    }
    constants_ = std::move(kept);
    x_ = std::move(kept_x);
    if (constants_.empty()) {
      throw UserError("the runs say nothing about any figure of the description; give runs of larger models, or more");
    }
    logs_ = predicted_logs(x_);
    return !unknown_.empty();
  }

  FittedConstant fitted(size_t k, const SquareMatrix& covariance) const {
    const Constant& constant = constants_[k];
    const double reach = t_quantile_95(1e9) * std::sqrt(covariance.at(k, k));
    const auto at = [&](double change) {
      std::vector<double> x = x_;
      x[k] += change;
      return constant.value(scaled(x));
    };
    FittedConstant one{.key = constant.key,
                       .before = constant.value(machine_),
                       .after = at(0),
                       .least = at(-reach),
                       .most = at(reach),
                       .known = equations_.known(k, covariance)};
    one.before_text = constant.text(one.before);
    one.after_text = constant.text(one.after);
    one.least_text = constant.text(one.least);
    one.most_text = constant.text(one.most);
    double sum = 0;
    for (size_t run = 0; run < runs_.size(); ++run) {
      const double slope = equations_.slopes[run][k];
      one.set_by.push_back({.run = run, .share = equations_.weights[run] * slope * slope});
      sum += one.set_by.back().share;
    }
    for (Evidence& evidence : one.set_by) evidence.share /= sum;
    std::ranges::stable_sort(one.set_by, std::greater(), &Evidence::share);
    one.set_by.resize(std::min<size_t>(3, one.set_by.size()));
    return one;
  }

  Fit result() const {
    const SquareMatrix covariance = equations_.covariance();
    Fit fit{.machine = scaled(x_), .unknown = unknown_, .spread = equations_.spread};
    for (size_t k = 0; k < constants_.size(); ++k) fit.constants.push_back(fitted(k, covariance));
    for (size_t run = 0; run < runs_.size(); ++run) {
      std::vector<double> x = x_;
      const std::vector<double> step = equations_.step_without(run, covariance);
      for (size_t k = 0; k < x.size(); ++k) x[k] += step[k];
      fit.runs.push_back({.scored = runs_[run],
                          .seconds = std::exp(logs_[run]),
                          .left_out_seconds = predicted_seconds(run, scaled(x)),
                          .weight = equations_.weights[run]});
    }
    fit.machine.errors = expected_errors(fit.runs);
    return fit;
  }

  std::vector<ScoredRun> runs_;
  machine::Machine machine_;
  std::vector<Constant> constants_;
  std::vector<std::string> unknown_;
  std::vector<double> x_;     // logarithms of the factors
  std::vector<double> logs_;  // of the seconds predicted with them
  Equations equations_;
};

double mean_of(const std::vector<FittedRun>& runs, const std::function<double(const FittedRun&)>& error) {
  double sum = 0;
  for (const FittedRun& one : runs) sum += std::abs(error(one));
  return sum / static_cast<double>(runs.size());
}

// The description of the machine that all runs have, without what tables state of it.
machine::Machine only_machine(const std::vector<ScoredRun>& runs) {
  std::map<std::string, int64_t> counts;
  for (const ScoredRun& one : runs) ++counts[one.run.target.machine.name];
  if (counts.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [name, count] : counts) names.push_back(fmt::format("{} ({} runs)", name, count));
    throw UserError::of("the runs are of several machines, {}; fit one at a time, or name the one of all by --machine",
                        fmt::join(names, ", "));
  }
  return machine::load(runs.front().run.machine);
}

// Widens the interval of few runs to that of Student's t distribution.
void widen(plan::PublishedErrors& errors, const std::vector<double>& logs) {
  const auto count = static_cast<double>(logs.size());
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / count;
  double squares = 0;
  for (const double one : logs) squares += (one - mean) * (one - mean);
  const double reach = t_quantile_95(count - 1) * std::sqrt(squares / (count - 1) * (1 + 1 / count));
  const auto rounded = [](double error) { return std::round(1000 * error) / 1000; };
  errors.lowest = std::min(errors.lowest, rounded(std::expm1(mean - reach)));
  errors.highest = std::max(errors.highest, rounded(std::expm1(mean + reach)));
}

}  // namespace

double Fit::error_before() const {
  return mean_of(runs, [](const FittedRun& one) { return one.scored.error(); });
}
double Fit::error_after() const {
  return mean_of(runs, [](const FittedRun& one) { return one.error(); });
}
double Fit::error_left_out() const {
  return mean_of(runs, [](const FittedRun& one) { return one.left_out_error(); });
}

std::vector<plan::PublishedErrors> expected_errors(const std::vector<FittedRun>& runs) {
  constexpr int64_t least_runs = 3;
  std::vector<plan::ComparedRun> compared;
  std::map<std::string, std::vector<double>> logs;
  for (const FittedRun& one : runs) {
    compared.push_back(compared_run(one.scored));
    compared.back().error = one.left_out_error();
    logs[one.scored.kind].push_back(std::log1p(one.left_out_error()));
  }
  std::vector<plan::PublishedErrors> errors = plan::summarize(compared);
  std::erase_if(errors, [](const plan::PublishedErrors& one) { return one.runs < least_runs; });
  for (plan::PublishedErrors& one : errors) {
    if (one.runs < plan::enough_for_percentiles) widen(one, logs[one.kind]);
  }
  return errors;
}

Fit fit_machine(const std::vector<PublishedRun>& runs) {
  const Score score = score::score(runs);
  if (score.scored.empty()) {
    std::set<std::string> problems;
    for (const PublishedRun& one : score.left_out) problems.insert(one.problems.begin(), one.problems.end());
    throw UserError::of("no run can be predicted, so that nothing can be fitted: {}", fmt::join(problems, "; "));
  }
  Fit fit = Fitter(score.scored, only_machine(score.scored)).run();
  fit.left_out = score.left_out;
  return fit;
}

}  // namespace terrace::score
