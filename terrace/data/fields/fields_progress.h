// How far a preparation of fields has come, in files beside the dataset, so that other processes go on after a kill.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/base/json.h"
#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/fields_work.h"

namespace terrace::data {

// One rank's P.progress.json: the first rank has that name, rank 2 P.progress.2.json. The destructor removes it, so
// that only processes that were killed leave some.
class FieldsProgress {
 public:
  // What was left of the preparation of a prefix, by all of its ranks.
  struct Left {
    std::string plan = {};               // what was to be written, as the constructor takes it
    std::filesystem::path partial = {};  // the unfinished P.nc
    FieldsWork done = {};                // what is written of it
    bool has_missing = false;
    StoredArray fields = {}, constants = {}, climatology = {};
  };
  // No value where there is no such file, or no unfinished P.nc that it names.
  static std::optional<Left> find(const std::string& prefix);
  // Removes the files of a preparation that was killed, but for that of the first rank.
  static void remove_others(const std::string& prefix);
  // Removes what processes that have ended left of such files under temporary names (temporary_name.h).
  static void remove_abandoned(const std::string& prefix);

  // `plan` identifies inputs, flags and what is written: a preparation is continued by one with the same. `partial` is
  // the file that is written; `done` is what earlier processes wrote of it. Progress is recorded at most every
  // `seconds`.
  FieldsProgress(const std::string& prefix, int64_t rank, std::string plan, std::filesystem::path partial,
                 FieldsWork done, double seconds);
  FieldsProgress(const FieldsProgress&) = delete;
  ~FieldsProgress();

  // Notes what this rank has written, and records it if the last record is old enough, after it is durable.
  void reach(const PieceTimes& written, const FieldsDescription& description, const StoreFile& store);
  void record(const FieldsDescription& description);

 private:
  using Clock = std::chrono::steady_clock;

  std::filesystem::path path_;
  std::string plan_;
  std::filesystem::path partial_;
  FieldsWork done_;
  double seconds_;
  Clock::time_point recorded_ = Clock::now();
};

// Of the prefix P of a dataset and the first rank: P.progress.json.
std::filesystem::path progress_path(const std::string& prefix, int64_t rank = 0);

}  // namespace terrace::data
