// Communicators that keep the calls made over them, so that a benchmark can count and repeat the calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "terrace/comm/comm.h"

namespace terrace::bench {

// The calls that went over one group.
struct GroupCalls {
  std::string name;
  std::vector<comm::Call> calls = {};
  comm::Comm* outer = nullptr;  // counts; lives as long as the trainer
  comm::Comm* inner = nullptr;
};

// The moment when a rank waits for a call: where it needs the result, or before it goes on, so that no call overlaps
// its computation.
enum class Waits { where_needed, at_once };

// Passes every call on, and keeps it.
class RecordingComm : public comm::Comm {
 public:
  RecordingComm(std::unique_ptr<comm::Comm> inner, GroupCalls& calls, Waits waits)
      : Comm(inner->group(), inner->member()), inner_(std::move(inner)), calls_(calls), waits_(waits) {
    calls_.outer = this;
    calls_.inner = inner_.get();
  }

 private:
  comm::Work start(const comm::Call& call, comm::Owner owner) override {
    calls_.calls.push_back(call);
    comm::Work work = inner_->begin(call, std::move(owner));
    if (waits_ == Waits::at_once) work.wait();
    return work;
  }

  const std::unique_ptr<comm::Comm> inner_;
  GroupCalls& calls_;
  const Waits waits_;
};

class RecordingWorld : public comm::World {
 public:
  explicit RecordingWorld(comm::World& inner, Waits waits = Waits::where_needed) : inner_(inner), waits_(waits) {}

  int64_t rank() const override { return inner_.rank(); }
  int64_t size() const override { return inner_.size(); }
  int64_t ranks_per_node() const override { return inner_.ranks_per_node(); }
  int64_t cores_per_rank() const override { return inner_.cores_per_rank(); }
  void use_gpu(int gpu) override { inner_.use_gpu(gpu); }
  std::unique_ptr<comm::Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& links) override {
    groups_.push_back(std::make_unique<GroupCalls>(GroupCalls{.name = group.name}));
    return std::make_unique<RecordingComm>(inner_.connect(group, links), *groups_.back(), waits_);
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

  void forget_calls() {
    for (const auto& group : groups_) {
      group->calls.clear();
      group->outer->reset_traffic();
    }
  }
  std::vector<std::unique_ptr<GroupCalls>>& groups() { return groups_; }

 private:
  comm::World& inner_;
  const Waits waits_;
  std::vector<std::unique_ptr<GroupCalls>> groups_;
};

// Times the recorded calls alone, each waited for and with other data.
inline double alone_seconds(const GroupCalls& group, int64_t steps) {
  std::vector<char> from, to;
  for (const comm::Call& call : group.calls) {
    const size_t bytes = static_cast<size_t>(call.count * comm::size_of(call.type) * group.inner->size());
    from.resize(std::max(from.size(), bytes));
    to.resize(std::max(to.size(), bytes));
  }
  group.inner->barrier({.what = "begin"}).wait();
  const auto began = std::chrono::steady_clock::now();
  for (comm::Call call : group.calls) {
    call.from = call.kind == comm::Kind::all_reduce ? to.data() : from.data();
    call.to = to.data();
    group.inner->begin(call).wait();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / static_cast<double>(steps);
}

}  // namespace terrace::bench
