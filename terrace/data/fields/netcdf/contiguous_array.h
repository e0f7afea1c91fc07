// Variables of fp32 numbers that lie in a NetCDF-4 file in one piece, for programs that write them without the library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "terrace/data/fields/fields_description.h"

namespace terrace::data {

// Takes the space of a contiguous variable of a file that is being defined, by writing its last number, and returns its
// sizes. Throws UserError, with the path, where the library cannot.
StoredArray make_space(const std::filesystem::path& path, int file, int variable);

// Returns where the numbers of a contiguous variable begin in a file that is closed, in bytes.
uint64_t offset_of_array(const std::filesystem::path& path, const std::string& name);

}  // namespace terrace::data
