// Makes a dataset of fields of NetCDF files: terrace data prepare --kind fields.
#pragma once

#include "terrace/data/preparation.h"

namespace terrace::data {

class FieldsPreparation : public Preparation {
 public:
  // How far a preparation has come is recorded at most every so many seconds, for --resume.
  explicit FieldsPreparation(double seconds_between_records = 30) : seconds_between_records_(seconds_between_records) {}

  std::string kind() const override { return "fields"; }
  std::string about() const override {
    return "Fields on latitudes and longitudes from NetCDF files, for models of weather and climate";
  }
  std::vector<PrepareFlag> flags() const override;
  bool divides_work() const override { return true; }
  // Writes P.nc and P.json (fields_description.h) for the prefix P. Inputs are files and folders. Ranks have equal
  // parts of their values, and the files that are written do not depend on the number of ranks.
  PrepareResult prepare(const PrepareRequest& request) const override;

  bool has_made(const std::string& prefix) const override;
  // Reads no values of the fields; verify() does.
  PrepareResult inspect(const std::string& prefix) const override;
  void verify(const std::string& prefix) const override;

 private:
  double seconds_between_records_;
};

}  // namespace terrace::data
