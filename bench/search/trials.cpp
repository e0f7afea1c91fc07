// Counts the trials that the optimizer needs to come within 1% of the best point of spaces whose points are all known,
// as lines of peers.py's RUNS.CSV. Usage: bench_search_trials FOLDER [--spaces S,..] [--method bayesian|random]
// [--first-seed N] [--seeds N] [--cap N], in the root of the repository. FOLDER/SPACE holds space.toml and results.csv
// of `terrace search --method exhaustive`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "terrace/search/proposals/optimizer.h"
#include "terrace/search/results.h"
#include "terrace/search/study/study.h"

namespace {

using namespace terrace::search;
using Clock = std::chrono::steady_clock;

struct Table {
  explicit Table(const std::filesystem::path& folder) : study(load_study(folder / "space.toml")) {
    for (const Trial& trial : read_results(folder / "results.csv", study).trials) {
      if (!trial.failed()) best = std::max(best, trial.objectives.front());
      outcomes.emplace(trial.point, trial);
    }
  }

  bool is_enough(const Trial& trial) const {
    return !trial.failed() && trial.objectives.front() >= best - std::abs(best) / 100;
  }

  Study study;
  std::map<Point, Trial> outcomes;
  double best = -std::numeric_limits<double>::infinity();
};

struct Found {
  int64_t trials = 0;
  bool found = false;
  double seconds_per_trial = 0;
};

// Searches as `terrace search` does: the oldest of the pending trials ends before the next one begins.
Found search_table(const Table& table, Method method, uint64_t seed, size_t parallel, int64_t cap) {
  Optimizer optimizer(table.study.space, {.method = method, .seed = seed});
  const auto began = Clock::now();
  Found result;
  std::deque<Point> pending;
  while (result.trials < cap && !result.found) {
    while (pending.size() < parallel) pending.push_back(optimizer.ask().value());
    const Trial& trial = table.outcomes.at(pending.front());
    optimizer.tell(trial.point, trial.objectives, trial.outcome.failure);
    pending.pop_front();
    ++result.trials;
    result.found = table.is_enough(trial);
  }
  result.seconds_per_trial =
      std::chrono::duration<double>(Clock::now() - began).count() / static_cast<double>(result.trials);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  std::string spaces, method = "bayesian";
  uint64_t first_seed = 1, seeds = 20;
  int64_t cap = 1000;
  for (int i = 2; i + 1 < count; i += 2) {
    const std::string option = arguments[i];
    if (option == "--spaces") spaces = fmt::format(",{},", arguments[i + 1]);
    if (option == "--method") method = arguments[i + 1];
    if (option == "--first-seed") first_seed = std::strtoull(arguments[i + 1], nullptr, 10);
    if (option == "--seeds") seeds = std::strtoull(arguments[i + 1], nullptr, 10);
    if (option == "--cap") cap = std::atoll(arguments[i + 1]);
  }
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    const bool is_chosen =
        spaces.empty() || spaces.find("," + entry.path().filename().string() + ",") != std::string::npos;
    if (is_chosen && std::filesystem::exists(entry.path() / "results.csv")) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  fmt::print("space,method,parallel,seed,cap,trials,distinct,found,milliseconds\n");
  for (const auto& folder : folders) {
    const Table table(folder);
    for (const size_t parallel : {1, 4}) {
      for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
        const Found found = search_table(table, method_of(method), seed, parallel, cap);
        fmt::print("{},{},{},{},{},{},{},{},{:.3f}\n", folder.filename().string(),
                   method == "bayesian" ? "terrace" : "terrace_" + method, parallel, seed, cap, found.trials,
                   found.trials, found.found ? 1 : 0, 1e3 * found.seconds_per_trial);
      }
    }
  }
  return 0;
}
