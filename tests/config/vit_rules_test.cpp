// Tests which vision transformers are refused, with the numbers and a way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"
#include "terrace/config/config.h"
#include "terrace/models/planned_families.h"
#include "terrace/models/vit/settings/config.h"
#include "terrace/models/vit/settings/shrink.h"

namespace terrace::models::vit {
namespace {

using ::testing::HasSubstr;

config::Config weather(const std::vector<std::string>& keys) {
  return config::parse(
      "[model]\nfamily = \"vit\"\nvariables = [\"t\", \"u\"]\ngrid = [32, 64]\npatch = 2\nlayers = 4\nwidth = 48\n"
      "heads = 6\n[data]\nfields = \"unread\"\nconstants = [\"orography\"]\n"
      "[train]\nglobal_batch = 8\nmicro_batch = 1\nsteps = 3\n[optimizer]\nlearning_rate = 1e-3\n"
      "[checkpoint]\nfolder = \"unused\"\n",
      "weather.toml", models::planned_families(), keys);
}

std::string refusal_of(const std::vector<std::string>& keys) {
  try {
    weather(keys);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(VitRules, DeriveTheOutputsAndTheNamesOfTheInputs) {
  const config::Config config = weather({"data.inputs=2"});
  const ModelConfig& model = model_of(config);
  EXPECT_EQ(model.outputs, (std::vector<std::string>{"t", "u"}));
  EXPECT_EQ(model.channels, (std::vector<std::string>{"t 1 before", "u 1 before", "t", "u", "orography"}));
  EXPECT_EQ(config::parse(config::dump(config), "dump.toml", models::planned_families()), config);
}

TEST(VitRules, TheLastRowOfPatchesGoesOnBeyondTheLastLatitude) {
  const ModelConfig model = model_of(weather({"model.grid=[721, 1440]", "model.patch=4"}));
  EXPECT_EQ(model.patch_rows(), 181);
  EXPECT_EQ(model.padded_latitudes(), 724);
  EXPECT_EQ(model.places(), 181 * 360);
}

TEST(VitRules, OutputsWeighAsMuchAsTheirNumber) {
  const ModelConfig model = model_of(weather({"model.loss_weights={u = 3.0}"}));
  EXPECT_EQ(output_weights(model), (std::vector<double>{0.5, 1.5}));
}

TEST(VitRules, RefuseWhatDoesNotFit) {
  EXPECT_THAT(refusal_of({"model.grid=[32]"}), HasSubstr("the numbers of latitudes and of longitudes"));
  EXPECT_THAT(refusal_of({"model.patch=3"}),
              HasSubstr("model.patch = 3 does not divide the 64 longitudes of model.grid; use 1, 2, 4"));
  EXPECT_THAT(refusal_of({"model.patch=64"}), HasSubstr("model.patch = 64 is larger than the 32 latitudes"));
  EXPECT_THAT(refusal_of({"model.heads=5"}), HasSubstr("model.heads = 5 does not divide model.width = 48; use"));
  EXPECT_THAT(refusal_of({"model.width=30"}), HasSubstr("model.width = 30 is no multiple of 4"));
  EXPECT_THAT(refusal_of({"model.mlp_ratio=2.6"}), HasSubstr("is no multiple of the 6 heads; use 2.625, for 126"));
  EXPECT_THAT(refusal_of({"model.outputs=[\"w\"]"}), HasSubstr("\"w\", which is none of model.variables"));
  EXPECT_THAT(refusal_of({"model.loss_weights={w = 1.0}"}), HasSubstr("\"w\", which is none of the outputs"));
  EXPECT_THAT(refusal_of({"model.loss_weights={t = 0.0, u = 0.0}"}), HasSubstr("every output the weight 0"));
  EXPECT_THAT(refusal_of({"data.constants=[\"t\"]"}), HasSubstr("\"t\", which is one of model.variables too"));
  EXPECT_THAT(refusal_of({"model.variables=[\"T\", \"t\"]"}), HasSubstr("would both be called t in the metrics"));
  EXPECT_THAT(refusal_of({"model.lead_embedding=false", "data.leads=[\"6h\", \"12h\"]"}),
              HasSubstr("cannot tell the 2 leads of data.leads apart"));
  EXPECT_THAT(refusal_of({"layout.tensor=4"}),
              HasSubstr("layout.tensor = 4 does not divide model.heads = 6; use 1, 2, 3 or 6: the scores of a head"));
  EXPECT_THAT(refusal_of({"layout.tensor=3", "layout.sequence_parallel=true"}),
              HasSubstr("layout.tensor = 3 does not divide the patches, 16 x 32 = 512"));
}

TEST(VitShrink, MakesAModelThatFitsItsLayout) {
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {},
           {"model.grid=[721, 1440]", "model.patch=4", "model.width=12288", "model.heads=64"},
           {"layout.tensor=6", "model.width=1536", "layout.pipeline=3"},
           {"layout.tensor=2", "layout.sequence_parallel=true", "model.width=96", "model.mlp_ratio=2.5"}}) {
    config::Config config = weather(keys);
    shrink(config);
    const config::Config again = config::parse(config::dump(config), "small.toml", models::planned_families());
    EXPECT_EQ(again, config);
    EXPECT_LE(model_of(config).width, 64);
    EXPECT_LE(model_of(config).places(), 24);
  }
}

}  // namespace
}  // namespace terrace::models::vit
