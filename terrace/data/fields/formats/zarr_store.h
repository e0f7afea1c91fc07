// Zarr stores on a disk: folders in which libnetcdf, where it has NCZarr, reads arrays as NetCDF.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "terrace/base/text/json.h"

namespace terrace::data {

// Recognises a store by the files with which a group or an array of version 2 or 3 begins.
bool is_zarr_store(const std::filesystem::path& folder);

// Throws UserError, with every problem, for stores that libnetcdf 4.9 does not read rightly. It gives wrong numbers,
// without an error, for arrays that are compressed or big-endian, and finds none of version 3. Refused are these, and
// arrays that are filtered, in the order of Fortran or have chunks that are cut off. A chunk that is not there has the
// array's fill value, as the format says.
void check_zarr_store(const std::filesystem::path& folder);

// Returns an attribute of an array of version 2, null where it is missing or no number (NaN). The array's fill value is
// the attribute _FillValue, as xarray has it. Throws UserError where the files of the array are damaged.
Json zarr_attribute(const std::filesystem::path& array, const std::string& attribute);

// Returns ", perhaps for these attributes: .." with those that libnetcdf 4.9 is known to refuse, or "".
std::string unusual_attributes_of_zarr(const std::filesystem::path& folder);

// Returns the name by which libnetcdf opens the store. Throws UserError where the path has a letter with a meaning in
// such names.
std::string netcdf_name_of_zarr(const std::filesystem::path& folder);

// Returns a text that changes where files of the store do: their number, bytes and newest time of change.
std::string state_of_zarr(const std::filesystem::path& folder);

}  // namespace terrace::data
