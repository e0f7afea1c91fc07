// Saving in the background: the state at the call is written, no checkpoint is lost when writes are slow or fail, and
// staging leaves whole checkpoints or none.
#include "terrace/checkpoint/background.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/files/file_lock.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/staging.h"
#include "tests/checkpoint/sample_state.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Blocks threads until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

const SavingRanks alone(nullptr);

void overwrite(const State& state) {
  for (const Collection& collection : state.collections) {
    for (const NamedTensor& named : collection.tensors) named.tensor.detach().fill_(-1);
  }
}

TEST(Snapshot, HoldsEveryValueAndUsesItsMemoryAgain) {
  State state = sample_state(1);
  const at::Tensor large = sample_values({3, 1'000'003}, 5.0);  // more than one piece, and no whole number of them
  state.collections[0].tensors.push_back(replicated("large", large));
  state.collections[0].tensors.push_back(replicated("transposed", sample_values({5, 7}, 6.0).t()));
  state.collections[0].tensors.push_back(replicated("empty", at::ones({0, 3})));
  state.collections[0].tensors.push_back(replicated("half", at::ones({3}, at::kHalf)));
  Snapshot snapshot;
  std::vector<const void*> places;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    const State copy = snapshot.take(state);
    EXPECT_EQ(copy.trainer, state.trainer);
    for (size_t g = 0; g < state.collections.size(); ++g) {
      for (size_t t = 0; t < state.collections[g].tensors.size(); ++t) {
        const NamedTensor &from = state.collections[g].tensors[t], &to = copy.collections[g].tensors[t];
        EXPECT_EQ(from.name, to.name);
        EXPECT_TRUE(same_bits(from.tensor.contiguous(), to.tensor)) << from.name;
        EXPECT_FALSE(to.tensor.is_alias_of(from.tensor));
      }
    }
    places.push_back(copy.collections[0].tensors[0].tensor.const_data_ptr());
  }
  at::set_num_threads(1);
  EXPECT_EQ(places[0], places[1]);
}

TEST(BackgroundSaver, WritesTheStateOfTheCallThoughTrainingGoesOn) {
  const ScratchFolder folder;
  Gate gate;
  BackgroundSaver saver(
      {.folder = folder / "run", .retention = {}, .before_write = [&](const State&) { gate.pass(); }});
  const State state = sample_state(3);
  saver.save(state);
  overwrite(state);
  EXPECT_EQ(saver.saved_step(), -1);
  EXPECT_TRUE(list(folder / "run").empty());
  gate.open();
  saver.finish();
  EXPECT_EQ(saver.saved_step(), 3);
  expect_reads_back(folder / "run/step_00000003", sample_state(3));
}

TEST(BackgroundSaver, ASaveThatComesTooSoonWaitsAndNoneIsLeftOut) {
  const ScratchFolder folder;
  for (const char* staging : {"", "fast"}) {
    const fs::path run = folder / (std::string("run") + staging);
    BackgroundSaver saver(
        {.folder = run,
         .retention = {.keep = 0},
         .staging = *staging == 0 ? fs::path() : folder / staging,
         .before_write = [](const State&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }});
    for (int64_t step = 1; step <= 8; ++step) saver.save(sample_state(step));
    saver.finish();
    ASSERT_EQ(list(run).size(), 8u);
    for (int64_t step = 1; step <= 8; ++step) expect_reads_back(run / step_name(step), sample_state(step));
  }
  EXPECT_TRUE(fs::is_empty(staging_of(folder / "fast", folder / "runfast")));
}

TEST(BackgroundSaver, DestructorWaitsForTheWrite) {
  const ScratchFolder folder;
  {
    BackgroundSaver saver({.folder = folder.path(), .retention = {}, .before_write = [](const State&) {
                             std::this_thread::sleep_for(std::chrono::milliseconds(20));
                           }});
    saver.save(sample_state(1));
  }
  expect_reads_back(folder / "step_00000001", sample_state(1));
}

TEST(BackgroundSaver, ARefusedSaveIsCountedAndTheNextOneIsMade) {
  const ScratchFolder folder;
  BackgroundSaver saver({.folder = folder / "run", .retention = {}});
  std::ofstream(folder / "run") << "a file in the way";
  saver.save(sample_state(1));
  saver.finish();
  EXPECT_EQ(saver.failures(), 1);
  EXPECT_EQ(saver.saved_step(), -1);
  fs::remove(folder / "run");
  saver.save(sample_state(2));
  saver.finish();
  EXPECT_EQ(saver.failures(), 1);
  EXPECT_EQ(saver.saved_step(), 2);
}

