// The stager copies what steps will read, within its buffer, and stops with a message where it cannot go on.
#include "terrace/data/staging/stager.h"

#include <gmock/gmock.h>

#include "tests/data/stage_files.h"
#include "tests/file_size_limit.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

constexpr uint64_t extent = 4096;

class Staging : public testing::Test {
 protected:
  Staging() : file_(folder_.write("records", drawn_bytes(40 * extent + 100))) {}

  // Step s reads some bytes from the middle of extent s - 1, cyclically.
  FileRange record(int64_t step) const { return {&file_, static_cast<uint64_t>(step - 1) % 40 * extent + 1000, 300}; }
  TestStage stage(uint64_t slots, int64_t last_step) {
    return {folder_ / "disk", {&file_}, [this](int64_t step) { return FileRanges{record(step)}; },
            last_step,        extent,   slots};
  }
  // Whether the bytes of the step are right.
  void expect_right(const TestStage& stage, int64_t step) {
    const FileRange range = record(step);
    std::vector<std::byte> bytes(range.bytes);
    stage.reader->read(range, bytes);
    const auto right = file_.bytes().subspan(range.offset, range.bytes);
    EXPECT_TRUE(std::ranges::equal(bytes, right)) << step;
  }

  TemporaryFolder folder_;
  MappedFile file_;
};

TEST_F(Staging, CopiesAllThatStepsReadAndNothingElse) {
  const TestStage staged = stage(100, 15);
  ASSERT_TRUE(wait_for([&] { return staged.buffer->copied_bytes() == 15 * extent; }));
  for (int64_t step = 1; step <= 15; ++step) expect_right(staged, step);
  EXPECT_EQ(staged.buffer->counts().staged_bytes, 15u * 300);
  EXPECT_EQ(staged.buffer->counts().source_bytes, 0u);
  expect_right(staged, 20);
  EXPECT_EQ(staged.buffer->counts().source_bytes, 300u);
}

TEST_F(Staging, ASmallBufferFollowsTheSteps) {
  const TestStage staged = stage(8, 120);
  for (int64_t step = 1; step <= 120; ++step) {
    staged.buffer->begin_step(0, step);
    const uint64_t before = staged.buffer->counts().staged_bytes;
    ASSERT_TRUE(wait_for([&] {
      expect_right(staged, step);
      return staged.buffer->counts().staged_bytes > before;
    })) << step;
  }
  // All 40 once, and in each later pass those that did not stay.
  EXPECT_GE(staged.buffer->copied_bytes(), 40 * extent);
  EXPECT_LE(staged.buffer->copied_bytes(), 120 * extent);
}

TEST_F(Staging, TheLastExtentIsShorter) {
  const FileRange end{&file_, 40 * extent + 10, 90};
  const TestStage staged(
      folder_ / "disk", {&file_}, [&](int64_t) { return FileRanges{end}; }, 1, extent, 2);
  ASSERT_TRUE(wait_for([&] { return staged.buffer->copied_bytes() == 100; }));
  std::vector<std::byte> bytes(90);
  staged.reader->read(end, bytes);
  EXPECT_TRUE(std::ranges::equal(bytes, file_.bytes().last(90)));
  EXPECT_EQ(staged.buffer->counts().staged_bytes, 90u);
}

// The system refuses to make the file larger, as a full disk does.
TEST_F(Staging, AFullDiskKeepsWhatIsThere) {
  testing::internal::CaptureStdout();
  {
    const FileSizeLimit limit(5 * extent);
    const TestStage staged = stage(100, 30);
    ASSERT_TRUE(wait_for([&] { return staged.buffer->copied_bytes() == 5 * extent; }));
    for (int64_t step = 1; step <= 30; ++step) expect_right(staged, step);
    EXPECT_EQ(staged.buffer->counts().staged_bytes, 5u * 300);
    EXPECT_EQ(staged.buffer->counts().source_bytes, 25u * 300);
  }
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("is full"));
}

TEST_F(Staging, ALostDiskIsLeftForTheSource) {
  const TestStage staged = stage(100, 30);
  ASSERT_TRUE(wait_for([&] { return staged.buffer->copied_bytes() == 30 * extent; }));
  testing::internal::CaptureStdout();
  const auto names = std::filesystem::directory_iterator(folder_ / "disk");
  std::filesystem::resize_file(names->path(), 0);
  for (int64_t step = 1; step <= 30; ++step) expect_right(staged, step);
  EXPECT_EQ(staged.buffer->counts().staged_bytes, 0u);
  const std::string log = testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, HasSubstr("the data are read from their source from here on"));
  EXPECT_EQ(log.find("read any more"), log.rfind("read any more"));  // said once
}

TEST_F(Staging, ASourceThatChangesIsStagedNoMore) {
  testing::internal::CaptureStdout();
  {
    TestStage staged(
        folder_ / "disk", {&file_},
        [this](int64_t step) {
          if (step == 3) {
            std::filesystem::last_write_time(file_.path(),
                                             std::filesystem::file_time_type::clock::now() - std::chrono::hours(5));
          }
          return FileRanges{record(step)};
        },
        30, extent, 100);
    ASSERT_TRUE(wait_for([&] { return staged.buffer->copied_bytes() >= extent; }));
    for (int64_t step = 1; step <= 30; ++step) expect_right(staged, step);
    EXPECT_LE(staged.buffer->copied_bytes(), 2 * extent);
  }
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("was changed while the run trains"));
}

}  // namespace
}  // namespace terrace::data
