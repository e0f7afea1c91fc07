// The state that ranks share when they are threads: which ranks run, sleep or have failed, and the calls of all groups.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/system/crash_reports.h"
#include "terrace/comm/comm.h"
#include "terrace/comm/flight_recorder.h"
#include "terrace/comm/threads/shared_call.h"
#include "terrace/comm/threads/turns.h"

namespace terrace::comm {

// Wakes the sleeping threads of one rank. A thread that changes what the rank may wait for calls notify(), which costs
// one load while no thread sleeps.
class WakeEvent {
 public:
  using Deadline = Sleeper::Deadline;

  void notify(Turns& turns);
  // Sleeps until `ready` returns true, and it is this thread's turn; `ready` is called by threads that notify, too.
  // Returns false at the deadline.
  bool wait_until(Turns& turns, const std::function<bool()>& ready, Deadline deadline);

 private:
  struct Waiting {
    const std::function<bool()>& ready;
    const bool takes_turns;
    Sleeper sleeper = {};
  };

  std::atomic<int> sleepers_ = 0;
  std::mutex mutex_;
  std::vector<Waiting*> waiting_;
};

// The ranks that one rank waits for, which other ranks read.
class WaitedFor {
 public:
  using Missing = std::function<std::vector<int64_t>()>;

  void set(const Missing* missing);  // null: the rank does not wait
  std::vector<int64_t> ranks() const;

 private:
  mutable std::mutex mutex_;
  const Missing* missing_ = nullptr;
};

// The calls of one group.
class ThreadChannel {
 public:
  explicit ThreadChannel(const mesh::Group& group);

  const mesh::Group group;
  const std::vector<int64_t> in_rank_order;  // member numbers
  CallQueue collectives;

  // The messages from member `sender` to member `receiver`.
  CallQueue& sends(int64_t sender, int64_t receiver);

 private:
  std::mutex mutex_;
  std::map<std::pair<int64_t, int64_t>, CallQueue> sends_;
};

class ThreadRanks {
 public:
  ThreadRanks(int64_t ranks, const WorldOptions& options);

  int64_t size() const { return static_cast<int64_t>(wake_events_.size()); }
  const WorldOptions& options() const { return options_; }
  bool may_spin() const { return may_spin_; }
  Turns& turns() { return turns_; }
  void notify(int64_t rank) { wake_events_[static_cast<size_t>(rank)].notify(turns_); }
  // As WakeEvent::wait_until().
  bool wait_until(int64_t rank, const std::function<bool()>& ready, WakeEvent::Deadline deadline) {
    return wake_events_[static_cast<size_t>(rank)].wait_until(turns_, ready, deadline);
  }

  WaitedFor& waited_for(int64_t rank) { return waited_for_[static_cast<size_t>(rank)]; }

  // The group as the first rank gave it, so that all its members hold one list of ranks. It lives as long as this
  // object.
  const mesh::Group& shared(const mesh::Group& group);
  // The channel of the `occurrence`-th connection of each member to this shared group.
  ThreadChannel& channel(const mesh::Group& group, int64_t occurrence);

  FlightRecorder& flight(int64_t rank) { return flights_[static_cast<size_t>(rank)]; }

  // Makes all calls fail for a reason that the rank gives, and writes the last calls of all ranks. The first reason
  // stays.
  void abort(const std::string& reason, int64_t rank);
  // Called while an exception unwinds the rank's stack: all calls fail, with the reason that the rank's abort() or
  // end() will soon give.
  void expect_failure(int64_t rank);
  bool aborted() const { return aborted_.load(); }
  // Waits for the reason where expect_failure() was called, but not on the rank that will give it.
  std::string reason(int64_t asking_rank) const;

  // Says that the rank makes no more calls; `failure` is the exception that ended it. The first failure aborts the
  // others.
  void end(int64_t rank, const std::exception_ptr& failure);
  // Returns when all ranks have ended, or false where some have not ended patience_seconds() after the first failure.
  // That is the time-out, and at least the time that unwinding takes on a busy machine. Until then it writes the last
  // calls when a report is requested, and makes all calls fail where every rank waits for another one for ever.
  bool wait_for_end();
  double patience_seconds() const;
  bool has_ended(int64_t rank) const { return ended_[static_cast<size_t>(rank)].load(); }
  // The exception that the run failed by: a rank's own error rather than a CommError of those that waited for it.
  std::exception_ptr failure() const;
  std::vector<int64_t> still_running() const;

 private:
  void notify_all_ranks();
  void report_if_asked();
  void look_for_deadlock();
  bool waits_for_ever(int64_t rank) const;
  std::string describe_deadlock() const;
  void write_flights(const std::filesystem::path& folder) const;

  const WorldOptions options_;
  const bool may_spin_;
  Turns turns_;
  std::vector<WakeEvent> wake_events_;
  std::vector<WaitedFor> waited_for_;
  std::vector<std::atomic<bool>> ended_;
  std::deque<FlightRecorder> flights_;
  int reports_;  // requests for reports that were answered
  // The looks in succession at which all ranks waited for others, and the calls that were made before the first one.
  int idle_looks_ = 0;
  uint64_t calls_before_ = 0;
  std::atomic<bool> aborted_ = false;
  mutable std::mutex writing_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // notified when a rank ended, the run failed or its reason became known
  std::string reason_;
  int64_t failing_rank_ = -1;  // the rank that gave the reason or will give it
  bool reason_known_ = false;
  std::exception_ptr own_failure_, failure_of_peers_;
  std::set<mesh::Group> groups_;
  std::map<std::pair<const mesh::Group*, int64_t>, ThreadChannel> channels_;
  std::optional<AtCrash> at_crash_;
};

}  // namespace terrace::comm
