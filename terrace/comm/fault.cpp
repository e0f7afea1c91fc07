// Forwards calls to another Comm late, not at all, or with a flipped bit.
#include "terrace/comm/fault.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "terrace/base/system/core_wait.h"

namespace terrace::comm {
namespace {

void flip_bit(char* data, int64_t bytes) {
  if (bytes > 0) data[bytes / 2] = static_cast<char>(data[bytes / 2] ^ 1);
}

int64_t written_bytes(const Call& call, int64_t members) {
  const bool of_all = call.kind == Kind::all_gather || call.kind == Kind::all_to_all;
  return (of_all ? members : 1) * call.count * size_of(call.type);
}

// A call in whose result a bit is flipped when it is complete, or a send of a corrupted copy, which lives as long.
class CorruptedCall : public Work::State {
 public:
  CorruptedCall(Comm& inner, Call call, Owner owner) {
    if (call.kind == Kind::send) {
      const char* const from = static_cast<const char*>(call.from);
      copy_.assign(from, from + call.count * size_of(call.type));
      flip_bit(copy_.data(), static_cast<int64_t>(copy_.size()));
      call.from = copy_.data();
    } else {
      written_ = static_cast<char*>(call.to);
      bytes_ = written_bytes(call, inner.size());
    }
    work_ = inner.begin(call, std::move(owner));
  }

  void wait() override {
    work_.wait();
    if (written_ != nullptr) flip_bit(std::exchange(written_, nullptr), bytes_);
  }
  bool done() override { return work_.done(); }
  void abandon() override {}  // the destructor of work_ abandons the inner call

 private:
  std::vector<char> copy_;
  char* written_ = nullptr;
  int64_t bytes_ = 0;
  Work work_;
};

constexpr double least_sleep_seconds = 2e-3;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Measures how long the thread that made it has computed since it last slept for a fault.
class ComputingTime {
 public:
  // Called by any thread where a call or a wait begins and ends.
  void pause() {
    if (std::this_thread::get_id() != thread_) return;
    const std::chrono::duration<double> ran = Clock::now() - resumed_;
    seconds_ += std::max(0.0, ran.count() - (cores_.seconds() - cores_at_resume_));
  }
  void resume() {
    if (std::this_thread::get_id() != thread_) return;
    resumed_ = Clock::now();
    cores_at_resume_ = cores_.seconds();
  }
  // The seconds so far, which then count from zero; 0 as long as they are fewer than `least`.
  double take(double least) {
    return std::this_thread::get_id() == thread_ && seconds_ >= least ? std::exchange(seconds_, 0.0) : 0.0;
  }

 private:
  using Clock = std::chrono::steady_clock;

  const std::thread::id thread_ = std::this_thread::get_id();
  ThreadCoreWait cores_;
  Clock::time_point resumed_ = Clock::now();
  double cores_at_resume_ = 0, seconds_ = 0;
};

// A call whose wait does not count as computing and ends later by the time of a slow link.
class SlowCall : public Work::State {
 public:
  SlowCall(Work work, ComputingTime& computing, double more_seconds)
      : work_(std::move(work)), computing_(computing), more_seconds_(more_seconds) {}

  void wait() override {
    computing_.pause();
    work_.wait();
    if (more_seconds_ > 0) sleep_for(std::exchange(more_seconds_, 0.0));
    computing_.resume();
  }
  bool done() override { return work_.done(); }
  void abandon() override {}  // the destructor of work_ abandons the inner call

 private:
  Work work_;
  ComputingTime& computing_;
  double more_seconds_;
};

class FaultyComm : public Comm {
 public:
  // `computing` is null where no fault needs it.
  FaultyComm(std::unique_ptr<Comm> inner, int64_t rank, const std::vector<Fault>& faults, ComputingTime* computing)
      : Comm(inner->group(), inner->member()),
        inner_(std::move(inner)),
        rank_(rank),
        faults_(faults),
        computing_(computing) {}

