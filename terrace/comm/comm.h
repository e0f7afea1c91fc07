// Communication among the ranks of a group. A backend is a class behind Comm and World; nothing else knows which it is.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

class Comm;
class FlightRecorder;

// A peer died, never came, asked for another operation, or gave up: the run cannot go on. Ends the program with exit
// code 5.
class CommError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whatever keeps the memory of a call's buffers alive.
using Owner = std::shared_ptr<const void>;

// A call under way. Buffers must stay as they are until wait() returns; a Work that is destroyed unfinished waits,
// unless an exception destroys it: then the rank is failing, and the calls of all ranks soon fail with it.
class Work {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;  // throws CommError
    virtual bool done() = 0;  // whether wait() would not wait, true where it would throw; may help the call along
    // The rank is being left by an exception. Lets its calls fail, and returns when no other rank uses the buffers.
    virtual void abandon() = 0;
  };

  Work() = default;  // of a call that is complete
  explicit Work(std::unique_ptr<State> state) : state_(std::move(state)) {}
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  // Returns when the call is complete here: what it writes can be read, what it reads can be written. Throws CommError
  // where that will never be.
  void wait();
  bool done();  // whether wait() would return, or throw, at once

 private:
  friend class Comm;

  std::unique_ptr<State> state_;
  Comm* comm_ = nullptr;  // that began the call
  Kind kind_ = Kind::barrier;
  uint64_t ticket_ = 0;  // in the flight recorder
  int exceptions_ = std::uncaught_exceptions();
};

// What went over a group so far, by kind of call.
struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;             // handed to others by this member, see sent_bytes()
  double exposed_seconds = 0.0;  // that this member waited
};

// The ranks of one group as one member sees them, for one thread at a time; it outlives the Works of its calls. Calls
// return at once and are complete after Work::wait(). All members make the same calls in the same order, except that
// sends and receives pair up by peer and order alone. Data are contiguous. In a group of one every call is complete
// when it returns (and copies where `to` is another buffer).
//
// After a failure others may still write into the buffers of a call that was given up. A backend where they may keeps
// the call's owner until the process ends; a call without an owner passes through memory of the backend's own, which
// costs a copy.
class Comm {
 public:
  virtual ~Comm() = default;

  const mesh::Group& group() const { return group_; }
  int64_t member() const { return member_; }
  int64_t size() const { return static_cast<int64_t>(group_.ranks.size()); }

  // Sums over the members, in place. 16-bit types are added in fp32 and rounded once where the backend can.
  Work all_reduce(void* data, int64_t count, Type type, const Label& label, Owner owner = {});
  // `from` has size() blocks of `count`; member i gets the sum of the blocks i. `to` may be the own block of `from`.
  Work reduce_scatter(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner = {});
  // `to` gets size() blocks of `count`, block i from member i. `from` may be the own block of `to`.
  Work all_gather(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner = {});
  // Block i of `from` goes to block member() of member i's `to`. The buffers do not overlap.
  Work all_to_all(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner = {});
  Work broadcast(void* data, int64_t count, Type type, int64_t root, const Label& label, Owner owner = {});
  Work send(const void* data, int64_t count, Type type, int64_t to_member, const Label& label, Owner owner = {});
  Work receive(void* data, int64_t count, Type type, int64_t from_member, const Label& label, Owner owner = {});
  Work barrier(const Label& label);

  // A call given as data, but for its sequence number.
  Work begin(Call call, Owner owner = {});

  // This member's calls wait for the others as long as these live, for calls behind work whose time nobody knows, such
  // as writing to a disk. A rank that ends, dies or does not answer for the time of the time-out still fails them. A
  // long wait is a line in the log.
  void lift_time_limit() { limited_ = false; }

  const Traffic& traffic(Kind kind) const { return traffic_[static_cast<size_t>(kind)]; }
  void reset_traffic() { traffic_ = {}; }

 protected:
  // The recorder outlives this.
  Comm(mesh::Group group, int64_t member, FlightRecorder* recorder = nullptr);
  virtual Work start(const Call& call, Owner owner) = 0;

 private:
  friend class Work;
  void finish(const Work& work, std::chrono::steady_clock::time_point waited_from, bool complete);

  mesh::Group group_;
  int64_t member_;
  FlightRecorder* recorder_;
  int64_t recorded_group_ = 0;
  bool limited_ = true;
  uint64_t collectives_ = 0;
  uint64_t sends_and_receives_ = 0;
  std::array<Traffic, num_kinds> traffic_ = {};
};

// All ranks of a run as one of them sees them.
class World {
 public:
  virtual ~World() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Ranks on this rank's machine, itself included, neighbours in rank order.
  virtual int64_t ranks_per_node() const = 0;
  // Cores of its machine for each rank, at least 1: where ranks share cores, its part of them; the fewest that any rank
  // has.
  virtual int64_t cores_per_rank() const = 0;
  // Groups that are connected from now on take buffers in this GPU's memory too, but for barriers; all ranks call it.
  // Their calls begin behind what the GPU's default stream holds, and Work::wait() lets that stream wait and not the
  // rank, so it is the stream that uses the buffers. Throws UserError where the backend cannot.
  virtual void use_gpu(int gpu) = 0;
  // Made by every rank of the group at the same place in its program, and by no other. Lives no longer than the world.
  virtual std::unique_ptr<Comm> connect(const mesh::Group& group) = 0;
  // Lets every call of every rank that is or comes to wait fail with the reason.
  virtual void abort(const std::string& reason) = 0;
};

struct WorldOptions {
  double timeout_seconds = 600.0;  // that a call may wait for others
  bool rank_order = false;         // sums in ascending order of ranks on backends that would take another order
  bool check_calls = false;        // kind, type, size and label of each collective are compared before it runs
  // Where the last calls of each rank are written when the run fails; empty: nowhere.
  std::filesystem::path flight_folder = {};
  // When this number changes on one of the ranks, every rank soon logs its last call and writes its last calls, and all
  // go on. Made to be changed by a handler of a signal; outlives the world.
  const std::atomic<int>* report_requests = nullptr;
};

}  // namespace terrace::comm
