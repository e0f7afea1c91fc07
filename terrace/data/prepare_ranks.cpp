// Gathers the problems of ranks.
#include "terrace/data/prepare_ranks.h"

#include <algorithm>
#include <exception>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/system/cores.h"

namespace terrace::data {
namespace {

// Runs the part and returns its problem: the exit code as a character and the text; "" without a problem.
std::string problem_of(const std::function<void()>& part) {
  const auto text = [](ExitCode code, const char* what) { return std::string(1, static_cast<char>(code)) + what; };
  try {
    part();
  } catch (const UserError& error) {
    return text(error.code, error.what());
  } catch (const std::exception& error) {
    return text(ExitCode::failure, error.what());
  }
  return "";
}

}  // namespace

int64_t PrepareRanks::cores() const { return usable_cores(); }

void on_all_ranks(PrepareRanks& ranks, const std::function<void()>& part) {
  if (ranks.size() == 1) return part();
  std::vector<std::string> texts;
  ExitCode code = ExitCode::done;
  for (const std::string& problem : ranks.gather(problem_of(part))) {
    if (problem.empty()) continue;
    if (texts.empty()) code = static_cast<ExitCode>(problem.front());
    if (std::string text = problem.substr(1); std::ranges::find(texts, text) == texts.end()) {
      texts.push_back(std::move(text));
    }
  }
  if (texts.empty()) return;
  if (!ranks.is_first()) throw UserError("", code);
  try {
    throw_problems(texts, "problems on several ranks");
  } catch (const UserError& error) {
    throw UserError(error.what(), code);
  }
}

}  // namespace terrace::data
