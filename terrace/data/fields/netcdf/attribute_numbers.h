// The numbers of attributes as they are stored, so that integers of 64 bits keep all their digits.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

using AttributeNumber = std::variant<int64_t, uint64_t, double>;

struct AttributeNumbers {
  std::vector<AttributeNumber> values = {};  // none where the attribute is missing
  int type = 0;                              // NC_SHORT and so on; NC_DOUBLE or NC_INT64 of a text and of a Zarr store

  // Returns the values that are no NaN, which stands for no number.
  std::vector<AttributeNumber> numbers() const;
};

double as_double(const AttributeNumber& number);

// Numbers that are written as text count too. The attributes of a Zarr store are read from its own files, and its fill
// value is the attribute _FillValue, as xarray has it. Throws UserError for a text that is no number.
AttributeNumbers attribute_numbers(const NetcdfFile& file, int variable, const std::string& attribute);

}  // namespace terrace::data
