// Ranks of a preparation as processes, which can be killed and exchange texts by files of a folder.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {

class FolderRanks : public PrepareRanks {
 public:
  FolderRanks(std::filesystem::path folder, int64_t rank, int64_t size)
      : folder_(std::move(folder)), rank_(rank), size_(size) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t cores() const override { return 1; }
  std::vector<std::string> gather(const std::string& own) override {
    const auto path = [&](int64_t rank) { return folder_ / fmt::format("{}_of_{}", calls_, rank); };
    write_text_atomically(path(rank_), own);
    std::vector<std::string> all;
    for (int64_t rank = 0; rank < size_; ++rank) {
      while (!std::filesystem::exists(path(rank))) std::this_thread::sleep_for(std::chrono::microseconds(200));
      all.push_back(read_text(path(rank)));
    }
    ++calls_;
    return all;
  }

 private:
  std::filesystem::path folder_;
  int64_t rank_, size_, calls_ = 0;
};

// Starts a process for each rank. Each writes the text of its error, or "", into text_RANK of the folder.
inline std::vector<pid_t> start_ranks(const std::filesystem::path& shared, int64_t ranks,
                                      const std::function<void(PrepareRanks&)>& prepare) {
  std::filesystem::create_directories(shared);
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      FolderRanks all(shared, rank, ranks);
      std::string text;
      int code = 0;
      try {
        prepare(all);
      } catch (const UserError& error) {
        text = error.what();
        code = static_cast<int>(error.code);
      } catch (const std::exception& error) {
        text = error.what();
        code = 99;
      }
      write_text_atomically(shared / fmt::format("text_{}", rank), text);
      ::_exit(code);
    }
    children.push_back(child);
  }
  return children;
}

// The exit codes, of which those of killed processes are -1.
inline std::vector<int> ended_ranks(const std::vector<pid_t>& children) {
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

}  // namespace terrace::data
