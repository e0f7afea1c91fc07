// Reads the fields of NetCDF files, classic and 4: coordinates by name, missing and packed values as CF defines them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "terrace/base/error.h"
#include "terrace/data/fields/field_file.h"
#include "terrace/data/fields/netcdf/axes.h"
#include "terrace/data/fields/netcdf/curvilinear.h"
#include "terrace/data/fields/netcdf/field_dimensions.h"
#include "terrace/data/fields/netcdf/netcdf_file.h"
#include "terrace/data/fields/netcdf/packing.h"
#include "terrace/data/fields/netcdf/single_time.h"
#include "terrace/data/fields/physical_units.h"

namespace terrace::data {
namespace {

// A variable of the file and the places of its dimensions.
struct StoredVariable {
  int id = 0;
  std::vector<NetcdfFile::Dimension> dimensions = {};
  std::vector<AxisKind> kinds = {};
  std::vector<size_t> entries = {};  // of dimensions of the kind other
  Packing packing = {};
  std::vector<size_t> level_order = {};
};

class NetcdfFields : public FieldFile {
 public:
  NetcdfFields(const std::filesystem::path& path, const std::vector<DimensionChoice>& choices)
      : file_(path), axes_(file_), choices_(choices) {
    contents_.path = path;
    const int count = file_.variables();
    for (int variable = 0; variable < count; ++variable) {
      for (const char* attribute : {"bounds", "climatology"}) bounds_.insert(file_.text(variable, attribute));
    }
    for (int variable = 0; variable < count; ++variable) add(variable);
    take_single_time();
    if (contents_.variables.empty() && contents_.left_out.empty()) {
      throw UserError::of(
          "{} has no variable with dimensions of latitudes and longitudes (coordinates in degrees_north and "
          "degrees_east){}; other grids have to be interpolated to one that has them",
          path.string(), curvilinear_reason(file_));
    }
  }

  const FileContents& contents() const override { return contents_; }

  size_t times_in_chunk(size_t variable) const override {
    const StoredVariable& stored = stored_[variable];
    const std::vector<size_t> chunks = file_.chunks(stored.id);
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (stored.kinds[i] == AxisKind::time) return chunks[i];
    }
    return 1;
  }

  void read(const FieldSlab& slab, std::vector<float>& values) override {
    const StoredVariable& stored = stored_[slab.variable];
    const size_t rank = stored.dimensions.size();
    // Levels that follow one another in the dataset may lie anywhere in the file.
    size_t least_level = 0, most_level = 0;
    if (!stored.level_order.empty()) {
      const auto wanted = stored.level_order.begin() + static_cast<std::ptrdiff_t>(slab.first_level);
      const auto [least, most] = std::minmax_element(wanted, wanted + static_cast<std::ptrdiff_t>(slab.levels));
      least_level = *least;
      most_level = *most;
    }
    std::vector<size_t> start(rank, 0), count(rank, 1), stride(rank, 1);
    size_t time_stride = 0, level_stride = 0, row_stride = 0, column_stride = 0;
    for (size_t i = 0; i < rank; ++i) {
      if (stored.kinds[i] == AxisKind::other) start[i] = stored.entries[i];
      if (stored.kinds[i] == AxisKind::time) start[i] = slab.first_time, count[i] = slab.times;
      if (stored.kinds[i] == AxisKind::level && !stored.level_order.empty()) {
        start[i] = least_level, count[i] = most_level - least_level + 1;
      }
      if (stored.kinds[i] == AxisKind::latitude || stored.kinds[i] == AxisKind::longitude) {
        count[i] = stored.dimensions[i].size;
      }
    }
    size_t numbers = 1;
    for (size_t i = rank; i-- > 0;) {
      if (stored.kinds[i] == AxisKind::time) time_stride = numbers;
      if (stored.kinds[i] == AxisKind::level) level_stride = numbers;
      if (stored.kinds[i] == AxisKind::latitude) row_stride = numbers;
      if (stored.kinds[i] == AxisKind::longitude) column_stride = numbers;
      numbers *= count[i];
    }
    file_.read(stored.id, start, count, buffer_);
    values.clear();
    values.reserve(slab.times * slab.levels * contents_.grid.places());
    for (size_t time = 0; time < slab.times; ++time) {
      for (size_t level = 0; level < slab.levels; ++level) {
        const size_t of_file =
            stored.level_order.empty() ? 0 : stored.level_order[slab.first_level + level] - least_level;
        for (const size_t row : row_order_) {
          const size_t line = time * time_stride + of_file * level_stride + row * row_stride;
          stored.packing.append(buffer_, line, column_stride, column_order_, values);
        }
      }
    }
  }

 private:
  // Takes the variable where it has latitudes and longitudes; others are coordinates, bounds and the like.
  void add(int variable) {
    if (file_.has_text(variable)) return;
    StoredVariable stored{.id = variable, .dimensions = file_.dimensions(variable)};
    if (stored.dimensions.size() < 2) return;
    const FieldDimensions found = field_dimensions(file_, axes_, stored.dimensions, choices_);
    const std::string name = file_.name(variable);
    if (!found.lies_on_grid() || bounds_.contains(name)) return;
    contents_.other_dimensions.insert(contents_.other_dimensions.end(), found.others.begin(), found.others.end());
    if (!found.problem.empty()) {
      contents_.left_out.push_back({name, fmt::format("{}: {} {}", file_.path().string(), name, found.problem)});
      return;
    }
    try {
      stored.packing = packing_of(file_, variable);
    } catch (const UserError& error) {
      contents_.left_out.push_back({name, error.what()});
      return;
    }
    stored.kinds = found.kinds;
    stored.entries = found.entries;
    take_grid(variable, *found.latitude, *found.longitude);
    if (found.time != nullptr) take_times(variable, *found.time);
    FileVariable described{.name = name,
                           .units = file_.text(variable, "units"),
                           .standard_name = file_.text(variable, "standard_name"),
                           .long_name = file_.text(variable, "long_name"),
                           .has_times = found.time != nullptr,
                           .entries = found.chosen};
    if (found.level != nullptr) take_levels(*found.level, stored, described);
    stored_.push_back(std::move(stored));
    contents_.variables.push_back(std::move(described));
  }

