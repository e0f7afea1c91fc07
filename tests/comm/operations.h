// Checks that every backend must pass: each operation with each type, size and group, against its definition.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "terrace/comm/comm.h"
#include "tests/comm/elements.h"

namespace terrace::comm {

// The directions from each member of a group to each other one.
inline std::vector<mesh::Direction> all_directions(int64_t members) {
  std::vector<mesh::Direction> directions;
  for (int64_t from = 0; from < members; ++from) {
    for (int64_t to = 0; to < members; ++to) {
      if (from != to) directions.push_back({.from = from, .to = to});
    }
  }
  return directions;
}

// A buffer in the memory of the machine.
class HostBuffer {
 public:
  explicit HostBuffer(std::vector<char> bytes) : bytes_(std::move(bytes)) {}
  char* data() { return bytes_.data(); }
  std::vector<char> bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

// The operations of one group as one member makes them, one after another, on buffers that are made of bytes and have
// data() where the operations shall be tried, and bytes(). Wrong results are described in `wrong`.
template <typename Buffer>
class OperationCheckOn {
 public:
  OperationCheckOn(Comm& comm, Type type, int64_t count) : comm_(comm), type_(type), count_(count) {}

  std::vector<std::string> run() {
    all_reduce();
    for (const bool in_place : {false, true}) reduce_scatter(in_place);
    for (const Gathering gathering : {Gathering::doubling, Gathering::library}) {
      comm_.gather_by(gathering);
      for (const bool in_place : {false, true}) all_gather(in_place);
    }
    all_to_all();
    for (int64_t root = 0; root < comm_.size(); ++root) broadcast(root);
    if (comm_.size() > 1) around();
    comm_.barrier({"meet"}).wait();
    return wrong_;
  }

 private:
  using Bytes = std::vector<char>;

  // Element i of member m's data.
  Bytes data(int64_t member, int64_t count, int64_t first = 0) const {
    return elements(type_, count, [&](int64_t i) { return small_value(member, first + i); });
  }
  Bytes sums(int64_t count, int64_t first = 0) const {
    return elements(type_, count, [&](int64_t i) {
      int64_t sum = 0;
      for (int64_t m = 0; m < comm_.size(); ++m) sum += small_value(m, first + i);
      return sum;
    });
  }
  // One canary behind the data.
  Buffer room_for(int64_t count) const {
    return Buffer(Bytes(static_cast<size_t>(count * size_of(type_)) + 1, canary));
  }
  void expect(const char* what, const Buffer& found, Bytes expected) {
    expected.push_back(canary);
    if (found.bytes() != expected) {
      wrong_.push_back(
          fmt::format("{} of {} {}, member {} of {}", what, count_, name_of(type_), comm_.member(), comm_.size()));
    }
  }
  Buffer guarded(Bytes bytes) const {
    bytes.push_back(canary);
    return Buffer(std::move(bytes));
  }

  void all_reduce() {
    Buffer buffer = guarded(data(comm_.member(), count_));
    comm_.all_reduce(buffer.data(), count_, type_, {"sum"}).wait();
    expect("all_reduce", buffer, sums(count_));
  }

  void reduce_scatter(bool in_place) {
    const int64_t n = comm_.size(), own = comm_.member() * count_;
    Buffer from(data(comm_.member(), n * count_)), apart = room_for(count_);
    if (!in_place) {
      comm_.reduce_scatter(from.data(), apart.data(), count_, type_, {"scatter"}).wait();
      return expect("reduce_scatter", apart, sums(count_, own));
    }
    comm_.reduce_scatter(from.data(), from.data() + own * size_of(type_), count_, type_, {"scatter"}).wait();
    const Bytes all = from.bytes();
    const auto begin = all.begin() + own * size_of(type_);
    expect("reduce_scatter in place", guarded(Bytes(begin, begin + count_ * size_of(type_))), sums(count_, own));
  }

