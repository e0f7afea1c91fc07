// Tests that the ranks of a launch compare what they must have in common, and that every difference is reported with
// the ranks that have each value.
#include "terrace/train/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/config/key_values.h"
#include "terrace/run/shared_folder.h"
#include "terrace/run/start_facts.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The text of each rank's Refusal; "none" if the rank continues.
template <typename Action>
std::vector<std::string> refusals(int64_t ranks, const Action& action) {
  std::vector<std::string> texts(static_cast<size_t>(ranks), "none");
  comm::run_threads(ranks, {}, [&](comm::World& world) {
    const auto all = world.connect(mesh::all_ranks("control", world.size()));
    try {
      action(*all, world.rank());
    } catch (const train::Refusal& refusal) {
      texts[static_cast<size_t>(world.rank())] = refusal.what();
    }
  });
  return texts;
}

TEST(CheckSame, PassesIfAllRanksHaveTheSameFacts) {
  for (const int64_t ranks : {1, 2, 5}) {
    EXPECT_THAT(refusals(ranks,
                         [](comm::Comm& all, int64_t) {
                           train::check_same(all, {{"a", "1"}, {"b", "x"}});
                         }),
                Each("none"));
  }
}

TEST(CheckSame, TheFirstRankReportsEachDifferenceWithItsRanks) {
  const auto texts = refusals(6, [](comm::Comm& all, int64_t rank) {
    train::check_same(all, {{"same", "7"}, {"rate", rank == 2 ? "0.2" : "0.1"}, {"seed", rank < 4 ? "1" : "2"}});
  });
  EXPECT_THAT(texts[0],
              AllOf(HasSubstr("\n  rate is 0.1 on ranks 0, 1 and 3 to 5, 0.2 on rank 2"),
                    HasSubstr("\n  seed is 1 on ranks 0 to 3, 2 on ranks 4 and 5"), Not(HasSubstr("same is"))));
  for (size_t rank = 1; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], "") << rank;
}

TEST(CheckSame, AFactThatSomeRanksLackIsADifference) {
  const auto texts = refusals(2, [](comm::Comm& all, int64_t rank) {
    train::check_same(all, rank == 0 ? train::StartFacts{} : train::StartFacts{{"validation", "b"}});
  });
  EXPECT_THAT(texts[0], HasSubstr("validation is not there on rank 0, b on rank 1"));
}

TEST(CheckSame, ManyDifferentRanksAreCounted) {
  const auto texts = refusals(11, [](comm::Comm& all, int64_t rank) {
    train::check_same(all, {{"x", std::to_string(rank)}});
  });
  EXPECT_THAT(texts[0],
              AllOf(HasSubstr("7 on rank 7"), HasSubstr("3 more ways to differ"), Not(HasSubstr("8 on rank 8"))));
}

TEST(SharedFolder, EveryRankMustSeeTheFolderOfTheFirst) {
  const ScratchFolder one, other;
  EXPECT_THAT(refusals(3, [&](comm::Comm& all, int64_t) { check_shared_folder(all, one.path()); }), Each("none"));
  const auto texts = refusals(
      3, [&](comm::Comm& all, int64_t rank) { check_shared_folder(all, rank == 2 ? other.path() : one.path(), 0.1); });
  EXPECT_THAT(texts, ElementsAre(AllOf(HasSubstr(one.path().string()), HasSubstr("for rank 2 than")), "", ""));
  EXPECT_TRUE(std::filesystem::is_empty(one.path()));  // the file that the ranks looked for is removed
}

using StartFactsOf = train::TinyRun;

TEST_F(StartFactsOf, EveryKeyOfTheConfiguration) {
  const config::Config config = tiny_config();
  const train::StartFacts facts = program_facts(config);
  for (const auto& pair : config::key_values(config)) EXPECT_THAT(facts, ::testing::Contains(pair));
}

TEST_F(StartFactsOf, CorporaOfTheSameSizeDifferByTheirContent) {
  const train::StartFacts before = file_facts(tiny_config());
  EXPECT_EQ(before, file_facts(tiny_config()));
  const std::filesystem::path bin = folder_ / "corpus.bin";
  std::string bytes = read_text(bin);
  bytes[bytes.size() / 2] ^= 1;
  write_text_atomically(bin, bytes);
  EXPECT_NE(before, file_facts(tiny_config()));
  std::filesystem::remove(bin);
  EXPECT_THAT(file_facts(tiny_config())[0].second, HasSubstr("unreadable"));
}

}  // namespace
}  // namespace terrace::run
