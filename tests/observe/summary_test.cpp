// The summary of a run's folder against figures worked out by hand.
#include "terrace/observe/summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/observe/metrics.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

class SummaryTest : public testing::Test {
 protected:
  void write_run() {
    const Json facts = {
        {"parameters", 1234567},
        {"precision", "fp32"},
        {"loss_unit", "nats a token"},
        {"baselines", Json::array({{{"key", "unigram_loss"}, {"name", "unigram model"}, {"loss", 6.5}}})},
        {"peak_name", "the fp32 product"},
        {"peak_flops_per_second", 2e11}};
    write_text_atomically(folder_ / "run.json", facts.dump());
    MetricsWriter writer(folder_, 0, {.names = {.items = "tokens"}});
    for (int64_t step = 1; step <= 3; ++step) {
      writer.write(StepMetrics{.step = step,
                               .loss = 9.0 - static_cast<double>(step),
                               .gradient_norm = 0.25 * static_cast<double>(step),
                               .learning_rate = 1e-3 / static_cast<double>(step),
                               .items = 100 * step,
                               .items_per_second = 50.0 * static_cast<double>(step),
                               .step_seconds = 0.5,
                               .mfu = 0.25,
                               .peak_flops_per_second = 2e11,
                               .memory_bytes = 1000 * (4 - step)});
    }
    writer.write(EvaluationMetrics{.step = 3, .validation_loss = 6.25});
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

TEST_F(SummaryTest, FiguresOfTheRun) {
  write_run();
  const Json summary = summarize_run(folder_);
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["tokens"], 300);
  EXPECT_EQ(summary["loss"], 6.0);
  EXPECT_EQ(summary["validation_loss"], 6.25);
  EXPECT_EQ(summary["learning_rate"], 1e-3 / 3);
  EXPECT_EQ(summary["gradient_norm"], 0.75);
  EXPECT_EQ(summary["unigram_loss"], 6.5);
  EXPECT_EQ(summary["tokens_per_second"], 100.0);
  EXPECT_EQ(summary["memory_bytes"], 3000);
  EXPECT_EQ(summary["files"].size(), 2u);
}

TEST_F(SummaryTest, LossOfEachCorpus) {
  write_run();
  EXPECT_EQ(summarize_run(folder_)["validation_loss_by_dataset"], Json::object());
  MetricsWriter(folder_, 3, {.names = {.items = "tokens"}})
      .write(EvaluationMetrics{
          .step = 3, .validation_loss = 6, .by_dataset = {{"data/a", 7}, {"data/long/name/of/b", 5.5}}});
  EXPECT_EQ(summarize_run(folder_)["validation_loss_by_dataset"],
            Json({{"data/a", 7.0}, {"data/long/name/of/b", 5.5}}));
  const std::string text = draw_summary(folder_);
  EXPECT_NE(text.find("\n    data/a          7.000\n"), std::string::npos) << text;
  EXPECT_NE(text.find("data/long/name/of/b 5.500\n"), std::string::npos) << text;
}

// A line that was cut off, or is of another version, neither stops the summary nor counts in it.
TEST_F(SummaryTest, LeavesOutLinesThatLackKeysAndNumbersThatAreNotKnown) {
  write_run();
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << "{\"step\":4,\"step_seconds\":9.5}\n"
                                                          << "{\"step\":3,\"validation_loss\":6.0}\n";
  MetricsWriter(folder_, 4, {.names = {.items = "tokens"}})
      .write(StepMetrics{.step = 4, .loss = std::nan(""), .items = 400});
  const Json summary = summarize_run(folder_);
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["tokens"], 400);
  EXPECT_EQ(summary["loss"], 6.0);
  EXPECT_EQ(summary["validation_loss"], 6.0);
  EXPECT_EQ(summary["mfu"], 0.25);
  EXPECT_NE(draw_summary(folder_).find("6.000 nats"), std::string::npos);
}

// A step of the part that was resumed showed that the peak is 4e11: half of what the steps before it thought they
// reached.
TEST_F(SummaryTest, CountsEveryStepAgainstTheHighestPeak) {
  write_run();
  MetricsWriter(folder_, 3, {.names = {.items = "tokens"}})
      .write(StepMetrics{
          .step = 4, .loss = 5, .items = 400, .step_seconds = 0.5, .mfu = 1.0, .peak_flops_per_second = 4e11});
  const Json summary = summarize_run(folder_);
  EXPECT_EQ(summary["peak_flops_per_second"], 4e11);
  EXPECT_EQ(summary["mfu"], 0.125);
}

TEST_F(SummaryTest, ShowsBothLossesAndTheParameters) {
  write_run();
  const std::string text = draw_summary(folder_);
  EXPECT_NE(text.find("6.250 nats"), std::string::npos) << text;
  EXPECT_NE(text.find("6.500 nats"), std::string::npos) << text;
  EXPECT_NE(text.find("1,234,567"), std::string::npos) << text;
}

// 1 MiB and 512 KiB on top of a run.json and a metrics.jsonl of less than 5 KiB together: 1.5 MiB.
TEST_F(SummaryTest, ShowsTheFolderAndItsSizeAndListsTheFilesOnlyOnRequest) {
  write_run();
  const std::string checkpoint = (folder_ / "step_3").string();
  std::filesystem::create_directory(checkpoint);
  write_text_atomically(checkpoint + "/model.safetensors", std::string(1 << 20, 'm'));
  write_text_atomically(checkpoint + "/optimizer.safetensors", std::string(1 << 19, 'o'));
  write_text_atomically(folder_ / ".lock", "not one of the run's results");

  const std::string text = draw_summary(folder_);
  EXPECT_NE(text.find("folder            " + folder_.string() + ", 1.5 MiB in 4 files\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("metrics.jsonl"), std::string::npos) << text;
  EXPECT_EQ(text.find("model.safetensors"), std::string::npos) << text;

  const std::string files = draw_files(folder_);
  EXPECT_NE(files.find("   1.0 MiB  " + checkpoint + "/model.safetensors\n"), std::string::npos) << files;
  EXPECT_NE(files.find(" 512.0 KiB  " + checkpoint + "/optimizer.safetensors\n"), std::string::npos) << files;
  EXPECT_NE(files.find((folder_ / "metrics.jsonl").string() + "\n"), std::string::npos) << files;
  EXPECT_EQ(files.find(".lock"), std::string::npos) << files;
  EXPECT_EQ(std::ranges::count(files, '\n'), 1 + 4) << files;  // a heading and the files

  const Json summary = summarize_run(folder_);
  EXPECT_EQ(summary["folder"], folder_.string());
  EXPECT_EQ(summary["files"].size(), 4u);
  EXPECT_EQ(summary["folder_bytes"], (1 << 20) + (1 << 19) + std::filesystem::file_size(folder_ / "run.json") +
                                         std::filesystem::file_size(folder_ / "metrics.jsonl"));
}

TEST_F(SummaryTest, RefusesAFolderWithoutARun) {
  EXPECT_THROW(draw_files(folder_), UserError);
  try {
    summarize_run(folder_);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("run.json"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace terrace::observe
