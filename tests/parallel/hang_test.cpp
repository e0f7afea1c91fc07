// Stops a rank in the middle of a training and checks that the others report where they wait for it, for every group.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "tests/parallel/training.h"
#include "tests/scratch_folder.h"

namespace terrace::parallel {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// The last rank executes one step, the others begin the second one. Returns the error; `folder` has the flight records.
std::string error_where_the_last_rank_stops(const Layout& layout, const std::filesystem::path& folder) {
  const Training training{.model = "cut_gpt2", .micro_batch = 3, .deterministic = false};
  const config::LayoutConfig config = layout_config(layout, false);
  std::atomic<int64_t> failed = 0;
  at::set_num_threads(1);
  try {
    comm::run_threads(layout.ranks, {.timeout_seconds = 1, .flight_folder = folder}, [&](comm::World& world) {
      Outcome outcome;
      RankTraining rank(training, config, world);
      rank.step(1, outcome);
      if (world.rank() + 1 == layout.ranks) {
        while (failed == 0) std::this_thread::yield();
        return;
      }
      try {
        rank.step(2, outcome);
      } catch (...) {
        ++failed;
        throw;
      }
    });
  } catch (const comm::CommError& error) {
    return error.what();
  }
  return "nothing";
}

std::vector<Json> flights(const std::filesystem::path& folder, int64_t rank) {
  return Json::parse(read_text(folder / fmt::format("flight_rank_{:03}.json", rank))).get<std::vector<Json>>();
}

TEST(Hang, StoppedPipelineStageNamesTheMicroBatch) {
  const ScratchFolder folder;
  const std::string error = error_where_the_last_rank_stops({2, {"pipeline=2"}}, folder.path());
  EXPECT_THAT(error, AllOf(HasSubstr("rank 0 waits in receive(pipeline) from rank 1"), HasSubstr("micro-batch 0"),
                           HasSubstr("rank 1 never entered it")));
  int64_t sends = 0;
  for (const Json& line : flights(folder.path(), 0)) {
    if (line.at("group") != "pipeline" || line.at("call") != "send") continue;
    EXPECT_EQ(line.at("what"), "activation");
    EXPECT_EQ(line.at("peer"), 1);
    EXPECT_GE(line.at("micro_batch"), 0);
    ++sends;
  }
  EXPECT_GE(sends, 8);
}

TEST(Hang, StoppedTensorRankNamesTheWaitingCall) {
  const ScratchFolder folder;
  EXPECT_THAT(error_where_the_last_rank_stops({2, {"tensor=2"}}, folder.path()),
              AllOf(HasSubstr("rank 0 waits in all_reduce(tensor)"), HasSubstr("rank 1 never entered it")));
}

// Ranks wait for ranks that wait for others: the message follows them, and the flight records show the rank without a
// call under way.
TEST(Hang, FollowsWaitsOfAMixedLayoutToTheStoppedRank) {
  const ScratchFolder folder;
  const Layout layout{8, {"tensor=2", "pipeline=2", "sharding=zero3", "sequence_parallel=true", "schedule=zb-h1"}};
  EXPECT_THAT(
      error_where_the_last_rank_stops(layout, folder.path()),
      AllOf(HasSubstr("never entered it"), AnyOf(HasSubstr("; rank 7 never"), HasSubstr(" waits for rank 7; "))));
  for (int64_t rank = 0; rank < 8; ++rank) {
    SCOPED_TRACE(rank);
    std::set<std::string> groups;
    int64_t under_way = 0;
    for (const Json& line : flights(folder.path(), rank)) {
      groups.insert(line.at("group").get<std::string>());
      under_way += static_cast<int64_t>(line.at("state") == "entered");
    }
    for (const char* group : {"tensor", "pipeline"}) EXPECT_TRUE(groups.contains(group)) << group;
    EXPECT_EQ(under_way > 0, rank < 7);
  }
}

}  // namespace
}  // namespace terrace::parallel
