// The engine's part that finds out who is where when a call takes too long.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/log.h"
#include "terrace/comm/mpi/engine.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto grace = 2s;  // for answers, and for calls whose peer has ended already
constexpr size_t most_named = 8;
constexpr double words_seconds = 600;  // between lines in the log about one wait, at most
constexpr double look_seconds = 60;    // between questions in such a wait, at most

// The others that the operation needs.
std::vector<int64_t> ranks_needed(const MpiOperation& operation) {
  const mesh::Group& group = operation.channel().group();
  const int64_t own = group.ranks[static_cast<size_t>(operation.channel().member())];
  if (!is_collective(operation.call())) return {group.ranks[static_cast<size_t>(operation.call().peer)]};
  std::vector<int64_t> ranks = group.ranks;
  std::erase(ranks, own);
  return ranks;
}

Wait wait_of(const MpiOperation& operation) {
  const Call& call = operation.call();
  return {.group_key = operation.channel().key(),
          .sequence = is_collective(call) ? call.sequence : 0,
          .ranks = ranks_needed(operation)};
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
  if (!ended && waited.count() < std::min(options_.timeout_seconds, operation.call().limited ? 1e300 : words_seconds))
    return;
  if (!ended && !operation.call().limited) return look_at_a_long_wait(operation, waited.count());
  const std::string where = ask_who_is_where(operation);
  if (operation.is_complete()) return;
  fail(ended ? fmt::format("rank {} has ended: {}", *ended, where)
             : fmt::format("waited {:g} s: {}", options_.timeout_seconds, where));
}

// As long as the ranks answer that it needs, a call without a limit goes on. A dead rank of another machine does not.
void MpiEngine::look_at_a_long_wait(MpiOperation& operation, double waited_seconds) {
  MpiOperation::LongWait& known = operation.long_wait;
  const auto now = Clock::now();
  if (now < known.next_look) return;
  const auto later = [&](double seconds) {
    return now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  const Wait wait = wait_of(operation);
  const std::map<int64_t, Standing> standings = ask(wait, operation);
  if (operation.is_complete() || has_failed()) return;
  std::string where;
  {
    const Lock here = lock();
    where = who_is_where(operation, wait, standings);
  }
  for (const int64_t rank : wait.ranks) {
    if (rank == rank_ || standings.contains(rank)) {
      known.silent_since.erase(rank);
    } else if (std::chrono::duration<double>(now - known.silent_since.try_emplace(rank, now).first->second).count() >
               options_.timeout_seconds) {
      return fail(fmt::format("rank {} has not answered for {:g} s: {}", rank, options_.timeout_seconds, where));
    }
  }
  known.next_look = later(known.silent_since.empty() ? std::min(options_.timeout_seconds, look_seconds) : 1.0);
  if (now < known.next_words) return;
  known.next_words = later(std::min(options_.timeout_seconds, words_seconds));
  // One of those that wait says it.
  const bool first = std::ranges::none_of(
      standings, [&](const auto& standing) { return standing.first < rank_ && standing.second.has_entered(wait); });
  if (first) log_warning("waits on after {:.0f} s: {}", waited_seconds, where);
}

std::optional<int64_t> MpiEngine::find_ended_among(const std::vector<int64_t>& ranks) const {
  const auto found = std::ranges::find_if(ranks, [&](int64_t rank) { return watch_.has_ended(rank); });
  if (found == ranks.end()) return std::nullopt;
  return *found;
}

std::string MpiEngine::ask_who_is_where(MpiOperation& operation) {
  const Wait wait = wait_of(operation);
  const std::map<int64_t, Standing> standings = ask(wait, operation);
  std::vector<int64_t> absent;
  for (const auto& [rank, standing] : standings) {
    if (!standing.has_entered(wait)) absent.push_back(rank);
  }
  std::string words;
  {
    const Lock here = lock();
    words = who_is_where(operation, wait, standings);
  }
  return words + follow(absent, standings, operation);
}

// What the ranks that the wait needs say of themselves, those that answer.
std::map<int64_t, Standing> MpiEngine::ask(const Wait& wait, const MpiOperation& operation) {
  const std::lock_guard asking(asking_mutex_);
  {
    const Lock here = lock();
    watch_.ask(wait.ranks, wait.group_key);
  }
  const auto answered = [&](int64_t rank) { return rank == rank_ || watch_.answer_of(rank).has_value(); };
  for (const auto began = Clock::now(); Clock::now() - began < grace; std::this_thread::sleep_for(1ms)) {
    const Lock here = lock();
    listen();
    advance_all();
    if (std::ranges::all_of(wait.ranks, answered) || operation.is_complete() || has_failed()) break;
  }
  std::map<int64_t, Standing> standings;
  const Lock here = lock();
  for (const int64_t rank : wait.ranks) {
    if (const auto standing = watch_.answer_of(rank)) standings.emplace(rank, *standing);
  }
  return standings;
}

// From ranks that wait themselves to those that do not.
std::string MpiEngine::follow(const std::vector<int64_t>& absent, std::map<int64_t, Standing> standings,
                              const MpiOperation& operation) {
  std::string words;
  std::vector<int64_t> told = absent;
  for (size_t i = 0; i < told.size() && told.size() < most_named; ++i) {
    const int64_t waiting = told[i];
    const Wait wait = standings.at(waiting).wait;
    if (wait.ranks.empty() || operation.is_complete() || has_failed()) continue;
    for (const auto& [rank, standing] : ask(wait, operation)) {
      const bool known = rank == rank_ || std::ranges::find(told, rank) != told.end();
      if (known || standing.has_entered(wait)) continue;
      words += fmt::format("; rank {} waits for rank {}; {}", waiting, rank, standing.words);
      standings.emplace(rank, standing);
      told.push_back(rank);
    }
  }
  return words;
}

std::string MpiEngine::who_is_where(const MpiOperation& operation, const Wait& wait,
                                    const std::map<int64_t, Standing>& standings) const {
  const Call& call = operation.call();
  std::string words = waits_in(operation);
  size_t named = 0, more = 0;
  for (const int64_t rank : wait.ranks) {
    const auto found = standings.find(rank);
    if (found != standings.end() && found->second.has_entered(wait)) continue;
    if (++named > most_named) {
      ++more;
    } else if (found == standings.end()) {
      words += fmt::format("; rank {} does not answer", rank);
    } else if (is_collective(call)) {
      words += fmt::format("; rank {} never entered it; {}", rank, found->second.words);
    } else {
      words += fmt::format("; of rank {}: {}", rank, found->second.words);
    }
  }
  return more == 0 ? words : words + fmt::format("; neither did {} more ranks", more);
}

Standing MpiEngine::describe_standing(uint64_t group_key) const {
  const auto found = groups_.find(group_key);
  Wait wait;
  if (waited_in_ != nullptr) wait = wait_of(*waited_in_);
  if (wait.ranks.size() > MpiWatch::most_waited_for) wait.ranks.clear();
  return {.collectives = found == groups_.end() ? 0 : found->second->entered_collectives,
          .wait = std::move(wait),
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
