// Checks that the pictures of docs/schedules.md are those that the code draws.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/config/names.h"
#include "terrace/schedule/pipeline/picture.h"
#include "tests/paths.h"

namespace terrace::schedule {
namespace {

using config::PipelineSchedule;

const std::filesystem::path docs = tests::source_dir() / "docs";

Pipeline drawn(PipelineSchedule schedule) {
  const bool two = schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::zb_v;
  return {schedule, 4, 8, two ? 2 : 1};
}

class Pictures : public testing::TestWithParam<PipelineSchedule> {
 protected:
  std::string name() const { return fmt::format("pictures/{}.svg", config::name_of(GetParam())); }
};

// With TERRACE_UPDATE_DOCS=1 the test writes the pictures.
TEST_P(Pictures, UpToDateAndInThePage) {
  const std::string now = picture(drawn(GetParam()));
  if (std::getenv("TERRACE_UPDATE_DOCS") != nullptr) {
    std::filesystem::create_directories(docs / "pictures");
    write_text_atomically(docs / name(), now);
  }
  EXPECT_EQ(read_text(docs / name()), now) << "run this test with TERRACE_UPDATE_DOCS=1";
  EXPECT_NE(read_text(docs / "schedules.md").find("](" + name() + ")"), std::string::npos);
}

size_t count(const std::string& text, const std::string& part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

// Four stages and eight micro-batches have 32 forwards and 32 backwards per chunk, or 32 input gradients and 32 weight
// gradients in place of the backwards.
TEST_P(Pictures, BoxForEachComputation) {
  const Pipeline pipeline = drawn(GetParam());
  const bool split = GetParam() == PipelineSchedule::zb_h1 || GetParam() == PipelineSchedule::zb_v;
  const auto boxes = static_cast<size_t>(4 * 8 * pipeline.chunks * (split ? 3 : 2));
  EXPECT_EQ(count(picture(pipeline), "class=\"box "), boxes);
}

INSTANTIATE_TEST_SUITE_P(EachSchedule, Pictures,
                         testing::Values(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                         PipelineSchedule::interleaved, PipelineSchedule::zb_h1,
                                         PipelineSchedule::zb_v));

}  // namespace
}  // namespace terrace::schedule
