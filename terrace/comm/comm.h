// Communication among the ranks of a group. A backend implements Comm and World; other code does not depend on which
// backend it is.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace {
class ThreadCoreWait;
}

namespace terrace::comm {

class Comm;
class FlightRecorder;

// A peer died, never took part, made a different call or gave up, so the run cannot continue. Ends the program with
// exit code 5.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Keeps the memory of a call's buffers alive.
using Owner = std::shared_ptr<const void>;

// A call under way. The caller leaves its buffers alone until wait() returns. The destructor of an unfinished Work
// waits, unless an exception is unwinding the stack: then this rank fails, and soon the calls of all ranks.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;  // throws CommError
    virtual bool done() = 0;  // whether wait() would return or throw at once; may make progress with the call
    // The time when the call became complete, for calls that proceed by themselves while the rank computes; calls of
    // other backends proceed in wait().
    virtual std::optional<std::chrono::steady_clock::time_point> completed() const { return {}; }
    // Called while an exception unwinds the rank's stack. Makes the rank's calls fail, and returns when no other rank
    // uses the buffers.
    virtual void abandon() = 0;
  };

  Work() = default;  // a call that is complete
  explicit Work(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // Returns when the call is complete on this rank: its result can be read and its input can be overwritten. Throws
  // CommError where the call failed.
  void wait();
  bool done();  // whether wait() would return, or throw, at once

 private:
  friend class Comm;

  std::unique_ptr<State> state_;
  Comm* comm_ = nullptr;  // the Comm that began the call
  Kind kind_ = Kind::barrier;
  uint64_t ticket_ = 0;  // the call's number in the flight recorder
  std::chrono::steady_clock::time_point began_;
  int exceptions_ = std::uncaught_exceptions();
};

// The calls of one kind that a group has made so far.
struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;             // that this member sent, see sent_bytes()
  double exposed_seconds = 0.0;  // that this member spent in Work::wait()
  double moving_seconds = 0.0;   // from the beginning of each call to its completion; at least the exposed ones
};

// How long a rank has waited in the calls of all the Comms that add to it.
struct WaitTime {
  double seconds = 0;  // in Work::wait()
  // If given, also counts how much of it the thread was ready to run while no core was free.
  const ThreadCoreWait* cores = nullptr;
  double core_seconds = 0;
};

// One member's interface to its group, for one thread at a time; it outlives the Works of its calls. A call returns at
// once and is complete after Work::wait(). All members make the same collectives in the same order; sends and receives
// are matched by peer and order alone. Data are contiguous. In a group of one every call is complete when it returns
// (and copies where `to` is another buffer).
//
// After a failure other ranks may still write into the buffers of a call that was given up. A backend where this can
// happen keeps the call's owner until the process ends; a call without an owner uses memory of the backend, which costs
// a copy.
class Comm {
 public:
  virtual ~Comm() = default;

  const mesh::Group& group() const { return group_; }
  int64_t member() const { return member_; }
  int64_t size() const { return static_cast<int64_t>(group_.ranks.size()); }

  // Sums over the members, in place. 16-bit types are added in fp32 and rounded once on backends that can.
  Work all_reduce(void* data, int64_t count, Type type, const Label& label, Owner owner = {});
  // `from` has size() blocks of `count`; member i gets the sum of all blocks i. `to` may be this member's block of
  // `from`.
  Work reduce_scatter(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner = {});
  // `to` gets size() blocks of `count`, block i from member i. `from` may be this member's block of `to`.
  Work all_gather(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner = {});
  // Block i of `from` goes to block member() of member i's `to`. The buffers do not overlap.
  Work all_to_all(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner = {});
  Work broadcast(void* data, int64_t count, Type type, int64_t root, const Label& label, Owner owner = {});
  Work send(const void* data, int64_t count, Type type, int64_t to_member, const Label& label, Owner owner = {});
  Work receive(void* data, int64_t count, Type type, int64_t from_member, const Label& label, Owner owner = {});
  Work barrier(const Label& label);

  // Makes a call from its data; the sequence number is set here.
  Work begin(Call call, Owner owner = {});

