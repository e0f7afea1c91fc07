// Copies in the memory of nodes: each node holds its own files and those of the node before it, and what the nodes that
// are left hold becomes a checkpoint, whole or not at all.
#include "terrace/checkpoint/memory_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <stdexcept>

#include "terrace/base/files/file.h"
#include "terrace/base/files/memory_folder.h"
#include "terrace/base/files/temporary_name.h"
#include "terrace/checkpoint/file_exchange.h"
#include "terrace/checkpoint/folder.h"
#include "terrace/checkpoint/memory_recovery.h"
#include "tests/checkpoint/rank_states.h"
#include "tests/file_size_limit.h"
#include "tests/scratch_folder.h"

namespace terrace::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

const Layout four{"four", 4, flat};

// Four ranks of this host, two on each of two nodes or one on each of four, with their savers.
class MemoryCopies : public testing::Test {
 protected:
  std::string node(int64_t number) const { return host_name() + "@" + std::to_string(number); }
  fs::path copies_of(int64_t number) const { return memory_of(folder_ / "memory", run_) / node(number); }

  // The folder of the newest copy on a node.
  fs::path newest_of(int64_t number) const {
    for (const auto& start : fs::directory_iterator(copies_of(number))) return list(start.path()).back();
    return {};
  }

  void on_savers(int64_t ranks_per_node, const std::function<void(MemorySaver&, int64_t rank)>& action,
                 std::function<void(const State&)> check = {}) const {
    fs::create_directories(run_);
    on_ranks(four.ranks, [&](comm::Comm& ranks) {
      MemorySaver saver({.memory = folder_ / "memory",
                         .run_folder = run_,
                         .node = node(ranks.member() / ranks_per_node),
                         .check = check,
                         .ranks = &ranks});
      action(saver, ranks.member());
    });
  }

  // Copies the states of these steps, whose values depend on the step.
  void copy(int64_t ranks_per_node, const std::vector<int64_t>& steps) const {
    on_savers(ranks_per_node, [&](MemorySaver& saver, int64_t rank) {
      for (const int64_t step : steps) saver.save(state_of(four, rank, step, static_cast<double>(step)));
      saver.finish();
      EXPECT_EQ(saver.saved_step(), steps.back());
      EXPECT_EQ(saver.failures(), 0);
      EXPECT_EQ(saver.nodes(), four.ranks / ranks_per_node);
    });
  }

  // The step that so many ranks make a checkpoint of.
  std::optional<int64_t> recover(int64_t ranks = 3) const {
    std::atomic<int64_t> step = -1;
    on_ranks(ranks, [&](comm::Comm& comm) {
      const auto own = recover_from_memory(folder_ / "memory", run_, host_name(), {}, SavingRanks(&comm));
      if (comm.member() == 0) step = own.value_or(-1);
    });
    return step < 0 ? std::nullopt : std::optional<int64_t>(step);
  }

  ScratchFolder folder_;
  fs::path run_ = folder_ / "run";
};

