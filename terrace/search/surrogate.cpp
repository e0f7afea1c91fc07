// Two Gaussian processes: of the objective where trials did not fail, and of failing.
#include "terrace/search/surrogate.h"

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

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

Surrogate::Surrogate(const Space& space)
    : space_(&space), objective_process_(space.categorical()), outcome_process_(space.categorical()) {}

void Surrogate::learn(const Point& point, Objective objective) {
  trials_.push_back({space_->scaled(point), objective});
  ++learned_since_fit_;
  // Without the pending trials behind the finished ones.
  objective_process_.truncate(objectives_.size());
  outcome_process_.truncate(outcomes_.size());
  if (trials_.size() > most_trials) {
    forget_some();
  } else {
    add(trials_.back());
  }
}

void Surrogate::add(const Learned& trial) {
  outcome_process_.add(trial.scaled);
  outcomes_.push_back(trial.objective ? 1 : -1);
  if (!trial.objective) return;
  objective_process_.add(trial.scaled);
  objectives_.push_back(*trial.objective);
}

void Surrogate::forget_some() {
  const auto others = trials_.end() - kept_newest;
  std::ranges::stable_sort(trials_.begin(), others, std::greater<>(), &Learned::objective);  // failed ones last
  trials_.erase(trials_.begin() + kept_best, others);
  objective_process_.truncate(0);
  outcome_process_.truncate(0);
  objectives_.clear();
  outcomes_.clear();
  for (const Learned& trial : trials_) add(trial);
}

void Surrogate::set_values() {
  mean_outcome_ = mean_of(outcomes_);
  std::vector<double> values = outcomes_;
  for (double& value : values) value -= mean_outcome_;
  outcome_process_.set_values(values);
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

void Surrogate::prepare(const std::vector<Point>& pending) {
  objective_process_.truncate(objectives_.size());
  outcome_process_.truncate(outcomes_.size());
  set_values();
  if (trials_.size() >= first_fit && 10 * learned_since_fit_ >= trials_.size()) {
    outcome_process_.fit();
    if (objectives_.size() >= first_fit) objective_process_.fit();
    set_values();
    learned_since_fit_ = 0;
  }
  for (const Point& point : pending) {
    const Point scaled = space_->scaled(point);
    outcome_process_.add_expected(scaled);
    if (!objectives_.empty()) objective_process_.add_expected(scaled);
  }
}

// Jones, Schonlau and Welch, "Efficient global optimization of expensive black-box functions", 1998, equation 15.
double Surrogate::improvement(const GaussianProcess::Prediction& prediction) const {
  if (objectives_.empty()) return 1;
  const double deviation = std::sqrt(prediction.variance) + 1e-9;
  const double steps = (prediction.mean - best_objective_) / deviation;
  return deviation * (steps * normal_distribution(steps) + normal_density(steps));
}

double Surrogate::success(double mean, double variance) const {
  return normal_distribution((mean + mean_outcome_) / std::sqrt(variance + outcome_noise));
}

double Surrogate::promise(const Point& point) const {
  const Point scaled = space_->scaled(point);
  const GaussianProcess::Prediction outcome = outcome_process_.predict(scaled);
  const double probability = success(outcome.mean, outcome.variance);
  return probability * improvement(objective_process_.predict(scaled));
}

double Surrogate::promise_bound(const Point& point) const {
  const Point scaled = space_->scaled(point);
  const GaussianProcess::Prediction outcome = outcome_process_.bound(scaled);
  const double probability = success(outcome.mean, outcome.mean + mean_outcome_ < 0 ? outcome.variance : 0);
  return probability * improvement(objective_process_.bound(scaled));
}

}  // namespace terrace::search
