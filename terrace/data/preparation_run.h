// Runs the steps that preparations of every kind of data have in common: refusing outputs that exist, sharing work over
// ranks, stopping on request, keeping parts to continue from, and replacing an older dataset.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "terrace/base/files/file.h"
#include "terrace/data/file_parts.h"
#include "terrace/data/prepare_ranks.h"

namespace terrace::data {

// Returns the prefix that --output means: P, also where --output is P with the ending or P.json. `example` is a prefix
// for the error that an output without a name gives.
std::string prefix_of_output(const std::string& output, const std::string& ending, const std::string& example);

// Throws UserError that names the first of the files that exists.
void check_absent(const std::vector<std::filesystem::path>& files);

// The steps of a preparation that makes a part of each input file (file_parts.h). Where one of the first three throws
// on a rank, all ranks throw.
struct PartSteps {
  std::function<void()> begin;   // on the first rank; calls FileParts::begin()
  std::function<void()> join;    // on the other ranks, behind FileParts::join()
  std::function<void()> work;    // makes each rank's parts
  std::function<void()> finish;  // makes the dataset of all parts, on all ranks
};

// One preparation on one rank.
class PreparationRun {
 public:
  // Without `ranks` this process prepares alone. `threads` is 0 for one per core.
  PreparationRun(PrepareRanks* ranks, int64_t threads, const std::atomic<bool>* stop)
      : ranks_(ranks != nullptr ? *ranks : alone_), threads_(threads), stop_(stop) {}
  PreparationRun(const PreparationRun&) = delete;

  PrepareRanks& ranks() const { return ranks_; }
  int64_t threads() const { return threads_ > 0 ? threads_ : ranks_.cores(); }  // of this rank

  // Sets what check_stop() says was not written, such as "data/era5.nc and .json", and behind it how to continue.
  void writes(std::string files) { files_ = std::move(files); }
  // Throws UserError once a stop is requested.
  void check_stop() const;

  // Run a part on the first rank, and then another part on the other ranks. Where a part throws, all ranks throw.
  void on_first(const std::function<void()>& part) const;
  void on_first_then_others(const std::function<void()>& first, const std::function<void()>& others) const;
  // Runs the steps, and then removes the parts. Where a step refuses the input or the flags, the parts are discarded;
  // where another error ends the run, they are kept, to continue from.
  void make_of_parts(FileParts& parts, const PartSteps& steps) const;

  // Replaces a dataset by the one in `data`, of which `description` is the text of the file `described`. Without its
  // description no dataset is opened, so that old data never have a new description or the other way.
  void commit(AtomicFile& data, const std::filesystem::path& described, const std::string& description) const;

 private:
  PrepareRanks alone_ = {};
  PrepareRanks& ranks_;
  int64_t threads_;
  const std::atomic<bool>* stop_;
  std::string files_ = {};
};

}  // namespace terrace::data
