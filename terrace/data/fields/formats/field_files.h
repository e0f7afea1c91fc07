// Finds the files of fields among files and folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace terrace::data {

// Folders are searched recursively for NetCDF files (.nc, .nc4, .cdf, .netcdf) and YEAR_SHARD.npz, sorted by name;
// names that start with a dot and `excluded` are left out. Files that are named themselves may have any name. Throws
// UserError for paths that do not exist and where no file is found.
std::vector<std::filesystem::path> find_field_files(const std::vector<std::string>& inputs,
                                                    const std::vector<std::filesystem::path>& excluded);

}  // namespace terrace::data
