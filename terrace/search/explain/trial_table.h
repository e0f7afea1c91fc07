// The trials of any results.csv with the columns of DeepHyper, of `terrace search` or of DeepHyper itself, read without
// the space that they are of.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace terrace::search {

// A column p:NAME. A missing value (an empty cell or nan, as DeepHyper writes where a parameter is not in use) is "".
struct TriedParameter {
  std::string name;
  bool is_numeric = false;               // every value that is not missing is a number
  std::vector<std::string> values = {};  // each once: numbers ascending, words by alphabet, a missing value first
  std::vector<size_t> indices = {};      // by trial: the index of its value in `values`

  // Whether the trial has a value.
  bool exists(size_t trial) const { return !values[indices[trial]].empty(); }
};

// Numbers by trial, NaN where there is none.
struct TriedFigure {
  std::string name;
  std::vector<double> values = {};
  bool smaller_is_better = false;
};

struct TrialTable {
  std::filesystem::path path;
  std::vector<TriedParameter> parameters = {};
  // The columns `objective`, or objective_0, objective_1 ..; with names and natural signs if study.txt stands beside
  // the file: the file has the negative of what is minimized. NaN where the trial failed.
  std::vector<TriedFigure> objectives = {};
  std::vector<std::string> failures = {};  // by trial: "F_oom"; "" if it did not fail
  std::vector<std::string> job_ids = {};   // by trial; the number of the row without such a column
  std::vector<TriedFigure> figures = {};   // the columns m:NAME that hold numbers, except times of the search

  size_t size() const { return failures.size(); }
  size_t failed() const;
};

// `path` is a results.csv or the folder of one. Throws UserError for a file that cannot be read, that has no column of
// a parameter or no objective, and for a row that is torn or whose objective is neither a number nor a failure, with
// its line.
TrialTable read_trial_table(const std::filesystem::path& path);

}  // namespace terrace::search
