// Reads the segments of binned shorelines (Wessel and Smith, "A global, self-consistent, hierarchical, high-resolution
// shoreline database", 1996).
#include "terrace/forecast/coastlines.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "terrace/base/error.h"
#include "terrace/data/fields/netcdf/netcdf_file.h"

namespace terrace::forecast {
namespace {

constexpr int shore_of_sea = 1;  // level of a segment's polygon; higher ones are lakes, islands in them and so on
constexpr double bin_parts = 65535;

std::vector<double> numbers_of(const data::NetcdfFile& file, const char* name) {
  const int variable = file.find(name);
  if (variable < 0) throw UserError::of("{} has no {}", file.path().string(), name);
  return file.values(variable);
}

// Returns a whole number as an index; a negative one becomes an index that no list has.
size_t index_of(double value) { return static_cast<size_t>(static_cast<int64_t>(value)); }

double as_unsigned(double value) { return value < 0 ? value + 65536 : value; }

std::vector<CoastLine> segments_of(const data::NetcdfFile& file) {
  const double bin_degrees = numbers_of(file, "Bin_size_in_minutes").at(0) / 60;
  const size_t bins_around = index_of(numbers_of(file, "N_bins_in_360_longitude_range").at(0));
  const std::vector<double> first_segments = numbers_of(file, "Id_of_first_segment_in_a_bin");
  const std::vector<double> counts = numbers_of(file, "N_segments_in_a_bin");
  const std::vector<double> infos = numbers_of(file, "Embedded_npts_levels_exit_entry_for_a_segment");
  const std::vector<double> first_points = numbers_of(file, "Id_of_first_point_in_a_segment");
  const std::vector<double> longitudes = numbers_of(file, "Relative_longitude_from_SW_corner_of_bin");
  const std::vector<double> latitudes = numbers_of(file, "Relative_latitude_from_SW_corner_of_bin");
  if (bins_around == 0) throw UserError::of("{} has no bins", file.path().string());
  std::vector<CoastLine> lines;
  for (size_t bin = 0; bin < first_segments.size(); ++bin) {
    const size_t row = bin / bins_around, column = bin % bins_around;
    const double west = static_cast<double>(column) * bin_degrees;
    const double south = 90 - static_cast<double>(row + 1) * bin_degrees;
    for (size_t i = 0; i < index_of(counts.at(bin)); ++i) {
      const size_t segment = index_of(first_segments[bin]) + i;
      const auto info = static_cast<uint32_t>(index_of(infos.at(segment)));
      const int level = static_cast<int>((info >> 6U) & 7U);
      if (level != shore_of_sea) continue;
      const size_t points = info >> 9U, first = index_of(first_points.at(segment));
      CoastLine line;
      for (size_t point = first; point < first + points; ++point) {
        line.push_back(static_cast<float>(west + as_unsigned(longitudes.at(point)) / bin_parts * bin_degrees));
        line.push_back(static_cast<float>(south + as_unsigned(latitudes.at(point)) / bin_parts * bin_degrees));
      }
      if (line.size() > 2) lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace

std::filesystem::path installed_coastlines() { return "/usr/share/gmt-gshhg/binned_GSHHS_c.nc"; }

std::vector<CoastLine> read_coastlines(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  try {
    return segments_of(data::NetcdfFile(path));
  } catch (const std::exception&) {
    return {};  // a map without coastlines is better than none
  }
}

}  // namespace terrace::forecast
