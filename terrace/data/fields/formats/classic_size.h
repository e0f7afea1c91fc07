// Tells how long a classic NetCDF file must be: libnetcdf gives zeros for what lies behind the end of a truncated one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace terrace::data {

// Returns the size by the header, of all three classic formats. No value for other formats, and where the number of
// records is open. Where a header is cut off, the part behind the end counts too: then the size is larger than that of
// the bytes.
std::optional<uint64_t> size_of_classic_netcdf(std::span<const std::byte> file);

}  // namespace terrace::data
