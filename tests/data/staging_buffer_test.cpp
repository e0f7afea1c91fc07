// The buffer gives the bytes that were published, or none; a failing disk is left; nothing stays behind.
#include "terrace/data/staging/staging_buffer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "terrace/data/staging/extents.h"
#include "tests/data/stage_files.h"

namespace terrace::data {
namespace {

using testing::HasSubstr;

TEST(Extents, FilesAreNumberedThrough) {
  const Extents extents({10, 0, 4, 5}, 4);
  EXPECT_EQ(extents.count(), 3u + 0 + 1 + 2);
  EXPECT_EQ(extents.bytes(), 19u);
  EXPECT_EQ(extents.place(2), (Extents::Place{0, 8, 2}));
  EXPECT_EQ(extents.place(3), (Extents::Place{2, 0, 4}));
  EXPECT_EQ(extents.place(5), (Extents::Place{3, 4, 1}));
  std::vector<std::vector<uint64_t>> parts;
  extents.for_each_part(0, 3, 6, [&](const Extents::Part& part) {
    parts.push_back({part.extent, part.begin, part.bytes});
  });
  EXPECT_EQ(parts, (std::vector<std::vector<uint64_t>>{{0, 3, 1}, {1, 0, 4}, {2, 0, 1}}));
}

TEST(Extents, AreLargeWhereAllOfThemAreReadAndFit) {
  constexpr uint64_t mib = 1 << 20;
  const ExtentRequest whole{
      .file_bytes = {50 * mib}, .buffer_bytes = 50 * mib, .read_bytes = 50 * mib, .record_bytes = 5000};
  EXPECT_EQ(extent_bytes_for(whole), mib);
  ExtentRequest too_small = whole, short_run = whole;
  too_small.buffer_bytes -= 1;
  short_run.read_bytes -= 1;
  EXPECT_EQ(extent_bytes_for(too_small), 8192u);
  EXPECT_EQ(extent_bytes_for(short_run), 8192u);
  too_small.record_bytes = 10;
  EXPECT_EQ(extent_bytes_for(too_small), 4096u);
  too_small.record_bytes = 100 * mib;
  EXPECT_EQ(extent_bytes_for(too_small), mib);
  too_small.record_bytes = 10;
  too_small.file_bytes = {uint64_t{1} << 44};  // 16 TiB in at most 4 Mi extents
  EXPECT_EQ(extent_bytes_for(too_small), 4 * mib);
}

class StagingBuffers : public testing::Test {
 protected:
  std::unique_ptr<StagingBuffer> made(const std::string& name, uint64_t extent_bytes = 8, uint64_t slots = 4) {
    auto buffer = std::make_unique<StagingBuffer>(folder_ / "disk", name);
    buffer->make({.extent_bytes = extent_bytes, .slots = slots, .extents = 100, .readers = 2});
    return buffer;
  }
  static std::vector<std::byte> bytes(const std::string& text) {
    const auto all = std::as_bytes(std::span(text));
    return {all.begin(), all.end()};
  }
  static std::string text(const StagingBuffer& buffer, uint32_t extent, uint64_t begin = 0, size_t count = 8) {
    std::string read(count, '-');
    return buffer.read(extent, begin, std::as_writable_bytes(std::span(read))) ? read : "none";
  }
  std::string unique() { return TestStage::unique_name(); }

