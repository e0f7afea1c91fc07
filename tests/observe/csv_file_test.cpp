// metrics.csv: a row a step, also after a resume.
#include <gtest/gtest.h>

#include <cmath>

#include "terrace/base/files/file.h"
#include "terrace/observe/metrics.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

constexpr const char* header =
    "step,loss,gradient_norm,learning_rate,tokens,tokens_per_second,step_seconds,mfu,peak_flops_per_second,memory_"
    "bytes,"
    "validation_loss\n";

StepMetrics metrics_of(int64_t step) {
  return {.step = step, .loss = 0.1, .gradient_norm = std::nan(""), .learning_rate = 3e-4, .items = 64 * step};
}

std::string row(int64_t step, const std::string& validation = "") {
  return std::to_string(step) + ",0.1,,0.0003," + std::to_string(64 * step) + ",0,0,,,0," + validation + "\n";
}

TEST(Csv, RowPerStepWithEvaluation) {
  const ScratchFolder scratch;
  {
    MetricsWriter writer(scratch / "run", 0, {.csv = true, .names = {.items = "tokens"}});
    writer.write(metrics_of(1));
    writer.write(metrics_of(2));
    writer.write(EvaluationMetrics{.step = 2, .validation_loss = 4.5});
    writer.write(metrics_of(3));
    EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1) + row(2, "4.5"));
    writer.write(EvaluationMetrics{.step = 4, .validation_loss = 4.25});  // of a step that was passed over
  }
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1) + row(2, "4.5") + row(3) + "4,,,,,,,,,,4.25\n");
}

TEST(Csv, AResumedRunHasEachStepOnce) {
  const ScratchFolder scratch;
  {
    MetricsWriter writer(scratch / "run", 0, {.csv = true, .names = {.items = "tokens"}});
    for (int64_t step = 1; step <= 5; ++step) writer.write(metrics_of(step));
    writer.write(EvaluationMetrics{.step = 3, .validation_loss = 4.5});
  }
  {
    MetricsWriter writer(scratch / "run", 3, {.csv = true, .names = {.items = "tokens"}});
    EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1) + row(2) + row(3, "4.5"));
    writer.write(metrics_of(4));
  }
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1) + row(2) + row(3, "4.5") + row(4));
}

TEST(Csv, EnabledOnResumeHasTheEarlierSteps) {
  const ScratchFolder scratch;
  MetricsWriter(scratch / "run", 0, {.names = {.items = "tokens"}}).write(metrics_of(1));
  {
    MetricsWriter writer(scratch / "run", 1, {.csv = true, .names = {.items = "tokens"}});
    writer.write(metrics_of(2));
  }
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1) + row(2));
}

// The checkpoint of a step, for which the lines up to it are made durable, comes before the step's evaluation.
TEST(Csv, AnEvaluationAfterItsStepWasMadeDurableStandsInTheStepsRow) {
  const ScratchFolder scratch;
  {
    MetricsWriter writer(scratch / "run", 0, {.csv = true, .names = {.items = "tokens"}});
    writer.write(metrics_of(1));
    writer.sync();
    writer.write(EvaluationMetrics{.step = 1, .validation_loss = 4.5});
    writer.write(metrics_of(2));
    writer.sync();
  }
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1, "4.5") + row(2));
  // Killed before the evaluation of step 2, which the resumed run makes first.
  MetricsWriter(scratch / "run", 2, {.csv = true, .names = {.items = "tokens"}})
      .write(EvaluationMetrics{.step = 2, .validation_loss = 4.25});
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), header + row(1, "4.5") + row(2, "4.25"));
}

TEST(Csv, ColumnPerCorpus) {
  const ScratchFolder scratch;
  const MetricsFormats formats{.csv = true, .datasets = {"data/a", "one, \"two\""}, .names = {.items = "tokens"}};
  const std::string names = std::string(header).substr(0, std::string(header).size() - 1) +
                            ",validation_loss of data/a,\"validation_loss of one, \"\"two\"\"\"\n";
  {
    MetricsWriter writer(scratch / "run", 0, formats);
    writer.write(metrics_of(1));
    writer.write(metrics_of(2));
    writer.write(
        EvaluationMetrics{.step = 2, .validation_loss = 4.5, .by_dataset = {{"data/a", 4}, {"one, \"two\"", 5}}});
    writer.write(metrics_of(3));
    writer.write(EvaluationMetrics{.step = 3, .validation_loss = 4, .by_dataset = {{"data/a", 4}}});
  }
  const std::string rows = row(1, ",,") + row(2, "4.5,4,5") + row(3, "4,4,");
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), names + rows);
  { const MetricsWriter again(scratch / "run", 3, formats); }
  EXPECT_EQ(read_text(scratch / "run/metrics.csv"), names + rows);
}

}  // namespace
}  // namespace terrace::observe
