// Keeps the last calls of a rank, so that a run that hangs or fails can report what each rank waits for.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "terrace/comm/call.h"
#include "terrace/mesh/group.h"

namespace terrace::comm {

// "all_reduce(data), reduce gradients, segment 7, backward, call 4821", with the peer's rank for a send or a receive.
std::string describe(const mesh::Group& group, const Call& call);

struct FlightEntry {
  const mesh::Group* group = nullptr;  // lives as long as the recorder
  Call call;                           // its buffers are null
  std::chrono::steady_clock::time_point entered;
  std::optional<std::chrono::steady_clock::time_point> done;  // when its wait returned

  std::string describe() const;  // with the time since it was entered or done
};

// Written by the threads of one rank without locks or allocation; read by any thread at any time.
class FlightRecorder {
 public:
  static constexpr uint64_t kept_calls = 256;

  explicit FlightRecorder(int64_t rank) : rank_(rank) {}

  int64_t rank() const { return rank_; }
  uint64_t calls() const { return next_ticket_.load(); }  // made so far

  // Returns the number of the group for enter().
  int64_t add_group(const mesh::Group& group);
  // Records the call and returns its ticket, the number for finish().
  uint64_t enter(int64_t group, const Call& call);
  void finish(uint64_t ticket, std::chrono::steady_clock::time_point now);

  std::vector<FlightEntry> last_calls() const;  // oldest first; leaves out an entry that is being written
  std::string describe_last_call() const;       // "its last call is ..", or "it has made no call"

  // Writes FOLDER/flight_rank_003.json, a JSON list with a line for each call, or no file where the rank made no call.
  // Creates the folder where it is missing. Throws std::system_error.
  void write(const std::filesystem::path& folder) const;

 private:
  // `version` is odd while the slot is written, and then 2 * ticket + 2.
  struct Slot {
    std::atomic<uint64_t> version = 0;
    std::atomic<int64_t> kind, type, group, count, peer, segment, micro_batch;
    std::atomic<uint64_t> sequence;
    std::atomic<const char*> what, phase;
    std::atomic<std::chrono::steady_clock::rep> entered, done;
  };

  std::optional<FlightEntry> read(uint64_t ticket) const;

  const int64_t rank_;
  std::atomic<uint64_t> next_ticket_ = 0;
  std::array<Slot, kept_calls> slots_;
  mutable std::mutex mutex_;
  std::deque<mesh::Group> groups_;  // guarded by mutex_
};

}  // namespace terrace::comm
