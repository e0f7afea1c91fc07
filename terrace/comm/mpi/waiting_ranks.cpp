// The part of the engine that finds out what each rank waits for when a call takes too long.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/terminal/log.h"
#include "terrace/comm/mpi/engine.h"
#include "terrace/comm/wait_limits.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

constexpr double ask_interval_seconds = 60;  // between questions in a long wait, at most

// The other ranks that must take part before the operation can complete.
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

void MpiEngine::fail_if_late(MpiOperation& operation, Clock::time_point began) {
  const std::chrono::duration<double> waited = Clock::now() - began;
  std::optional<int64_t> ended;
  {
    const Lock here = lock();
    receive_control_messages();
    if (waited > answer_time) ended = find_ended_among(ranks_needed(operation));
  }
  if (!ended &&
      waited.count() < std::min(options_.timeout_seconds, operation.call().limited ? 1e300 : log_interval_seconds))
    return;
  if (!ended && !operation.call().limited) return check_long_wait(operation, waited.count());
  const std::string report = find_waiting_ranks(operation);
  if (operation.is_complete()) return;
  fail(ended ? fmt::format("rank {} has ended: {}", *ended, report)
             : fmt::format("waited {:g} s: {}", options_.timeout_seconds, report));
}

// A call without a time limit continues as long as the ranks that it needs answer. A dead rank of another machine does
// not answer.
void MpiEngine::check_long_wait(MpiOperation& operation, double waited_seconds) {
  MpiOperation::LongWait& wait_state = operation.long_wait;
  const auto now = Clock::now();
  if (now < wait_state.next_question) return;
  const auto later = [&](double seconds) {
    return now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  const Wait wait = wait_of(operation);
  const std::map<int64_t, RankStatus> statuses = ask_for_statuses(wait, operation);
  if (operation.is_complete() || has_failed()) return;
  std::string report;
  {
    const Lock here = lock();
    report = describe_waiting_ranks(operation, wait, statuses);
  }
  for (const int64_t rank : wait.ranks) {
    if (rank == rank_ || statuses.contains(rank)) {
      wait_state.silent_since.erase(rank);
    } else if (std::chrono::duration<double>(now - wait_state.silent_since.try_emplace(rank, now).first->second)
                   .count() > options_.timeout_seconds) {
      return fail(fmt::format("rank {} has not answered for {:g} s: {}", rank, options_.timeout_seconds, report));
    }
  }
  wait_state.next_question =
      later(wait_state.silent_since.empty() ? std::min(options_.timeout_seconds, ask_interval_seconds) : 1.0);
  if (now < wait_state.next_log_line) return;
  wait_state.next_log_line = later(std::min(options_.timeout_seconds, log_interval_seconds));
  // Only the lowest of the ranks that wait logs it.
  const bool first = std::ranges::none_of(
      statuses, [&](const auto& status) { return status.first < rank_ && status.second.has_entered(wait); });
  if (first) log_warning("still waiting after {:.0f} s: {}", waited_seconds, report);
}

std::optional<int64_t> MpiEngine::find_ended_among(const std::vector<int64_t>& ranks) const {
  const auto found = std::ranges::find_if(ranks, [&](int64_t rank) { return control_.has_ended(rank); });
  if (found == ranks.end()) return std::nullopt;
  return *found;
}

std::string MpiEngine::find_waiting_ranks(MpiOperation& operation) {
  const Wait wait = wait_of(operation);
  const std::map<int64_t, RankStatus> statuses = ask_for_statuses(wait, operation);
  std::vector<int64_t> absent;
  for (const auto& [rank, status] : statuses) {
    if (!status.has_entered(wait)) absent.push_back(rank);
  }
  std::string text;
  {
    const Lock here = lock();
    text = describe_waiting_ranks(operation, wait, statuses);
  }
  return text + follow_waiting_ranks(absent, statuses, operation);
}

// The statuses of those of the ranks in `wait` that answer.
std::map<int64_t, RankStatus> MpiEngine::ask_for_statuses(const Wait& wait, const MpiOperation& operation) {
  const std::lock_guard asking(asking_mutex_);
  {
    const Lock here = lock();
    control_.send_questions(wait.ranks, wait.group_key);
  }
  const auto answered = [&](int64_t rank) { return rank == rank_ || control_.answer_of(rank).has_value(); };
  for (const auto began = Clock::now(); Clock::now() - began < answer_time; std::this_thread::sleep_for(1ms)) {
    const Lock here = lock();
    receive_control_messages();
    advance_all();
    if (std::ranges::all_of(wait.ranks, answered) || operation.is_complete() || has_failed()) break;
  }
  std::map<int64_t, RankStatus> statuses;
  const Lock here = lock();
  for (const int64_t rank : wait.ranks) {
    if (const auto status = control_.answer_of(rank)) statuses.emplace(rank, *status);
  }
  return statuses;
}

// Follows the absent ranks that wait for other ranks to those that do not wait.
std::string MpiEngine::follow_waiting_ranks(const std::vector<int64_t>& absent, std::map<int64_t, RankStatus> statuses,
                                            const MpiOperation& operation) {
  std::string text;
  std::vector<int64_t> named = absent;
  for (size_t i = 0; i < named.size() && std::ssize(named) < most_named; ++i) {
    const int64_t waiting = named[i];
    const Wait wait = statuses.at(waiting).wait;
    if (wait.ranks.empty() || operation.is_complete() || has_failed()) continue;
    for (const auto& [rank, status] : ask_for_statuses(wait, operation)) {
      const bool known = rank == rank_ || std::ranges::find(named, rank) != named.end();
      if (known || status.has_entered(wait)) continue;
      text += fmt::format("; rank {} waits for rank {}; {}", waiting, rank, status.description);
      statuses.emplace(rank, status);
      named.push_back(rank);
    }
  }
  return text;
}

std::string MpiEngine::describe_waiting_ranks(const MpiOperation& operation, const Wait& wait,
                                              const std::map<int64_t, RankStatus>& statuses) const {
  const Call& call = operation.call();
  std::string text = describe_own_call(operation);
  int64_t named = 0, more = 0;
  for (const int64_t rank : wait.ranks) {
    const auto found = statuses.find(rank);
    if (found != statuses.end() && found->second.has_entered(wait)) continue;
    if (++named > most_named) {
      ++more;
    } else if (found == statuses.end()) {
      text += fmt::format("; rank {} does not answer", rank);
    } else if (is_collective(call)) {
      text += fmt::format("; rank {} never entered it; {}", rank, found->second.description);
    } else {
      text += fmt::format("; of rank {}: {}", rank, found->second.description);
    }
  }
  return more == 0 ? text : text + fmt::format("; {} more ranks never entered it either", more);
}

RankStatus MpiEngine::own_status(uint64_t group_key) const {
  const auto found = groups_.find(group_key);
  Wait wait;
  if (waited_in_ != nullptr) wait = wait_of(*waited_in_);
  if (wait.ranks.size() > ControlMessages::most_waited_for) wait.ranks.clear();
  return {.collectives = found == groups_.end() ? 0 : found->second->entered_collectives,
          .wait = std::move(wait),
          .description = ending_ ? "it has ended" : flight_.describe_last_call()};
}

std::string MpiEngine::describe_own_call(const MpiOperation& operation) const {
  return fmt::format("rank {} waits in {}", rank_, describe(operation.channel().group(), operation.call()));
}

void MpiEngine::throw_failure(const MpiOperation& operation) const {
  const std::lock_guard lock(failure_mutex_);
  const std::string own = describe_own_call(operation);
  throw CommError(failure_.find(own) != std::string::npos ? failure_ : fmt::format("{}; {}", failure_, own));
}

}  // namespace terrace::comm
