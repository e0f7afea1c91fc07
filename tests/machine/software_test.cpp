// Tests descriptions of programs.
#include "terrace/machine/software.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terrace/base/error.h"

namespace terrace::machine {
namespace {

std::string complaint(const std::string& toml) {
  try {
    parse_software(toml, "p.toml");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(Software, BuiltInDescriptionsAreReadBackFromTheirDumps) {
  EXPECT_EQ(software_names(),
            (std::vector<std::string>{"deepspeed-zero3", "deepspeed-zeropp", "gpt-neox", "llm-foundry", "megatron-core",
                                      "megatron-deepspeed-2024", "megatron-deepspeed-lumi", "megatron-deepspeed-staged",
                                      "megatron-deepspeed", "megatron", "terrace-2023", "terrace", "torchtitan-eager",
                                      "torchtitan"}));
  for (const std::string& name : software_names()) {
    const Software software = load_software(name);
    EXPECT_EQ(software.name, name);
    EXPECT_FALSE(software.about.empty());
    Software read = parse_software(dump(software), "dump.toml");
    read.base = software.base;
    EXPECT_EQ(read, software);
  }
}

TEST(Software, ADescriptionMaySayWhatDiffersFromABuiltInOne) {
  Software torchtitan = load_software("torchtitan");
  Software ours = parse_software("name = \"ours\"\nbase = \"torchtitan\"\nproducts = 0.8\n", "p.toml");
  EXPECT_EQ(ours.products, 0.8);
  EXPECT_TRUE(ours.known_as.empty());
  ours.products = 1;
  ours.name = torchtitan.name;
  ours.base = torchtitan.base;
  ours.known_as = torchtitan.known_as;
  EXPECT_EQ(ours, torchtitan);
  EXPECT_THAT(complaint("name = \"ours\"\nbase = \"torchtitn\""),
              testing::StartsWith(
                  "p.toml: base = \"torchtitn\": there is no software \"torchtitn\"; did you mean torchtitan?"));
}

TEST(Software, MegatronOverlapsLessThanThisProgram) {
  const Software megatron = load_software("megatron"), terrace = load_software("terrace");
  EXPECT_FALSE(megatron.fused_attention);
  EXPECT_GT(megatron.score_passes, 0);
  EXPECT_TRUE(megatron.stages_by_layers);
  EXPECT_FALSE(megatron.reduces_while_computing);
  EXPECT_TRUE(terrace.fused_attention);
  EXPECT_FALSE(terrace.stages_by_layers);
  EXPECT_TRUE(terrace.reduces_while_computing);
}

TEST(Software, RefusesWhatIsMissingAbsurdOrUnknown) {
  EXPECT_EQ(complaint(""), "p.toml: name is missing; add a line such as name = \"our-program\"");
  EXPECT_EQ(complaint("name = \"p\"\nfused_atention = true"),
            "p.toml:2:1: unknown key fused_atention; did you mean fused_attention?");
  EXPECT_EQ(complaint("name = \"p\"\noptimizer_passes = 0"),
            "p.toml:2:20: optimizer_passes = 0 must be a number above 0 and at most 100");
  EXPECT_EQ(complaint("name = \"p\"\nstages_by_layers = 1"),
            "p.toml:2:20: stages_by_layers = 1 must be true or false, but is a whole number");
  EXPECT_EQ(complaint("name = \"p\"\nscore_passes = 5"),
            "p.toml:2:16: score_passes = 5 has no effect beside fused_attention = true; remove it");
  EXPECT_EQ(complaint("name = \"p\"\nbackward_score_passes = 5"),
            "p.toml:2:25: backward_score_passes = 5 has no effect beside fused_attention = true; remove it");
  EXPECT_EQ(complaint("name = \"p\"\nactivation_passes = -1"),
            "p.toml:2:21: activation_passes = -1 must be a number of at least 0 and at most 100");
  EXPECT_EQ(complaint("name = \"p\"\nlogit_bytes = 1e6"),
            "p.toml:2:15: logit_bytes = 1000000.0 must be a number of at least 0 and at most 1000");
  EXPECT_EQ(complaint("name = \"p\"\npause_between_passes = \"2 s\""),
            "p.toml:2:24: pause_between_passes = \"2 s\" must be from 0 ns to 1 s");
  EXPECT_EQ(complaint("name = \"p\"\nsend_bandwidth = \"80 B/s\""),
            "p.toml:2:18: send_bandwidth = \"80 B/s\" must be from 1 MB/s to 100 TB/s");
  EXPECT_EQ(complaint("name = \"p\"\nfused_attention = false"),
            "p.toml: score_passes must be above 0 beside fused_attention = false");
}

TEST(Software, AnUnknownNameListsThoseThatExist) {
  try {
    load_software("megatorn");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "there is no software \"megatorn\"; did you mean megatron? There are deepspeed-zero3, deepspeed-zeropp, "
        "gpt-neox, llm-foundry, megatron-core, megatron-deepspeed-2024, megatron-deepspeed-lumi, "
        "megatron-deepspeed-staged, megatron-deepspeed, megatron, terrace-2023, terrace, torchtitan-eager and "
        "torchtitan, and a description of your own is a file whose name ends in .toml");
  }
}

}  // namespace
}  // namespace terrace::machine
