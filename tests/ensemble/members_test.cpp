// Makes members of configurations, seeds and the results of a search.
#include "terrace/ensemble/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "terrace/base/error.h"
#include "tests/scratch_folder.h"

namespace terrace::ensemble {
namespace {

constexpr const char* small = R"([model]
family = "gpt"
layers = 2
width = 16
heads = 2
sequence = 8
vocabulary = 32
[data]
train = ["corpus"]
[train]
global_batch = 4
steps = 6
seed = 7
[optimizer]
learning_rate = 1e-3
[checkpoint]
folder = "run"
)";

class Members : public ::testing::Test {
 protected:
  Members() { std::ofstream(config_) << small; }

  std::string results(const std::string& rows,
                      const std::string& head = "p:optimizer.learning_rate,p:train.seed,objective\n") {
    const std::filesystem::path path = folder_.path() / "results.csv";
    std::ofstream(path) << head << rows;
    return path.string();
  }
  std::string problem(const MembersRequest& request) {
    try {
      members_of(request);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  ScratchFolder folder_;
  std::string config_ = (folder_.path() / "small.toml").string();
};

TEST_F(Members, DifferInSeedAndFolder) {
  const std::vector<Member> members =
      members_of({.configs = {config_}, .settings = {"train.steps=9"}, .seeds = 3, .folder = folder_.path() / "all"});
  ASSERT_EQ(members.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(members[i].config.train.seed, 7 + i);
    EXPECT_EQ(members[i].config.train.steps, 9);
    EXPECT_EQ(members[i].config.checkpoint.folder, (folder_.path() / "all" / members[i].name).string());
  }
  config::Config first = members[0].config, second = members[1].config;
  second.train.seed = first.train.seed;
  second.checkpoint.folder = first.checkpoint.folder;
  EXPECT_EQ(first, second) << "nothing else differs";
}

TEST_F(Members, AreTheBestDifferentTrialsOfASearch) {
  const std::string file = results("1e-3,1,-3.0\n2e-3,1,-2.0\n4e-3,1,F_oom\n2e-3,1,-1.0\n5e-3,2,-2.5\n");
  const std::vector<Member> members =
      members_of({.configs = {config_}, .results = file, .best = 2, .folder = folder_.path()});
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].config.optimizer.learning_rate, 2e-3);
  EXPECT_EQ(members[1].config.optimizer.learning_rate, 5e-3);
  EXPECT_EQ(members[1].config.train.seed, 2u);
  EXPECT_EQ(best_trials(folder_.path(), 3).back().settings.front(), "optimizer.learning_rate=1e-3") << "of the folder";
}

TEST_F(Members, HaveTheNumbersThatTheSearchGaveTheirTrials) {
  using ::testing::StartsWith;
  const auto origins = [&](const std::string& file) {
    const std::vector<Member> members =
        members_of({.configs = {config_}, .results = file, .best = 2, .folder = folder_.path()});
    return std::vector{members.at(0).origin, members.at(1).origin};
  };
  const std::string columns = "p:optimizer.learning_rate,p:train.seed,objective,job_id";
  std::vector<std::string> names =
      origins(results("1e-3,1,-3.0,0\n2e-3,1,-2.0,1\n4e-3,1,F_oom,2\n5e-3,2,-1.5,7\n", columns + "\n"));
  EXPECT_THAT(names[0], StartsWith("trial 7 of "));
  EXPECT_THAT(names[1], StartsWith("trial 1 of "));
  // Rows of successive halving are parts of trials.
  names = origins(results("1e-3,1,-3.0,4,4\n2e-3,1,-2.0,5,5\n1e-3,1,-1.0,6,4\n", columns + ",m:trial\n"));
  EXPECT_THAT(names[0], StartsWith("trial 4 of "));
  EXPECT_THAT(names[1], StartsWith("trial 5 of "));
}

TEST_F(Members, AreRefusedWithTheWayOut) {
  using ::testing::HasSubstr;
  EXPECT_THAT(problem({.configs = {config_}}), HasSubstr("--seeds 5"));
  EXPECT_THAT(problem({.configs = {config_, config_}, .results = results("1e-3,1,-3.0\n"), .best = 1}),
              HasSubstr("one configuration, and there are 2"));
  EXPECT_THAT(problem({.configs = {config_}, .best = 2}), HasSubstr("--best needs --results"));
  EXPECT_THAT(problem({.configs = {config_}, .results = results("1e-3,1,-3.0\n1e-3,1,-2.0\n"), .best = 2}),
              HasSubstr("1 different trial"));
  EXPECT_THAT(problem({.configs = {config_}, .results = results("3,-1.0\n", "p:batch,objective\n"), .best = 2}),
              HasSubstr("batch are no keys"));
  EXPECT_THAT(problem({.configs = {config_}, .results = results("1,2\n", "p:train.seed,objective_0\n"), .best = 2}),
              HasSubstr("best_1.toml"));
}

}  // namespace
}  // namespace terrace::ensemble