 private:
  Work start(const Call& call, Owner owner) override {
    if (computing_ != nullptr) computing_->pause();
    const auto fault = std::ranges::find_if(faults_, [&](const Fault& one) { return one.hits(rank_, group(), call); });
    const bool slow = fault != faults_.end() && fault->effect == Fault::Effect::slow_rank;
    // A short sleep would take much longer than it should.
    const double least = slow && fault->slowness > 0 ? least_sleep_seconds / fault->slowness : 0;
    const double computed = computing_ != nullptr ? computing_->take(least) : 0;
    double more_seconds = 0;
    if (fault != faults_.end()) {
      switch (fault->effect) {
        case Fault::Effect::drop:
          return {};
        case Fault::Effect::corrupt:
          return Work(std::make_unique<CorruptedCall>(*inner_, call, std::move(owner)));
        case Fault::Effect::delay:
          sleep_for(fault->delay_seconds);
          break;
        case Fault::Effect::slow_rank:
          if (computed > 0) sleep_for(fault->slowness * computed);
          break;
        case Fault::Effect::slow_link:
          more_seconds = fault->seconds_per_byte * moved_bytes(call);
          break;
      }
    }
    Work work = inner_->begin(call, std::move(owner));
    if (computing_ == nullptr) return work;
    computing_->resume();
    return Work(std::make_unique<SlowCall>(std::move(work), *computing_, more_seconds));
  }

  double moved_bytes(const Call& call) const {
    if (call.kind == Kind::receive) return static_cast<double>(call.count * size_of(call.type));
    return static_cast<double>(sent_bytes(call, size(), member()));
  }

  const std::unique_ptr<Comm> inner_;
  const int64_t rank_;
  const std::vector<Fault>& faults_;
  ComputingTime* const computing_;
};

class FaultyWorld : public World {
 public:
  FaultyWorld(World& inner, std::vector<Fault> faults) : inner_(inner), faults_(std::move(faults)) {
    const auto is_slow = [](const Fault& fault) {
      return fault.effect == Fault::Effect::slow_rank || fault.effect == Fault::Effect::slow_link;
    };
    if (std::ranges::any_of(faults_, is_slow)) computing_.emplace();
  }

  int64_t rank() const override { return inner_.rank(); }
  int64_t size() const override { return inner_.size(); }
  int64_t ranks_per_node() const override { return inner_.ranks_per_node(); }
  int64_t cores_per_rank() const override { return inner_.cores_per_rank(); }
  void use_gpu(int gpu) override { inner_.use_gpu(gpu); }
  std::unique_ptr<Comm> connect(const mesh::Group& group, const std::vector<mesh::Direction>& directions) override {
    return std::make_unique<FaultyComm>(inner_.connect(group, directions), rank(), faults_,
                                        computing_ ? &*computing_ : nullptr);
  }
  void abort(const std::string& reason) override { inner_.abort(reason); }

 private:
  World& inner_;
  const std::vector<Fault> faults_;
  std::optional<ComputingTime> computing_;
};

bool has(const mesh::Group& group, int64_t rank) { return std::ranges::find(group.ranks, rank) != group.ranks.end(); }

}  // namespace

Fault slow_rank(int64_t rank, double slowness, const std::atomic<bool>* active) {
  const auto hits = [=](int64_t of, const mesh::Group&, const Call&) {
    return of == rank && (active == nullptr || active->load());
  };
  return {.effect = Fault::Effect::slow_rank, .hits = hits, .slowness = slowness};
}

Fault slow_link(int64_t rank, int64_t other, double seconds_per_byte, const std::atomic<bool>* active) {
  const auto hits = [=](int64_t of, const mesh::Group& group, const Call& call) {
    if ((active != nullptr && !active->load()) || !has(group, rank) || !has(group, other)) return false;
    if (call.kind == Kind::send) return false;
    if (call.kind != Kind::receive) return true;
    const int64_t from = group.ranks[static_cast<size_t>(call.peer)];
    return (of == rank && from == other) || (of == other && from == rank);
  };
  return {.effect = Fault::Effect::slow_link, .hits = hits, .seconds_per_byte = seconds_per_byte};
}

std::unique_ptr<World> make_faulty_world(World& inner, std::vector<Fault> faults) {
  return std::make_unique<FaultyWorld>(inner, std::move(faults));
}

}  // namespace terrace::comm
