// Keeps a number of trials under way, and gathers them.
#include "terrace/search/search.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "terrace/base/error.h"
#include "terrace/config/family.h"
#include "terrace/search/commands.h"
#include "terrace/search/halving.h"
#include "terrace/search/pareto.h"
#include "terrace/search/predicted_proposals.h"
#include "terrace/search/simulation.h"
#include "terrace/search/training_runs.h"

namespace terrace::search {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<TrialEvaluator> make_evaluator(const Study& study, const SearchOptions& options) {
  switch (study.settings.evaluator) {
    case Evaluator::simulate:
      return std::make_unique<Simulation>(study);
    case Evaluator::command:
      return std::make_unique<Commands>(study, options.folder);
    case Evaluator::train:
      break;
  }
  if (options.program.empty()) {
    throw UserError(
        "evaluator = \"train\" needs a terrace that can train, and this one was built for planning only; use "
        "\"simulate\", or \"command\" with the path of another terrace");
  }
  return std::make_unique<TrainingRuns>(study, options.folder, options.program);
}

bool is_digit(std::string_view text, size_t place) {
  return place < text.size() && text[place] >= '0' && text[place] <= '9';
}

// Whether a time of day such as 13:05:09 begins at `place`.
bool is_time_of_day(std::string_view text, size_t place) {
  static constexpr std::string_view shape = "dd:dd:dd";
  if (text.size() - place < shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 'd' ? !is_digit(text, place + i) : text[place + i] != shape[i]) return false;
  }
  return true;
}

// The last line of a reason without times and without the trial's folder, which differ between equal failures.
std::string cause_of(const std::string& reason, int64_t trial) {
  const std::string_view line = std::string_view(reason).substr(reason.rfind('\n') + 1);
  const std::string folder = fmt::format("trials/{}", trial);
  std::string cause;
  for (size_t place = 0; place < line.size();) {
    if (is_time_of_day(line, place)) {
      place += std::string_view("00:00:00").size();
    } else if (line.substr(place, folder.size()) == folder && !is_digit(line, place + folder.size())) {
      place += folder.size();
    } else {
      cause += line[place++];
    }
  }
  return cause;
}

class Run {
 public:
  Run(const Study& study, const SearchOptions& options)
      : study_(study),
        options_(options),
        optimizer_(study.space, {.method = study.settings.method, .seed = study.settings.seed}),
        results_(options.folder, study),
        evaluator_(make_evaluator(study, options)) {
    if (study.settings.method == Method::successive_halving) ladder_.emplace(study.settings.halving);
    if (!results_.earlier().empty()) before_ = results_.earlier().back().gathered;
  }

  Run(const Run&) = delete;
  // An error does not wait for what is under way.
  ~Run() { evaluator_->stop(); }

  SearchResult run() {
    if (study_.settings.predicts_first) predict_all();
    if (!options_.from.empty()) {
      const EarlierTrials earlier = read_results(options_.from, study_);
      for (const Trial& trial : earlier.trials) tell_optimizer(trial);
      result_.skipped = earlier.skipped;
    }
    if (!evaluator_->is_exact()) restore();
    const auto parallel = static_cast<size_t>(study_.settings.parallel);
    while (!stops()) {
      while (pending_.size() < parallel && begin_next()) {
      }
      if (pending_.empty()) break;
      report();
      gather();
    }
    if (stops()) give_up();
    for (; replayed_ < results_.earlier().size(); ++replayed_) finish(results_.earlier()[replayed_], false);
    results_.sync();
    if (result_.end == SearchEnd::stopped) return std::move(result_);
    std::vector<int64_t> best;
    for (const Trial& trial : result_.best(most_kept)) best.push_back(trial.trial);
    evaluator_->finish(best);
    return std::move(result_);
  }

 private:
  struct Pending {
    Trial trial;
    Job job = {};
    std::future<Outcome> outcome = {};  // not valid if the trial is an earlier one
  };
  static constexpr size_t most_kept = 3;  // trials whose checkpoints are kept

  bool stops() const { return options_.stops && options_.stops(); }

  void give_up() {
    result_.end = SearchEnd::stopped;
    evaluator_->stop();
    pending_.clear();
  }

  double seconds() const { return before_ + std::chrono::duration<double>(Clock::now() - began_).count(); }

  int64_t most_trials() const {
    if (study_.settings.trials > 0) return study_.settings.trials;
    return study_.settings.method == Method::exhaustive ? std::numeric_limits<int64_t>::max() : default_trials;
  }

  bool is_over() const { return options_.time_limit > 0 && seconds() - before_ >= options_.time_limit; }

  // Begins the next piece of work. Returns whether there was one.
  bool begin_next() {
    if (ladder_ && is_over()) {
      result_.end = SearchEnd::time;
      return false;
    }
    if (ladder_) {
      if (const auto promotion = ladder_->promote()) {
        start({.id = next_job_++,
               .trial = promotion->trial,
               .point = points_.at(promotion->trial),
               .budget = promotion->budget});
        return true;
      }
    }
    return begin_trial();
  }

