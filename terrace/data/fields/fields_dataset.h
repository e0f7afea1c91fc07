// A prepared dataset of fields, mapped into memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "terrace/base/files/file.h"
#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// The arrays of a file P.nc, as its description says. Throws UserError where the file is too short for them.
class MappedFields {
 public:
  MappedFields() = default;
  MappedFields(const std::filesystem::path& path, const FieldsDescription& description);

  std::span<const float> fields() const { return fields_; }
  std::span<const float> constants() const { return constants_; }
  std::span<const float> climatology() const { return climatology_; }
  const MappedFile& file() const { return file_; }

 private:
  std::span<const float> array(const StoredArray& array) const;

  MappedFile file_;
  std::span<const float> fields_, constants_, climatology_;
};

class FieldsDataset {
 public:
  // Throws UserError that names the file and the problem.
  explicit FieldsDataset(const std::string& prefix);

  const std::string& prefix() const { return prefix_; }
  const FieldsDescription& description() const { return description_; }
  // Return the values [latitudes, longitudes]; numbers of times, variables, constants and periods are as in the
  // description.
  std::span<const float> field(int64_t time, int64_t variable) const;
  std::span<const float> constant(int64_t constant) const;
  std::span<const float> climatology(int64_t period, int64_t variable) const;
  // Returns the file that these arrays are mapped from.
  const MappedFile& file() const { return mapped_.file(); }
  // Announces that all variables of a time will be read soon.
  void expect(int64_t time) const;
  // Returns the number of the time that lies so many steps after (or, below 0, before) another; -1 where the data have
  // none.
  int64_t time_after(int64_t time, int64_t steps) const;
  // Returns the instant of time_after(), also beyond the times that the data have; then months are added to the date,
  // whose day is at most the last one of its month.
  int64_t instant_after(int64_t time, int64_t steps) const;

 private:
  std::string prefix_;
  FieldsDescription description_;
  MappedFields mapped_;
  std::vector<int64_t> steps_;  // steps of each time from the first one
  bool has_gaps_ = false;
};

}  // namespace terrace::data