  void all_gather(bool in_place) {
    const Bytes own = data(comm_.member(), count_);
    const int64_t begin = comm_.member() * count_ * size_of(type_);
    Bytes room(static_cast<size_t>(comm_.size() * count_ * size_of(type_)), canary), expected;
    if (in_place) std::copy(own.begin(), own.end(), room.begin() + begin);
    Buffer from(own), to = guarded(std::move(room));
    comm_.all_gather(in_place ? to.data() + begin : from.data(), to.data(), count_, type_, {"gather"}).wait();
    for (int64_t m = 0; m < comm_.size(); ++m) {
      const Bytes theirs = data(m, count_);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    expect(in_place ? "all_gather in place" : "all_gather", to, expected);
  }

  void all_to_all() {
    Buffer from(data(comm_.member(), comm_.size() * count_)), to = room_for(comm_.size() * count_);
    Bytes expected;
    comm_.all_to_all(from.data(), to.data(), count_, type_, {"exchange"}).wait();
    for (int64_t m = 0; m < comm_.size(); ++m) {
      const Bytes theirs = data(m, count_, comm_.member() * count_);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    expect("all_to_all", to, expected);
  }

  void broadcast(int64_t root) {
    Buffer buffer = comm_.member() == root ? guarded(data(root, count_)) : room_for(count_);
    comm_.broadcast(buffer.data(), count_, type_, root, {"spread"}).wait();
    expect("broadcast", buffer, data(root, count_));
  }

  // Each member sends to the next one and receives from the previous one.
  void around() {
    const int64_t n = comm_.size(), next = (comm_.member() + 1) % n, before = (comm_.member() + n - 1) % n;
    Buffer from(data(comm_.member(), count_)), to = room_for(count_);
    Work sent = comm_.send(from.data(), count_, type_, next, {"pass on"});
    Work received = comm_.receive(to.data(), count_, type_, before, {"pass on"});
    received.wait();
    sent.wait();
    expect("send and receive", to, data(before, count_));
  }

  static constexpr char canary = 77;
  Comm& comm_;
  const Type type_;
  const int64_t count_;
  std::vector<std::string> wrong_;
};

using OperationCheck = OperationCheckOn<HostBuffer>;

template <typename Buffer, typename T>
Buffer buffer_of(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Buffer(std::move(bytes));
}

template <typename T, typename Buffer>
std::vector<T> values_of(const Buffer& buffer) {
  const std::vector<char> bytes = buffer.bytes();
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Each member first posts all receives and then sends, in descending order, so no message is the first that both of its
// ends have begun. Returns the senders whose messages did not come right.
template <typename Buffer>
std::vector<int64_t> wrong_messages_of_all_directions(World& world, int64_t count) {
  const auto comm = world.connect(mesh::all_ranks("data", world.size()), all_directions(world.size()));
  const auto numbers = [&](int64_t value) {
    return buffer_of<Buffer>(std::vector<int64_t>(static_cast<size_t>(count), value));
  };
  Buffer own = numbers(world.rank());
  std::vector<Buffer> received;
  for (int64_t from = 0; from < world.size(); ++from) received.push_back(numbers(-1));
  std::vector<Work> works;
  for (int64_t from = 0; from < world.size(); ++from) {
    if (from == world.rank()) continue;
    works.push_back(
        comm->receive(received[static_cast<size_t>(from)].data(), count, Type::int64, from, {"activations"}));
  }
  for (int64_t to = world.size() - 1; to >= 0; --to) {
    if (to != world.rank()) works.push_back(comm->send(own.data(), count, Type::int64, to, {"activations"}));
  }
  works.clear();
  std::vector<int64_t> wrong;
  for (int64_t from = 0; from < world.size(); ++from) {
    const auto values = values_of<int64_t>(received[static_cast<size_t>(from)]);
    if (from != world.rank() && std::ranges::count(values, from) != count) wrong.push_back(from);
  }
  return wrong;
}

// Calls that all members make, of whom member 1 is late after its first call. The buffers must live longer than the
// Comm, on whose GPUs ended calls may still read them.
template <typename Buffer>
class CallsBesideLateMember {
 public:
  explicit CallsBesideLateMember(int64_t members) : own_(numbers(members * count)), all_(numbers(members * count)) {}

  // Makes the calls. By `mode` there is an all_to_all first, or a message is expected from the late member, or the sums
  // fill the queue of the GPU. Throws what ends the calls.
  void make(Comm& comm, const std::string& mode, std::chrono::seconds late, int filling_calls) {
    comm.all_reduce(data_.data(), count, Type::fp32, {"first"}).wait();
    static_cast<void>(data_.bytes());
    if (comm.member() == 1) std::this_thread::sleep_for(late);
    if (mode == "late_in_first_call") {
      comm.all_to_all(own_.data(), all_.data(), count, Type::fp32, {"exchange"}).wait();
    }
    std::vector<Work> works;
    if (mode == "late_with_message" && comm.member() != 1) {
      works.push_back(comm.receive(message_.data(), count, Type::fp32, 1, {"expect"}));
    }
    for (int i = 0; i < (mode == "late_with_full_queue" ? filling_calls : 1); ++i) {
      works.push_back(comm.all_reduce(data_.data(), count, Type::fp32, {"reduce gradients", 7, "backward"}));
    }
    for (Work& work : works) work.wait();
    static_cast<void>(data_.bytes());
    comm.all_reduce(data_.data(), count, Type::fp32, {"after"}).wait();
  }

 private:
  static constexpr int64_t count = 100;

  static Buffer numbers(int64_t number) { return buffer_of<Buffer>(std::vector<float>(static_cast<size_t>(number))); }

  Buffer data_ = numbers(count), message_ = numbers(count), own_, all_;
};

// Every operation with every type and these numbers of elements, and one that fills `large_bytes`.
inline std::vector<std::string> wrong_operations(World& world, const mesh::Group& group, std::vector<int64_t> counts,
                                                 int64_t large_bytes) {
  const std::unique_ptr<Comm> comm = world.connect(group);
  std::vector<std::string> wrong;
  counts.push_back(0);
  for (const Type type : all_types) {
    counts.back() = large_bytes / size_of(type) + 1;
    for (const int64_t count : counts) {
      const std::vector<std::string> found = OperationCheck(*comm, type, count).run();
      wrong.insert(wrong.end(), found.begin(), found.end());
    }
  }
  return wrong;
}

// The first rank begins a sum of all ranks and then sends a message to the last rank, which takes part in the sum only
// when the message is there. So this fails by the time-out where a message waits for a collective of another group that
// was begun before it. Returns whether the message and the sum are right.
inline bool passes_message_beside_collective(World& world, int64_t count) {
  if (world.size() == 1) return true;
  const std::unique_ptr<Comm> reductions = world.connect(mesh::all_ranks("replicas", world.size()));
  const int64_t last = world.size() - 1;
  const std::unique_ptr<Comm> stages =
      world.connect(mesh::all_ranks("stages", world.size()), {{.from = 0, .to = last}});
  const std::vector<int64_t> sent(static_cast<size_t>(count), 7);
  std::vector<int64_t> sums(static_cast<size_t>(count), 1), received = sent;
  const auto sum = [&] { return reductions->all_reduce(sums.data(), count, Type::int64, {"sum"}); };
  if (world.rank() == 0) {
    Work summing = sum(), sending = stages->send(sent.data(), count, Type::int64, last, {"message"});
    sending.wait();
    summing.wait();
  } else if (world.rank() == last) {
    received.assign(received.size(), 0);
    stages->receive(received.data(), count, Type::int64, 0, {"message"}).wait();
    sum().wait();
  } else {
    sum().wait();
  }
  return received == sent && sums == std::vector<int64_t>(sums.size(), world.size());
}

}  // namespace terrace::comm