  bool begin_trial() {
    if (begun_ >= most_trials()) return false;
    // Earlier trials take no time.
    if (replayed_ == results_.earlier().size() && is_over()) {
      result_.end = SearchEnd::time;
      return false;
    }
    const std::optional<Point> point = predicted_ ? predicted_->ask() : optimizer_.ask();
    if (!point) {
      result_.end = SearchEnd::points;
      return false;
    }
    ++begun_;
    Trial trial{.job_id = next_job_++, .point = *point, .submitted = seconds()};
    trial.trial = trial.job_id;
    const bool is_earlier = replay(trial);
    if (begun_ > most_trials()) return false;
    if (is_earlier) {
      pending_.push_back({.trial = trial});
      return true;
    }
    start(
        {.id = trial.job_id, .trial = trial.job_id, .point = *point, .budget = ladder_ ? ladder_->first_budget() : 0});
    return true;
  }

  void start(const Job& job) {
    points_[job.trial] = job.point;
    Pending pending{.trial = {.job_id = job.id,
                              .point = job.point,
                              .submitted = seconds(),
                              .trial = job.trial,
                              .budget = job.budget},
                    .job = job};
    pending.outcome = std::async(std::launch::async, [this, job] {
      Outcome outcome = evaluator_->evaluate(job);
      const std::lock_guard lock(mutex_);
      ended_.push_back(job.id);
      one_ended_.notify_one();
      return outcome;
    });
    pending_.push_back(std::move(pending));
  }

