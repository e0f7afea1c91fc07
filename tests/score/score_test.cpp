// Tests which runs a table's rows are, and how their errors are summed up.
#include "terrace/score/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/models/gpt/settings/config.h"
#include "terrace/plan/prediction.h"
#include "terrace/score/run_of_row.h"
#include "terrace/score/score_report.h"
#include "tests/scratch_folder.h"

namespace terrace::score {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* headings =
    "id,model,layers,hidden,heads,vocab,seq,gpu,gpus,software,tp,pp,mbs,gbs,sharding,precision,recompute,sec_per_iter,"
    "mem_"
    "gib,complete,cp,arch,compile,notes\n";

std::vector<PublishedRun> runs_of_rows(const std::string& rows, const Given& given = {}) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "runs.csv").string();
  write_text_atomically(file, headings + rows);
  return runs_of(PublishedTable(file), given);
}

constexpr const char* good_row =
    "a,tiny,4,1024,16,50257,1024,A100 80GB,16,Megatron-LM,2,2,1,32,zero1,fp16,full,0.5,10,yes,1,,,\n";

TEST(RunOfRow, ReadsModelLayoutMachineAndProgram) {
  const PublishedRun run = runs_of_rows(good_row).front();
  EXPECT_TRUE(run.problems.empty());
  EXPECT_EQ(run.name, "a");
  EXPECT_EQ(run.line, 2);
  EXPECT_EQ(run.target.machine.name, "dgx-a100-80gb");
  EXPECT_EQ(run.target.software.name, "megatron");
  EXPECT_EQ(run.target.devices, 16);
  EXPECT_EQ(run.seconds, 0.5);
  EXPECT_EQ(run.memory_bytes, 10 * 1073741824.0);
  ASSERT_EQ(run.configs.size(), 1U);
  const config::Config& config = run.configs.front();
  EXPECT_EQ(models::gpt::model_of(config).width, 1024);
  EXPECT_EQ(models::gpt::model_of(config).vocabulary_multiple, 256);
  EXPECT_EQ(config.layout.tensor, 2);
  EXPECT_EQ(config.layout.sharding, config::Sharding::zero1);
  EXPECT_EQ(config.train.recompute, config::Recompute::full);
  EXPECT_EQ(config.train.gradient_type, config::Precision::fp16);
}

TEST(RunOfRow, NamesEveryReasonWhyARowIsLeftOut) {
  const PublishedRun run =
      runs_of_rows("b,tiny,,1024,16,50257,1024,TPU v4,16,PaxML,2,2,1,32,zero1,fp16,full,fast,10,part (noisy),4,,,\n")
          .front();
  EXPECT_THAT(run.problems, ElementsAre("layers not published", "the table calls the row incomplete: part (noisy)",
                                        "no machine is known as \"TPU v4\"; name one by --machine",
                                        "no program is known as \"PaxML\"; name one by --software",
                                        "the time of a step is not published"));
}

TEST(RunOfRow, LayoutsThatDoNotFitSayWhy) {
  const auto problem = [](const std::string& row) { return runs_of_rows(row).front().problems; };
  EXPECT_THAT(problem("c,tiny,4,1024,16,50257,1024,H100,16,Megatron-LM,3,2,1,32,zero1,fp16,full,1,,yes,1,,,\n"),
              ElementsAre("tensor 3 and pipeline 2 do not divide 16 devices"));
  EXPECT_THAT(problem("c,tiny,4,1024,16,50257,1024,H100,16,Megatron-LM,1,2,1,30,zero1,fp16,full,1,,yes,1,,,\n"),
              ElementsAre("30 sequences do not divide among 8 data-parallel ranks"));
  EXPECT_THAT(problem("c,tiny,4,1024,16,50257,1024,H100,16,Megatron-LM,1,2,3,32,zero1,fp16,full,1,,yes,1,,,\n"),
              ElementsAre("4 sequences of a replica are no multiple of the micro-batch 3"));
  EXPECT_THAT(problem("c,tiny,4,1024,12,50257,1024,H100,16,Megatron-LM,1,2,1,32,zero1,fp16,full,1,,yes,1,,,\n").front(),
              HasSubstr("model.heads"));
}

