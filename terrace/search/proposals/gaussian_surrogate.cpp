// Scales the outcomes of the trials for the processes, and combines what they predict.
#include "terrace/search/proposals/gaussian_surrogate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

namespace terrace::search {
namespace {

// A trial's work grows with the square of the number of trials that are known; past the first number, only so many
// best ones and newest ones are kept.
constexpr size_t most_trials = 400, kept_best = 100, kept_newest = 200;
// Lengths are fitted from so many trials on, and again after each growth by a tenth.
constexpr size_t first_fit = 8;
// Variance of the outcome about its process: the probability is not 0 or 1 even next to a trial.
constexpr double outcome_noise = 0.01;

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi); }

// The probability that an outcome is above 0.
double success(const GaussianProcess::Prediction& outcome) {
  return normal_distribution(outcome.mean / std::sqrt(outcome.variance + outcome_noise));
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

GaussianSurrogate::GaussianSurrogate(const Space& space) : space_(&space), objective_process_(space.categorical()) {}

void GaussianSurrogate::learn(const Point& point, Objective objective, const std::string& failure) {
  trials_.push_back({space_->scaled(point), objective, failure});
  ++learned_since_fit_;
  // Removes the pending trials behind the finished ones.
  objective_process_.truncate(objectives_.size());
  for (auto& [kind, failures] : failures_) failures.residuals.truncate(failures.outcomes.size());
  if (trials_.size() > most_trials) {
    forget_some();
  } else {
    add(trials_.back());
  }
}

void GaussianSurrogate::Failures::add(std::span<const double> scaled, double outcome) {
  residuals.add(scaled);
  outcomes.push_back(outcome);
}

GaussianProcess::Prediction GaussianSurrogate::Failures::outcome(const Point& scaled,
                                                                 const GaussianProcess::Prediction& residual) const {
  return {trend.expected(scaled) + residual.mean, std::min(residual.variance, trend.most_variance(scaled))};
}

void GaussianSurrogate::add(const LearnedTrial& trial) {
  if (trial.objective) {
    objective_process_.add(trial.scaled);
    objectives_.push_back(*trial.objective);
    for (auto& [kind, failures] : failures_) failures.add(trial.scaled, 1);
    return;
  }
  const auto [at, is_new] = failures_.try_emplace(
      trial.failure, Failures{LogisticTrend(space_->categorical()), GaussianProcess(space_->categorical())});
  Failures& failures = at->second;
  if (is_new) {
    for (size_t i = 0; i < objectives_.size(); ++i) failures.add(objective_process_.point(i), 1);
  }
  failures.add(trial.scaled, -1);
}

void GaussianSurrogate::forget_some() {
  const auto others = trials_.end() - kept_newest;
  std::ranges::stable_sort(trials_.begin(), others, std::greater<>(), &LearnedTrial::objective);  // failed ones last
  trials_.erase(trials_.begin() + kept_best, others);
  objective_process_.truncate(0);
  objectives_.clear();
  for (auto& [kind, failures] : failures_) {
    failures.residuals.truncate(0);
    failures.outcomes.clear();
  }
  for (const LearnedTrial& trial : trials_) add(trial);
  std::erase_if(failures_, [](const auto& one) { return one.second.outcomes.empty(); });
}

void GaussianSurrogate::set_values() {
  std::vector<double> values;
  for (auto& [kind, failures] : failures_) {
    failures.trend.fit(failures.residuals.points(), failures.outcomes);
    values = failures.outcomes;
    for (size_t i = 0; i < values.size(); ++i) values[i] -= failures.trend.expected(failures.residuals.point(i));
    failures.residuals.set_values(values);
  }
  if (objectives_.empty()) return;
  values = objectives_;
  const double mean = mean_of(values);
  double variance = 0;
  for (double& value : values) {
    value -= mean;
    variance += value * value / static_cast<double>(values.size());
  }
  for (double& value : values) value = variance > 0 ? value / std::sqrt(variance) : 0;
  best_objective_ = *std::ranges::max_element(values);
  objective_process_.set_values(values);
}

void GaussianSurrogate::prepare(const std::vector<Point>& pending) {
  objective_process_.truncate(objectives_.size());
  for (auto& [kind, failures] : failures_) failures.residuals.truncate(failures.outcomes.size());
  set_values();
  if (trials_.size() >= first_fit && 10 * learned_since_fit_ >= trials_.size()) {
    for (auto& [kind, failures] : failures_) {
      if (failures.outcomes.size() >= first_fit) failures.residuals.fit();
    }
    if (objectives_.size() >= first_fit) objective_process_.fit();
    set_values();
    learned_since_fit_ = 0;
  }
  for (const Point& point : pending) {
    const Point scaled = space_->scaled(point);
    for (auto& [kind, failures] : failures_) failures.residuals.add_expected(scaled);
    if (!objectives_.empty()) objective_process_.add_expected(scaled);
  }
}

// Jones, Schonlau and Welch, "Efficient global optimization of expensive black-box functions", 1998, equation 15.
double GaussianSurrogate::improvement(const GaussianProcess::Prediction& prediction) const {
  if (objectives_.empty()) return 1;
  const double deviation = std::sqrt(prediction.variance) + 1e-9;
  const double steps = (prediction.mean - best_objective_) / deviation;
  return deviation * (steps * normal_distribution(steps) + normal_density(steps));
}

double GaussianSurrogate::promise(const Point& point) const {
  const Point scaled = space_->scaled(point);
  double probability = 1;
  for (const auto& [kind, failures] : failures_) {
    probability *= success(failures.outcome(scaled, failures.residuals.predict(scaled)));
  }
  return probability * improvement(objective_process_.predict(scaled));
}

double GaussianSurrogate::promise_bound(const Point& point) const {
  const Point scaled = space_->scaled(point);
  double probability = 1;
  for (const auto& [kind, failures] : failures_) {
    GaussianProcess::Prediction outcome = failures.outcome(scaled, failures.residuals.bound(scaled));
    if (outcome.mean > 0) outcome.variance = 0;
    probability *= success(outcome);
  }
  return probability * improvement(objective_process_.bound(scaled));
}

}  // namespace terrace::search