  // All that an interrupted search knew.
  void restore() {
    const std::vector<int64_t> budgets = ladder_ ? study_.settings.halving.budgets() : std::vector<int64_t>();
    for (const Trial& trial : results_.earlier()) {
      next_job_ = std::max(next_job_, trial.job_id + 1);
      points_[trial.trial] = trial.point;
      if (trial.job_id == trial.trial) ++begun_;
      tell(trial);
      if (ladder_ && trial.budget > budgets.front()) {
        ladder_->set_promoted(trial.trial, *std::prev(std::ranges::find(budgets, trial.budget)));
      }
      finish(trial, false);
    }
    replayed_ = results_.earlier().size();
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
      tell(one);
      finish(one, false);
    }
    begun_ = next_job_ = static_cast<int64_t>(earlier.size()) + (same ? 0 : 1);
    trial.job_id = trial.trial = next_job_ - 1;
    if (same) trial = *same;
    return same.has_value();
  }

  // Where outcomes are exact the oldest trial under way, otherwise the one that ends first; the end if the search is to
  // stop before.
  std::deque<Pending>::iterator wait_for_one() {
    constexpr auto pause = std::chrono::milliseconds(100);
    if (evaluator_->is_exact()) {
      const std::future<Outcome>& oldest = pending_.front().outcome;
      while (oldest.valid() && oldest.wait_for(pause) != std::future_status::ready) {
        if (stops()) return pending_.end();
      }
      return pending_.begin();
    }
    std::unique_lock lock(mutex_);
    while (!one_ended_.wait_for(lock, pause, [this] { return !ended_.empty(); })) {
      if (stops()) return pending_.end();
    }
    const int64_t id = ended_.front();
    ended_.pop_front();
    return std::ranges::find_if(pending_, [id](const Pending& one) { return one.job.id == id; });
  }

  void gather() {
    const auto place = wait_for_one();
    if (place == pending_.end()) return;
    Pending pending = std::move(*place);
    pending_.erase(place);
    Trial& trial = pending.trial;
    const bool is_new = pending.outcome.valid();
    if (is_new) {
      trial.outcome = pending.outcome.get();
      refuse_missing_program(trial);
      trial.gathered = seconds();
      if (!trial.outcome.failed()) trial.objectives = study_.goal_values(trial.outcome.figures);
      results_.add(trial);
      sync_sometimes();
    }
    tell(trial);
    finish(trial, is_new);
    if (is_new) refuse_missing_goal();
    if (is_new) refuse_repeated_failure();
  }

  // Predictions of all points, which propose what is trained.
  void predict_all() {
    Simulation simulation(study_);
    const Goal& goal = study_.settings.goals.front();
    const std::vector<Figure> figures = simulated_figures(*study_.family);
    const auto place = static_cast<size_t>(std::ranges::find(figures, goal.figure, &Figure::name) - figures.begin());
    std::vector<Outcome> failures;
    const auto predict = [&](const Point& point) -> std::optional<double> {
      if (stops()) return std::nullopt;
      const Outcome outcome = simulation.evaluate({.point = point});
      if (!outcome.failed()) return outcome.figures[place];
      const std::lock_guard lock(mutex_);
      failures.push_back(outcome);
      return std::nullopt;
    };
    std::vector<PredictedPoint> points =
        predict_points(study_.space, study_.settings.seed, predict, options_.predicting);
    if (points.empty() && !stops()) {
      if (failures.empty()) throw UserError("no point of the space holds all constraints");
      throw UserError(fmt::format("no point of the space is predicted to run on {}: {} predictions failed, {}",
                                  study_.settings.machine, failures.size(), commonest_failure(failures)),
                      ExitCode::infeasible);
    }
    predicted_.emplace(study_.space, std::move(points), goal.minimizes);
  }

  void tell_optimizer(const Trial& trial) {
    if (predicted_) {
      const Goal& goal = study_.settings.goals.front();
      predicted_->tell(trial.point, trial.failed() ? std::optional<double>()
                                                   : std::optional(goal.signed_value(trial.objectives.front())));
      return;
    }
    optimizer_.tell(trial.point, trial.objectives, trial.outcome.failure);
  }

  void tell(const Trial& trial) {
    tell_optimizer(trial);
    if (!ladder_) return;
    ladder_->tell(trial.trial, trial.budget, trial.failed() ? Objective() : Objective(trial.objectives.front()));
  }

  void finish(const Trial& trial, bool is_new) {
    result_.trials.push_back(trial);
    if (!is_new) ++result_.resumed;
    report();
  }

  void report() const {
    if (!options_.progress) return;
    SearchState state{.finished = result_.trials, .running = {}};
    for (const Pending& pending : pending_) {
      if (pending.outcome.valid()) state.running.push_back(pending.job);
    }
    options_.progress(state);
  }

  // Without it every trial would fail. The trial is not recorded, so that it counts for nothing once the program is
  // there.
  void refuse_missing_program(const Trial& trial) const {
    if (trial.outcome.failure != "start" || !std::ranges::all_of(result_.trials, &Trial::failed)) return;
    throw UserError::of("the program of trial {} cannot be started: {}", trial.trial, trial.outcome.reason);
  }

  // What makes all of the first trials fail in the same way lies in no parameter. Predictions cost nothing, and in many
  // a space most points do not fit, so they go on.
  void refuse_repeated_failure() const {
    constexpr size_t enough = 10;
    if (evaluator_->is_exact() || result_.trials.size() != enough) return;
    const auto cause = [](const Trial& trial) {
      return trial.failed() ? cause_of(trial.outcome.reason, trial.trial) : std::string();
    };
    const std::string first = cause(result_.trials.front());
    if (first.empty() || !std::ranges::all_of(result_.trials, [&](const Trial& one) { return cause(one) == first; }))
      return;
    throw UserError(fmt::format("each of the first {} trials failed with: {}. The search goes on with the same command",
                                enough, result_.trials.front().outcome.reason),
                    ExitCode::infeasible);
  }

  // A goal that no trial gives would make every trial fail.
  void refuse_missing_goal() {
    constexpr size_t enough = 3;
    const auto lacks_goal = [](const Trial& trial) { return trial.outcome.failure == "objective"; };
    if (result_.trials.size() < enough || !std::ranges::all_of(result_.trials, lacks_goal)) return;
    const Trial& first = result_.trials.front();
    throw UserError::of("no trial gives the objective: trial {}: {}", first.trial, first.outcome.reason);
  }

  // A crash of the machine loses no more than a second.
  void sync_sometimes() {
    if (Clock::now() - synced_ < std::chrono::seconds(1)) return;
    results_.sync();
    synced_ = Clock::now();
  }

  const Study& study_;
  const SearchOptions& options_;
  Optimizer optimizer_;
  Results results_;
  std::unique_ptr<TrialEvaluator> evaluator_;
  std::optional<HalvingLadder> ladder_;
  std::optional<PredictedProposals> predicted_;
  Clock::time_point began_ = Clock::now(), synced_ = began_;
  double before_ = 0;    // seconds of the interrupted search
  size_t replayed_ = 0;  // earlier trials
  int64_t next_job_ = 0, begun_ = 0;
  std::map<int64_t, Point> points_;  // by trial
  SearchResult result_;

  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::deque<int64_t> ended_;    // jobs that were not gathered yet
  std::deque<Pending> pending_;  // last, since its destructor waits for the trials under way
};

}  // namespace

int64_t SearchResult::failed() const { return std::ranges::count_if(trials, &Trial::failed); }

int64_t SearchResult::count() const {
  std::set<int64_t> numbers;
  for (const Trial& trial : trials) numbers.insert(trial.trial);
  return static_cast<int64_t>(numbers.size());
}

std::vector<Trial> SearchResult::best(size_t count) const {
  std::vector<Trial> list;
  int64_t highest = 0;
  for (const Trial& trial : trials) {
    if (!trial.failed()) highest = std::max(highest, trial.budget);
  }
  std::ranges::copy_if(trials, std::back_inserter(list),
                       [&](const Trial& trial) { return !trial.failed() && trial.budget == highest; });
  if (!list.empty() && list.front().objectives.size() > 1) {
    std::vector<std::vector<double>> objectives;
    for (const Trial& trial : list) objectives.push_back(trial.objectives);
    std::vector<Trial> front;
    for (const size_t place : pareto_front(objectives)) front.push_back(list[place]);
    list = std::move(front);
  }
  std::ranges::stable_sort(list, std::greater<>(), [](const Trial& trial) { return trial.objectives.front(); });
  if (list.size() > count) list.resize(count);
  return list;
}

SearchResult search(const Study& study, const SearchOptions& options) { return Run(study, options).run(); }

}  // namespace terrace::search
