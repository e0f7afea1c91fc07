// Compares each value with the front of those before it.
#include "terrace/search/proposals/pareto.h"

#include <algorithm>

namespace terrace::search {
namespace {

bool betters(const std::vector<double>& a, const std::vector<double>& b) {
  bool is_better_once = false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] < b[i]) return false;
    is_better_once = is_better_once || a[i] > b[i];
  }
  return is_better_once;
}

}  // namespace

std::vector<size_t> pareto_front(const std::vector<std::vector<double>>& values) {
  std::vector<size_t> front;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    if (std::ranges::any_of(front, [&](size_t other) { return betters(values[other], values[i]); })) continue;
    std::erase_if(front, [&](size_t other) { return betters(values[i], values[other]); });
    front.push_back(i);
  }
  return front;
}

}  // namespace terrace::search
