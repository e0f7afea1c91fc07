// Keeps what ranks have made of the input files in a folder beside the dataset, so that others continue after a kill.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {

struct PartInput {
  std::filesystem::path path = {};
  uint64_t bytes = 0;         // on disk
  std::string identity = {};  // a checksum of path, size and time of change; "" of a pipe, which gives its bytes once
};

// Returns the input with its identity as the file is now.
PartInput part_input(const std::filesystem::path& path);

// Returns the rank of each piece of work, by its size: from the largest piece to the smallest, each goes to the rank
// with the least work so far (ties: the first). By Graham (SIAM J. Appl. Math. 17, 1969) no rank has more than 4/3 of
// the best division's.
std::vector<int64_t> ranks_by_size(std::span<const uint64_t> sizes, int64_t ranks);

// A range of bytes in a file of the folder.
struct PartRange {
  std::string file = {};
  uint64_t offset = 0, bytes = 0;
};

// The part that was made of an input file: one range for each channel, and facts of the caller.
struct FilePart {
  std::vector<PartRange> ranges = {};
  std::string facts = {};  // UTF-8
};

// The folder P.parts of the prefix P. Each rank appends what it makes to files of its own there, one for each channel,
// and records from time to time which input files it has finished. The parts of finished input files survive a kill,
// and also the end by an exception, until remove() or discard(); where no input file was finished the destructor
// removes the folder. Write errors throw std::system_error.
class FileParts {
 public:
  struct Plan {
    std::string identity =
        {};  // says what is made of a file: flags and the like; parts with another one are not continued
    std::vector<PartInput> inputs = {};
    Json more = {};  // what the other ranks have to know
  };
  static std::filesystem::path folder_of(const std::string& prefix);

  // All ranks construct it together. Nothing is written yet.
  FileParts(PrepareRanks& ranks, const std::string& prefix, std::vector<std::string> channels,
            double seconds_between_records);
  FileParts(const FileParts&) = delete;
  ~FileParts();

  // Takes what an earlier preparation left or, without `resume`, removes it; then tells the other ranks. Called on the
  // first rank. Throws UserError where the parts that were left have another identity.
  void begin(Plan plan, bool resume);
  // Begins on the other ranks, behind begin() on the first one. Throws UserError where they do not see the folder.
  void join();

  const std::filesystem::path& folder() const { return folder_; }
  const Plan& plan() const { return plan_; }
  uint64_t bytes_kept() const { return bytes_kept_; }  // of the input files that were finished before this preparation
  uint64_t bytes_left() const { return bytes_left_; }  // of the input files that were not, for all ranks
  // Returns the bytes that all ranks have done, with those kept, where this rank has done so many of its own: the
  // others are taken to have done as large a share of theirs.
  uint64_t bytes_done(uint64_t own) const;
  // This rank's input files, ascending: numbers in plan().inputs.
  const std::vector<size_t>& own() const { return own_; }

  void append(size_t channel, std::span<const std::byte> bytes);
  // Finishes an input file: all that was appended since the last call is of this file, and is complete.
  void finish_file(size_t input, std::string facts);
  // Makes all finished files durable.
  void record();

  // Runs each rank's part of the work as on_all_ranks() does. Where the part throws on a rank, is_stopped() becomes
  // true on the others within a second, so that they end early.
  void work_on_all_ranks(const std::function<void()>& part);
  void stop_others();
  bool is_stopped();

  // Returns the part of each input file. Called on the first rank, once all ranks have recorded everything.
  std::vector<FilePart> collect() const;
  // Removes the folder. Called on all ranks, once the dataset is complete.
  void remove();
  // Removes the folder after a refusal, so that nothing is kept. Called on all ranks.
  void discard();

 private:
  using Clock = std::chrono::steady_clock;
  using Parts = std::map<std::string, FilePart>;  // by the identities of input files
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Channel {
    std::string file;
    std::unique_ptr<std::FILE, Close> open;
    uint64_t written = 0, finished = 0;
  };
  std::filesystem::path journal_path(int64_t attempt, int64_t rank) const;
  bool read_journal(const std::filesystem::path& path, Parts& parts) const;
  int64_t read_left_over();
  void open(int64_t attempt);
  void share_out(const std::vector<size_t>& left);
  void leave_or_tidy() noexcept;

  PrepareRanks& ranks_;
  std::filesystem::path folder_;
  std::vector<std::string> names_;
  double seconds_;
  std::string start_;  // a name of this preparation, the same on all ranks
  int64_t attempt_ = 0;
  Plan plan_;
  Parts kept_;
  uint64_t bytes_kept_ = 0, bytes_left_ = 0, own_bytes_ = 0;
  std::vector<size_t> own_;
  std::vector<Channel> channels_;
  std::string journal_ = {};  // a line of JSON for each finished file
  bool is_open_ = false, is_removed_ = false, is_stopped_ = false;
  Clock::time_point recorded_ = Clock::now(), looked_ = Clock::now();
};

// Copies bytes of other files into one, at any place. Throws std::system_error.
class RangeCopy {
 public:
  explicit RangeCopy(std::filesystem::path to);
  RangeCopy(const RangeCopy&) = delete;
  ~RangeCopy();
  void copy(const std::filesystem::path& from, const PartRange& range, uint64_t offset);
  // Makes all that was copied durable.
  void sync() const;

 private:
  std::filesystem::path to_, from_ = {};
  int out_ = -1, in_ = -1;
  std::vector<std::byte> block_ = {};
};

}  // namespace terrace::data
