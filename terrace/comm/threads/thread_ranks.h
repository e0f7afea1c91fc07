// What the ranks of a run share when they are threads: who still runs, why the run failed, who sleeps, and the groups.
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
#include <string>
#include <utility>
#include <vector>

#include "terrace/comm/comm.h"
#include "terrace/comm/flight_recorder.h"
#include "terrace/comm/threads/shared_call.h"

namespace terrace::comm {

// Wakes the threads of one rank. Whoever changes what a rank may wait for rings; that costs one load while none sleeps.
class Bell {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  void ring();
  // Sleeps until `come` holds, which is looked at after each ring. False at the deadline.
  bool sleep_until(const std::function<bool()>& come, Deadline deadline);

 private:
  std::atomic<int> sleepers_ = 0;
  std::mutex mutex_;
  std::condition_variable rung_;
};

// Whom a rank waits for, for others to look at.
class WaitedFor {
 public:
  using Missing = std::function<std::vector<int64_t>()>;

  void set(const Missing* missing);  // null: it does not wait
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

  // What `sender` sends to `receiver`, members.
  CallQueue& sends(int64_t sender, int64_t receiver);

 private:
  std::mutex mutex_;
  std::map<std::pair<int64_t, int64_t>, CallQueue> sends_;
};

class ThreadRanks {
 public:
  ThreadRanks(int64_t ranks, const WorldOptions& options);

  int64_t size() const { return static_cast<int64_t>(bells_.size()); }
  const WorldOptions& options() const { return options_; }
  bool may_spin() const { return may_spin_; }
  Bell& bell(int64_t rank) { return bells_[static_cast<size_t>(rank)]; }

  WaitedFor& waited_for(int64_t rank) { return waited_for_[static_cast<size_t>(rank)]; }

  // The channel that the `occurrence`-th connection of each member to this group finds.
  ThreadChannel& channel(const mesh::Group& group, int64_t occurrence);

  FlightRecorder& flight(int64_t rank) { return flights_[static_cast<size_t>(rank)]; }

  // Lets all calls fail, for a reason that the rank gives. The first one stays. With it the last calls of all ranks are
  // written.
  void abort(const std::string& reason, int64_t rank);
  // An exception leaves the rank and destroys what it has: all calls fail, and with the words that its abort() or end()
  // will soon have.
  void expect_failure(int64_t rank);
  bool aborted() const { return aborted_.load(); }
  // Waits for expected words, but not on the rank that will have them.
  std::string reason(int64_t asking_rank) const;

  // The rank makes no more calls; `failure` is what it ended by. The first failure aborts the others.
  void end(int64_t rank, const std::exception_ptr& failure);
  // Returns when all ranks have ended; false where some have not patience_seconds() after the first failure: the
  // time-out, and at least what unwinding takes on a busy machine. Meanwhile writes the last calls where asked for.
  bool wait_for_end();
  double patience_seconds() const;
  bool has_ended(int64_t rank) const { return ended_[static_cast<size_t>(rank)].load(); }
  // What the run failed by. A rank's own error comes before the words of those that waited for it.
  std::exception_ptr failure() const;
  std::vector<int64_t> still_running() const;

 private:
  void ring_all();
  void report_if_asked();
  void write_flights() const;

  const WorldOptions options_;
  const bool may_spin_;
  std::vector<Bell> bells_;
  std::vector<WaitedFor> waited_for_;
  std::vector<std::atomic<bool>> ended_;
  std::deque<FlightRecorder> flights_;
  int reports_;  // requests that were met
  std::atomic<bool> aborted_ = false;
  mutable std::mutex writing_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // a rank ended, or the run failed, or its reason is known
  std::string reason_;
  int64_t failing_rank_ = -1;  // that gave the reason or will
  bool reason_known_ = false;
  std::exception_ptr own_failure_, failure_of_peers_;
  std::map<std::pair<std::pair<std::string, std::vector<int64_t>>, int64_t>, ThreadChannel> channels_;
};

}  // namespace terrace::comm