  TemporaryFolder folder_;
};

TEST_F(StagingBuffers, AnotherProcessReadsWhatIsPublished) {
  const std::string name = unique();
  const auto buffer = made(name);
  StagingBuffer other(folder_ / "disk", name);
  other.open();
  EXPECT_EQ(text(other, 7), "none");
  EXPECT_EQ(buffer->write(2, bytes("abcdefgh")), 0);
  EXPECT_EQ(text(other, 7), "none");
  buffer->publish(7, 2);
  EXPECT_EQ(text(other, 7), "abcdefgh");
  EXPECT_EQ(text(other, 7, 3, 2), "de");
  EXPECT_EQ(text(other, 6), "none");
  buffer->withdraw(7);
  EXPECT_EQ(text(other, 7), "none");
  buffer->begin_step(0, 5);
  other.begin_step(1, 3);
  EXPECT_EQ(buffer->least_step(), 3);
  buffer->count(0, {.staged_bytes = 1, .source_bytes = 2, .source_nanoseconds = 3});
  other.count(1, {.staged_bytes = 10, .source_bytes = 20, .source_nanoseconds = 30});
  EXPECT_EQ(buffer->counts(), (StageCounts{11, 22, 33}));
}

TEST_F(StagingBuffers, LeaveNoNames) {
  const std::string name = unique();
  const auto buffer = made(name);
  buffer->write(0, bytes("abcdefgh"));
  buffer->publish(0, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "disk/terrace-stage-" + name));
  buffer->remove_names();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "disk"));
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/terrace-stage-" + name));
  EXPECT_EQ(text(*buffer, 0), "abcdefgh");
  StagingBuffer late(folder_ / "disk", name);
  EXPECT_THAT(user_error([&] { late.open(); }), HasSubstr("is not seen here"));
}

// Files that a killed run leaves are removed by the next one, but not those that another one is making.
TEST_F(StagingBuffers, LeftoversAreRemoved) {
  folder_.write("disk/terrace-stage-old", "x");
  folder_.write("disk/terrace-stage-young", "x");
  folder_.write("disk/notes", "x");
  std::filesystem::last_write_time(folder_ / "disk/terrace-stage-old",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  std::filesystem::last_write_time(folder_ / "disk/notes",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  made(unique());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "disk/terrace-stage-old"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "disk/terrace-stage-young"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "disk/notes"));
}

TEST_F(StagingBuffers, ADiskThatFailsIsLeft) {
  const std::string name = unique();
  const auto buffer = made(name);
  buffer->write(0, bytes("abcdefgh"));
  buffer->write(1, bytes("ijklmnop"));
  buffer->publish(3, 0);
  buffer->publish(4, 1);
  std::filesystem::resize_file(folder_ / "disk/terrace-stage-" + name, 10);
  EXPECT_EQ(text(*buffer, 3), "abcdefgh");
  EXPECT_EQ(text(*buffer, 4), "none");
  EXPECT_TRUE(buffer->lost());
  EXPECT_EQ(text(*buffer, 3), "none");
}

TEST_F(StagingBuffers, FoldersThatCannotBeUsedAreRefused) {
  StagingBuffer buffer("/proc/terrace", unique());
  EXPECT_THAT(user_error([&] { buffer.make({.extent_bytes = 8, .slots = 1, .extents = 1, .readers = 1}); }),
              testing::AllOf(HasSubstr("data.stage = \"/proc/terrace\": the folder cannot be made"),
                             HasSubstr("leave data.stage out")));
}

// Readers see an extent's own bytes or none, while others take its slot.
TEST_F(StagingBuffers, ReplacedExtentsAreNeverMixedUp) {
  const auto buffer = made(unique(), 4096, 2);
  std::atomic<bool> ends = false;
  std::atomic<int64_t> read = 0;
  std::vector<std::thread> readers;
  for (int thread = 0; thread < 2; ++thread) {
    readers.emplace_back([&] {
      std::vector<std::byte> bytes(4096);
      while (!ends) {
        for (uint32_t extent = 0; extent < 10; ++extent) {
          if (!buffer->read(extent, 0, bytes)) continue;
          ++read;
          for (const std::byte byte : bytes) ASSERT_EQ(byte, static_cast<std::byte>(extent));
        }
      }
    });
  }
  std::vector<uint32_t> in_slot = {0, 1};
  for (uint32_t copy = 0; copy < 20'000 || read < 1000; ++copy) {
    const uint32_t slot = copy % 2, extent = (copy * 7) % 10;
    if (extent == in_slot[1 - slot]) continue;
    buffer->withdraw(in_slot[slot]);
    ASSERT_EQ(buffer->write(slot, std::vector<std::byte>(4096, static_cast<std::byte>(extent))), 0);
    buffer->publish(extent, slot);
    in_slot[slot] = extent;
  }
  ends = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace terrace::data
