// Knows formats by the bytes with which their files begin.
#include "terrace/data/fields/formats/other_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace terrace::data {
namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view begins;
  const char* name;
  const char* way_out;
};

constexpr const char* decompress_zip = "unpack it first, for example by unzip";

constexpr std::array<Format, 11> formats = {
    {{"BUFR"sv, "BUFR, which holds observations", "bring them to a grid, and write that as NetCDF"},
     {"\x0e\x03\x13\x01"sv, "HDF4", "write it as NetCDF, for example by ncks -4 of NCO built with HDF4"},
     {"\x1f\x8b"sv, "compressed by gzip", "decompress it first, for example by gunzip"},
     {"BZh"sv, "compressed by bzip2", "decompress it first, for example by bunzip2"},
     {"\xfd"
      "7zXZ\0"sv,
      "compressed by xz", "decompress it first, for example by unxz"},
     {"\x28\xb5\x2f\xfd"sv, "compressed by zstd", "decompress it first, for example by unzstd"},
     {"PK\x03\x04"sv, "a zip archive", decompress_zip},
     {"II*\0"sv, "TIFF", "write it as NetCDF, for example by gdal_translate -of netCDF"},
     {"MM\0*"sv, "TIFF", "write it as NetCDF, for example by gdal_translate -of netCDF"},
     {"<!DOCTYPE"sv, "a page of the web", "a download may have failed; copy it again"},
     {"<html"sv, "a page of the web", "a download may have failed; copy it again"}}};

// Returns the edition of the first message of GRIB, 1 or 2; 0 where there is no message. Files that came by the
// meteorological network have a heading of some lines before the message.
int edition_of_grib(std::string_view begin) {
  constexpr size_t longest_heading = 256, edition_at = 7;
  const size_t at = begin.substr(0, longest_heading).find("GRIB");
  if (at == std::string_view::npos || at + edition_at >= begin.size()) return 0;
  const char edition = begin[at + edition_at];
  return edition == 1 || edition == 2 ? edition : 0;
}

}  // namespace

std::string other_format(std::span<const std::byte> file, const std::filesystem::path& path) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()), std::min<size_t>(file.size(), 1024));
  if (begin.starts_with("CDF"sv) || begin.starts_with("\x89HDF"sv)) return "";
  if (begin.empty()) return "has 0 bytes; copy it again";
  if (const int edition = edition_of_grib(begin); edition > 0) {
    const std::string name = path.string(), written = std::filesystem::path(path).replace_extension(".nc").string();
    return fmt::format(
        "is GRIB of edition {}, which is not read; write it as NetCDF, for example by cdo -f nc4 copy {} {}, or in "
        "Python with cfgrib by xarray.open_dataset(\"{}\", engine=\"cfgrib\").to_netcdf(\"{}\")",
        edition, name, written, name, written);
  }
  for (const Format& format : formats) {
    if (begin.starts_with(format.begins)) return fmt::format("is {}, and not NetCDF; {}", format.name, format.way_out);
  }
  return "";
}

}  // namespace terrace::data
