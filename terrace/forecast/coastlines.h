// The coastlines of the world, where a package with them is installed.
#pragma once

#include <filesystem>
#include <vector>

namespace terrace::forecast {

// A line of points: longitude and latitude in degrees, one after the other; longitudes may lie outside of 0 to 360.
using CoastLine = std::vector<float>;

// Returns the file in which Debian's package gmt-gshhg-low keeps its coarsest coastlines.
std::filesystem::path installed_coastlines();

// Returns the lines of a file in the form that the Generic Mapping Tools read, "binned_GSHHS": the shores of seas,
// without lakes. Lines are in pieces of 20 degrees. There are none where the file does not exist, is no such file, or
// where the program was built without libnetcdf.
std::vector<CoastLine> read_coastlines(const std::filesystem::path& path);

}  // namespace terrace::forecast
