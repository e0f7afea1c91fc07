// Lets ranks sleep and wake, fail together, and find the same channel.
#include "terrace/comm/threads/thread_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/base/system/cores.h"
#include "terrace/base/terminal/log.h"
#include "terrace/comm/wait_limits.h"

namespace terrace::comm {
namespace {

constexpr auto request_poll_interval = std::chrono::milliseconds(100);  // between checks for requests of reports
// With fewer ranks, data stay in the caches anyhow. More than one turn a core keeps it busy while a rank wakes.
constexpr int64_t ranks_per_core_with_turns = 8, turns_per_core = 4;
constexpr int deadlock_looks = 20;  // in succession at which nothing has changed

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception without a message";
  }
}

bool is_of_peers(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::vector<int64_t> members_in_rank_order(const std::vector<int64_t>& ranks) {
  std::vector<int64_t> members(ranks.size());
  std::iota(members.begin(), members.end(), 0);
  std::sort(members.begin(), members.end(),
            [&](int64_t a, int64_t b) { return ranks[static_cast<size_t>(a)] < ranks[static_cast<size_t>(b)]; });
  return members;
}

}  // namespace

void WakeEvent::notify(Turns& turns) {
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  std::vector<Waiting*> ready;
  {
    // A thread whose ready() returned false holds the mutex until it is in the list.
    const std::lock_guard lock(mutex_);
    const auto first =
        std::stable_partition(waiting_.begin(), waiting_.end(), [](Waiting* one) { return !one->ready(); });
    ready.assign(first, waiting_.end());
    waiting_.erase(first, waiting_.end());
  }
  for (Waiting* const one : ready) turns.make_ready(one->sleeper, one->takes_turns);
}

bool WakeEvent::wait_until(Turns& turns, const std::function<bool()>& ready, Deadline deadline) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  bool is_ready = true;
  {
    std::unique_lock lock(mutex_);
    if (!ready()) {
      Waiting self{.ready = ready, .takes_turns = turns.takes_turns()};
      waiting_.push_back(&self);
      lock.unlock();
      turns.give_up();
      if (!self.sleeper.sleep_until(deadline)) {
        lock.lock();
        is_ready = std::erase(waiting_, &self) == 0;
        lock.unlock();
        if (!is_ready) turns.make_ready(self.sleeper, self.takes_turns);
        self.sleeper.sleep();
      }
    }
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return is_ready;
}

void WaitedFor::set(const Missing* missing) {
  const std::lock_guard lock(mutex_);
  missing_ = missing;
}

std::vector<int64_t> WaitedFor::ranks() const {
  const std::lock_guard lock(mutex_);
  return missing_ != nullptr ? (*missing_)() : std::vector<int64_t>();
}

ThreadChannel::ThreadChannel(const mesh::Group& of)
    : group(of), in_rank_order(members_in_rank_order(of.ranks)), collectives(static_cast<int64_t>(of.ranks.size())) {}

CallQueue& ThreadChannel::sends(int64_t sender, int64_t receiver) {
  const std::lock_guard lock(mutex_);
  return sends_.try_emplace({sender, receiver}, 2).first->second;
}

ThreadRanks::ThreadRanks(int64_t ranks, const WorldOptions& options)
    : options_(options),
      may_spin_(ranks <= usable_cores()),
      turns_(ranks >= ranks_per_core_with_turns * usable_cores() ? turns_per_core * usable_cores() : 0),
      wake_events_(static_cast<size_t>(ranks)),
      waited_for_(static_cast<size_t>(ranks)),
      ended_(static_cast<size_t>(ranks)),
      reports_(options.report_requests != nullptr ? options.report_requests->load() : 0) {
  for (int64_t rank = 0; rank < ranks; ++rank) flights_.emplace_back(rank);
  if (!options_.flight_folder.empty()) {
    at_crash_.emplace([this](const std::filesystem::path& folder) { write_flights(folder); });
  }
}

const mesh::Group& ThreadRanks::shared(const mesh::Group& group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found != groups_.end()) return *found;
  std::vector<int64_t> sorted = group.ranks;
  std::sort(sorted.begin(), sorted.end());
  TERRACE_CHECK(!sorted.empty() && sorted.front() >= 0 && sorted.back() < size() &&
                    std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                "group {} has ranks {} of a world of {}", group.name, fmt::join(group.ranks, ", "), size());
  return *groups_.insert(group).first;
}

ThreadChannel& ThreadRanks::channel(const mesh::Group& group, int64_t occurrence) {
  const std::lock_guard lock(mutex_);
  return channels_.try_emplace({&group, occurrence}, group).first->second;
}

void ThreadRanks::abort(const std::string& reason, int64_t rank) {
  bool expected = false;
  {
    const std::lock_guard lock(mutex_);
    expected = aborted_.load();
    if (expected && (reason_known_ || rank != failing_rank_)) return;
    reason_ = reason;
    failing_rank_ = rank;
    reason_known_ = true;
    aborted_ = true;
  }
  changed_.notify_all();
  if (expected) return;
  notify_all_ranks();
  write_flights(options_.failure_folder());
}

