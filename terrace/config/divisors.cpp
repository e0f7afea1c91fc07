// Finds divisors by trial.
#include "terrace/config/divisors.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/config/domain.h"

namespace terrace::config {

std::vector<int64_t> divisors_up_to(int64_t number, int64_t most) {
  std::vector<int64_t> divisors;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    if (i <= most) divisors.push_back(i);
    if (i != number / i && number / i <= most) divisors.push_back(number / i);
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

std::vector<int64_t> divisors_near(int64_t number, int64_t value) {
  std::vector<int64_t> divisors = divisors_up_to(number, number);
  if (divisors.size() <= 8) return divisors;
  const auto above = std::lower_bound(divisors.begin(), divisors.end(), value);
  const auto first = above - std::min<ptrdiff_t>(2, above - divisors.begin());
  const auto last = above + std::min<ptrdiff_t>(2, divisors.end() - above);
  return {first, last};
}

std::string listed(const std::vector<int64_t>& numbers) {
  std::vector<std::string> words;
  for (const int64_t number : numbers) words.push_back(std::to_string(number));
  return config::listed(words);
}

std::string multiples_around(int64_t number, int64_t every) {
  const int64_t below = number / every * every;
  return below == 0 ? std::to_string(every) : fmt::format("{} or {}", below, below + every);
}

}  // namespace terrace::config
