// Saving in the background on many ranks: the state at the call is saved, all ranks get the same results, with staging
// too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "terrace/checkpoint/background.h"
#include "terrace/checkpoint/folder.h"
#include "tests/checkpoint/rank_states.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;

const Layout three{"three", 3, flat};

// Runs the function on each of three ranks with a saver of its own.
void on_savers(const BackgroundSaver::Options& options,
               const std::function<void(BackgroundSaver&, int64_t rank)>& action) {
  on_ranks(three.ranks, [&](comm::Comm& ranks) {
    BackgroundSaver::Options own = options;
    own.ranks = &ranks;
    BackgroundSaver saver(own);
    action(saver, ranks.member());
  });
}

TEST(BackgroundRanks, SaveEveryStepThatIsAskedForAtTheirOwnPace) {
  const ScratchFolder folder;
  for (const char* staging : {"", "fast"}) {
    const fs::path run = folder / (std::string("run") + staging);
    on_savers({.folder = run,
               .retention = {.keep = 0},
               .staging = *staging == 0 ? fs::path() : folder / staging,
               .before_write =
                   [](const State& state) { std::this_thread::sleep_for(std::chrono::milliseconds(state.step % 3)); }},
              [](BackgroundSaver& saver, int64_t rank) {
                for (int64_t step = 1; step <= 6; ++step) {
                  const State state = state_of(three, rank, step, static_cast<double>(step));
                  saver.save(state);
                  for (const Collection& collection : state.collections) {
                    for (const NamedTensor& named : collection.tensors) named.tensor.fill_(-1);
                  }
                  if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
                }
                saver.finish();
                EXPECT_EQ(saver.saved_step(), 6);
                EXPECT_EQ(saver.failures(), 0);
              });
    ASSERT_EQ(list(run).size(), 6u);
    for (int64_t step = 1; step <= 6; ++step) {
      expect_reads_at({"two", 2, each}, run / step_name(step), static_cast<double>(step));
    }
  }
  EXPECT_FALSE(fs::exists(staging_of(folder / "fast", folder / "runfast") / "rank_0001" / step_name(6)));
}

TEST(BackgroundRanks, ARefusedSaveIsCountedOnAllAndTheNextOneIsMade) {
  const ScratchFolder folder;
  on_savers({.folder = folder / "run", .retention = {}}, [&](BackgroundSaver& saver, int64_t rank) {
    State broken = state_of(three, rank, 1, 0.0);
    if (rank == 2) broken.collections[0].tensors[0].name = "another";
    saver.save(broken);
    saver.finish();
    EXPECT_EQ(saver.failures(), 1);
    EXPECT_EQ(saver.saved_step(), -1);
    saver.save(state_of(three, rank, 2, 0.0));
    saver.finish();
    EXPECT_EQ(saver.failures(), 1);
    EXPECT_EQ(saver.saved_step(), 2);
  });
  EXPECT_EQ(list(folder / "run"), std::vector<fs::path>{folder / "run/step_00000002"});
}

TEST(BackgroundRanks, OneRanksRefusedStateIsSavedByNoneAndReportedByAll) {
  const ScratchFolder folder;
  for (const char* staging : {"", "fast"}) {
    std::atomic<int> thrown = 0;
    on_ranks(three.ranks, [&](comm::Comm& ranks) {
      BackgroundSaver saver({.folder = folder / "run",
                             .retention = {},
                             .staging = *staging == 0 ? fs::path() : folder / staging,
                             .before_write =
                                 [&](const State& state) {
                                   if (state.step == 2 && ranks.member() == 1) throw std::runtime_error("broken here");
                                 },
                             .ranks = &ranks});
      saver.save(state_of(three, ranks.member(), 1, 0.0));
      saver.save(state_of(three, ranks.member(), 2, 0.0));
      while (!saver.broken()) std::this_thread::yield();
      try {
        saver.finish();
      } catch (const std::runtime_error& error) {
        thrown += std::string(error.what()) == "broken here" ? 1 : 0;
      }
      EXPECT_FALSE(saver.broken());
      saver.finish();
    });
    EXPECT_EQ(thrown, 3);
    EXPECT_EQ(list(folder / "run"), std::vector<fs::path>{folder / "run/step_00000001"});
  }
}

TEST(BackgroundRanks, OneFailedStagingSendsAllToTheRunFolder) {
  const ScratchFolder folder;
  const fs::path staged = staging_of(folder / "fast", folder / "run");
  on_savers({.folder = folder / "run", .retention = {}, .staging = folder / "fast"},
            [&](BackgroundSaver& saver, int64_t rank) {
              if (rank == 2) {
                fs::create_directories(staged);
                std::ofstream(staged / "rank_0002") << "a file in the way";
              }
              saver.save(state_of(three, rank, 1, 0.0));
              saver.finish();
              EXPECT_EQ(saver.failures(), 0);
            });
  expect_reads_at(three, folder / "run/step_00000001", 0.0);
  EXPECT_FALSE(fs::exists(staged / "rank_0000" / step_name(1)));
}

TEST(BackgroundRanks, NextStartRemovesLeftOversOfAnyNumberOfRanks) {
  const ScratchFolder folder;
  const fs::path staged = staging_of(folder / "fast", folder / "run");
  for (int rank = 0; rank < 8; ++rank) {
    const fs::path left = staged / fmt::format("rank_{:04}", rank) / "step_00000001";
    fs::create_directories(left);
    for (int file = 0; file < 20; ++file) std::ofstream(left / std::to_string(file)) << "left";
  }
  on_savers({.folder = folder / "run", .retention = {}, .staging = folder / "fast"},
            [&](BackgroundSaver&, int64_t) { EXPECT_TRUE(fs::is_empty(staged)); });
}

}  // namespace
}  // namespace terrace::checkpoint
