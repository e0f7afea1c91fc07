// Lists problems below a heading.
#include "terrace/base/problem_list.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/base/error.h"

namespace terrace {

void throw_problems(const std::vector<std::string>& problems, std::string_view what) {
  constexpr size_t most = 10;
  if (problems.empty()) return;
  if (problems.size() == 1) throw UserError(problems.front());
  std::string text = fmt::format("{} {}:", problems.size(), what);
  for (size_t i = 0; i < std::min(most, problems.size()); ++i) text += "\n  " + problems[i];
  if (problems.size() > most) text += fmt::format("\n  and {} more", problems.size() - most);
  throw UserError(text);
}

}  // namespace terrace
