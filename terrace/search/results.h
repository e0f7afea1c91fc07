// results.csv in a search's folder has one row for each finished trial, with the columns of DeepHyper: p:NAME for each
// parameter, objective or objective_0, objective_1 .. (the larger the better, or F_ and the kind of failure), job_id,
// job_status, and m:NAME for what else is known of the trial. With successive halving each budget that a trial has
// reached is a row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "terrace/search/evaluate.h"
#include "terrace/search/proposals/optimizer.h"
#include "terrace/search/shared_file.h"
#include "terrace/search/study/study.h"

namespace terrace::search {

struct Trial {
  int64_t job_id = 0;
  Point point = {};
  std::vector<double> objectives = {};  // by goal, the larger the better; empty if the trial failed
  Outcome outcome = {};
  double submitted = 0, gathered = 0;  // seconds since the search began
  // The job that began the trial, and the budget that this row's job reached, with successive halving.
  int64_t trial = 0;
  int64_t budget = 0;

  bool failed() const { return objectives.empty(); }
};

// The constructor, read_new() and add() need the lock of the search, since other processes may write rows too.
class Results {
 public:
  // Opens the folder's results.csv, or creates both. A last row without its line break is removed: the search was
  // killed while it wrote the row. Throws UserError if the file has other columns or a value that is not in the space,
  // or if its trials are of another configuration, machine or objective. Errors of the file system throw
  // std::system_error. The study outlives the results.
  Results(const std::filesystem::path& folder, const Study& study);

  // The rows that the file had.
  const std::vector<Trial>& earlier() const { return earlier_; }
  // The rows that other processes have added since the last call.
  std::vector<Trial> read_new();
  // Writes a row, which is kept also if the program is killed; sync() makes rows durable on the disk. To be called
  // after read_new().
  void add(const Trial& trial);
  void sync() const { file_.sync(); }

 private:
  std::vector<Trial> read_rows(const std::string& lines);

  SharedFile file_;
  const Study& study_;
  std::string header_;
  size_t rows_ = 0;  // of the file
  std::vector<Trial> earlier_;
};

// The first line of the study's results.csv, and the row of a trial.
std::string results_header(const Study& study);
std::string results_row(const Study& study, const Trial& trial);

// The trials of any results.csv with a column p:NAME for each parameter and as many objectives, for a warm start; what
// else it has is ignored.
// `skipped` is the number of rows with values that are not in the space.
struct EarlierTrials {
  std::vector<Trial> trials;
  int64_t skipped = 0;
};
EarlierTrials read_results(const std::filesystem::path& path, const Study& study);

}  // namespace terrace::search
