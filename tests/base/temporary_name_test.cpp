// Checks that writers of one name never share a temporary file, and what becomes of files that they leave behind.
#include "terrace/base/files/temporary_name.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "tests/scratch_folder.h"

namespace terrace {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const ScratchFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename());
  return names;
}

// The message with which removing is refused; empty where it is not.
std::string refusal(const fs::path& final_path) {
  try {
    remove_abandoned_partials(final_path);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

// Writers may be on two hosts or in two containers, whose processes have equal ids.
TEST(TemporaryName, UniqueForEachWriter) {
  std::set<fs::path> names;
  for (int i = 0; i < 100; ++i) names.insert(temporary_path("runs/model.bin"));
  EXPECT_EQ(names.size(), 100);
  EXPECT_EQ(names.begin()->parent_path(), "runs");
}

TEST(TemporaryName, LetsTwoWritersOfOneNameEachWriteAWholeFile) {
  const ScratchFolder folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  first.write("first, and longer");
  second.write("second");
  first.commit();
  EXPECT_EQ(read_text(folder / "a"), "first, and longer");
  second.commit();
  EXPECT_EQ(read_text(folder / "a"), "second");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"a"});
}

std::string left_by(const std::string& host, int64_t process_id) {
  return ".a." + host + "-" + std::to_string(process_id) + "-0123abcd.partial";
}

std::string this_host() {
  const std::string name = temporary_path("a").filename().string();
  return name.substr(3, name.find('-' + std::to_string(::getpid()) + '-') - 3);
}

TEST(AbandonedPartials, RemovesFilesOfEndedProcesses) {
  const ScratchFolder folder;
  const int64_t never_used = 1 << 23;  // above the largest process id of Linux
  write_text_atomically(folder / left_by(this_host(), never_used), "x");
  const std::string of_another_name = ".a.b" + left_by(this_host(), never_used).substr(2);
  write_text_atomically(folder / of_another_name, "x");
  remove_abandoned_partials(folder / "a");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{of_another_name});
}

TEST(AbandonedPartials, RefusesFilesOfARunningProcess) {
  const ScratchFolder folder;
  write_text_atomically(folder / left_by(this_host(), ::getppid()), "x");
  const std::string error = refusal(folder / "a");
  EXPECT_NE(error.find("process " + std::to_string(::getppid()) + " on "), std::string::npos) << error;
}

// Nobody here knows whether a process of another host runs.
TEST(AbandonedPartials, RefusesYoungFilesOfAnotherHostAndKeepsOldOnes) {
  const ScratchFolder folder;
  const fs::path other = folder / left_by("another-host", ::getpid());
  write_text_atomically(other, "x");
  EXPECT_NE(refusal(folder / "a").find("on another-host"), std::string::npos);
  fs::last_write_time(other, fs::file_time_type::clock::now() - std::chrono::minutes(11));
  remove_abandoned_partials(folder / "a");
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace terrace
