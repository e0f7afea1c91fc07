// Shows a search while it runs: on a terminal a table of the best trials and of those under way, otherwise log lines.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "terrace/base/terminal/progress.h"
#include "terrace/search/search.h"

namespace terrace::cli {

class SearchDisplay {
 public:
  // `expected` is the number of trials that the search leads to, 0 where it is unknown. The study outlives the display.
  SearchDisplay(const search::Study& study, uint64_t expected);
  ~SearchDisplay();
  SearchDisplay(const SearchDisplay&) = delete;

  void update(const search::SearchState& state);
  // Shows how many predictions are done, before the first trial.
  void show_predictions(uint64_t done, uint64_t all);
  // Removes the table so that other output starts on a clean line. Call it before other output.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    int64_t trial = 0, budget = 0;
    std::string values;
    Clock::time_point since;
  };

  void add(const search::Trial& trial);
  void set_running(const std::vector<search::TrialJob>& jobs);
  std::string values_of(const search::Point& point) const;
  std::vector<std::string> lines() const;
  std::string erasing() const;  // what removes the drawn lines
  void draw();
  void erase();

  const search::Study& study_;
  uint64_t expected_;
  bool terminal_;
  Clock::time_point began_ = Clock::now();
  Progress progress_;  // without a terminal
  std::optional<Progress> predictions_;
  uint64_t predicted_ = 0, to_predict_ = 0;

  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  size_t seen_ = 0;     // finished rows
  size_t resumed_ = 0;  // finished rows at the first update
  int64_t trials_ = 0, failed_ = 0;
  size_t workers_ = 1;
  search::SearchResult best_;  // the candidates for the best
  std::vector<Running> running_;
  size_t drawn_ = 0;  // lines on the terminal
  std::thread drawer_;
};

}  // namespace terrace::cli
