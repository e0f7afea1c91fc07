// Exit codes and lengths travel as numbers, then texts.
#include "terrace/train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace terrace::train {

void agree(comm::World& world, const std::optional<UserError>& problem) {
  const auto all = world.connect(mesh::all_ranks("start", world.size()));
  const int64_t own = problem ? static_cast<int64_t>(problem->code) : 0;
  std::vector<int64_t> codes(static_cast<size_t>(world.size()));
  all->all_gather(&own, codes.data(), 1, comm::Type::int64, {.what = "agree"}).wait();
  const auto found = std::ranges::find_if(codes, [](int64_t code) { return code != 0; });
  if (found == codes.end()) return;
  const int64_t speaker = found - codes.begin();
  const bool speaks = world.rank() == speaker;
  throw Refusal(!speaks        ? ""
                : speaker == 0 ? problem->what()
                               : fmt::format("rank {}, and not those before it: {}", speaker, problem->what()),
                static_cast<ExitCode>(*found));
}

std::string told_by_first(comm::Comm& all, const std::function<std::string()>& act) {
  std::optional<UserError> problem;
  std::string text;
  if (all.member() == 0) {
    try {
      text = act();
    } catch (const UserError& error) {
      problem = error;
    }
  }
  std::array<int64_t, 2> facts = {problem ? static_cast<int64_t>(problem->code) : 0, static_cast<int64_t>(text.size())};
  all.broadcast(facts.data(), 2, comm::Type::int64, 0, {.what = "start"}).wait();
  if (problem) throw Refusal(problem->what(), problem->code);
  if (facts[0] != 0) throw Refusal("", static_cast<ExitCode>(facts[0]));
  text.resize(static_cast<size_t>(facts[1]));
  all.broadcast(text.data(), facts[1], comm::Type::uint8, 0, {.what = "start"}).wait();
  return text;
}

}  // namespace terrace::train
