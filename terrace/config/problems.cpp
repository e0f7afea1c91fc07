// Sorts problems and joins them into one report.
#include "terrace/config/problems.h"

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace::config {

void report(std::vector<Problem> problems, const std::string& file_name) {
  if (problems.empty()) return;
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.place < b.place; });
  std::string text = problems.size() == 1 ? "" : fmt::format("{} problems in {}:", problems.size(), file_name);
  for (const Problem& problem : problems) {
    if (problems.size() > 1) text += "\n  ";
    text += problem.place.text + ": " + problem.text;
  }
  throw UserError(text);
}

}  // namespace terrace::config
