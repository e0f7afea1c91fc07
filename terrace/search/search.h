// A search from its first trial to its last: proposals, evaluations and results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "terrace/search/results.h"
#include "terrace/search/study.h"

namespace terrace::search {

struct SearchOptions {
  std::filesystem::path folder;     // of results.csv
  std::filesystem::path from = {};  // another search's results for a warm start; "": none
  double time_limit = 0;            // seconds, after which no trial begins; 0: none
  // Called after each trial with all finished ones, the new one last.
  std::function<void(const std::vector<Trial>&)> progress = {};
};

enum class SearchEnd { trials, points, time };  // all that were asked for, all points of the space, the time limit

struct SearchResult {
  std::vector<Trial> trials;  // by job_id, those of an interrupted search included
  int64_t resumed = 0;        // trials that results.csv had
  int64_t skipped = 0;        // rows of `from` that are not in the space
  SearchEnd end = SearchEnd::trials;

  int64_t failed() const;
  // The trials that did not fail, the best first; at most `count`.
  std::vector<Trial> best(size_t count) const;
};

// Evaluates study.settings.parallel trials at a time. A proposal depends on the trials before it and not on their
// times: the search is the same on every machine, and one that was killed goes on as if it had not been.
SearchResult search(const Study& study, const SearchOptions& options);

// The trials of a search without a limit of its own.
constexpr int64_t default_trials = 100;

}  // namespace terrace::search
