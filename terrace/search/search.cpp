// Keeps a number of trials under way, and gathers them in the order in which they were proposed.
#include "terrace/search/search.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <limits>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/config/family.h"

namespace terrace::search {
namespace {

using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(const Study& study, const SearchOptions& options)
      : study_(study),
        options_(options),
        simulation_(study),
        optimizer_(study.space, {.method = study.settings.method, .seed = study.settings.seed}),
        results_(options.folder, study) {
    const auto objective = std::ranges::find(study.figures, study.settings.objective, &Figure::name);
    objective_ = static_cast<size_t>(objective - study.figures.begin());
    if (!results_.earlier().empty()) before_ = results_.earlier().back().gathered;
  }

  SearchResult run() {
    if (!options_.from.empty()) {
      const EarlierTrials earlier = read_results(options_.from, study_.space);
      for (const Trial& trial : earlier.trials) optimizer_.tell(trial.point, trial.objective);
      result_.skipped = earlier.skipped;
    }
    const auto parallel = static_cast<size_t>(study_.settings.parallel);
    while (submit()) {
      if (pending_.size() == parallel) gather();
    }
    while (!pending_.empty()) gather();
    for (; replayed_ < results_.earlier().size(); ++replayed_) finish(results_.earlier()[replayed_], false);
    results_.sync();
    return std::move(result_);
  }

 private:
  struct Pending {
    Trial trial;
    std::future<Outcome> outcome = {};  // not valid if the trial is an earlier one
  };

  double seconds() const { return before_ + std::chrono::duration<double>(Clock::now() - began_).count(); }

  int64_t most_trials() const {
    if (study_.settings.trials > 0) return study_.settings.trials;
    return study_.settings.method == Method::exhaustive ? std::numeric_limits<int64_t>::max() : default_trials;
  }

  // Begins the next trial. Returns whether there was one.
  bool submit() {
    const auto is_over = [&] { return options_.time_limit > 0 && seconds() - before_ >= options_.time_limit; };
    if (next_job_ >= most_trials()) return false;
    // Earlier trials take no time.
    if (replayed_ == results_.earlier().size() && is_over()) {
      result_.end = SearchEnd::time;
      return false;
    }
    const std::optional<Point> point = optimizer_.ask();
    if (!point) {
      result_.end = SearchEnd::points;
      return false;
    }
    Pending pending{.trial = {.job_id = next_job_++, .point = *point, .submitted = seconds()}};
    const bool is_earlier = replay(pending.trial);
    if (next_job_ > most_trials()) return false;
    if (!is_earlier) {
      pending.outcome = std::async(std::launch::async, [this, where = *point] { return simulation_.evaluate(where); });
    }
    pending_.push_back(std::move(pending));
    return true;
  }

  // Takes the outcome of the next earlier trial if the proposal is the same. If it is not, since the study has changed,
  // the optimizer learns all other earlier trials at once.
  bool replay(Trial& trial) {
    const std::vector<Trial>& earlier = results_.earlier();
    if (replayed_ == earlier.size()) return false;
    if (earlier[replayed_].point == trial.point) {
      trial = earlier[replayed_++];
      return true;
    }
    while (!pending_.empty()) gather();
    std::optional<Trial> same;
    for (; replayed_ < earlier.size(); ++replayed_) {
      const Trial& one = earlier[replayed_];
      if (one.point == trial.point) {
        same = one;
        continue;
      }
      optimizer_.tell(one.point, one.objective);
      finish(one, false);
    }
    next_job_ = static_cast<int64_t>(earlier.size()) + (same ? 0 : 1);
    trial.job_id = next_job_ - 1;
    if (same) trial = *same;
    return same.has_value();
  }

  // Waits for the oldest trial under way.
  void gather() {
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    Trial& trial = pending.trial;
    const bool is_new = pending.outcome.valid();
    if (is_new) {
      trial.outcome = pending.outcome.get();
      trial.gathered = seconds();
      if (!trial.outcome.failed()) {
        const double figure = trial.outcome.figures[objective_];
        trial.objective = study_.settings.minimizes ? -figure : figure;
      }
      results_.add(trial);
      sync_sometimes();
    }
    optimizer_.tell(trial.point, trial.objective);
    finish(trial, is_new);
  }

  void finish(const Trial& trial, bool is_new) {
    result_.trials.push_back(trial);
    if (!is_new) ++result_.resumed;
    if (options_.progress) options_.progress(result_.trials);
  }

  // A crash of the machine loses no more than a second.
  void sync_sometimes() {
    if (Clock::now() - synced_ < std::chrono::seconds(1)) return;
    results_.sync();
    synced_ = Clock::now();
  }

  const Study& study_;
  const SearchOptions& options_;
  Simulation simulation_;
  Optimizer optimizer_;
  Results results_;
  Clock::time_point began_ = Clock::now(), synced_ = began_;
  double before_ = 0;  // seconds of the interrupted search
  size_t objective_ = 0;
  size_t replayed_ = 0;  // earlier trials
  int64_t next_job_ = 0;
  std::deque<Pending> pending_;
  SearchResult result_;
};

}  // namespace

int64_t SearchResult::failed() const {
  return std::ranges::count_if(trials, [](const Trial& trial) { return !trial.objective; });
}

std::vector<Trial> SearchResult::best(size_t count) const {
  std::vector<Trial> list;
  std::ranges::copy_if(trials, std::back_inserter(list),
                       [](const Trial& trial) { return trial.objective.has_value(); });
  std::ranges::stable_sort(list, std::greater<>(), [](const Trial& trial) { return *trial.objective; });
  if (list.size() > count) list.resize(count);
  return list;
}

SearchResult search(const Study& study, const SearchOptions& options) { return Run(study, options).run(); }

}  // namespace terrace::search
