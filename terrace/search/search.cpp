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
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/search/commands.h"
#include "terrace/search/enumeration.h"
#include "terrace/search/halving.h"
#include "terrace/search/proposals/first_trials.h"
#include "terrace/search/proposals/predicted_proposals.h"
#include "terrace/search/simulation.h"
#include "terrace/search/training_runs.h"
#include "terrace/search/workers.h"

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

class Run {
 public:
  Run(const Study& study, const SearchOptions& options)
      : study_(study),
        options_(options),
        optimizer_(study.space, {.method = study.settings.method, .seed = study.settings.seed}),
        workers_(options.folder, study, options.joins),
        evaluator_(make_evaluator(study, options)),
        judged_(workers_.earlier().size()) {
    if (study.settings.method == Method::successive_halving) ladder_.emplace(study.settings.halving);
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
    if (!evaluator_->is_exact() || workers_.found_others()) restore();
    const size_t parallel = parallel_trials();
    while (!stops()) {
      while (pending_.size() < parallel && begin_next()) {
      }
      report();
      if (!pending_.empty()) {
        gather();
      } else if (waits_for_others()) {
        std::this_thread::sleep_for(idle_look);
      } else {
        break;
      }
      if (!is_replaying() && Clock::now() - looked_ >= busy_look) turn();
    }
    if (stops()) give_up();
    for (; replayed_ < workers_.earlier().size(); ++replayed_) finish(workers_.earlier()[replayed_], Source::earlier);
    workers_.sync();
    leave();
    return std::move(result_);
  }

 private:
  struct Pending {
    Trial trial;
    TrialJob job = {};
    std::future<Outcome> outcome = {};  // not valid if the trial is an earlier one
  };
  enum class Source { here, earlier, elsewhere };

  static constexpr size_t most_kept = 3;  // trials whose checkpoints are kept
  // The time between two looks of a worker at the others: while it waits for them, and while it waits for trials of its
  // own.
  static constexpr auto idle_look = std::chrono::seconds(1), busy_look = std::chrono::seconds(5);

  bool stops() const { return options_.stops && options_.stops(); }

  void give_up() {
    result_.end = SearchEnd::stopped;
    evaluator_->stop();
    pending_.clear();
  }

  int64_t most_trials() const {
    if (study_.settings.tries_all()) return std::numeric_limits<int64_t>::max();
    return study_.settings.trials > 0 ? study_.settings.trials : default_trials;
  }

  // Proposals of points that are learned from depend on this number, which is therefore the same on every machine.
  size_t parallel_trials() const {
    constexpr size_t simulated = 4;
    if (study_.settings.parallel > 0) return static_cast<size_t>(study_.settings.parallel);
    if (study_.settings.method != Method::exhaustive) return simulated;
    return std::max<size_t>(simulated, std::thread::hardware_concurrency());
  }

  bool is_over() const {
    return options_.time_limit > 0 && Clock::now() - began_ >= std::chrono::duration<double>(options_.time_limit);
  }

  // Earlier trials take no time and no turn.
  bool is_replaying() const { return replayed_ < workers_.earlier().size(); }

  // Whether others have something under way that this worker does if they die, or that it has to show at its end.
  bool waits_for_others() {
    const bool has_all = !ladder_ && begun_ >= most_trials();  // others were asked for more
    if (has_all || !workers_.is_working_elsewhere()) return false;
    if (is_over()) result_.end = SearchEnd::time;
    return !is_over();
  }

  // Takes a turn, and learns what other workers have begun and finished.
  Workers::Turn turn() {
    Workers::Turn turn = workers_.take_turn();
    looked_ = Clock::now();
    for (const Trial& trial : workers_.take_finished()) {
      learn(trial);
      finish(trial, Source::elsewhere);
    }
    for (const TrialJob& job : workers_.take_begun()) {
      points_[job.trial] = job.point;
      if (predicted_) {
        predicted_->expect(job.point);
      } else {
        optimizer_.expect(job.point);
      }
      set_promoted(job.trial, job.budget);
    }
    return turn;
  }

  // Begins the next piece of work. Returns whether there was one.
  bool begin_next() {
    if (is_replaying()) return begin_trial({});
    Workers::Turn own_turn = turn();
    if (ladder_ && is_over()) {
      result_.end = SearchEnd::time;
      return false;
    }
    if (!is_over()) {
      if (const std::optional<TrialJob> job = workers_.take_over()) {
        if (!job->continues()) ++begun_;
        start(*job);
        return true;
      }
    }
    if (ladder_) {
      if (const auto promotion = ladder_->promote()) {
        begin({.id = workers_.next_job(),
               .trial = promotion->trial,
               .point = points_.at(promotion->trial),
               .budget = promotion->budget});
        return true;
      }
    }
    return begin_trial(std::move(own_turn));
  }