void ThreadRanks::expect_failure(int64_t rank) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.load()) return;
    reason_ = fmt::format("rank {} failed", rank);
    failing_rank_ = rank;
    aborted_ = true;
  }
  changed_.notify_all();
  notify_all_ranks();
  write_flights(options_.failure_folder());
}

std::string ThreadRanks::reason(int64_t asking_rank) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, unwinding_time, [&] { return reason_known_ || asking_rank == failing_rank_; });
  return reason_;
}

void ThreadRanks::report_if_asked() {
  if (options_.report_requests == nullptr) return;
  const int asked = options_.report_requests->load();
  if (std::exchange(reports_, asked) == asked) return;
  for (const FlightRecorder& flight : flights_) {
    log_info("rank {}{}: {}", flight.rank(), has_ended(flight.rank()) ? " has ended" : "", flight.describe_last_call());
  }
  write_flights(options_.flight_folder);
}

bool ThreadRanks::waits_for_ever(int64_t rank) const { return !waited_for_[static_cast<size_t>(rank)].ranks().empty(); }

// Every rank that has not ended is inside a wait for a call that another rank has not made, so none of them will make
// one: calls are made by the thread that waits. That is certain at one look if all waits were read at the same time;
// since they are read one after the other, it must hold for two seconds without a new call.
void ThreadRanks::look_for_deadlock() {
  uint64_t calls = 0;
  for (const FlightRecorder& flight : flights_) calls += flight.calls();
  bool all_wait = calls == std::exchange(calls_before_, calls) && !still_running().empty();
  for (int64_t rank = 0; rank < size() && all_wait; ++rank) all_wait = has_ended(rank) || waits_for_ever(rank);
  if (!all_wait) {
    idle_looks_ = 0;
    return;
  }
  if (++idle_looks_ < deadlock_looks) return;
  abort(describe_deadlock(), still_running().front());
}

// Follows the waits from the first rank to one that was met before.
std::string ThreadRanks::describe_deadlock() const {
  std::string text = "deadlock: every rank waits for another one";
  std::vector<int64_t> met;
  for (int64_t rank = still_running().front(); std::ranges::find(met, rank) == met.end();) {
    met.push_back(rank);
    const std::vector<int64_t> waits_for = waited_for_[static_cast<size_t>(rank)].ranks();
    if (waits_for.empty()) break;
    if (std::ssize(met) <= most_named) {
      text += fmt::format("; rank {} waits for rank {}; {}", rank, waits_for.front(),
                          flights_[static_cast<size_t>(rank)].describe_last_call());
    }
    rank = waits_for.front();
  }
  return text;
}

void ThreadRanks::write_flights(const std::filesystem::path& folder) const {
  if (folder.empty()) return;
  const std::lock_guard lock(writing_);
  try {
    for (const FlightRecorder& flight : flights_) flight.write(folder);
  } catch (const std::exception& error) {
    log_warning("the last calls of the ranks could not be written: {}", error.what());
  }
}

void ThreadRanks::end(int64_t rank, const std::exception_ptr& failure) {
  if (failure) {
    // This comes before the rank counts as ended, so that the others name this reason.
    abort(fmt::format("rank {} failed: {}", rank, message_of(failure)), rank);
    const std::lock_guard lock(mutex_);
    std::exception_ptr& first = is_of_peers(failure) ? failure_of_peers_ : own_failure_;
    if (!first || rank == failing_rank_) first = failure;
  }
  {
    const std::lock_guard lock(mutex_);
    ended_[static_cast<size_t>(rank)] = true;
  }
  changed_.notify_all();
  notify_all_ranks();
}

double ThreadRanks::patience_seconds() const { return std::clamp(options_.timeout_seconds, 5.0, 1e8); }

bool ThreadRanks::wait_for_end() {
  std::unique_lock lock(mutex_);
  const auto all_ended = [&] {
    return std::all_of(ended_.begin(), ended_.end(), [](const auto& e) { return e.load(); });
  };
  const auto over = [&] { return aborted_.load() || all_ended(); };
  while (!changed_.wait_for(lock, request_poll_interval, over)) {
    lock.unlock();
    report_if_asked();
    turns_.look_for_stall();
    look_for_deadlock();
    lock.lock();
  }
  return changed_.wait_for(lock, std::chrono::duration<double>(patience_seconds()), all_ended);
}

std::vector<int64_t> ThreadRanks::still_running() const {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < size(); ++rank) {
    if (!has_ended(rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::exception_ptr ThreadRanks::failure() const {
  const std::lock_guard lock(mutex_);
  return own_failure_ ? own_failure_ : failure_of_peers_;
}

void ThreadRanks::notify_all_ranks() {
  for (WakeEvent& wake_event : wake_events_) wake_event.notify(turns_);
}

}  // namespace terrace::comm
