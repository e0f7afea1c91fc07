// Agrees by gathering exit codes, and broadcasts texts, each after its length.
#include "terrace/train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
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
  const int64_t reporting_rank = found - codes.begin();
  std::string text;
  if (world.rank() == reporting_rank) {
    text = reporting_rank == 0
               ? problem->what()
               : fmt::format("on rank {}, but not on the ranks before it: {}", reporting_rank, problem->what());
  }
  throw Refusal(text, static_cast<ExitCode>(*found));
}

std::string broadcast_text(comm::Comm& all, std::string text, int64_t member, const char* what) {
  auto length = static_cast<int64_t>(text.size());
  all.broadcast(&length, 1, comm::Type::int64, member, {.what = what}).wait();
  text.resize(static_cast<size_t>(length));
  all.broadcast(text.data(), length, comm::Type::uint8, member, {.what = what}).wait();
  return text;
}

std::string broadcast_result(comm::Comm& all, const std::function<std::string()>& act) {
  std::optional<UserError> problem;
  std::string text;
  if (all.member() == 0) {
    try {
      text = act();
    } catch (const UserError& error) {
      problem = error;
    }
  }
  int64_t code = problem ? static_cast<int64_t>(problem->code) : 0;
  all.broadcast(&code, 1, comm::Type::int64, 0, {.what = "start"}).wait();
  if (code != 0) throw Refusal(problem ? problem->what() : "", static_cast<ExitCode>(code));
  return broadcast_text(all, std::move(text), 0, "start");
}

}  // namespace terrace::train
