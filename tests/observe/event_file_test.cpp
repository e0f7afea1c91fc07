// Event files: checksums of the standard, frames, and what TensorBoard's own package reads, also after a resume.
#include "terrace/observe/event_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/observe/metrics.h"
#include "tests/paths.h"
#include "tests/scratch_folder.h"

namespace terrace::observe {
namespace {

TEST(Crc32c, MatchesTheStandard) {
  // RFC 3720, appendix B.4, and the check value of the polynomial.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventFile, FramesHaveTheLengthAndTwoChecksums) {
  const std::string frame = tfrecord("abc");
  ASSERT_EQ(frame.size(), 8u + 4u + 3u + 4u);
  EXPECT_EQ(frame.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(frame.substr(12, 3), "abc");
}

// Reads a folder with TensorBoard's reader, which checks the checksums: {tag: [[step, value or null], ..]}.
Json read_by_tensorboard(const std::filesystem::path& folder) {
  const std::filesystem::path program = folder.parent_path() / "read.py", result = folder.parent_path() / "read.json";
  std::ofstream(program) << R"(import json, math, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
found = {tag: [[e.step, None if math.isnan(e.value) else e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
json.dump({"scalars": found, "version": events.file_version if hasattr(events, "file_version") else None}, open(sys.argv[2], "w"))
)";
  const std::string command = fmt::format("'{}' '{}' '{}' '{}' 2>'{}.log'", tests::python(), program.string(),
                                          folder.string(), result.string(), result.string());
  EXPECT_EQ(std::system(command.c_str()), 0) << read_text(result.string() + ".log");
  return Json::parse(read_text(result))["scalars"];
}

StepMetrics metrics_of(int64_t step, double loss) {
  return {.step = step, .loss = loss, .gradient_norm = 0.5, .learning_rate = 3e-4, .items = 64 * step};
}

TEST(EventFile, TensorBoardReadsEachStepOfAResumedRunOnce) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = scratch / "run";
  {
    MetricsWriter writer(folder, 0, {.tensorboard = true, .names = {.items = "tokens"}});
    for (int64_t step = 1; step <= 7; ++step) {
      writer.write(metrics_of(step, 10.0));
      if (step == 2) writer.write(EvaluationMetrics{.step = step, .validation_loss = 9.75});
    }
  }
  {
    // Killed after step 7; the newest checkpoint is of step 4.
    MetricsWriter writer(folder, 4, {.tensorboard = true, .names = {.items = "tokens"}});
    // The evaluation of the step that the run continues from.
    writer.write(EvaluationMetrics{.step = 4, .validation_loss = 9.5, .by_dataset = {{"data/a", 9}, {"data/b", 10}}});
    for (int64_t step = 5; step <= 9; ++step) {
      writer.write(metrics_of(step, step == 8 ? std::nan("") : 2.0));
    }
    writer.sync();
  }
  const Json scalars = read_by_tensorboard(folder / "tensorboard");
  const Json expected = {{1, 10.0}, {2, 10.0}, {3, 10.0},    {4, 10.0}, {5, 2.0},
                         {6, 2.0},  {7, 2.0},  {8, nullptr}, {9, 2.0}};
  EXPECT_EQ(scalars["train/loss"], expected);
  EXPECT_EQ(scalars["validation/loss"], Json({{2, 9.75}, {4, 9.5}}));
  EXPECT_EQ(scalars["validation/loss/data/b"], Json({{4, 10.0}}));
  EXPECT_EQ(scalars["train/tokens"][8], Json({9, 576.0}));
  EXPECT_FLOAT_EQ(scalars["train/learning_rate"][0][1].get<float>(), 3e-4f);
  EXPECT_FALSE(scalars.contains("train/mfu"));  // not known, so not shown
}

TEST(EventFile, ALaterFileComesLaterInTheOrderOfNames) {
  const ScratchFolder folder;
  std::filesystem::path last;
  for (int i = 0; i < 3; ++i) {
    const EventFile file(folder.path(), i);
    EXPECT_LT(last.filename().string(), file.path().filename().string());
    last = file.path();
  }
}

}  // namespace
}  // namespace terrace::observe
