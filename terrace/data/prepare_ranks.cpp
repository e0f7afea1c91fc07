// Gathers the problems of ranks.
#include "terrace/data/prepare_ranks.h"

#include <algorithm>
#include <exception>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/system/cores.h"

namespace terrace::data {
namespace {

class OnePrepareRank : public PrepareRanks {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  int64_t cores() const override { return usable_cores(); }
  std::vector<std::string> gather(const std::string& own) override { return {own}; }
};

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

std::unique_ptr<PrepareRanks> one_prepare_rank() { return std::make_unique<OnePrepareRank>(); }

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