TEST(RunOfRow, ContextRanksShareSamples) {
  const auto run = [](const std::string& context) {
    return runs_of_rows("c,tiny,4,1024,16,50257,1024,H100,16,Megatron-LM,1,2," + context).front();
  };
  EXPECT_EQ(run("1,32,zero1,fp16,full,1,,yes,2,,,\n").configs.front().layout.context, 2);
  EXPECT_THAT(run("1,32,zero1,fp16,full,1,,yes,5,,,\n").problems,
              ElementsAre("tensor 1, context 5 and pipeline 2 do not divide 16 devices"));
}

TEST(RunOfRow, WordsOfARowChangeTheProgram) {
  const auto software = [](const std::string& row) { return runs_of_rows(row).front().target.software; };
  const std::string row = "d,Llama,4,1024,16,50257,1024,H100,16,torchtitan,2,1,1,32,fsdp2 over 8,bf16,none,1,,yes,1,";
  EXPECT_EQ(software(row + ",yes,\n").name, "torchtitan");
  EXPECT_EQ(software(row + ",no,\n").name, "torchtitan-eager");
  EXPECT_FALSE(software(row + ",yes,vanilla TP\n").sums_while_computing);
  EXPECT_TRUE(software(row + ",yes,async TP\n").sums_while_computing);
  EXPECT_FALSE(software(row + "gpt (no flash attention),yes,\n").fused_attention);
  const PublishedRun run = runs_of_rows(row + ",yes,\n").front();
  EXPECT_EQ(run.configs.front().layout.sharding, config::Sharding::zero3);
  EXPECT_TRUE(run.configs.front().layout.sequence_parallel);
  EXPECT_EQ(models::gpt::model_of(run.configs.front()).activation, models::gpt::Activation::swiglu);
}

TEST(RunOfRow, EightBitFloatsAreThoseOfProducts) {
  const PublishedRun run =
      runs_of_rows("f,tiny,4,1024,16,50257,1024,H100,16,torchtitan,1,1,1,32,zero1,amp_fp8,none,1,,yes,1,,,\n").front();
  EXPECT_EQ(run.target.block_products, plan::BlockProducts::fp8);
  EXPECT_EQ(run.configs.front().train.precision, config::Precision::bf16);
  EXPECT_EQ(run.notes.size(), 1U);
}

TEST(RunOfRow, TheCommandLineCountsBeforeTheRow) {
  const PublishedRun run =
      runs_of_rows(good_row, {.machine = "dgx-h100", .software = "terrace", .overrides = {"train.recompute=none"}})
          .front();
  EXPECT_EQ(run.target.machine.name, "dgx-h100");
  EXPECT_EQ(run.target.software.name, "terrace");
  EXPECT_EQ(run.configs.front().train.recompute, config::Recompute::none);
}

TEST(Score, IsThePredictionOfThePlan) {
  const std::vector<PublishedRun> runs = runs_of_rows(good_row);
  const Score scored = score(runs);
  ASSERT_EQ(scored.scored.size(), 1U);
  const plan::Prediction prediction = plan::predict(runs.front().configs.front(), runs.front().target);
  EXPECT_EQ(scored.scored.front().predicted, prediction.step_seconds);
  EXPECT_EQ(scored.scored.front().predicted_memory, prediction.fullest().memory.total());
  EXPECT_DOUBLE_EQ(scored.scored.front().error(), prediction.step_seconds / 0.5 - 1);
  EXPECT_EQ(scored.scored.front().kind, "pipeline over nodes");
}

