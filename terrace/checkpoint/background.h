// Saves beside training: the caller waits for a copy of its state, and a thread writes the copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/members.h"
#include "terrace/checkpoint/snapshot.h"
#include "terrace/checkpoint/staging.h"
#include "terrace/config/config.h"

namespace terrace::checkpoint {

class BackgroundSaver {
 public:
  struct Options {
    std::filesystem::path folder;
    Retention retention;
    std::filesystem::path staging = {};  // checkpoints are written there first and then copied out; "": none
    // Called with each copy before it is written, on the writing thread; what it throws keeps the copy from being
    // saved, on all ranks where it throws on one.
    std::function<void(const State&)> before_write = {};
    // The ranks that save together, each with a saver of its own; none: one. Only the savers make calls of it until
    // finish() has returned, so it is not the one that training uses, and it outlives them.
    comm::Comm* ranks = nullptr;
  };

  // Removes what interrupted runs of this folder left in the staging folder. With ranks all of them construct theirs at
  // the same place, call save() and finish() alike, and get the same results; only member 0 says anything in the log.
  explicit BackgroundSaver(Options options);
  BackgroundSaver(const BackgroundSaver&) = delete;

  // Copies the state and begins to write it. Where the copy before is still being written, waits for that and says so
  // in the log: every checkpoint that is asked for is made. With staging a copy counts as written when it stands in the
  // staging folder and the one before has left it, so that at most two stand there. A checkpoint that cannot be saved
  // is a warning in the log as soon as that is known, and counted. Rethrows what before_write threw earlier.
  void save(const State& state);

  // Waits until nothing is being written or copied; the destructor does too. Rethrows what before_write threw, with
  // ranks as a std::runtime_error on all of them.
  void finish();

  // Whether save() or finish() would throw at once. Ranks come to know it at different times.
  bool broken() const { return broken_; }

  int64_t saved_step() const { return saved_step_; }  // of the last one that became complete; -1: none
  int64_t failures() const { return failures_; }      // checkpoints that could not be saved

 private:
  void write();
  void write_copy();
  void agree_to_write(const std::optional<UserError>& refusal) const;
  bool agree_on_staging(const std::optional<UserError>& failure) const;
  std::filesystem::path write_directly() const;
  void attempt(const std::function<std::filesystem::path()>& action, int64_t step);
  void settle_writing();

  Options options_;
  Members members_;
  std::filesystem::path staged_folder_;
  Snapshot snapshot_;
  State copy_;  // lies in the snapshot
  std::atomic<int64_t> saved_step_ = -1, failures_ = 0;
  std::atomic<bool> broken_ = false;
  // Destroyed from the last one on, each waiting for its end: the writing thread uses what stands above it. Others look
  // at copying_ only while nothing is being written.
  std::future<void> copying_, writing_;
};

}  // namespace terrace::checkpoint
