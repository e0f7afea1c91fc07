// A rank's calls under way in MPI. One lock is around all that the rank has MPI do; a thread goes on with what is
// outstanding while the rank computes, listens to the others, and sees to it that the peers on this machine live.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "terrace/comm/flight_recorder.h"
#include "terrace/comm/mpi/operation.h"
#include "terrace/comm/mpi/peer_processes.h"
#include "terrace/comm/mpi/watch.h"

namespace terrace::comm {

class MpiEngine {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  // A collective of all ranks, whose processes are `marks`.
  MpiEngine(MpiLibrary& library, const WorldOptions& options, FlightRecorder& flight,
            const std::vector<ProcessMark>& marks);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  // Around all that is done to channels and operations.
  Lock lock() { return Lock(mutex_); }
  void add(const MpiOperationPointer& operation);              // under the lock, like these:
  void add_group(const std::shared_ptr<MpiChannel>& channel);  // so that others learn of its calls
  void remove_group(const std::shared_ptr<MpiChannel>& channel);

  void wait(MpiOperation& operation);
  bool is_done(MpiOperation& operation);  // whether wait() would return or throw at once

  void throw_if_failed() const;  // CommError
  bool has_failed() const { return failed_.load(); }
  // This rank's calls fail from now on, and so do those of the others, who get the reason. The first reason stays.
  void abort(const std::string& reason);
  // The rank is being left by an exception: its calls fail at once, and those of the others when abort() has said why.
  void expect_failure();

  // This rank makes no more calls: waits until that holds for all, and stops the thread. False where the run failed.
  bool end();

 private:
  void run();
  void sleep(bool deeply);
  void stop();
  void look_after_peers();
  void report_if_asked();
  void look_after_gpu_calls();
  void write_flight() const;
  void advance_all();
  bool advance_until_complete(MpiOperation& operation);
  void listen();
  void set_failure(const std::string& reason, bool tell, std::optional<int64_t> dead);
  bool wait_for_the_others(MPI_Request& barrier);
  void finish_telling();
  void fail(const std::string& reason) { set_failure(reason, true, std::nullopt); }
  void give_up_if_late(MpiOperation& operation, Clock::time_point began);
  void look_at_a_long_wait(MpiOperation& operation, double waited_seconds);
  std::optional<int64_t> find_ended_among(const std::vector<int64_t>& ranks) const;
  std::string ask_who_is_where(MpiOperation& operation);
  std::map<int64_t, Standing> ask(const Wait& wait, const MpiOperation& operation);
  std::string follow(const std::vector<int64_t>& absent, std::map<int64_t, Standing> standings,
                     const MpiOperation& operation);
  std::string who_is_where(const MpiOperation& operation, const Wait& wait,
                           const std::map<int64_t, Standing>& standings) const;
  std::string waits_in(const MpiOperation& operation) const;
  [[noreturn]] void throw_failure(const MpiOperation& operation) const;
  Standing describe_standing(uint64_t group_key) const;

  const WorldOptions options_;
  FlightRecorder& flight_;
  const int64_t rank_;
  PeerProcesses peers_;
  int reports_;                // requests of this process that were met
  int reports_of_others_ = 0;  // likewise

  std::mutex asking_mutex_;  // before mutex_: answers are those to the last question
  std::mutex mutex_;
  MpiWatch watch_;
  std::vector<MpiOperationPointer> outstanding_;
  const MpiOperation* waited_in_ = nullptr;  // by the rank, for a while already
  std::map<uint64_t, std::shared_ptr<MpiChannel>> groups_;

  std::atomic<size_t> num_outstanding_ = 0;
  std::atomic<int> num_waiting_ = 0;
  std::atomic<Clock::time_point> last_start_ = Clock::now();
  std::atomic<bool> sleeps_deeply_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> stops_ = false;
  std::mutex sleep_mutex_;
  std::condition_variable wake_;

  std::atomic<bool> failed_ = false;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::optional<Clock::time_point> reason_due_;  // until abort() gives the reason of an expected failure
  bool failure_to_tell_ = false;
  std::optional<int64_t> dead_;

  std::thread thread_;
};

}  // namespace terrace::comm
