// The progress thread, waiting for operations, and failure of the run.
#include "terrace/comm/mpi/engine.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "terrace/base/terminal/log.h"
#include "terrace/comm/wait_limits.h"

namespace terrace::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto poll_interval = 200us;  // of the thread, while calls that need it are outstanding
// The thread's interval while calls have only to fetch what others have prepared. Each waking takes some microseconds,
// which ranks that share cores compute less.
constexpr auto fetch_interval = 2ms;
constexpr auto recent_time = 20ms;     // the thread keeps polling after a call, so that short calls need not wake it
constexpr auto check_interval = 50ms;  // between checks of the peers and of their messages
constexpr auto last_message_time = 200ms;  // for the last message of a peer that has ended to arrive

// Signals must reach the rank's own threads and not the progress thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

MpiEngine::MpiEngine(MpiLibrary& library, const WorldOptions& options, FlightRecorder& flight,
                     const std::vector<PeerIdentity>& identities)
    : options_(options),
      flight_(flight),
      rank_(flight.rank()),
      peers_(identities, rank_),
      reports_(options.report_requests != nullptr ? options.report_requests->load() : 0),
      control_(library, [this](uint64_t group_key) { return own_status(group_key); }) {
  if (!options_.flight_folder.empty()) {
    at_crash_.emplace([this](const std::filesystem::path& folder) { write_flight(folder); });
  }
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

MpiEngine::~MpiEngine() {
  stop();
  if (!has_failed()) return;
  control_.abandon();
  for (const MpiOperationPointer& operation : outstanding_) {
    if (!operation->on_gpu()) MpiLibrary::keep_for_ever(operation);
  }
}

void MpiEngine::stop() {
  if (!thread_.joinable()) return;
  stops_ = true;
  {
    const std::lock_guard lock(sleep_mutex_);
    wake_.notify_one();
  }
  thread_.join();
}

void MpiEngine::run() {
  auto next_question = Clock::now();
  while (!stops_) {
    const auto now = Clock::now();
    const bool checks = now >= next_question;
    if (checks) {
      check_peers();
      report_if_asked();
      check_gpu_calls();
      next_question = now + check_interval;
    }
    // A thread that waits advances all outstanding operations itself.
    if (checks || (num_outstanding_ > 0 && num_waiting_ == 0)) {
      const Lock here = lock();
      advance_all();
      if (checks) receive_control_messages();
    }
    sleep();
  }
}

void MpiEngine::sleep() {
  const auto now = Clock::now();
  if (num_polled_ > 0 || now - last_polled_start_.load() <= recent_time) {
    return std::this_thread::sleep_for(poll_interval);
  }
  const bool idle = num_outstanding_ == 0 && now - last_start_.load() > recent_time;
  std::unique_lock lock(sleep_mutex_);
  const std::atomic<size_t>& calls = idle ? num_outstanding_ : num_polled_;
  woken_by_ = &calls;
  // The count is read after this store: add() first counts its operation and then checks whether the thread sleeps.
  wake_.wait_for(lock, idle ? Clock::duration(check_interval) : fetch_interval, [&] { return calls > 0 || stops_; });
  woken_by_ = nullptr;
}

void MpiEngine::check_peers() {
  if (ending_ || has_failed()) return;
  const auto ended = peers_.find_ended();
  if (!ended || ending_) return;
  // The peer may have sent the reason for its end, or the failure of another rank.
  for (const auto began = Clock::now(); Clock::now() - began < last_message_time; std::this_thread::sleep_for(1ms)) {
    const Lock here = lock();
    receive_control_messages();
    if (has_failed()) return;
  }
  set_failure(fmt::format("rank {} (process {} on this machine) has died; the run can be continued from its newest "
                          "checkpoint with --resume auto",
                          ended->rank, ended->process_id),
              true, ended->rank);
}

// No rank waits for GPU calls itself, so only this thread can find out that one is late or must end after a failure.
void MpiEngine::check_gpu_calls() {
  std::vector<MpiOperationPointer> calls;
  {
    const Lock here = lock();
    std::ranges::copy_if(outstanding_, std::back_inserter(calls), [](const auto& call) { return call->on_gpu(); });
  }
  for (const MpiOperationPointer& call : calls) {
    if (!has_failed()) fail_if_late(*call, call->began());
    if (has_failed()) call->abandon();
  }
}

void MpiEngine::add(const MpiOperationPointer& operation) {
  const Call& call = operation->call();
  if (is_collective(call)) operation->channel().entered_collectives = call.sequence;
  // The operation is kept even where it fails to start: MPI may already work on a part of it.
  outstanding_.push_back(operation);
  try {
    if (!operation->on_gpu() && operation->advance()) {
      outstanding_.pop_back();
      return operation->set_complete();
    }
  } catch (const CommError& error) {
    return set_failure(error.what(), true, std::nullopt);
  }
  last_start_ = Clock::now();
  if (operation->needs_polling()) last_polled_start_ = last_start_.load();
  count_outstanding();
  const std::atomic<size_t>* const calls = woken_by_;
  if (calls == nullptr || *calls == 0) return;
  const std::lock_guard lock(sleep_mutex_);
  wake_.notify_one();
}

void MpiEngine::add_group(const std::shared_ptr<MpiChannel>& channel) { groups_[channel->key()] = channel; }

void MpiEngine::remove_group(const std::shared_ptr<MpiChannel>& channel) { groups_.erase(channel->key()); }

void MpiEngine::count_outstanding() {
  num_outstanding_ = outstanding_.size();
  num_polled_ = std::ranges::count_if(outstanding_, &MpiOperation::needs_polling);
}

void MpiEngine::advance_all() {
  if (has_failed()) return;
  try {
    bool any = false;
    for (const MpiOperationPointer& operation : outstanding_) {
      if (!operation->advance()) continue;
      operation->set_complete();
      any = true;
    }
    if (any) {
      std::erase_if(outstanding_, [](const MpiOperationPointer& operation) { return operation->is_complete(); });
    }
    count_outstanding();
  } catch (const CommError& error) {
    set_failure(error.what(), true, std::nullopt);
  }
}

bool MpiEngine::advance_until_complete(MpiOperation& operation) {
  const Lock here = lock();
  advance_all();
  return operation.is_complete() || has_failed();
}

// A rank that yields to another program loses a time slice, while one that wakes up gets its core back at once.
void MpiEngine::give_way(Clock::duration pause) {
  constexpr Clock::duration part_of_a_slice = 500us, sharing_time = 1s;
  const auto now = Clock::now();
  if (now < shared_until_.load()) return std::this_thread::sleep_for(pause);
  std::this_thread::yield();
  if (Clock::now() - now > part_of_a_slice) shared_until_ = now + sharing_time;
}

void MpiEngine::wait(MpiOperation& operation) {
  constexpr int64_t eager_tries = 20, tries_between_looks = 32, busy_tries = 1000;
  constexpr auto busy_time = 10ms;
  // After about a millisecond the others are probably computing: a rank that waits longer leaves the core to them and
  // to its own threads.
  constexpr Clock::duration pause = 50us, longest_pause = 500us;
  constexpr int64_t pauses_of_a_wait = 32;
  struct Counted {
    explicit Counted(std::atomic<int>& count) : count(count) { ++count; }
    ~Counted() { --count; }
    std::atomic<int>& count;
  };
  struct WaitedIn {
    ~WaitedIn() {
      const Lock here = engine.lock();
      if (engine.waited_in_ == &operation) engine.waited_in_ = nullptr;
    }
    MpiEngine& engine;
    const MpiOperation& operation;
  };
  if (operation.is_complete()) return;
  const Counted counted(num_waiting_);
  const WaitedIn waited_in{.engine = *this, .operation = operation};
  const auto began = Clock::now();
  for (int64_t tries = 1; !advance_until_complete(operation); ++tries) {
    // Another rank may need this core to make progress.
    if (tries > busy_tries) {
      // Without calls that need polling, a longer pause costs at most a small part of the wait.
      const Clock::duration waited = (Clock::now() - began) / pauses_of_a_wait;
      std::this_thread::sleep_for(num_polled_ > 0 ? pause : std::clamp(waited, pause, longest_pause));
    } else if (tries > eager_tries) {
      give_way(pause);
    }
    // On a busy machine a few tries can take long.
    const bool long_since = tries % tries_between_looks == 0 && Clock::now() - began > busy_time;
    if (tries == busy_tries || (tries < busy_tries && long_since)) {
      const Lock here = lock();
      // Where two threads wait, report the one that trains rather than the one that saves.
      if (waited_in_ == nullptr || operation.call().limited) waited_in_ = &operation;
    }
    if (tries % tries_between_looks == 0) fail_if_late(operation, began);
  }
  if (!operation.is_complete()) throw_failure(operation);
}

bool MpiEngine::is_done(MpiOperation& operation) {
  if (operation.is_complete()) return true;
  const Lock here = lock();
  advance_all();
  return operation.is_complete() || has_failed();
}

void MpiEngine::throw_if_failed() const {
  if (!has_failed()) return;
  const std::lock_guard lock(failure_mutex_);
  throw CommError(failure_);
}

void MpiEngine::set_failure(const std::string& reason, bool send, std::optional<int64_t> dead) {
  // A rank that waits throws the reason at once. A rank that computes logs it, since the launcher may end it before its
  // next call.
  const bool computes = num_waiting_ == 0;
  {
    const std::lock_guard lock(failure_mutex_);
    if (failed_) return;
    failure_ = reason;
    failure_to_send_ = send;
    dead_ = dead;
    failed_ = true;
  }
  write_flight(options_.failure_folder());
  if (computes) log_warning("rank {}: {}", rank_, reason);
}

void MpiEngine::abort(const std::string& reason) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failed_ && !reason_due_) return;
    failure_ = reason;
    failure_to_send_ = true;
    reason_due_.reset();
    if (failed_.exchange(true)) return;
  }
  write_flight(options_.failure_folder());
}

