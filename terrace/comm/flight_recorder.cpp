// A ring buffer of the last calls. Each slot has a version, by which a reader detects that the slot was overwritten.
#include "terrace/comm/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"

namespace terrace::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto release = std::memory_order_release;
constexpr auto acquire = std::memory_order_acquire;

double seconds_since(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

// Seconds since 1970, so that the files of several processes can be compared.
double wall_time(Clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() -
         seconds_since(time);
}

Json json_of(int64_t rank, const FlightEntry& entry) {
  const Call& call = entry.call;
  Json json = {{"rank", rank},
               {"call", name_of(call.kind)},
               {"group", entry.group->name},
               {"ranks", entry.group->ranks},
               {"sequence", call.sequence},
               {"type", name_of(call.type)},
               {"count", call.count},
               {"what", call.label.what},
               {"phase", call.label.phase}};
  if (call.peer >= 0) json["peer"] = entry.group->ranks[static_cast<size_t>(call.peer)];
  if (call.label.segment >= 0) json["segment"] = call.label.segment;
  if (call.label.micro_batch >= 0) json["micro_batch"] = call.label.micro_batch;
  json["state"] = entry.done ? "done" : "entered";
  json["entered"] = wall_time(entry.entered);
  if (entry.done) json["seconds"] = std::chrono::duration<double>(*entry.done - entry.entered).count();
  return json;
}

}  // namespace

std::string describe(const mesh::Group& group, const Call& call) {
  std::string words = fmt::format("{}({})", name_of(call.kind), group.name);
  const auto peer = [&] { return group.ranks[static_cast<size_t>(call.peer)]; };
  if (call.kind == Kind::send) words += fmt::format(" to rank {}", peer());
  if (call.kind == Kind::receive) words += fmt::format(" from rank {}", peer());
  const std::string label = to_string(call.label);
  if (!label.empty()) words += ", " + label;
  return words + fmt::format(", call {}", call.sequence);
}

std::string FlightEntry::describe() const {
  const std::string words = comm::describe(*group, call);
  if (done) return words + fmt::format(", done {:.1f} s ago", seconds_since(*done));
  return words + fmt::format(", entered {:.1f} s ago", seconds_since(entered));
}

int64_t FlightRecorder::add_group(const mesh::Group& group) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(groups_.begin(), groups_.end(), group);
  if (found != groups_.end()) return found - groups_.begin();
  groups_.push_back(group);
  return static_cast<int64_t>(groups_.size()) - 1;
}

// Release stores are not reordered before the store of the odd version; on x86 they cost nothing.
uint64_t FlightRecorder::enter(int64_t group, const Call& call) {
  const uint64_t ticket = next_ticket_.fetch_add(1, relaxed);
  Slot& slot = slots_[ticket % kept_calls];
  slot.version.store(2 * ticket + 1, relaxed);
  slot.kind.store(static_cast<int64_t>(call.kind), release);
  slot.type.store(static_cast<int64_t>(call.type), release);
  slot.group.store(group, release);
  slot.count.store(call.count, release);
  slot.peer.store(call.peer, release);
  slot.segment.store(call.label.segment, release);
  slot.micro_batch.store(call.label.micro_batch, release);
  slot.sequence.store(call.sequence, release);
  slot.what.store(call.label.what, release);
  slot.phase.store(call.label.phase, release);
  slot.entered.store(Clock::now().time_since_epoch().count(), release);
  slot.done.store(0, release);
  slot.version.store(2 * ticket + 2, release);
  return ticket;
}

void FlightRecorder::finish(uint64_t ticket, Clock::time_point now) {
  Slot& slot = slots_[ticket % kept_calls];
  if (slot.version.load(relaxed) == 2 * ticket + 2) slot.done.store(now.time_since_epoch().count(), release);
}

std::optional<FlightEntry> FlightRecorder::read(uint64_t ticket) const {
  const Slot& slot = slots_[ticket % kept_calls];
  if (slot.version.load(acquire) != 2 * ticket + 2) return std::nullopt;
  const auto time = [](Clock::rep ticks) { return Clock::time_point(Clock::duration(ticks)); };
  FlightEntry entry;
  entry.call = {.kind = static_cast<Kind>(slot.kind.load(acquire)),
                .type = static_cast<Type>(slot.type.load(acquire)),
                .count = slot.count.load(acquire),
                .peer = slot.peer.load(acquire),
                .label = {.what = slot.what.load(acquire),
                          .segment = slot.segment.load(acquire),
                          .phase = slot.phase.load(acquire),
                          .micro_batch = slot.micro_batch.load(acquire)},
                .sequence = slot.sequence.load(acquire)};
  const int64_t group = slot.group.load(acquire);
  entry.entered = time(slot.entered.load(acquire));
  const Clock::rep done = slot.done.load(acquire);
  if (done != 0) entry.done = time(done);
  if (slot.version.load(relaxed) != 2 * ticket + 2) return std::nullopt;
  const std::lock_guard lock(mutex_);
  entry.group = &groups_[static_cast<size_t>(group)];
  return entry;
}

std::vector<FlightEntry> FlightRecorder::last_calls() const {
  const uint64_t end = next_ticket_.load(acquire);
  std::vector<FlightEntry> calls;
  for (uint64_t ticket = end < kept_calls ? 0 : end - kept_calls; ticket < end; ++ticket) {
    if (std::optional<FlightEntry> entry = read(ticket)) calls.push_back(*entry);
  }
  return calls;
}

std::string FlightRecorder::describe_last_call() const {
  const std::vector<FlightEntry> calls = last_calls();
  return calls.empty() ? "it has made no call" : "its last call is " + calls.back().describe();
}

void FlightRecorder::write(const std::filesystem::path& folder) const {
  const std::filesystem::path path = folder / fmt::format("flight_rank_{:03}.json", rank_);
  const std::vector<FlightEntry> calls = last_calls();
  if (calls.empty()) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);  // a file of an earlier run would be mistaken for this run's
    return;
  }
  std::filesystem::create_directories(folder);
  AtomicFile file(path);
  for (const FlightEntry& entry : calls) {
    file.write(&entry == calls.data() ? "[\n" : ",\n");
    file.write(json_of(rank_, entry).dump());
  }
  file.write("\n]\n");
  file.commit();
}

}  // namespace terrace::comm