TEST(BackgroundSaver, RefusedStateIsNotSavedAndReported) {
  const ScratchFolder folder;
  BackgroundSaver saver({.folder = folder.path(), .retention = {}, .before_write = [](const State& state) {
                           if (state.step == 2) throw std::runtime_error("broken weights");
                         }});
  saver.save(sample_state(1));
  saver.save(sample_state(2));
  EXPECT_THROW(saver.finish(), std::runtime_error);
  saver.finish();
  EXPECT_EQ(list(folder.path()), std::vector<fs::path>{folder / "step_00000001"});
}

TEST(Staging, CopiesWholeCheckpointsOutAndLeavesNothing) {
  const ScratchFolder folder;
  const State state = sample_state(5);
  {
    const StagedFiles staged(folder / "fast", state, alone);
    EXPECT_FALSE(fs::exists(staged.path() / marker_name));
    EXPECT_FALSE(fs::exists(folder / "run"));
    EXPECT_EQ(staged.copy_out(folder / "run", {}, alone), folder / "run/step_00000005");
  }
  expect_reads_back(folder / "run/step_00000005", state);
  EXPECT_TRUE(fs::is_empty(folder / "fast"));
}

TEST(Staging, AFileThatChangedOnItsWayIsNotSaved) {
  const ScratchFolder folder;
  save(folder / "run", sample_state(4), {});
  const StagedFiles staged(folder / "fast", sample_state(5), alone);
  std::ofstream(staged.path() / "optimizer_m.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(900)
      << "xx";
  EXPECT_THAT(user_error([&] { staged.copy_out(folder / "run", {}, alone); }),
              testing::AllOf(HasSubstr("was not saved"), HasSubstr("optimizer_m.safetensors changed on its way")));
  EXPECT_EQ(list(folder / "run"), std::vector<fs::path>{folder / "run/step_00000004"});
  EXPECT_FALSE(fs::exists(partial_path(folder / "run", 5)));
}

TEST(Staging, EachRunHasAFolderOfItsOwnWhateverItsPathIsCalled) {
  const ScratchFolder folder;
  EXPECT_EQ(staging_of("fast", folder / "a"), staging_of("fast", folder / "b/../a"));
  EXPECT_NE(staging_of("fast", folder / "a"), staging_of("fast", folder / "b"));
  EXPECT_EQ(staging_of("fast", folder / "a").parent_path(), "fast");
}

TEST(Staging, LeftOversOfTheRunAreRemovedAtItsNextStart) {
  const ScratchFolder folder;
  const fs::path own = staging_of(folder / "fast", folder / "run"),
                 other = staging_of(folder / "fast", folder / "else");
  for (const fs::path& staged : {own, other}) {
    fs::create_directories(staged / "step_00000001");
    std::ofstream(staged / "step_00000001/weights.safetensors") << "of a run that was killed";
  }
  const BackgroundSaver saver({.folder = folder / "run", .retention = {}, .staging = folder / "fast"});
  EXPECT_TRUE(fs::is_empty(own));
  EXPECT_TRUE(fs::exists(other / "step_00000001"));
}

TEST(Staging, RefusesAFolderThatAnotherUserCouldChange) {
  const ScratchFolder folder;
  const fs::path own = staging_of(folder / "shared", folder / "run");
  const auto said = [&] {
    try {
      const BackgroundSaver saver({.folder = folder / "run", .retention = {}, .staging = folder / "shared"});
      return std::string("nothing");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  fs::create_directories(folder / "trap");
  std::ofstream(folder / "trap/file") << "of someone else";
  fs::create_directories(folder / "shared");
  fs::create_directory_symlink(folder / "trap", own);
  EXPECT_THAT(said(), testing::AllOf(HasSubstr(own.string() + " is a symbolic link"), HasSubstr("remove it, or name")));
  EXPECT_TRUE(fs::exists(folder / "trap/file"));
  fs::remove(own);
  fs::create_directory(own);
  fs::permissions(own, fs::perms::all);
  EXPECT_THAT(said(), HasSubstr("can be written to by others"));
  fs::permissions(own, fs::perms::owner_all);
  // Only root may change the owner.
  if (chown(own.c_str(), 12345, 12345) == 0) {
    EXPECT_THAT(said(), HasSubstr("belongs to user 12345"));
  }
  fs::remove_all(own);
  EXPECT_EQ(said(), "nothing");
  EXPECT_EQ(fs::status(own).permissions(), fs::perms::owner_all);
}

TEST(Staging, UnusableStagingWritesIntoTheRunFolder) {
  const ScratchFolder folder;
  std::ofstream(folder / "file") << "no folder";
  BackgroundSaver saver({.folder = folder / "run", .retention = {}, .staging = folder / "file"});
  saver.save(sample_state(1));
  saver.finish();
  EXPECT_EQ(saver.failures(), 0);
  expect_reads_back(folder / "run/step_00000001", sample_state(1));
}

}  // namespace
}  // namespace terrace::checkpoint
