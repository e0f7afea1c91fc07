// Describes what a prepared dataset of fields holds: the file P.json.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "terrace/data/fields/calendar.h"
#include "terrace/data/fields/field_file.h"

namespace terrace::data {

// Mean and standard deviation over times and places, each place counted once.
struct Moments {
  double mean = 0, deviation = 0;
  bool operator==(const Moments&) const = default;
};

// A variable at one level, or a constant. Its name has the level where there are levels: "z_500" is z at 500 hPa.
struct FieldOfDataset {
  std::string name = {};
  std::string variable = {};         // as in the files: "z"
  std::optional<double> level = {};  // in level_units
  std::string level_units = {};
  std::string units = {}, standard_name = {}, long_name = {};
  std::map<std::string, DimensionEntry> entries = {};  // of the files' other dimensions, that --select chose
  std::optional<Moments> moments = {};                 // of the training part; none where there is no training part
  std::optional<Moments> changes = {};                 // over one step; none for constants
};

// The length of time between two times: seconds, or calendar months.
struct TimeStep {
  int64_t seconds = 0;
  // Calendar months, such as 1, 3 of seasons and 12 of years, where each time lies so many months after the one before;
  // then seconds is 0.
  int64_t months = 0;
  bool operator==(const TimeStep&) const = default;

  std::string text() const;  // "6 h", "1 month", "1 year"
  // Returns how many steps a length of time in seconds is; a month counts 30.4375 days, give or take a day. No value
  // where the length is no whole number of steps.
  std::optional<int64_t> steps(double length_seconds) const;
  // Returns the steps from a time to a later one that lies on a multiple of the step; no value where it does not.
  std::optional<int64_t> between(Calendar calendar, int64_t from, int64_t to) const;
};

// A part of the times by inclusive dates, "train", "validation" or "test".
struct TimeSplit {
  std::string from = {}, to = {};        // as written: "1979", "2015-12-31"
  int64_t first_time = 0, end_time = 0;  // indices of times: first_time .. end_time - 1
  int64_t count() const { return end_time - first_time; }
};

enum class ClimatologyKind { none, monthly, daily };
std::string_view climatology_word(ClimatologyKind kind);

// The place of an array of fp32 numbers in P.nc.
struct StoredArray {
  uint64_t offset = 0;               // bytes from the beginning of the file, a multiple of 4
  std::vector<uint64_t> sizes = {};  // row-major
  std::string checksum = {};
  uint64_t numbers() const;
};

struct FieldsDescription {
  std::vector<FieldOfDataset> variables = {}, constants = {};
  std::vector<double> latitudes = {}, longitudes = {};  // ascending
  Calendar calendar = Calendar::standard;
  TimeStep step = {};
  std::vector<int64_t> times = {};  // instants, ascending; steps are missing where gaps were allowed
  std::map<std::string, TimeSplit> splits = {};
  ClimatologyKind climatology = ClimatologyKind::none;
  std::optional<int64_t> harmonics = {};  // of the year, to which the climatology was fitted; none: means by period
  bool has_missing = false;               // missing values are NaN in the arrays
  StoredArray fields = {};                // [times, variables, latitudes, longitudes]
  StoredArray constant_fields = {};       // [constants, latitudes, longitudes]
  StoredArray climatology_fields = {};    // [periods of the year, variables, latitudes, longitudes]

  int64_t places() const { return static_cast<int64_t>(latitudes.size() * longitudes.size()); }
  // Returns the number of periods of the climatology: months, or times of the day in each day of the longest year.
  int64_t climatology_periods() const;
  int64_t climatology_period(int64_t instant) const;
  // Returns the number of times of the day that have periods of their own, one after another: 1 in a climatology by
  // month.
  int64_t climatology_times_of_day() const;
  // Returns the number of a variable or constant, -1 where there is none.
  static int64_t find(const std::vector<FieldOfDataset>& list, const std::string& name);
  static std::vector<std::string> names(const std::vector<FieldOfDataset>& list);

  // Returns the text of P.json.
  std::string text() const;
};

// The files of a dataset with the prefix P.
std::filesystem::path fields_path(const std::string& prefix);       // P.nc
std::filesystem::path description_path(const std::string& prefix);  // P.json

// Returns whether the file is there and says that it describes fields, of whatever version.
bool describes_fields(const std::filesystem::path& path);

// Throws UserError that names the file, and says what to do, where the file is missing or no description of fields.
FieldsDescription read_fields_description(const std::filesystem::path& path);

}  // namespace terrace::data
