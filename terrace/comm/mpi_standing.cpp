// The engine's part that finds out who is where when a call takes too long.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "terrace/comm/mpi_engine.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto grace = 2s;  // for answers, and for calls whose peer has ended already
constexpr size_t most_named = 8;

// The others that the operation needs.
std::vector<int64_t> ranks_needed(const MpiOperation& operation) {
  const mesh::Group& group = operation.channel().group();
  const int64_t own = group.ranks[static_cast<size_t>(operation.channel().member())];
  if (!is_collective(operation.call())) return {group.ranks[static_cast<size_t>(operation.call().peer)]};
  std::vector<int64_t> ranks = group.ranks;
  std::erase(ranks, own);
  return ranks;
}

}  // namespace

void MpiEngine::give_up_if_late(MpiOperation& operation, Clock::time_point began) {
  const std::chrono::duration<double> waited = Clock::now() - began;
  std::optional<int64_t> ended;
  {
    const Lock here = lock();
    listen();
    if (waited > grace) ended = find_ended_among(ranks_needed(operation));
  }
  if (!ended && waited.count() < options_.timeout_seconds) return;
  const std::string where = ask_who_is_where(operation);
  if (operation.is_complete()) return;
  fail(ended ? fmt::format("rank {} has ended: {}", *ended, where)
             : fmt::format("waited {:g} s: {}", options_.timeout_seconds, where));
}

std::optional<int64_t> MpiEngine::find_ended_among(const std::vector<int64_t>& ranks) const {
  const auto found = std::ranges::find_if(ranks, [&](int64_t rank) { return watch_.has_ended(rank); });
  if (found == ranks.end()) return std::nullopt;
  return *found;
}

std::string MpiEngine::ask_who_is_where(MpiOperation& operation) {
  const std::vector<int64_t> ranks = ranks_needed(operation);
  {
    const Lock here = lock();
    watch_.ask(ranks, operation.channel().key());
  }
  for (const auto began = Clock::now(); Clock::now() - began < grace; std::this_thread::sleep_for(1ms)) {
    const Lock here = lock();
    listen();
    advance_all();
    const bool all = std::ranges::all_of(ranks, [&](int64_t rank) { return watch_.answer_of(rank).has_value(); });
    if (all || operation.is_complete() || has_failed()) break;
  }
  const Lock here = lock();
  return who_is_where(operation);
}

std::string MpiEngine::who_is_where(const MpiOperation& operation) const {
  const Call& call = operation.call();
  std::string words = waits_in(operation);
  size_t named = 0, more = 0;
  for (const int64_t rank : ranks_needed(operation)) {
    const std::optional<Standing> standing = watch_.answer_of(rank);
    const bool entered = standing && is_collective(call) && standing->collectives >= call.sequence;
    if (entered) continue;
    if (++named > most_named) {
      ++more;
    } else if (!standing) {
      words += fmt::format("; rank {} does not answer", rank);
    } else if (is_collective(call)) {
      words += fmt::format("; rank {} never entered it; {}", rank, standing->words);
    } else {
      words += fmt::format("; of rank {}: {}", rank, standing->words);
    }
  }
  return more == 0 ? words : words + fmt::format("; neither did {} more ranks", more);
}

Standing MpiEngine::describe_standing(uint64_t group_key) const {
  const auto found = groups_.find(group_key);
  return {.collectives = found == groups_.end() ? 0 : found->second->entered_collectives,
          .words = ending_ ? "it has ended" : flight_.describe_last_call()};
}

std::string MpiEngine::waits_in(const MpiOperation& operation) const {
  return fmt::format("rank {} waits in {}", rank_, describe(operation.channel().group(), operation.call()));
}

void MpiEngine::throw_failure(const MpiOperation& operation) const {
  const std::lock_guard lock(failure_mutex_);
  const std::string own = waits_in(operation);
  throw CommError(failure_.find(own) != std::string::npos ? failure_ : fmt::format("{}; {}", failure_, own));
}

}  // namespace terrace::comm
