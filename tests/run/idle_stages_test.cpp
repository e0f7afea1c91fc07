// Tests what a run says about its stages, against the formula of 1F1B: of S stages and M micro-batches a stage idles a
// share of (S - 1) / (M + S - 1) of a step.
#include "terrace/run/idle_stages.h"

#include <gmock/gmock.h>

#include "terrace/models/families.h"
#include "tests/train/tiny_run.h"

namespace terrace::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Keys = std::vector<std::string>;

class Idle : public train::TinyRun {
 protected:
  std::vector<std::string> lines(int64_t step, Keys keys, int64_t data_ranks = 1) const {
    keys.insert(keys.begin(), {"layout.pipeline=2", "train.global_batch=8", "train.micro_batch=1"});
    std::vector<std::string> texts;
    for (const IdleStages& line : idle_stages(tiny_config(keys), data_ranks, step)) {
      texts.push_back((line.is_warning ? "warning: " : "") + line.text);
    }
    return texts;
  }
};

TEST_F(Idle, OneLineForAConstantBatch) {
  EXPECT_THAT(lines(1, {}),
              ElementsAre("2 stages with 1f1b, 8 micro-batches each: the stages idle about 11% of a step"));
  EXPECT_THAT(lines(1, {}, 8),
              ElementsAre("warning: 2 stages with 1 micro-batch each: most stages idle; use a global_batch of 16 or "
                          "more, with train.micro_batch = 1"));
  EXPECT_THAT(lines(1, {"train.micro_batch=8"}), ElementsAre(HasSubstr("use train.micro_batch = 4 or less")));
  EXPECT_TRUE(lines(1, {"layout.pipeline=1"}).empty());
}

TEST_F(Idle, ShareOfThePhase) {
  const Keys phases = {"data.phases=[{from_step = 3, global_batch = 2}, {from_step = 5, global_batch = 16}]"};
  EXPECT_THAT(lines(2, phases), ElementsAre("2 stages with 1f1b, 8 micro-batches each in steps of 8 samples: the "
                                            "stages idle about 11% of a step"));
  EXPECT_THAT(lines(3, phases), ElementsAre(HasSubstr("2 micro-batches each in steps of 2 samples: the stages idle "
                                                      "about 33% ")));
  EXPECT_THAT(lines(5, phases), ElementsAre(HasSubstr("16 micro-batches each in steps of 16 samples: the stages idle "
                                                      "about 6% ")));
}

TEST_F(Idle, LinesForTheFirstAndTheFullBatchOfARampUp) {
  const Keys ramp = {"train.ramp_start=2", "train.ramp_increment=2", "train.ramp_samples=12"};
  EXPECT_THAT(lines(1, ramp), ElementsAre(HasSubstr("2 micro-batches each in steps of 2 samples"),
                                          HasSubstr("8 micro-batches each in steps of 8 samples")));
  EXPECT_THAT(lines(10, ramp), ElementsAre(HasSubstr("8 micro-batches each: ")));
}

// Smaller micro-batches are refused there.
TEST(IdleStagesOfBatchNorm, NameOneStage) {
  const config::Config config = config::parse(
      "[model]\nfamily = \"gnn\"\nconv = \"gin\"\nlayers = 3\nwidth = 8\nnorm = \"batch\"\n"
      "[[model.outputs]]\nname = \"energy\"\n[data]\ntrain = [\"unread\"]\n[train]\nglobal_batch = 8\nsteps = 3\n"
      "[optimizer]\nlearning_rate = 1e-3\n[layout]\npipeline = 2\n[checkpoint]\nfolder = \"unused\"\n",
      "graphs.toml", models::families(), {});
  ASSERT_EQ(idle_stages(config, 2, 1).size(), 1u);
  EXPECT_EQ(idle_stages(config, 2, 1).front().text,
            "2 stages with 1 micro-batch each: most stages idle; use layout.pipeline = 1, as the model takes a step as "
            "one micro-batch");
}

}  // namespace
}  // namespace terrace::run