  // Begins a trial, without a turn while earlier trials are replayed.
  bool begin_trial(Workers::Turn own_turn) {
    if (begun_ + workers_.trials_elsewhere() >= most_trials()) return false;
    if (own_turn && is_over()) {
      result_.end = SearchEnd::time;
      return false;
    }
    const std::optional<Point> point = ask();
    if (!point) {
      result_.end = SearchEnd::points;
      return false;
    }
    ++begun_;
    if (!own_turn) {
      if (const std::optional<Trial> earlier = replay(*point)) {
        pending_.push_back({.trial = *earlier});
        return true;
      }
      // The search takes another way than before, which others may have taken too.
      own_turn = turn();
      if (begun_ + workers_.trials_elsewhere() > most_trials() || is_taken(*point)) {
        --begun_;
        return begin_trial(std::move(own_turn));
      }
    }
    const int64_t id = workers_.next_job();
    begin({.id = id, .trial = id, .point = *point, .budget = ladder_ ? ladder_->first_budget() : 0});
    return true;
  }

  // A search for a point that found none is repeated only when more is known.
  std::optional<Point> ask() {
    if (asked_in_vain_ == result_.trials.size()) return std::nullopt;
    std::optional<Point> point = predicted_ ? predicted_->ask() : optimizer_.ask();
    if (!point) asked_in_vain_ = result_.trials.size();
    return point;
  }

  // Whether another worker has the point.
  bool is_taken(const Point& point) const {
    const auto has_point = [&](const Trial& trial) { return trial.point == point; };
    return workers_.is_begun_elsewhere(point) || std::ranges::any_of(result_.trials, has_point);
  }

  void begin(const TrialJob& job) {
    workers_.begin(job);
    start(job);
  }

