// Mapped files, and atomic files: complete, interrupted and failed writing.
#include "terrace/base/files/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <system_error>

#include "terrace/base/error.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

class Files : public testing::Test {
 protected:
  // All names in the folder, including hidden files.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) result.push_back(entry.path().filename());
    return result;
  }

  ScratchFolder scratch_;
  std::filesystem::path folder_ = scratch_.path();
};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(Files, AMappingShowsTheWholeFile) {
  const std::string content = std::string("a\0b\xff\n", 5) + std::string(100'000, 'x');
  std::ofstream(folder_ / "data", std::ios::binary) << content;
  const MappedFile file(folder_ / "data");
  EXPECT_EQ(text_of(file), content);
  EXPECT_EQ(file.path(), folder_ / "data");
  EXPECT_EQ(read_text(folder_ / "data"), content);
}

TEST_F(Files, AnEmptyFileMapsToNoBytes) {
  std::ofstream(folder_ / "empty").close();
  EXPECT_TRUE(MappedFile(folder_ / "empty").bytes().empty());
  EXPECT_EQ(read_text(folder_ / "empty"), "");
}

TEST_F(Files, UnmappablePathIsAUserErrorThatNamesIt) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);  // it has no writer, so that a blocking open would wait
  for (const std::filesystem::path& path :
       {folder_ / "missing", folder_, folder_ / "pipe", std::filesystem::path("/dev/null")}) {
    try {
      const MappedFile file(path);
      FAIL() << path;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
}

TEST_F(Files, AMappingCanBeMoved) {
  write_text_atomically(folder_ / "one", "first");
  write_text_atomically(folder_ / "two", "second");
  MappedFile one(folder_ / "one");
  MappedFile moved(std::move(one));
  EXPECT_EQ(text_of(moved), "first");
  moved = MappedFile(folder_ / "two");
  EXPECT_EQ(text_of(moved), "second");
}

TEST_F(Files, AnAtomicFileAppearsOnlyWhenCommitted) {
  AtomicFile file(folder_ / "out");
  file.write("half ");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  EXPECT_TRUE(std::filesystem::exists(file.temporary_path()));
  file.write("whole");
  EXPECT_EQ(file.written(), 10u);
  file.commit();
  EXPECT_EQ(names(), (std::vector<std::string>{"out"}));
  EXPECT_EQ(read_text(folder_ / "out"), "half whole");
}

TEST_F(Files, UncommittedFileLeavesOnlyTheOldOne) {
  write_text_atomically(folder_ / "out", "old");
  {
    AtomicFile file(folder_ / "out");
    file.write("new");
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"out"}));
  EXPECT_EQ(read_text(folder_ / "out"), "old");
}

TEST_F(Files, AnExceptionLeavesNothing) {
  try {
    AtomicFile file(folder_ / "out");
    file.write("new");
    throw std::runtime_error("interrupted");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(Files, ACommitReplacesTheOldFile) {
  write_text_atomically(folder_ / "out", "a long old text");
  write_text_atomically(folder_ / "out", "new");
  EXPECT_EQ(read_text(folder_ / "out"), "new");
  EXPECT_EQ(names(), (std::vector<std::string>{"out"}));
}

TEST_F(Files, AMovedAtomicFileIsCommittedOnce) {
  AtomicFile file(folder_ / "out");
  file.write("one ");
  {
    AtomicFile moved(std::move(file));
    moved.write("two");
    EXPECT_EQ(moved.written(), 7u);
    moved.commit();
  }
  EXPECT_EQ(read_text(folder_ / "out"), "one two");
}

TEST_F(Files, MissingFoldersAreMade) {
  write_text_atomically(folder_ / "a" / "b" / "out", "x");
  EXPECT_EQ(read_text(folder_ / "a" / "b" / "out"), "x");
  write_text_atomically(folder_ / "file", "x");
  EXPECT_THROW(AtomicFile(folder_ / "file" / "out"), std::system_error);
}

// A limit on the size of files simulates a full disk.
TEST_F(Files, AFailedWriteThrowsAndLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_text_atomically(folder_ / "out", std::string(100'000, 'x')), std::system_error);
  EXPECT_THROW(write_text_atomically(folder_ / "out", std::string(2'000, 'x')), std::system_error);  // fails in commit
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(names().empty());
}

// Two published values of XXH3 with 64 bits and seed 0.
TEST(Checksum, MatchesPublishedXxh3InHexadecimal) {
  EXPECT_EQ(checksum({}), "2d06800538d394c2");
  const std::string text = "a";
  EXPECT_EQ(checksum(std::as_bytes(std::span(text))), "e6c632b61e964e1f");
}

}  // namespace
}  // namespace terrace
