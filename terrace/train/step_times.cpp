// Takes the time between marks, without waits.
#include "terrace/train/step_times.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace terrace::train {

using Kind = schedule::StepInstruction::Kind;
using observe::WorkKind;

namespace {

WorkKind work_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
    case Kind::loss:
      return WorkKind::forward;
    case Kind::backward:
    case Kind::input_gradient:
    case Kind::weight_gradient:
      return WorkKind::backward;
    case Kind::finish_gradients:
    case Kind::norm:
    case Kind::update:
      return WorkKind::update;
    default:
      return WorkKind::other;
  }
}

}  // namespace

// Two lots of events: those of the present step, and those of the step before, which are read when it is over.
class StepTimes::DeviceMarks {
 public:
  explicit DeviceMarks(const c10::Device& device) : device_(device) {}

  // Returns the seconds of the step before the last one, if its events are complete.
  std::optional<observe::WorkSeconds> begin_step() {
    std::swap(marks_, before_);
    std::optional<observe::WorkSeconds> seconds;
    if (marks_.used > 1 && marks_.events[marks_.used - 1]->query()) {
      seconds.emplace();
      for (size_t i = 1; i < marks_.used; ++i) {
        if (marks_.kinds[i] < 0) continue;
        (*seconds)[static_cast<size_t>(marks_.kinds[i])] += 1e-3 * marks_.events[i - 1]->elapsedTime(*marks_.events[i]);
      }
    }
    marks_.used = 0;
    mark(-1);
    return seconds;
  }

  // The time since the last mark went to the work; below 0: to none.
  void mark(int work) {
    if (marks_.used == marks_.events.size()) {
      marks_.events.push_back(std::make_unique<c10::Event>(device_.type(), c10::EventFlag::BACKEND_DEFAULT));
      marks_.kinds.push_back(-1);
    }
    marks_.kinds[marks_.used] = work;
    marks_.events[marks_.used++]->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }

 private:
  struct Marks {
    std::vector<std::unique_ptr<c10::Event>> events;
    std::vector<int> kinds;
    size_t used = 0;
  };
  c10::Device device_;
  Marks marks_, before_;
};

StepTimes::StepTimes(const c10::Device& device, std::vector<comm::Comm*> groups, bool shares_cores,
                     const RunClock* clock)
    : groups_(std::move(groups)),
      clock_(clock),
      device_(device.is_cpu() ? nullptr : std::make_unique<DeviceMarks>(device)) {
  if (shares_cores && clock == nullptr) waits_.cores = &cores_;
  for (comm::Comm* group : groups_) group->add_waits_to(&waits_);
  last_ = now();
  take_core_wait_share();
}

StepTimes::~StepTimes() {
  for (comm::Comm* group : groups_) group->add_waits_to(nullptr);
}

StepTimes::Moment StepTimes::now() const {
  const bool shares = waits_.cores != nullptr;
  return {.seconds = seconds_on(clock_),
          .waited = clock_ != nullptr ? clock_->waited() : waits_.seconds,
          .core_wait = shares ? cores_.seconds() : 0,
          .core_wait_in_waits = waits_.core_seconds};
}

void StepTimes::begin_step() {
  if (device_ == nullptr) {
    seconds_ = {};
  } else if (const auto known = device_->begin_step()) {
    seconds_ = *known;
  }
  in_step_ = true;
  last_ = now();
}

void StepTimes::skip() {
  last_ = now();
  if (device_ != nullptr) device_->mark(-1);
}

void StepTimes::mark(WorkKind kind) {
  const Moment before = std::exchange(last_, now());
  double seconds = last_.seconds - before.seconds - (last_.waited - before.waited);
  seconds -= (last_.core_wait - before.core_wait) - (last_.core_wait_in_waits - before.core_wait_in_waits);
  // The host waits for its batches beside a GPU too.
  if (device_ == nullptr || kind == WorkKind::data) seconds_[static_cast<size_t>(kind)] += std::max(0.0, seconds);
}

void StepTimes::mark(const schedule::StepInstruction& instruction) {
  if (device_ == nullptr) return mark(work_of(instruction.kind));
  // The stream waits in a receive, in the end of a movement and in the sums of the norm.
  const WorkKind work = work_of(instruction.kind);
  const bool computes = work == WorkKind::forward || work == WorkKind::backward || instruction.kind == Kind::update;
  device_->mark(computes ? static_cast<int>(work) : -1);
}

void StepTimes::waited() {
  // An evaluation between steps waits too.
  if (device_ != nullptr && in_step_) device_->mark(-1);
}

double StepTimes::take_core_wait_share() {
  const auto time = std::chrono::steady_clock::now();
  const double core_wait = cores_.seconds();
  const double passed = std::chrono::duration<double>(time - std::exchange(share_from_, time)).count();
  const double waited = core_wait - std::exchange(share_core_wait_, core_wait);
  return passed > 0 ? std::clamp(waited / passed, 0.0, 1.0) : 0;
}

}  // namespace terrace::train
