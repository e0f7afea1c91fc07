// Missing and packed values of NetCDF variables as CF and the NetCDF Users Guide define them.
//
// _FillValue, missing_value (one or several) and the numbers that the library fills variables with are numbers as they
// are stored. valid_min, valid_max and valid_range are so too, unless they have the type of scale_factor and add_offset
// (the wider one's) and that type is wider than the stored one: then they are physical values (NetCDF Users Guide,
// attribute conventions). In a Zarr store, whose JSON has no types, fractions are physical values where integers are
// packed. With _Unsigned = "true" stored integers and all of these have no sign, with "false" they have
// one, whatever the types say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::data {

// Tells which stored numbers of a type are values: those from `least` to `most` that are not among `missing`.
template <typename Stored>
struct StoredTerms {
  static constexpr bool is_float = std::numeric_limits<Stored>::has_infinity;
  std::vector<Stored> missing = {};  // stand for no value
  Stored least = is_float ? -std::numeric_limits<Stored>::infinity() : std::numeric_limits<Stored>::lowest();
  Stored most = is_float ? std::numeric_limits<Stored>::infinity() : std::numeric_limits<Stored>::max();
};

// Turns the stored numbers of a variable into physical values: stored * scale + offset.
struct Packing {
  // The terms of the type that the stored numbers have after _Unsigned.
  std::variant<StoredTerms<double>, StoredTerms<float>, StoredTerms<int8_t>, StoredTerms<uint8_t>, StoredTerms<int16_t>,
               StoredTerms<uint16_t>, StoredTerms<int32_t>, StoredTerms<uint32_t>, StoredTerms<int64_t>,
               StoredTerms<uint64_t>>
      terms = {};
  double scale = 1, offset = 0;
  // The range of physical values, which are compared in single precision.
  float least = -std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::infinity();

  // Appends the values of the stored numbers first + order[0] * stride, first + order[1] * stride and so on; NaN where
  // they are missing. `numbers` are those of NetcdfFile::read().
  void append(std::span<const std::byte> numbers, size_t first, size_t stride, const std::vector<size_t>& order,
              std::vector<float>& values) const;
};

// Reads the packing of a variable. Throws UserError that names the file, the variable and the attribute for attributes
// that are no numbers, or not as many as they must be.
Packing packing_of(const NetcdfFile& file, int variable);

// Returns the values of a coordinate, which has none that are missing: unpacked, whatever range its attributes give.
std::vector<double> coordinate_values(const NetcdfFile& file, int variable);

}  // namespace terrace::data
