// Saves in the background: the caller waits until its state is copied, and a thread writes the copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>

#include "terrace/checkpoint/checkpoint.h"
#include "terrace/checkpoint/saving_ranks.h"
#include "terrace/checkpoint/snapshot.h"
#include "terrace/checkpoint/staging.h"
#include "terrace/config/config.h"

namespace terrace::checkpoint {

class BackgroundSaver {
 public:
  struct Options {
    std::filesystem::path folder;
    Retention retention;
    std::filesystem::path staging = {};  // if not empty, checkpoints are written there first and then copied out
    // Called with each copy before it is written, on the writing thread. If it throws on one rank, the copy is saved on
    // no rank.
    std::function<void(const State&)> before_write = {};
    // The ranks that save together, each with its own saver; null for a single rank. Until finish() has returned only
    // the savers may make calls of it, so training needs another Comm. It outlives the savers.
    comm::Comm* ranks = nullptr;
  };

  // Removes the files that interrupted runs of this folder left in the staging folder. With several ranks all construct
  // their savers at the same place and call save() and finish() the same number of times; all get the same results, and
  // only member 0 logs.
  explicit BackgroundSaver(Options options);
  BackgroundSaver(const BackgroundSaver&) = delete;

  // Copies the state and begins to write it. If the previous copy is still being written, waits for it and logs that:
  // no checkpoint is skipped. With staging a copy counts as written when it is in the staging folder and the previous
  // one has been copied out, so that at most two are there. A checkpoint that cannot be saved is logged as a warning as
  // soon as that is known, and counted. Rethrows an earlier exception of before_write.
  void save(const State& state);

  // Waits until all copies are written and copied out, as the destructor does. Rethrows an exception of before_write;
  // with several ranks all throw it as a std::runtime_error.
  void finish();

  // Whether save() or finish() would throw at once. It can become true at different times on different ranks.
  bool broken() const { return broken_; }

  int64_t saved_step() const { return saved_step_; }  // of the last complete checkpoint, or -1
  int64_t failures() const { return failures_; }      // checkpoints that could not be saved

 private:
  void write();
  void write_copy();
  void agree_to_write(const std::optional<UserError>& refusal) const;
  bool agree_on_staging(const std::optional<UserError>& failure) const;
  std::filesystem::path write_directly() const;
  void attempt(const std::function<std::filesystem::path()>& action, int64_t step);
  void finish_writing();

  Options options_;
  SavingRanks saving_ranks_;
  std::filesystem::path staged_folder_;
  Snapshot snapshot_;
  State copy_;  // lies in the snapshot
  std::atomic<int64_t> saved_step_ = -1, failures_ = 0;
  std::atomic<bool> broken_ = false;
  // The destructor of each waits for its thread. They come last because the threads use the members above; only while
  // no copy is being written may other threads use copying_.
  std::future<void> copying_, writing_;
};

}  // namespace terrace::checkpoint