  void take_grid(int variable, const NetcdfAxis& latitude, const NetcdfAxis& longitude) {
    check_grid_mapping(file_, variable);
    const bool has_grid = !row_order_.empty();
    if (has_grid && latitude.name == latitude_ && longitude.name == longitude_) return;
    check_regular_grid(file_, variable, latitude, longitude);
    if (has_grid) {
      throw UserError::of(
          "{}: {} lies on {} and {}, other variables on {} and {}; a dataset has one grid, so make files "
          "of one grid each",
          file_.path().string(), file_.name(variable), latitude.name, longitude.name, latitude_, longitude_);
    }
    latitude_ = latitude.name;
    longitude_ = longitude.name;
    row_order_ = ascending_order(latitude.values, false, contents_.grid.latitudes);
    column_order_ = ascending_order(longitude.values, true, contents_.grid.longitudes);
    for (const auto* values : {&contents_.grid.latitudes, &contents_.grid.longitudes}) {
      for (size_t i = 0; i < values->size(); ++i) {
        const bool is_twice = i > 0 && (*values)[i] - (*values)[i - 1] < 1e-6;
        if (std::isfinite((*values)[i]) && !is_twice) continue;
        throw UserError::of("{}: {} {} degrees {}", file_.path().string(),
                            values == &contents_.grid.latitudes ? latitude_ : longitude_, (*values)[i],
                            is_twice ? "occurs twice, from 0 to 360; leave one of the two out" : "is no coordinate");
      }
    }
    if (contents_.grid.latitudes.front() < -90.001 || contents_.grid.latitudes.back() > 90.001) {
      throw UserError::of("{}: {} goes from {} to {}, and latitudes from -90 to 90 degrees", file_.path().string(),
                          latitude_, contents_.grid.latitudes.front(), contents_.grid.latitudes.back());
    }
  }

  void take_times(int variable, const NetcdfAxis& time) {
    if (!time_.empty()) {
      if (time.name == time_) return;
      throw UserError::of("{}: {} has the times {}, other variables have {}; make files of one axis of times each",
                          file_.path().string(), file_.name(variable), time.name, time_);
    }
    time_ = time.name;
    take_instants(time.variable, time.values);
  }

  void take_instants(int variable, const std::vector<double>& values) {
    const std::string calendar = file_.text(variable, "calendar");
    try {
      contents_.calendar = calendar.empty() ? Calendar::standard : calendar_named(calendar);
      const TimeUnits units = time_units(contents_.calendar, file_.text(variable, "units"));
      for (const double value : values) {
        if (!std::isfinite(value) || std::abs(value * units.seconds) > 1e15) {
          throw UserError::of("entry {} of {} is {}, which is no time; the file may be truncated or damaged",
                              contents_.times.size() + 1, file_.name(variable), value);
        }
        contents_.times.push_back(instant_of(contents_.calendar, units, value));
      }
    } catch (const UserError& error) {
      throw UserError::of("{}: {}", file_.path().string(), error.what());
    }
  }

  // A time that is no dimension belongs to the variables that name it among their coordinates, or to all where none
  // does.
  void take_single_time() {
    const int time = time_.empty() ? single_time(file_) : -1;
    if (time < 0) return;
    std::vector<bool> names_it;
    for (const StoredVariable& stored : stored_) names_it.push_back(has_coordinate(file_, stored.id, file_.name(time)));
    const bool is_named = std::ranges::find(names_it, true) != names_it.end();
    for (size_t i = 0; i < stored_.size(); ++i) {
      if (is_named && !names_it[i]) continue;
      contents_.variables[i].has_times = contents_.variables[i].has_single_time = true;
    }
    take_instants(time, coordinate_values(file_, time));
  }

  // Takes the levels of a variable, pressures in hPa. A single height, such as the 2 m of a temperature, is no level.
  void take_levels(const NetcdfAxis& level, StoredVariable& stored, FileVariable& described) const {
    const std::string units = level.variable < 0 ? "" : file_.text(level.variable, "units");
    const std::optional<double> pressure = hectopascals(units);
    if (level.size == 1 && !pressure) return;
    stored.level_order = ascending_order(level.values, false, described.levels);
    described.level_units = pressure ? "hPa" : units;
    for (double& value : described.levels) value *= pressure.value_or(1);
  }

  NetcdfFile file_;
  NetcdfAxes axes_;
  std::vector<DimensionChoice> choices_;
  std::set<std::string> bounds_;  // variables with the bounds of coordinates
  FileContents contents_;
  std::vector<StoredVariable> stored_;
  std::string latitude_, longitude_, time_;
  std::vector<size_t> row_order_, column_order_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<FieldFile> open_netcdf(const std::filesystem::path& path, const std::vector<DimensionChoice>& choices) {
  return std::make_unique<NetcdfFields>(path, choices);
}

}  // namespace terrace::data
