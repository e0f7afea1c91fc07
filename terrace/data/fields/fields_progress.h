// How far a preparation of fields has come, in a file beside the dataset, so that another process goes on after a kill.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/fields_store.h"

namespace terrace::data {

// The first value that is not written: a time of a piece of FieldsPlan::pieces.
struct FieldsPosition {
  size_t piece = 0, time = 0;
  bool operator==(const FieldsPosition&) const = default;
};

// P.progress.json. The destructor removes it, so that only a process that was killed leaves one.
class FieldsProgress {
 public:
  // What was left of the preparation of a prefix.
  struct Left {
    std::string plan = {};               // what was to be written, as the constructor takes it
    std::filesystem::path partial = {};  // the unfinished P.nc
    FieldsPosition position = {};
    bool has_missing = false;
    StoredArray fields = {}, constants = {}, climatology = {};
  };
  // No value where there is no such file, or no unfinished P.nc that it names.
  static std::optional<Left> find(const std::string& prefix);

  // `plan` identifies inputs, flags and what is written: a preparation is continued by one with the same. `partial` is
  // the file that is written. The position is recorded at most every `seconds`.
  FieldsProgress(const std::string& prefix, std::string plan, std::filesystem::path partial, double seconds);
  FieldsProgress(const FieldsProgress&) = delete;
  ~FieldsProgress();

  // Records the position, if the last record is old enough, after all that was written is durable.
  void reach(FieldsPosition position, const FieldsDescription& description, const StoreFile& store);

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path path_;
  std::string plan_;
  std::filesystem::path partial_;
  double seconds_;
  Clock::time_point recorded_ = Clock::now();
};

// Of the prefix P of a dataset: P.progress.json.
std::filesystem::path progress_path(const std::string& prefix);

}  // namespace terrace::data
