// Files of other formats that are given in place of NetCDF, such as GRIB.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace terrace::data {

// Returns what the format is and what to do, by the bytes with which a file begins: "is GRIB of edition 2, which is not
// read; write it as NetCDF, .."; "" for NetCDF, HDF5 and formats that are not known.
std::string other_format(std::span<const std::byte> file, const std::filesystem::path& path);

}  // namespace terrace::data