// Where a table leaves the micro-batch out, the fastest that fits counts.
TEST(Score, TakesTheFastestOfWhatARunMayHaveBeen) {
  const std::string row =
      "e,tiny,4,1024,16,50257,1024,A100 80GB,16,Megatron-LM,2,2,,32,zero1,fp16,full,0.5,10,yes,1,,,\n";
  const std::vector<PublishedRun> runs = runs_of_rows(row);
  EXPECT_EQ(runs.front().configs.size(), 4U);
  double fastest = std::numeric_limits<double>::infinity();
  for (const config::Config& config : runs.front().configs) {
    fastest = std::min(fastest, plan::predict(config, runs.front().target).step_seconds);
  }
  EXPECT_EQ(score(runs).scored.front().predicted, fastest);
}

ScoredRun run_of(const std::string& model, double measured, double predicted, double measured_memory = 0,
                 double predicted_memory = 0) {
  ScoredRun run{.measured = measured, .predicted = predicted, .predicted_memory = predicted_memory, .items = 100};
  run.run.model = model;
  run.run.memory_bytes = measured_memory;
  return run;
}

// Rates are 100, 50 and 25 tokens a second as measured, 80, 100 and 20 as predicted: two of three pairs are in order.
TEST(Summary, HasErrorsRanksAndTheCostOfTheChoice) {
  const std::vector<ScoredRun> runs = {run_of("m", 1, 1.25, 100, 90), run_of("m", 2, 1), run_of("m", 4, 5, 10, 12)};
  const Summary sum = summary_of("all", runs);
  EXPECT_EQ(sum.runs, 3);
  EXPECT_DOUBLE_EQ(sum.mean_absolute, (0.25 + 0.5 + 0.25) / 3);
  EXPECT_DOUBLE_EQ(sum.mean, 0);
  EXPECT_EQ(sum.lowest, -0.5);
  EXPECT_EQ(sum.highest, 0.25);
  EXPECT_DOUBLE_EQ(sum.rank_correlation, 0.5);
  EXPECT_DOUBLE_EQ(sum.cost_of_choice, 0.5);  // 50 tokens a second where 100 were to be had
  EXPECT_EQ(sum.memory_runs, 2);
  EXPECT_DOUBLE_EQ(sum.memory_mean_absolute, (0.1 + 0.2) / 2);
  EXPECT_TRUE(std::isnan(summary_of("two", {runs[0], runs[1]}).rank_correlation));
}

TEST(Summary, IsMadeOfEachModel) {
  const std::vector<Summary> models = by_model({run_of("b", 1, 2), run_of("a", 1, 1), run_of("b", 1, 1)});
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].name, "a");
  EXPECT_EQ(models[1].runs, 2);
}

TEST(ScoreReport, SaysTheSameInEveryFormat) {
  const Score scored =
      score(runs_of_rows(std::string(good_row) + "b,,,1,1,1,1,H100,8,terrace,1,1,1,8,ddp,bf16,none,1,,yes,1,,,\n"));
  const std::string text = text_of(scored);
  EXPECT_THAT(text, HasSubstr("tensor 2, pipeline 2, zero1, micro-batch 1"));
  EXPECT_THAT(text, HasSubstr("1 run left out"));
  EXPECT_THAT(text, HasSubstr("b: layers not published"));
  const Json json = json_of(scored);
  EXPECT_EQ(json["runs"].size(), 1U);
  EXPECT_EQ(json["runs"][0]["predicted_seconds"].get<double>(), scored.scored.front().predicted);
  EXPECT_EQ(json["left_out"][0]["problems"][0].get<std::string>(), "layers not published");
  EXPECT_TRUE(json["all"]["rank_correlation"].is_null());
  EXPECT_THAT(csv_of(scored),
              HasSubstr(",a,tiny,16,dgx-a100-80gb,megatron,pipeline over nodes,\"tensor 2, pipeline 2"));
  EXPECT_THAT(picture_of(scored), HasSubstr("1 published run, mean absolute error"));
  EXPECT_THAT(picture_of({}), HasSubstr("0 published runs"));
}

}  // namespace
}  // namespace terrace::score
