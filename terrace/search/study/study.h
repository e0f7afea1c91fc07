// A study: what SPACE.toml says, which is a space and how it is searched. docs/search.md lists the keys of the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/search/study/space.h"

namespace terrace::search {

// The way in which points are proposed; `automatic` becomes one of two others when the search begins (enumeration.h).
enum class Method { automatic, bayesian, random, exhaustive, successive_halving };
// The method that one of these words names.
Method method_of(const std::string& word);

// The evaluator of a trial: a prediction, a training run, or a command of the user.
enum class Evaluator { simulate, train, command };

// A figure of the trials that is optimized.
struct Goal {
  std::string figure;
  bool minimizes = false;

  // The larger the better, as in results.csv; and back.
  double signed_value(double value) const { return minimizes ? -value : value; }
};

// Asynchronous successive halving: a trial runs for `first` steps (or another unit of a command), and one in `factor`
// of those that have come so far continues to `factor` times as many, until `most`.
struct Halving {
  int64_t first = 0, most = 0;
  int64_t factor = 3;

  // The budgets first, first * factor, .., most.
  std::vector<int64_t> budgets() const;
};

struct StudySettings {
  Evaluator evaluator = Evaluator::simulate;
  bool predicts_first = false;  // predictions propose what is trained
  std::vector<Goal> goals;
  std::string config;  // the training configuration that is varied; "": none, of a command
  std::string machine = "laptop", software = "terrace";
  // The noise scale by which predictions compare global batches: a number of samples, or a run's folder; "": none.
  std::string noise_scale = {};
  std::string devices;  // an expression; also the name of its value in other expressions
  Method method = Method::automatic;
  bool method_is_chosen = false;  // by the program; all points are tried then, whatever `trials` says
  int64_t trials = 0;             // 0: 100, or all points of an exhaustive search
  int64_t parallel = 0;           // 0: 4 simulated trials, or as many as cores of an exhaustive search

  // Whether the search tries all points.
  bool tries_all() const { return method == Method::exhaustive && (trials == 0 || method_is_chosen); }
  uint64_t seed = 1;
  // Settings of training runs and commands.
  std::string command;            // with {NAME} in place of values
  std::string launcher = "auto";  // of training runs: "threads", "mpirun", "srun"; auto: srun in a job of Slurm
  std::vector<std::string> launcher_options = {};
  double trial_seconds = 0;  // 0: no limit
  double trial_memory = 0;   // bytes; 0: no limit
  bool keep_checkpoints = false;
  Halving halving = {};
};

// A figure that a trial measures or predicts.
struct TrialFigure {
  std::string name;
  bool smaller_is_better = false;

  bool operator==(const TrialFigure&) const = default;
};

struct Study {
  StudySettings settings;
  Space space;                       // "devices" is one of its parameters or derived numbers, unless commands need none
  std::vector<TrialFigure> figures;  // the figures of a trial, those of the goals among them
  const config::Family* family = nullptr;  // of the configuration, if there is one
  double noise_scale = 0;                  // samples, as settings.noise_scale gives it; 0: none
  int64_t reference_batch = 0;             // train.global_batch of the configuration, to which it compares

  // The goals' values of a trial with these figures, the larger the better.
  std::vector<double> goal_values(const std::vector<double>& trial_figures) const;
};

// Throws one UserError with every problem of the file, each with its line and a valid alternative. A space without a
// point that holds all constraints is a problem too. The configuration that the file names is read.
Study parse_study(const std::string& toml, const std::string& file_name);
Study load_study(const std::string& path);

}  // namespace terrace::search
