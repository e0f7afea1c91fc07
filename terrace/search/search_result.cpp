// Counts the trials of a search and finds the best ones.
#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "terrace/search/proposals/pareto.h"
#include "terrace/search/search.h"

namespace terrace::search {

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

}  // namespace terrace::search
