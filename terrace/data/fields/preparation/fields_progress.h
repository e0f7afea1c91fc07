// Records how far a preparation of fields has come, in files beside the dataset, so that others go on after a kill.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "terrace/data/fields/fields_description.h"
#include "terrace/data/fields/fields_store.h"
#include "terrace/data/fields/preparation/fields_work.h"

namespace terrace::data {

// One rank's P.progress.json: the first rank's file has that name, that of rank 2 is P.progress.2.json. The destructor
// removes the file, so that only processes that were killed leave some.
class FieldsProgress {
 public:
  // The state that all ranks of a preparation of a prefix left.
  struct Left {
    std::string plan = {};               // what was to be written, as the constructor takes it
    std::filesystem::path partial = {};  // the unfinished P.nc
    FieldsWork done = {};                // what is written of that file
    bool has_missing = false;
    StoredArray fields = {}, constants = {}, climatology = {};
  };
  // Returns the state that a preparation left; no value where there is no P.progress.json, or no unfinished P.nc that
  // it names.
  static std::optional<Left> find(const std::string& prefix);
  // Removes the files of a preparation that was killed, but for that of the first rank.
  static void remove_others(const std::string& prefix);
  // Removes what processes that have ended left of files of progress under temporary names (temporary_name.h).
  static void remove_abandoned(const std::string& prefix);

  // `plan` identifies inputs, flags and what is written: a preparation is continued by one with the same. `partial` is
  // the file that is written; `done` is what earlier processes wrote of it. Progress is recorded at most every
  // `seconds`.
  FieldsProgress(const std::string& prefix, int64_t rank, std::string plan, std::filesystem::path partial,
                 FieldsWork done, double seconds);
  FieldsProgress(const FieldsProgress&) = delete;
  ~FieldsProgress();

  // Notes what this rank has written. If the last record is old enough, makes what was written durable, then records
  // it.
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

// Returns the file of progress of a rank for the prefix P of a dataset: P.progress.json of the first rank.
std::filesystem::path progress_path(const std::string& prefix, int64_t rank = 0);

}  // namespace terrace::data
