// Compares the configuration and the report of a small translation with what they must say.
#include "terrace/translate/translation.h"

#include <gtest/gtest.h>

#include "terrace/base/text/json.h"
#include "terrace/translate/translation_report.h"

namespace terrace::translate {
namespace {

Translation small() {
  return {.program = "P",
          .software = "megatron",
          .why_software = "it is old",
          .settings = {{"--num-layers 2", "model.layers", "2"},
                       {"--lr 1", "optimizer.learning_rate", "1.0", false, true},
                       {"--hidden-size 8", "model.width", "8"},
                       {"--weight-decay 0.01", "optimizer.weight_decay", "0.01", true}},
          .no_twin = {{"--hysteresis 2", "it is 1"}},
          .without_effect = {"--load a", "--wandb"},
          .left_out = {"--alibi"},
          .assumptions = {"one device"}};
}

TEST(Translation, IsAConfiguration) {
  EXPECT_EQ(toml_of(small()),
            "[model]\nlayers = 2\nwidth = 8\n[optimizer]\nlearning_rate = 1.0\nweight_decay = 0.01\n");
  EXPECT_EQ(overrides_of(small()).front(), "model.layers=2");
}

TEST(Translation, SaysWhatBecameOfEachArgument) {
  EXPECT_EQ(text_of(small()),
            "what P is told, and its key here\n"
            "    --num-layers 2   model.layers = 2\n"
            "    --lr 1           optimizer.learning_rate = 1.0 (replaced by --set)\n"
            "    --hidden-size 8  model.width = 8\n"
            "what P does by itself\n"
            "    --weight-decay 0.01  optimizer.weight_decay = 0.01\n"
            "without a key here\n"
            "    --hysteresis 2: it is 1\n"
            "left out as asked for\n"
            "    --alibi\n"
            "assumed\n"
            "    one device\n"
            "without effect on time, memory and result\n"
            "    --load a, --wandb\n"
            "planned as by megatron: it is old\n");
  const Json json = json_of(small());
  EXPECT_EQ(json["settings"].size(), 4u);
  EXPECT_EQ(json["settings"][1]["is_replaced"], true);
  EXPECT_EQ(json["no_twin"][0]["planned"], "it is 1");
}

TEST(Translation, KnowsTheUsersOwnKeys) {
  const Wishes wishes{.overrides = {"model.positions=rotary", " train.steps = 4", "broken"}};
  EXPECT_TRUE(wishes.gives("model.positions"));
  EXPECT_TRUE(wishes.gives("train.steps"));
  EXPECT_FALSE(wishes.gives("model"));
  EXPECT_FALSE(wishes.gives("broken"));
}

// Products beyond 63 bits stay at the largest number, which the configuration then refuses.
TEST(Translation, MultipliesWithoutOverflow) {
  EXPECT_EQ(product(0, 5), 0);
  EXPECT_EQ(product(5, 0), 0);
  EXPECT_EQ(product(3, 4), 12);
  EXPECT_EQ(product(int64_t{1} << 40, int64_t{1} << 40), INT64_MAX);
}

}  // namespace
}  // namespace terrace::translate