  // Chooses the algorithm of the member's later all_gathers; all members choose alike before the same call. The result
  // has the same bits, and as many bytes are sent. Members that share memory copy blocks from each other all the same.
  void gather_by(Gathering gathering) { gathering_ = gathering; }

  // Removes the time-out from this member's calls, for calls that follow work of unknown duration such as writing to a
  // disk. They still fail where a rank ends, dies or does not answer for as long as the time-out. A long wait is
  // logged.
  void lift_time_limit() { limited_ = false; }

  const Traffic& traffic(Kind kind) const { return traffic_[static_cast<size_t>(kind)]; }
  void reset_traffic() { traffic_ = {}; }
  // Adds the member's later waits to `sum` too, which the caller keeps until it gives null.
  void add_waits_to(WaitTime* sum) { waits_ = sum; }

 protected:
  // The recorder outlives this object.
  Comm(mesh::Group group, int64_t member, FlightRecorder* recorder = nullptr);
  virtual Work start(const Call& call, Owner owner) = 0;

 private:
  friend class Work;
  // The moment at which a wait begins.
  struct WaitBegin {
    std::chrono::steady_clock::time_point time;
    double core_seconds = 0;
  };
  WaitBegin begin_wait() const;
  void finish(const Work& work, const WaitBegin& began, bool complete,
              std::optional<std::chrono::steady_clock::time_point> completed);

  mesh::Group group_;
  int64_t member_;
  FlightRecorder* recorder_;
  int64_t recorded_group_ = 0;
  bool limited_ = true;
  Gathering gathering_ = Gathering::library;
  uint64_t collectives_ = 0;
  uint64_t sends_and_receives_ = 0;
  std::array<Traffic, num_kinds> traffic_ = {};
  WaitTime* waits_ = nullptr;
};

// One rank's interface to all ranks of a run.
class World {
 public:
  virtual ~World() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // The number of ranks on this rank's machine, itself included. They are consecutive.
  virtual int64_t ranks_per_node() const = 0;
  // The number of cores for each rank, at least 1. Ranks that share cores divide them; where ranks differ, the smallest
  // number counts for all.
  virtual int64_t cores_per_rank() const = 0;
  // Groups that are connected later also take buffers in this GPU's memory, except for barriers; all ranks call it, in
  // the same place. A call on such buffers begins after earlier work on the GPU's default stream, and Work::wait()
  // makes that stream wait instead of the rank, so the buffers are to be used on that stream. Throws UserError where
  // the backend cannot do so, or where two ranks use one GPU without WorldOptions::share_gpus.
  virtual void use_gpu(int gpu) = 0;
  // Called by every rank of the group at the same place in its program with the same directions, and by no other rank.
  // All connections are made here. The world outlives the Comm. Messages in GPU memory can go in these directions only.
  virtual std::unique_ptr<Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) = 0;
  std::unique_ptr<Comm> connect(const mesh::Group& group) { return connect(group, {}); }
  // Makes all current and later calls of all ranks fail with the reason.
  virtual void abort(const std::string& reason) = 0;
};

struct WorldOptions {
  double timeout_seconds = 600.0;  // for which a call may wait for other ranks
  bool rank_order = false;         // sums are taken in ascending order of ranks on every backend
  bool check_calls = false;        // kind, type, size and label of each collective are compared before it runs
  // Several ranks may use one GPU. Data then go through host memory; if each rank has its own NCCL_HOSTID in its
  // environment, they go through NCCL's network transport instead.
  bool share_gpus = false;
  // The folder in which each rank writes its last calls when the run fails or a report is requested; where it is empty,
  // no file is written.
  std::filesystem::path flight_folder = {};
  // Returns the folder of this run's crash, in which ranks write their last calls when the run fails, in place of
  // flight_folder; without it, or where its result is empty, that one. Called by any thread.
  std::function<std::filesystem::path()> crash_folder = {};
  // When this number changes on one rank, every rank soon logs its last call and writes its last calls, and the run
  // continues. A signal handler may change it. It outlives the world.
  const std::atomic<int>* report_requests = nullptr;

  // The folder for the last calls of a run that fails.
  std::filesystem::path failure_folder() const;
};

}  // namespace terrace::comm
