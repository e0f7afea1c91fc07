// The part that all backends share: numbers and counts calls, handles groups of one, and measures the time of waits.
#include "terrace/comm/comm.h"

#include <chrono>
#include <cstring>

#include "terrace/base/error.h"
#include "terrace/base/system/core_wait.h"
#include "terrace/comm/flight_recorder.h"
#include "terrace/comm/nccl/nccl.h"

namespace terrace::comm {
namespace {

using Clock = std::chrono::steady_clock;

bool is_collective(Kind kind) { return kind != Kind::send && kind != Kind::receive; }

void copy_alone(const Call& call) {
  if (call.from == call.to || call.count == 0) return;
  if (is_on_gpu(call.to)) return copy_on_gpu(call.from, call.to, call.count * size_of(call.type));
  std::memcpy(call.to, call.from, static_cast<size_t>(call.count * size_of(call.type)));
}

}  // namespace

Work& Work::operator=(Work&& other) noexcept {
  if (this != &other) {
    const Work finished_here = std::move(*this);
    state_ = std::move(other.state_);
    comm_ = other.comm_;
    kind_ = other.kind_;
    ticket_ = other.ticket_;
    began_ = other.began_;
    exceptions_ = other.exceptions_;
  }
  return *this;
}

Work::~Work() {
  if (!state_) return;
  try {
    if (std::uncaught_exceptions() > exceptions_) {
      // Waiting for the others here could time out and hide the error that this rank fails with.
      state_->abandon();
    } else {
      wait();
    }
  } catch (...) {
    // A destructor cannot throw; the next call of this rank throws the same error.
    state_.reset();
  }
}

void Work::wait() {
  if (!state_) return;
  const std::unique_ptr<State> state = std::move(state_);
  const Comm::WaitBegin began = comm_ != nullptr ? comm_->begin_wait() : Comm::WaitBegin{};
  try {
    state->wait();
  } catch (...) {
    if (comm_ != nullptr) comm_->finish(*this, began, false, {});
    throw;
  }
  if (comm_ != nullptr) comm_->finish(*this, began, true, state->completed());
}

bool Work::done() { return !state_ || state_->done(); }

Comm::Comm(mesh::Group group, int64_t member, FlightRecorder* recorder)
    : group_(std::move(group)), member_(member), recorder_(recorder) {
  if (recorder_ != nullptr) recorded_group_ = recorder_->add_group(group_);
}

Work Comm::all_reduce(void* data, int64_t count, Type type, const Label& label, Owner owner) {
  return begin({.kind = Kind::all_reduce, .type = type, .count = count, .from = data, .to = data, .label = label},
               std::move(owner));
}

Work Comm::reduce_scatter(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner) {
  return begin({.kind = Kind::reduce_scatter, .type = type, .count = count, .from = from, .to = to, .label = label},
               std::move(owner));
}

Work Comm::all_gather(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner) {
  return begin({.kind = Kind::all_gather, .type = type, .count = count, .from = from, .to = to, .label = label},
               std::move(owner));
}

Work Comm::all_to_all(const void* from, void* to, int64_t count, Type type, const Label& label, Owner owner) {
  return begin({.kind = Kind::all_to_all, .type = type, .count = count, .from = from, .to = to, .label = label},
               std::move(owner));
}

Work Comm::broadcast(void* data, int64_t count, Type type, int64_t root, const Label& label, Owner owner) {
  return begin(
      {.kind = Kind::broadcast, .type = type, .count = count, .from = data, .to = data, .peer = root, .label = label},
      std::move(owner));
}

Work Comm::send(const void* data, int64_t count, Type type, int64_t to_member, const Label& label, Owner owner) {
  return begin({.kind = Kind::send, .type = type, .count = count, .from = data, .peer = to_member, .label = label},
               std::move(owner));
}

Work Comm::receive(void* data, int64_t count, Type type, int64_t from_member, const Label& label, Owner owner) {
  return begin({.kind = Kind::receive, .type = type, .count = count, .to = data, .peer = from_member, .label = label},
               std::move(owner));
}

Work Comm::barrier(const Label& label) { return begin({.kind = Kind::barrier, .label = label}); }

Work Comm::begin(Call call, Owner owner) {
  const bool collective = is_collective(call.kind);
  TERRACE_CHECK(call.count >= 0, "{} of {} elements", name_of(call.kind), call.count);
  if (call.kind == Kind::broadcast || !collective) {
    TERRACE_CHECK(call.peer >= 0 && call.peer < size() && (collective || call.peer != member_),
                  "member {} of {} in group {}: {} with member {}", member_, size(), group_.name, name_of(call.kind),
                  call.peer);
  }
  call.sequence = collective ? ++collectives_ : ++sends_and_receives_;
  call.limited = call.limited && limited_;
  // A call that another Comm passes on keeps the choice of that one.
  if (call.kind == Kind::all_gather && gathering_ == Gathering::doubling) call.gathering = gathering_;
  Traffic& traffic = traffic_[static_cast<size_t>(call.kind)];
  ++traffic.calls;
  traffic.bytes += sent_bytes(call, size(), member_);
  const uint64_t ticket = recorder_ != nullptr ? recorder_->enter(recorded_group_, call) : 0;
  Work work;
  const auto began = Clock::now();
  if (size() == 1) {
    copy_alone(call);
  } else {
    work = start(call, std::move(owner));
  }
  work.comm_ = this;
  work.kind_ = call.kind;
  work.ticket_ = ticket;
  work.began_ = began;
  if (!work.state_ && recorder_ != nullptr) recorder_->finish(ticket, Clock::now());
  return work;
}

Comm::WaitBegin Comm::begin_wait() const {
  const double core_seconds = waits_ != nullptr && waits_->cores != nullptr ? waits_->cores->seconds() : 0;
  return {.time = Clock::now(), .core_seconds = core_seconds};
}

void Comm::finish(const Work& work, const WaitBegin& began, bool complete, std::optional<Clock::time_point> completed) {
  const auto now = Clock::now();
  const std::chrono::duration<double> waited = now - began.time;
  if (waits_ != nullptr) {
    waits_->seconds += waited.count();
    if (waits_->cores != nullptr) waits_->core_seconds += waits_->cores->seconds() - began.core_seconds;
  }
  Traffic& traffic = traffic_[static_cast<size_t>(work.kind_)];
  traffic.exposed_seconds += waited.count();
  const std::chrono::duration<double> moving = completed ? *completed - work.began_ : waited;
  traffic.moving_seconds += std::max(moving, waited).count();
  if (complete && recorder_ != nullptr) recorder_->finish(work.ticket_, now);
}

std::filesystem::path WorldOptions::failure_folder() const {
  const std::filesystem::path crash = crash_folder ? crash_folder() : std::filesystem::path();
  return crash.empty() ? flight_folder : crash;
}

}  // namespace terrace::comm
