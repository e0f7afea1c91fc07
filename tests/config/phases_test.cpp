// Phases of a run: what they take over, their rules, how they are written, and what may change when a run is resumed.
#include "terrace/config/phases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/config/key_values.h"
#include "tests/config/config_cases.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The valid file with phases behind [data], from the text between braces for each.
Config with_phases(const std::string& tables) { return valid({"train.micro_batch=2", "data.phases=[" + tables + "]"}); }

std::string complaint_about(const std::string& tables, const std::vector<std::string>& more = {}) {
  std::vector<std::string> keys = {"train.micro_batch=2", "data.phases=[" + tables + "]"};
  keys.insert(keys.end(), more.begin(), more.end());
  return complaint_of(keys);
}

const data::TextConfig& text_in(const Config& config, size_t phase) {
  return config.phases.at(phase - 1).data.get<data::TextConfig>();
}

TEST(PhasesOfAFile, TablesKeepWhatTheyDoNotName) {
  const std::string toml = std::string(valid_toml) + R"(
[[data.phases]]
from_step = 10
weights = [1, 3]

[[data.phases]]
from_step = 20
train = ["data/c", "data/d"]

[[data.phases]]
from_step = 30
train = ["data/a"]
weights = []
)";
  const Config config = parsed(toml, "run.toml");
  ASSERT_EQ(config.phases.size(), 3u);
  EXPECT_EQ(config.phases[1].from_step, 20);
  EXPECT_EQ(text_in(config, 1).train, data::text_of(config).train);
  EXPECT_EQ(text_in(config, 1).weights, (std::vector<double>{1, 3}));
  EXPECT_EQ(text_in(config, 2).train, (std::vector<std::string>{"data/c", "data/d"}));
  EXPECT_EQ(text_in(config, 2).weights, (std::vector<double>{1, 3}));
  EXPECT_EQ(text_in(config, 3).weights, std::vector<double>{});
  EXPECT_EQ(config.phases[2].global_batch, 12);
  EXPECT_EQ(phase_at(config, 9), 0u);
  EXPECT_EQ(phase_at(config, 10), 1u);
  EXPECT_EQ(phase_at(config, 99), 3u);
  EXPECT_EQ(phase_changes_text(config, 3), "train = [\"data/a\"], weights = []");
}

TEST(PhasesOfAFile, WrittenAndReadBack) {
  const Config config =
      with_phases("{from_step = 10, global_batch = 24}, {from_step = 20, train = ['data/c'], weights = [0.5]}");
  const std::string text = dump(config);
  EXPECT_THAT(text, HasSubstr("\n[[data.phases]]\nfrom_step = 10\ntrain = [\"data/a\", \"data/b\"]\nweights = []\n"
                              "global_batch = 24\n"));
  EXPECT_EQ(parsed(text, "dump.toml"), config);
  EXPECT_EQ(dump(parsed(text, "dump.toml")), text);
  EXPECT_EQ(key_values(config).back().first, phases_key);
  EXPECT_EQ(valid({"train.micro_batch=2", "data.phases=" + key_values(config).back().second}), config);
  EXPECT_THAT(dump(valid()), Not(HasSubstr("phases")));
}

TEST(PhasesOfAFile, AllProblemsInOneMessage) {
  const std::string toml = std::string(valid_toml) + R"(
[[data.phases]]
from_step = 10
weigths = [1, 3]

[[data.phases]]
from_step = 10
weights = [1]

[[data.phases]]
from_step = 100
global_batch = 0

[[data.phases]]
train = ["data/c"]

[[data.phases]]
from_step = 40
)";
  EXPECT_THAT(complaint(toml),
              AllOf(HasSubstr("run.toml:23:1: unknown key data.phases[1].weigths; did you mean weights?"),
                    HasSubstr("data.phases[2].from_step = 10 must be above 10"), HasSubstr("use at least 11"),
                    HasSubstr("data.phases[3].from_step = 100 must be below train.steps = 100"),
                    HasSubstr("data.phases[3].global_batch = 0 must be a whole number"),
                    HasSubstr("data.phases[4].from_step is missing"), HasSubstr("data.phases[5] changes nothing"),
                    HasSubstr("6 problems")));
}