void MpiEngine::expect_failure() {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failed_) return;
    failure_ = fmt::format("rank {} failed", rank_);
    reason_due_ = Clock::now() + unwinding_time;
    failed_ = true;
  }
  write_flight(options_.failure_folder());
}

void MpiEngine::report_if_asked() {
  if (ending_ || has_failed()) return;
  const int asked = options_.report_requests != nullptr ? options_.report_requests->load() : 0;
  bool wanted = std::exchange(reports_, asked) != asked;
  {
    const Lock here = lock();
    if (wanted) control_.ask_for_reports();
    const int asked_by_others = control_.reports_asked();
    wanted |= std::exchange(reports_of_others_, asked_by_others) != asked_by_others;
  }
  if (!wanted) return;
  // Every rank logs this, as a warning because ranks other than the first log only warnings.
  log_warning("rank {}: {}", rank_, flight_.describe_last_call());
  write_flight(options_.flight_folder);
}

void MpiEngine::write_flight(const std::filesystem::path& folder) const {
  if (folder.empty()) return;
  try {
    flight_.write(folder);
  } catch (const std::exception& error) {
    log_warning("the last calls of rank {} could not be written: {}", rank_, error.what());
  }
}

void MpiEngine::receive_control_messages() {
  try {
    control_.poll();
    if (control_.received_failure()) set_failure(*control_.received_failure(), false, std::nullopt);
    const std::lock_guard lock(failure_mutex_);
    if (reason_due_ && Clock::now() > *reason_due_) {
      reason_due_.reset();
      failure_to_send_ = true;
    }
    if (std::exchange(failure_to_send_, false)) control_.send_failure(failure_, dead_);
  } catch (const CommError& error) {
    set_failure(error.what(), false, std::nullopt);
  }
}