TEST(ReceiversOf, AreTheRanksOfTheNextNode) {
  EXPECT_THAT(receivers_of({0, 0, 1, 1}), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(receivers_of({0, 1, 2}), ElementsAre(1, 2, 0));
  EXPECT_THAT(receivers_of({0, 0, 0, 1}), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(receivers_of({0, 0}), ElementsAre());
}

FoundCopy found(std::string folder, int64_t step, std::string manifest, std::vector<std::string> files) {
  return {.folder = std::move(folder),
          .step = step,
          .manifest = std::move(manifest),
          .files_of_all = 3,
          .files = std::move(files)};
}

TEST(NewestWhole, TakesTheNewestCopyOfWhichEveryFileIsLeft) {
  const std::vector<FoundCopy> copies = {found("a4", 4, "x", {"0", "1", "2"}), found("b4", 4, "x", {"1", "2"}),
                                         found("b6", 6, "y", {"0", "1"}), found("c6", 6, "z", {"2"})};
  const std::optional<RecoveryPlan> plan = newest_whole(copies, 0);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->step, 4);  // the files of step 6 are of two copies
  EXPECT_EQ(plan->from.at("0")->folder, "a4");
  EXPECT_EQ(plan->from.at("1")->folder, "b4");  // whose folder has given nothing yet
  EXPECT_FALSE(newest_whole(copies, 4));
  EXPECT_FALSE(newest_whole({}, 0));
}

TEST_F(MemoryCopies, LieOnTheNodeOfTheRankAndOnTheNext) {
  copy(2, {3, 5});
  std::set<std::string> names = {"COMPLETE", "config.toml", "manifest.json"};
  for (const char* collection : {"weights", "optimizer_m", "optimizer_v"}) {
    for (int rank = 0; rank < 4; ++rank) names.insert(fmt::format("{}.rank_{:04}.safetensors", collection, rank));
  }
  EXPECT_EQ(names_in(newest_of(0)), names);
  EXPECT_EQ(newest_of(0).filename(), "step_00000005");
  EXPECT_EQ(list(newest_of(0).parent_path()).size(), 1u);  // the one of step 3 is removed
  copy(1, {7});
  for (int64_t rank = 0; rank < 4; ++rank) {
    std::set<std::string> weights;
    for (const std::string& name : names_in(newest_of(rank))) {
      if (name.starts_with("weights")) weights.insert(name);
    }
    const auto name = [](int64_t of) { return fmt::format("weights.rank_{:04}.safetensors", of); };
    EXPECT_EQ(weights, (std::set<std::string>{name(rank), name((rank + 3) % 4)}));
  }
}

TEST_F(MemoryCopies, BecomeACheckpointAfterTheLossOfANode) {
  for (int64_t lost = 0; lost < 4; ++lost) {
    const int64_t step = 10 + lost;
    copy(1, {2, step});
    fs::remove_all(copies_of(lost));
    EXPECT_EQ(recover(1 + lost % 3), step);
    expect_reads_at({"two", 2, each}, run_ / step_name(step), static_cast<double>(step));
    EXPECT_EQ(Reader(run_ / step_name(step)).trainer(), state_of(four, 0, step, static_cast<double>(step)).trainer);
    EXPECT_FALSE(recover());  // which is not newer than the checkpoint
  }
}

TEST_F(MemoryCopies, AreNotUsedWhereBothHoldersOfAFileAreLost) {
  copy(1, {6});
  fs::remove_all(copies_of(1));
  fs::remove_all(copies_of(2));  // the files of rank 1 were there too
  EXPECT_FALSE(recover());
  EXPECT_TRUE(list(run_).empty());
}

TEST_F(MemoryCopies, CountOnlyWhereTheyAreComplete) {
  copy(2, {6});
  // As after a kill between the moments when two nodes make a copy count.
  fs::rename(newest_of(0), newest_of(0).parent_path() / ".step_00000006.partial");
  EXPECT_EQ(recover(), 6);  // the other node has all files
  copy(1, {8});
  fs::rename(newest_of(0), newest_of(0).parent_path() / ".step_00000008.partial");
  fs::rename(newest_of(1), newest_of(1).parent_path() / ".step_00000008.partial");
  EXPECT_FALSE(recover());
}

TEST_F(MemoryCopies, OfAnotherStartOrOfARemovedRunAreNotUsed) {
  copy(2, {6});
  fs::remove_all(run_);
  fs::create_directories(run_);
  EXPECT_FALSE(recover());
  write_text_atomically(run_ / memory_start_name, "another");
  EXPECT_FALSE(recover());
  on_savers(2, [](MemorySaver&, int64_t) {});
  EXPECT_TRUE(fs::is_empty(copies_of(0) / read_text(run_ / memory_start_name)));  // a new start removes them
}

TEST_F(MemoryCopies, ThatAreDamagedBecomeNoCheckpoint) {
  copy(2, {6});
  for (const int64_t number : {0, 1}) {
    const fs::path file = newest_of(number) / "weights.rank_0001.safetensors";
    std::string bytes = read_text(file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_text_atomically(file, bytes);
  }
  EXPECT_FALSE(recover());
  EXPECT_TRUE(list(run_).empty());
}

TEST_F(MemoryCopies, ThatTheDiskRefusesStayWhereTheyAre) {
  copy(2, {6});
  {
    const FileSizeLimit limit(100);
    EXPECT_THAT(user_error([&] { recover(); }), testing::HasSubstr("step_00000006 was not saved"));
  }
  EXPECT_TRUE(list(run_).empty());
  EXPECT_EQ(recover(), 6);
}

TEST_F(MemoryCopies, AreRemovedWhenTheRunHasEnded) {
  on_savers(2, [](MemorySaver& saver, int64_t rank) {
    saver.save(state_of(four, rank, 4, 0.0));
    saver.finish();
    saver.remove();
  });
  EXPECT_FALSE(fs::exists(copies_of(0)));
  EXPECT_FALSE(fs::exists(copies_of(1)));
}

TEST_F(MemoryCopies, OneThatHasNoRoomLeavesTheOneBefore) {
  on_savers(2, [](MemorySaver& saver, int64_t rank) {
    saver.save(state_of(four, rank, 1, 1.0));
    saver.finish();
    std::optional<FileSizeLimit> limit;
    if (rank == 0) limit.emplace(100);
    saver.save(state_of(four, rank, 2, 2.0));
    saver.finish();
    limit.reset();
    EXPECT_EQ(saver.saved_step(), 1);
    EXPECT_EQ(saver.failures(), 1);
  });
  EXPECT_EQ(recover(), 1);
}

TEST_F(MemoryCopies, AreMadeAgainAfterOneThatHadNoRoom) {
  on_savers(1, [](MemorySaver& saver, int64_t rank) {
    for (int64_t step = 1; step <= 6; ++step) {
      std::optional<FileSizeLimit> limit;
      if (rank == 2 && step == 2) limit.emplace(100);
      saver.save(state_of(four, rank, step, static_cast<double>(step)));
      saver.finish();
      limit.reset();
      EXPECT_EQ(saver.saved_step(), step == 2 ? 1 : step);
    }
    EXPECT_EQ(saver.failures(), 1);
  });
  fs::remove_all(copies_of(2));
  EXPECT_EQ(recover(), 6);
  expect_reads_at({"two", 2, each}, run_ / step_name(6), 6.0);
}

TEST_F(MemoryCopies, AreWrittenIntoTheMemoryOfTheOneBeforeTheLast) {
  std::vector<ino_t> numbers;
  on_savers(2, [&](MemorySaver& saver, int64_t rank) {
    for (int64_t step = 1; step <= 5; ++step) {
      saver.save(state_of(four, rank, step, static_cast<double>(step)));
      saver.finish();
      if (rank != 0) continue;
      struct stat status {};
      ASSERT_EQ(::stat((newest_of(1) / "weights.rank_0000.safetensors").c_str(), &status), 0);
      numbers.push_back(status.st_ino);
    }
  });
  ASSERT_EQ(numbers.size(), 5u);
  EXPECT_NE(numbers[0], numbers[1]);
  EXPECT_EQ(numbers[2], numbers[0]);
  EXPECT_EQ(numbers[3], numbers[1]);
  EXPECT_EQ(numbers[4], numbers[0]);
  EXPECT_EQ(recover(), 5);
  expect_reads_at({"one", 1, each}, run_ / step_name(5), 5.0);
}

TEST_F(MemoryCopies, ARefusedStateIsCopiedByNoneAndReportedByAll) {
  std::atomic<int> thrown = 0;
  on_savers(
      2,
      [&](MemorySaver& saver, int64_t rank) {
        saver.save(state_of(four, rank, 1, 1.0));
        try {
          saver.finish();
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "not finite");
          ++thrown;
        }
      },
      [](const State&) { throw std::runtime_error("not finite"); });
  EXPECT_EQ(thrown, 4);
  EXPECT_FALSE(recover());
}

}  // namespace
}  // namespace terrace::checkpoint