TEST(PhasesOfAFile, FollowTheRulesOfTheWholeFile) {
  EXPECT_THAT(complaint_about("{from_step = 10, weights = [1, 2, 3]}"),
              HasSubstr("data.phases[1] (from_step = 10): data.weights has 3 numbers for 2 corpora"));
  EXPECT_THAT(complaint_about("{from_step = 10, train = ['data/c']}", {"data.weights=[1, 2]"}),
              HasSubstr("data.weights has 2 numbers for 1 corpora in data.train; give 1, or []"));
  EXPECT_THAT(complaint_about("{from_step = 10, train = ['data/v']}", {"data.validation=[\"data/v\"]"}),
              HasSubstr("data.validation names \"data/v\", which is in data.train too"));
  EXPECT_THAT(complaint_about("{from_step = 10, global_batch = 15}"),
              HasSubstr("train.global_batch = 15 is not a multiple of micro_batch = 2"));
  EXPECT_THAT(complaint_about("{from_step = 10, global_batch = 24}", {"train.micro_batch=0"}),
              HasSubstr("give train.micro_batch, such as 12"));
  EXPECT_EQ(complaint_about("{from_step = 10, weights = [1, 2]}", {"train.micro_batch=0"}), "");
  EXPECT_THAT(complaint_about("7"), HasSubstr("data.phases must be a list of tables, each written [[data.phases]]"));
  EXPECT_THAT(complaint_of({"data.phases=7"}), HasSubstr("each written [[data.phases]]"));
  EXPECT_THAT(complaint_about("{from_step = 1.5, train = 7}"),
              AllOf(HasSubstr("data.phases[1].from_step = 1.5"), HasSubstr("data.phases[1].train = 7")));
  // A ramp-up does not reach the batch of a phase, which ends it.
  EXPECT_EQ(complaint_about("{from_step = 10, global_batch = 14}",
                            {"train.ramp_start=4", "train.ramp_increment=4", "train.ramp_samples=100"}),
            "");
}

std::string resume_complaint(const Config& saved, const Config& now, int64_t steps_done) {
  try {
    check_resume(saved, now, steps_done);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(PhasesOnResume, ChangesBeforeAPhaseBeginsAreAccepted) {
  const Config none = with_phases(""), one = with_phases("{from_step = 10, weights = [1, 2]}");
  const Config other = with_phases("{from_step = 10, weights = [2, 2]}, {from_step = 50, global_batch = 24}");
  for (const Config* saved : {&none, &one, &other}) {
    for (const Config* now : {&none, &one, &other}) EXPECT_EQ(resume_complaint(*saved, *now, 9), "");
    EXPECT_EQ(resume_complaint(*saved, *saved, 99), "");
  }
  EXPECT_EQ(resume_complaint(other,
                             with_phases("{from_step = 10, weights = [2, 2]}, {from_step = 49, train = "
                                         "['data/a'], weights = []}"),
                             48),
            "");
}

TEST(PhasesOnResume, RefusesChangesOnceAPhaseHasBegun) {
  const Config none = with_phases(""), one = with_phases("{from_step = 10, weights = [1, 2]}");
  const Config other = with_phases("{from_step = 10, weights = [2, 2]}, {from_step = 50, global_batch = 24}");
  EXPECT_THAT(resume_complaint(one, other, 10),
              AllOf(HasSubstr("data.phases[1] (from_step = 10): weights = [1.0, 2.0] in the checkpoint, but [2.0, 2.0] "
                              "now"),
                    HasSubstr("add [[data.phases]] with a from_step of 11 or more")));
  EXPECT_THAT(resume_complaint(one, none, 10),
              HasSubstr("data.phases[1] (from_step = 10) is in the checkpoint with weights = [1.0, 2.0], but not there "
                        "now"));
  EXPECT_THAT(resume_complaint(none, one, 10),
              HasSubstr("data.phases[1] (from_step = 10) is not in the checkpoint, which has done 10 steps"));
  EXPECT_THAT(resume_complaint(one, with_phases("{from_step = 11, weights = [1, 2]}"), 30),
              AllOf(HasSubstr("(from_step = 10) is in the checkpoint"), HasSubstr("(from_step = 11) is not in")));
  EXPECT_THAT(resume_complaint(other, one, 49), Not(HasSubstr("global_batch = 24")));
  EXPECT_THAT(resume_complaint(other, one, 50), HasSubstr("data.phases[2] (from_step = 50) is in the checkpoint"));
}

TEST(PhasesOnResume, FoldersOfCorporaMayChange) {
  const Config here = with_phases("{from_step = 10, train = ['data/c']}");
  EXPECT_EQ(resume_complaint(here, with_phases("{from_step = 10, train = ['/fast/disk/c']}"), 20), "");
  EXPECT_NE(resume_complaint(here, with_phases("{from_step = 10, train = ['data/d']}"), 20), "");
}

TEST(PhasesOnResume, RefusedChangesOfDataAndBatchPointToPhases) {
  for (const char* change : {"data.train=[\"data/c\"]", "data.weights=[1, 2]", "train.global_batch=24"}) {
    EXPECT_THAT(resume_complaint(valid(), valid({change}), 7),
                HasSubstr("Set them back; to train on other data or with another global_batch from here on, add "
                          "[[data.phases]] with a from_step of 8 or more; or start a new run"))
        << change;
  }
  EXPECT_THAT(resume_complaint(valid(), valid({"train.seed=2"}), 7), Not(HasSubstr("phases")));
}

}  // namespace
}  // namespace terrace::config