bool MpiEngine::end() {
  ending_ = true;
  bool ended = false;
  if (!has_failed()) {
    MPI_Request barrier = MPI_REQUEST_NULL;
    try {
      ended = wait_for_others_to_end(barrier);
    } catch (const CommError& error) {
      set_failure(error.what(), true, std::nullopt);
    }
    if (!ended) set_failure(fmt::format("rank {} has ended and others have not", rank_), true, std::nullopt);
  }
  if (!ended) finish_sending();
  stop();
  return ended;
}

bool MpiEngine::wait_for_others_to_end(MPI_Request& barrier) {
  const auto began = Clock::now();
  const auto timeout = std::chrono::duration<double>(options_.timeout_seconds);
  bool end_sent = false;
  {
    const Lock here = lock();
    control_.start_barrier(barrier);
  }
  while (true) {
    {
      const Lock here = lock();
      int done = 0;
      check_mpi(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return true;
      receive_control_messages();
      // Tells ranks that still wait for a call of this rank that the call will not come.
      if (!end_sent && Clock::now() - began > answer_time / 4) {
        control_.send_end();
        end_sent = true;
      }
    }
    if (has_failed() || Clock::now() - began > timeout) return false;
    std::this_thread::sleep_for(poll_interval);
  }
}

void MpiEngine::finish_sending() {
  for (const auto began = Clock::now(); Clock::now() - began < answer_time / 2;) {
    const Lock here = lock();
    receive_control_messages();
    if (control_.all_sent()) return;
  }
}

}  // namespace terrace::comm
