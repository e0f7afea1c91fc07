// Tests what noise scales say of batches against values worked out by hand, and how they are found in a run's metrics.
#include "terrace/observe/noise_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/observe/report_page.h"
#include "terrace/observe/summary.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

using ::testing::HasSubstr;

TEST(TradeOff, IsThatOfTheFormula) {
  // 1 + 96/64 = 2.5 and 1 + 96/128 = 1.75 times the fewest steps; 1 + 64/96 = 5/3 and 1 + 128/96 = 7/3 the samples.
  EXPECT_DOUBLE_EQ(steps_ratio(96, 128, 64), 0.7);
  EXPECT_DOUBLE_EQ(samples_ratio(96, 128, 64), 1.4);
  EXPECT_DOUBLE_EQ(steps_ratio(96, 64, 64), 1);
  EXPECT_DOUBLE_EQ(samples_ratio(96, 64, 64), 1);
  // Samples are steps times the batch.
  EXPECT_DOUBLE_EQ(samples_ratio(30, 1000, 8), steps_ratio(30, 1000, 8) * 1000 / 8);
}

class NoiseScaleOfFolder : public testing::Test {
 protected:
  void write_run(const std::vector<std::optional<double>>& scales) {
    const Json facts = {{"parameters", 10},           {"precision", "fp32"},    {"peak_name", "none"},
                        {"peak_flops_per_second", 0}, {"samples", "sequences"}, {"global_batch", 64}};
    write_text_atomically(folder_ / "run.json", facts.dump());
    MetricsWriter writer(folder_, 0, {.names = {.items = "tokens"}});
    for (size_t i = 0; i < scales.size(); ++i) {
      writer.write(StepMetrics{.step = static_cast<int64_t>(i + 1), .loss = 4, .noise_scale = scales[i]});
    }
  }

  std::string problem() const {
    try {
      read_noise_scale(folder_);
      return "";
    } catch (const UserError& error) {
      return error.what();
    }
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

TEST_F(NoiseScaleOfFolder, IsTheLastOneThatIsANumber) {
  write_run({50.0, std::nullopt, 96.0, std::nan("")});
  const RunMetrics metrics = read_metrics(folder_);
  EXPECT_EQ(metrics.steps.at(1).noise_scale, 50.0);
  EXPECT_FALSE(metrics.steps.at(2).noise_scale.has_value());
  EXPECT_TRUE(std::isnan(metrics.steps.at(4).noise_scale.value()));
  EXPECT_TRUE(metrics.names.figures.empty());  // it is no figure of the family
  const NoiseScaleAtStep last = read_noise_scale(folder_);
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(last.samples, 96);
}

TEST_F(NoiseScaleOfFolder, ASentenceOfTheSummaryComparesTheBatchWithTwiceTheBatch) {
  write_run({96.0});
  const Json summary = summarize_run(folder_);
  EXPECT_EQ(summary["noise_scale"], 96.0);
  EXPECT_EQ(summary["noise_scale_step"], 1);
  const std::string sentence =
      "96 sequences at step 1; twice the batch of 64 would take 70% of the steps and 1.40 times the sequences to the "
      "same loss";
  EXPECT_EQ(summary["noise_scale_text"], sentence);
  EXPECT_THAT(draw_summary(folder_), HasSubstr("noise scale       " + sentence));
  const Json run = report_data("", {read_reported_run(folder_)})["runs"].at(0);
  EXPECT_EQ(run["noise_scales"], Json::parse("[[1, 96]]"));
  EXPECT_EQ(run["figures"]["noise_scale_text"], sentence);
}

TEST_F(NoiseScaleOfFolder, RunsWithoutOneHaveNoSentence) {
  write_run({std::nullopt});
  EXPECT_FALSE(summarize_run(folder_).contains("noise_scale"));
  EXPECT_EQ(report_data("", {read_reported_run(folder_)})["runs"].at(0)["noise_scales"], Json::array());
}

TEST_F(NoiseScaleOfFolder, RefusesFoldersWithoutANumberWithTheWayOut) {
  write_run({std::nullopt, std::nullopt});
  EXPECT_THAT(problem(), HasSubstr("has no noise scale: none of the 2 steps in " + folder_.string()));
  EXPECT_THAT(problem(), HasSubstr("train.noise_scale_every=10"));
  write_run({std::nan(""), std::nullopt, std::nan("")});
  EXPECT_THAT(problem(), HasSubstr("the noise hid the gradient in all 2 measurements"));
  std::filesystem::remove(folder_ / "metrics.jsonl");
  EXPECT_THROW(read_noise_scale(folder_), std::exception);
}

}  // namespace
}  // namespace terrace::observe