  void start(const TrialJob& job) {
    points_[job.trial] = job.point;
    Pending pending{.trial = {.job_id = job.id,
                              .point = job.point,
                              .submitted = workers_.seconds(),
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
    for (const Trial& trial : workers_.earlier()) {
      learn(trial);
      finish(trial, Source::earlier);
    }
    replayed_ = workers_.earlier().size();
  }

  // A trial that this process did not make.
  void learn(const Trial& trial) {
    points_[trial.trial] = trial.point;
    if (trial.job_id == trial.trial) ++begun_;
    tell(trial);
    set_promoted(trial.trial, trial.budget);
  }

  // The trial was begun to continue to the budget, unless that is the first one.
  void set_promoted(int64_t trial, int64_t budget) {
    if (!ladder_ || budget <= ladder_->first_budget()) return;
    const std::vector<int64_t> budgets = study_.settings.halving.budgets();
    ladder_->set_promoted(trial, *std::prev(std::ranges::find(budgets, budget)));
  }

  // The next earlier trial if it has the proposed point. If it has not, since the study has changed or several workers
  // made the trials, the optimizer learns all other earlier trials at once.
  std::optional<Trial> replay(const Point& point) {
    const std::vector<Trial>& earlier = workers_.earlier();
    if (earlier[replayed_].point == point) return earlier[replayed_++];
    while (!pending_.empty() && !stops()) gather();
    std::optional<Trial> same;
    for (; replayed_ < earlier.size(); ++replayed_) {
      const Trial& one = earlier[replayed_];
      if (one.point == point) {
        same = one;
        continue;
      }
      tell(one);
      finish(one, Source::earlier);
    }
    begun_ = static_cast<int64_t>(earlier.size()) + (same ? 0 : 1);
    return same;
  }

  // Waits for the oldest trial under way where outcomes are exact, otherwise for the trial that ends first. Returns the
  // end of the list if the search is to stop before, or if it is time to look at the other workers.
  std::deque<Pending>::iterator wait_for_one() {
    constexpr auto pause = std::chrono::milliseconds(100);
    const auto waits_no_more = [&] { return stops() || (!is_replaying() && Clock::now() - looked_ >= busy_look); };
    if (evaluator_->is_exact()) {
      const std::future<Outcome>& oldest = pending_.front().outcome;
      while (oldest.valid() && oldest.wait_for(pause) != std::future_status::ready) {
        if (waits_no_more()) return pending_.end();
      }
      return pending_.begin();
    }
    std::unique_lock lock(mutex_);
    while (!one_ended_.wait_for(lock, pause, [this] { return !ended_.empty(); })) {
      if (waits_no_more()) return pending_.end();
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
      refuse_missing_program(trial, result_.trials);
      trial.gathered = workers_.seconds();
      if (!trial.outcome.failed()) trial.objectives = study_.goal_values(trial.outcome.figures);
      const Workers::Turn own_turn = turn();
      if (!workers_.has(trial.job_id)) {
        log_warning("trial {} does not count: another worker makes it again", trial.trial);
        if (!pending.job.continues()) --begun_;
        return;
      }
      workers_.finish(trial);
      sync_sometimes();
    }
    tell(trial);
    finish(trial, is_new ? Source::here : Source::earlier);
    if (!is_new) return;
    refuse_missing_goal(result_.trials);
    if (!evaluator_->is_exact()) refuse_repeated_failure(result_.trials, judged_);
    judged_ = result_.trials.size();
  }

  // The worker that leaves last removes what no one needs any more.
  void leave() {
    const Workers::Turn own_turn = turn();
    const bool is_last = workers_.leave();
    result_.others = workers_.count();
    if (!is_last || result_.end == SearchEnd::stopped) return;
    std::vector<int64_t> best;
    for (const Trial& trial : result_.best(most_kept)) best.push_back(trial.trial);
    evaluator_->finish(best);
  }

  // Predictions of all points, which propose what is trained.
  void predict_all() {
    Simulation simulation(study_);
    const Goal& goal = study_.settings.goals.front();
    const std::vector<TrialFigure> figures = simulated_figures(*study_.family);
    const auto place =
        static_cast<size_t>(std::ranges::find(figures, goal.figure, &TrialFigure::name) - figures.begin());
    std::vector<Outcome> failures;
    const auto predict = [&](const Point& point) -> std::optional<double> {
      if (stops()) return std::nullopt;
      const Outcome outcome = simulation.evaluate({.point = point});
      if (!outcome.failed()) return outcome.figures[place];
      const std::lock_guard lock(mutex_);
      failures.push_back(outcome);
      return std::nullopt;
    };
    PredictedPoints all = predict_points(study_.space, study_.settings.seed, predict, options_.predicting);
    if (all.points.empty() && !stops()) {
      if (failures.empty()) throw UserError("no point of the space holds all constraints");
      throw UserError(fmt::format("no point of the space is predicted to run on {}: {} predictions failed, {}",
                                  study_.settings.machine, failures.size(), commonest_failure(failures)),
                      ExitCode::infeasible);
    }
    const std::string failed =
        failures.empty() ? "" : fmt::format(", {} failed, {}", failures.size(), commonest_failure(failures));
    log_info("{} were predicted: {} can run{}", counted(all.predicted, all.has_all ? "point" : "random point"),
             format_count(static_cast<int64_t>(all.points.size())), failed);
    predicted_.emplace(study_.space, std::move(all.points), goal.minimizes);
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

  void finish(const Trial& trial, Source source) {
    result_.trials.push_back(trial);
    if (source == Source::earlier) ++result_.resumed;
    if (source == Source::elsewhere) ++result_.by_others;
    report();
  }

  void report() const {
    if (!options_.progress) return;
    SearchState state{.finished = result_.trials, .running = {}, .workers = workers_.count()};
    for (const Pending& pending : pending_) {
      if (pending.outcome.valid()) state.running.push_back(pending.job);
    }
    options_.progress(state);
  }

  // A crash of the machine loses no more than a second.
  void sync_sometimes() {
    if (Clock::now() - synced_ < std::chrono::seconds(1)) return;
    workers_.sync();
    synced_ = Clock::now();
  }

  const Study& study_;
  const SearchOptions& options_;
  Optimizer optimizer_;
  Workers workers_;
  std::unique_ptr<TrialEvaluator> evaluator_;
  std::optional<HalvingLadder> ladder_;
  std::optional<PredictedProposals> predicted_;
  Clock::time_point began_ = Clock::now(), synced_ = began_, looked_ = began_;
  size_t replayed_ = 0;                  // earlier trials
  size_t judged_;                        // trials that did not say that all others would fail
  std::optional<size_t> asked_in_vain_;  // when so many trials had ended
  int64_t begun_ = 0;                    // trials that have ended or are under way here
  std::map<int64_t, Point> points_;      // by trial
  SearchResult result_;

  std::mutex mutex_;
  std::condition_variable one_ended_;
  std::deque<int64_t> ended_;    // jobs that were not gathered yet
  std::deque<Pending> pending_;  // last, since its destructor waits for the trials under way
};

}  // namespace

SearchResult search(const Study& study, const SearchOptions& options) {
  if (study.settings.method != Method::automatic) return Run(study, options).run();
  Study chosen = study;
  const std::string reason = choose_method(chosen, options);
  if (!reason.empty()) log_info("{}", reason);
  return Run(chosen, options).run();
}

}  // namespace terrace::search
