// A search from its first trial to its last: proposals, evaluations and results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "terrace/search/results.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

// The progress of a search so far, for a display.
struct SearchState {
  const std::vector<Trial>& finished;  // by their ends
  std::vector<TrialJob> running;       // jobs of this worker
  size_t workers = 1;
};

struct SearchOptions {
  std::filesystem::path folder;     // the folder of results.csv
  std::filesystem::path from = {};  // another search's results for a warm start; "": none
  double time_limit = 0;            // seconds, after which no trial begins; 0: none
  std::string program = {};         // a terrace that can train, for training runs
  bool joins = false;               // whether it may work with other searches in the folder
  // Called while points are predicted before the first trial, with the number done and that of all.
  std::function<void(uint64_t, uint64_t)> predicting = {};
  // Called when trials have begun and after each one's end.
  std::function<void(const SearchState&)> progress = {};
  // Asked several times a second; from the first true on no trial begins, and those under way are given up.
  std::function<bool()> stops = {};
};

// All that were asked for, all points of the space, the time limit, SearchOptions::stops.
enum class SearchEnd { trials, points, time, stopped };

struct SearchResult {
  std::vector<Trial> trials;  // by their ends, those of an interrupted search included
  int64_t resumed = 0;        // trials that results.csv had
  int64_t by_others = 0;      // trials that other workers made meanwhile
  size_t others = 0;          // workers that go on
  int64_t skipped = 0;        // rows of `from` that are not in the space
  SearchEnd end = SearchEnd::trials;

  int64_t failed() const;
  // Rows may be parts of a trial.
  int64_t count() const;
  // The best trials, at most `count`. With one goal these are the trials that did not fail, the best first; with
  // successive halving only those that reached the highest budget that any trial reached. With several goals they are
  // the Pareto front, by the first goal.
  std::vector<Trial> best(size_t count) const;
};

// Evaluates study.settings.parallel trials at a time. Where outcomes are exact, a proposal depends on the trials before
// it and not on their times: the search is the same on every machine, and one that was killed goes on as if it had not
// been. Otherwise trials are gathered as they end; a trial that was under way when the search was killed is given up,
// and begun again by one of successive halving that had reached a budget.
// With SearchOptions::joins several processes work on one folder, each as a worker: they share the trials that are to
// be made, learn from all that have ended, and take over what a worker leaves undone. A worker that finds nothing to
// begin waits until the others have finished what is under way.
// Throws UserError if another search works in the folder and this one does not join it, if the first trials lack a
// figure that is a goal, if the first one's program cannot be started, or if the first ten fail with the same reason.
SearchResult search(const Study& study, const SearchOptions& options);

// The trials of a search without a limit of its own.
constexpr int64_t default_trials = 100;

}  // namespace terrace::search
