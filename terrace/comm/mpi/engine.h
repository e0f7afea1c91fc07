// Makes progress with a rank's MPI calls. One lock guards all use of MPI by the rank. A thread advances outstanding
// operations while the rank computes, answers the other ranks, and watches the processes of peers on this machine.
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

#include "terrace/base/system/crash_reports.h"
#include "terrace/comm/flight_recorder.h"
#include "terrace/comm/mpi/control_messages.h"
#include "terrace/comm/mpi/operation.h"
#include "terrace/comm/mpi/peer_processes.h"

namespace terrace::comm {

class MpiEngine {
 public:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  // A collective of all ranks; `identities` are their processes.
  MpiEngine(MpiLibrary& library, const WorldOptions& options, FlightRecorder& flight,
            const std::vector<PeerIdentity>& identities);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  // Must be held during all use of channels and operations.
  Lock lock() { return Lock(mutex_); }
  void add(const MpiOperationPointer& operation);              // under the lock, as are the next two
  void add_group(const std::shared_ptr<MpiChannel>& channel);  // so that answers to other ranks tell of its calls
  void remove_group(const std::shared_ptr<MpiChannel>& channel);

  void wait(MpiOperation& operation);
  bool is_done(MpiOperation& operation);  // whether wait() would return or throw at once

  void throw_if_failed() const;  // CommError
  bool has_failed() const { return failed_.load(); }
  // Makes the calls of this rank fail from now on, and those of the other ranks, which are sent the reason. The first
  // reason stays.
  void abort(const std::string& reason);
  // Called while an exception unwinds the rank's stack: its calls fail at once, and those of the other ranks fail when
  // abort() has given the reason.
  void expect_failure();

  // Says that this rank makes no more calls, waits until all ranks have said so, and stops the thread. Returns false
  // where the run failed.
  bool end();

 private:
  void run();
  void sleep();
  void stop();
  void check_peers();
  void report_if_asked();
  void check_gpu_calls();
  void write_flight(const std::filesystem::path& folder) const;
  void advance_all();
  void count_outstanding();
  bool advance_until_complete(MpiOperation& operation);
  void receive_control_messages();
  void set_failure(const std::string& reason, bool send, std::optional<int64_t> dead);
  bool wait_for_others_to_end(MPI_Request& barrier);
  void finish_sending();
  void fail(const std::string& reason) { set_failure(reason, true, std::nullopt); }
  void give_way(Clock::duration pause);
  void fail_if_late(MpiOperation& operation, Clock::time_point began);
  void check_long_wait(MpiOperation& operation, double waited_seconds);
  std::optional<int64_t> find_ended_among(const std::vector<int64_t>& ranks) const;
  std::string find_waiting_ranks(MpiOperation& operation);
  std::map<int64_t, RankStatus> ask_for_statuses(const Wait& wait, const MpiOperation& operation);
  std::string follow_waiting_ranks(const std::vector<int64_t>& absent, std::map<int64_t, RankStatus> statuses,
                                   const MpiOperation& operation);
  std::string describe_waiting_ranks(const MpiOperation& operation, const Wait& wait,
                                     const std::map<int64_t, RankStatus>& statuses) const;
  std::string describe_own_call(const MpiOperation& operation) const;
  [[noreturn]] void throw_failure(const MpiOperation& operation) const;
  RankStatus own_status(uint64_t group_key) const;

  const WorldOptions options_;
  FlightRecorder& flight_;
  const int64_t rank_;
  PeerProcesses peers_;
  int reports_;                // requests of this process that were answered
  int reports_of_others_ = 0;  // requests of other processes that were answered

  std::mutex asking_mutex_;  // locked before mutex_; only the answers to the last question are kept
  std::mutex mutex_;
  ControlMessages control_;
  std::vector<MpiOperationPointer> outstanding_;
  const MpiOperation* waited_in_ = nullptr;  // the operation that the rank has waited for a while
  std::map<uint64_t, std::shared_ptr<MpiChannel>> groups_;

  std::atomic<size_t> num_outstanding_ = 0;
  std::atomic<size_t> num_polled_ = 0;  // outstanding operations that need polling
  std::atomic<int> num_waiting_ = 0;
  std::atomic<Clock::time_point> shared_until_ = Clock::time_point();  // for how long cores are taken for shared
  std::atomic<Clock::time_point> last_start_ = Clock::now();
  std::atomic<Clock::time_point> last_polled_start_ = Clock::now();
  // The number that wakes the thread when it is no longer zero; null while the thread does not sleep for long.
  std::atomic<const std::atomic<size_t>*> woken_by_ = nullptr;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> stops_ = false;
  std::mutex sleep_mutex_;
  std::condition_variable wake_;

  std::atomic<bool> failed_ = false;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::optional<Clock::time_point> reason_due_;  // until abort() gives the reason of an expected failure
  bool failure_to_send_ = false;
  std::optional<int64_t> dead_;

  std::optional<AtCrash> at_crash_;
  std::thread thread_;
};

}  // namespace terrace::comm
