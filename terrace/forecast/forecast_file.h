// Files of forecasts: NetCDF with the coordinates that CF names, by start and lead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/fields_description.h"

namespace terrace::forecast {

// The contents of a new file, without values.
struct ForecastHeader {
  data::FieldGrid grid = {};
  data::Calendar calendar = data::Calendar::standard;
  std::vector<int64_t> starts = {};       // instants
  std::vector<double> leads = {};         // seconds from the start; a month has 30.4375 days
  std::vector<int64_t> valid_times = {};  // [starts, leads]: the instants that are predicted
  std::vector<data::FieldOfDataset> fields = {};
  std::string source = {};  // the model, for the file's attribute `source`
};

// Writes a file field by field, so that memory does not grow with it. It gets its name in commit(); without it nothing
// is left. Dimensions: time (the start), prediction_timedelta (the lead, in hours), level, latitude (ascending) and
// longitude (from 0 up). Variables with all levels of the file have the dimension of levels; those with some of them
// are one variable a level, such as z_500. Throws std::system_error or UserError where the file cannot be written.
class ForecastWriter {
 public:
  virtual ~ForecastWriter() = default;
  // Writes physical values [n, latitudes, longitudes] of the n fields from `first` on.
  virtual void write(size_t start, size_t lead, size_t first, std::span<const float> fields) = 0;
  // Reads values that write() wrote before, with the same arguments.
  virtual void read(size_t start, size_t lead, size_t first, std::span<float> fields) const = 0;
  virtual void commit() = 0;
};

std::unique_ptr<ForecastWriter> create_forecasts(const std::filesystem::path& path, const ForecastHeader& header);

struct ForecastVariable {
  std::string name = {};   // with its level, as in a dataset: "z_500"
  std::string units = {};  // "" where the file has none
};

// The contents of a file that this or another program wrote, without values.
struct ForecastContents {
  std::filesystem::path path = {};
  data::FieldGrid grid = {};
  data::Calendar calendar = data::Calendar::standard;
  std::vector<int64_t> starts = {};  // instants, in the order of the file
  std::vector<double> leads = {};    // seconds
  std::vector<ForecastVariable> variables = {};
};

// An open file, whose functions throw UserError that names the file. Dimensions may have any order, and are known by
// units, standard names, and the names time, init_time, prediction_timedelta, lead_time, lead and step. Leads without
// units are hours.
class ForecastFile {
 public:
  virtual ~ForecastFile() = default;
  virtual const ForecastContents& contents() const = 0;
  // Reads physical values [latitudes, longitudes] in the order of the grid; NaN where they are missing.
  virtual void read(size_t start, size_t lead, size_t variable, std::vector<float>& values) = 0;
};

// Throws UserError, with what is missing, for files that hold no forecasts.
std::unique_ptr<ForecastFile> open_forecasts(const std::filesystem::path& path);

}  // namespace terrace::forecast
