// Marks times on a clock, and makes events and sums of them when the step is over.
#include "terrace/train/step_recorder.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace terrace::train {

using schedule::StepInstruction;
using Kind = StepInstruction::Kind;

class StepRecorder::Clock {
 public:
  explicit Clock(const c10::Device& device) : device_(device) {}

  void reset() {
    times_.clear();
    events_.clear();
  }

  // The number of a mark at this moment.
  size_t mark() {
    if (device_.is_cpu()) {
      times_.push_back(std::chrono::steady_clock::now());
      return times_.size() - 1;
    }
    // Events of this kind carry times.
    c10::Event& event = events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    return events_.size() - 1;
  }

  // The time of each mark, in seconds since the first mark.
  std::vector<double> seconds() const {
    std::vector<double> all;
    for (const auto& time : times_) all.push_back(std::chrono::duration<double>(time - times_.front()).count());
    if (!events_.empty()) events_.back().synchronize();
    for (const c10::Event& event : events_) all.push_back(1e-3 * events_.front().elapsedTime(event));
    return all;
  }

 private:
  c10::Device device_;
  std::vector<std::chrono::steady_clock::time_point> times_;
  std::vector<c10::Event> events_;
};

StepRecorder::StepRecorder(const c10::Device& device, std::shared_ptr<memory::Meter> meter)
    : meter_(std::move(meter)), clock_(std::make_unique<Clock>(device)) {}

StepRecorder::~StepRecorder() = default;

void StepRecorder::begin_step() {
  entries_.clear();
  clock_->reset();
  clock_->mark();
}

void StepRecorder::begin(const StepInstruction& instruction) {
  meter_->peak = meter_->now;
  Entry& entry = entries_.emplace_back(Entry{.instruction = instruction});
  entry.begin = entry.waited = clock_->mark();
}

void StepRecorder::waited() {
  // An evaluation between steps waits too.
  if (!entries_.empty() && entries_.back().end == 0) entries_.back().waited = clock_->mark();
}

void StepRecorder::end() {
  Entry& entry = entries_.back();
  entry.end = clock_->mark();
  entry.bytes = meter_->now;
  entry.peak = meter_->peak;
}

double StepRecorder::peak_bytes() const {
  const auto most = std::ranges::max_element(entries_, {}, &Entry::peak);
  return most == entries_.end() ? 0 : static_cast<double>(most->peak);
}

std::vector<TimedInstruction> StepRecorder::timed() const {
  const std::vector<double> times = clock_->seconds();
  std::vector<TimedInstruction> all;
  for (const Entry& one : entries_) {
    const double begin = times[one.begin], waited = times[one.waited], end = times[one.end];
    all.push_back({.instruction = one.instruction, .waited_seconds = waited - begin, .seconds = end - waited});
  }
  return all;
}

observe::StageRecord StepRecorder::stage_record() const {
  observe::StageRecord stage;
  const std::vector<double> times = clock_->seconds();
  const auto add_seconds = [&](const std::string& name, double seconds) {
    if (seconds > 0) observe::add(stage.seconds, name, seconds);
  };
  const auto add_event = [&](const std::string& name, const char* kind, int64_t lane, double begin, double end) {
    if (end > begin) stage.events.push_back({.name = name, .kind = kind, .lane = lane, .begin = begin, .end = end});
  };
  std::map<std::tuple<int64_t, schedule::Movement, schedule::Hop>, double> begun;  // movements under way, by segment
  for (const Entry& one : entries_) {
    const double begin = times[one.begin], waited = times[one.waited], end = times[one.end];
    const StepInstruction& instruction = one.instruction;
    const std::string name = to_string(instruction);
    stage.memory.push_back({.seconds = (waited + end) / 2, .bytes = static_cast<double>(one.peak)});
    stage.memory.push_back({.seconds = end, .bytes = static_cast<double>(one.bytes)});
    if (waited > begin) {
      add_seconds(observe::stage_waits, waited - begin);
      add_event("wait for another stage", "wait", 0, begin, waited);
    }
    const std::tuple key(instruction.segment, instruction.movement, instruction.hop);
    const std::string group = schedule::group_of(instruction.movement, instruction.hop);
    switch (instruction.kind) {
      case Kind::begin_movement:
        begun[key] = begin;
        add_seconds("waits for " + group, end - begin);
        break;
      case Kind::end_movement:
        if (begun.contains(key)) add_event(name, "transfer", 1, begun.at(key), end);
        add_seconds("waits for " + group, end - begin);
        add_event(name, "wait", 0, begin, end);
        break;
      default:
        add_seconds(is_send(instruction.kind) || is_receive(instruction.kind) ? observe::stage_waits
                                                                              : drawn_as(instruction.kind),
                    end - waited);
        add_event(name, drawn_as(instruction.kind), 0, waited, end);
    }
  }
  std::ranges::stable_sort(stage.events, [](const observe::StepEvent& a, const observe::StepEvent& b) {
    return std::pair(a.lane, a.begin) < std::pair(b.lane, b.begin);
  });
  return stage;
}

}  // namespace terrace::train
