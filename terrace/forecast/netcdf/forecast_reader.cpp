// Reads forecasts of this and other programs by libnetcdf.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/data/fields/netcdf/axes.h"
#include "terrace/data/fields/netcdf/curvilinear.h"
#include "terrace/data/fields/netcdf/netcdf_file.h"
#include "terrace/data/fields/netcdf/packing.h"
#include "terrace/data/fields/physical_units.h"
#include "terrace/data/fields/scanned_fields.h"
#include "terrace/forecast/forecast_file.h"

namespace terrace::forecast {
namespace {

enum class ForecastAxis { start, lead, level, latitude, longitude, single };

constexpr std::array<const char*, 5> lead_names = {"prediction_timedelta", "lead_time", "lead", "step",
                                                   "forecast_period"};

// A field of the file: a variable, at one of its levels where it has them.
struct StoredForecast {
  int id = 0;
  std::vector<data::NetcdfFile::Dimension> dimensions = {};
  std::vector<ForecastAxis> axes = {};
  size_t level = 0;
  data::Packing packing = {};
};

double seconds_of_lead_unit(data::Calendar calendar, const std::string& units) {
  static const std::map<std::string, double> small = {
      {"nanoseconds", 1e-9}, {"microseconds", 1e-6}, {"milliseconds", 1e-3}};
  if (units.empty()) return 3600;
  const auto found = small.find(units);
  return found != small.end() ? found->second : data::time_units(calendar, units + " since 1970-01-01").seconds;
}

class NetcdfForecastFile : public ForecastFile {
 public:
  explicit NetcdfForecastFile(const std::filesystem::path& path) : file_(path), axes_(file_) {
    contents_.path = path;
    for (int variable = 0; variable < file_.variables(); ++variable) add(variable);
    if (contents_.variables.empty()) {
      throw UserError::of(
          "{} holds no forecasts: no variable has dimensions of starts (time or init_time), leads "
          "(prediction_timedelta or lead_time), latitudes and longitudes; terrace forecast writes such files",
          path.string());
    }
    take_starts();
    take_leads();
  }

  const ForecastContents& contents() const override { return contents_; }

  void read(size_t start, size_t lead, size_t variable, std::vector<float>& values) override {
    const StoredForecast& stored = stored_[variable];
    const size_t rank = stored.dimensions.size();
    std::vector<size_t> first(rank, 0), count(rank, 1);
    size_t row_stride = 0, column_stride = 0, numbers = 1;
    for (size_t i = rank; i-- > 0;) {
      const ForecastAxis axis = stored.axes[i];
      if (axis == ForecastAxis::start) first[i] = start;
      if (axis == ForecastAxis::lead) first[i] = lead;
      if (axis == ForecastAxis::level) first[i] = stored.level;
      if (axis == ForecastAxis::latitude) row_stride = numbers;
      if (axis == ForecastAxis::longitude) column_stride = numbers;
      if (axis == ForecastAxis::latitude || axis == ForecastAxis::longitude) count[i] = stored.dimensions[i].size;
      numbers *= count[i];
    }
    file_.read(stored.id, first, count, buffer_);
    values.clear();
    values.reserve(numbers);
    for (const size_t row : row_order_) {
      stored.packing.append(buffer_, row * row_stride, column_stride, column_order_, values);
    }
  }

 private:
  std::optional<ForecastAxis> axis_of(const data::NetcdfFile::Dimension& dimension,
                                      const data::NetcdfAxis& axis) const {
    const bool is_period = axis.variable >= 0 && file_.text(axis.variable, "standard_name") == "forecast_period";
    if (is_period || std::ranges::find(lead_names, axis.name) != lead_names.end()) return ForecastAxis::lead;
    switch (axis.kind) {
      case data::AxisKind::time:
        return ForecastAxis::start;
      case data::AxisKind::level:
        return ForecastAxis::level;
      case data::AxisKind::latitude:
        return ForecastAxis::latitude;
      case data::AxisKind::longitude:
        return ForecastAxis::longitude;
      case data::AxisKind::other:
        break;
    }
    return dimension.size == 1 ? std::optional(ForecastAxis::single) : std::nullopt;
  }

  // Takes the variable where it has starts, leads, latitudes and longitudes.
  void add(int variable) {
    if (file_.has_text(variable)) return;
    StoredForecast stored{.id = variable, .dimensions = file_.dimensions(variable)};
    std::map<ForecastAxis, const data::NetcdfAxis*> of_kind;
    for (const data::NetcdfFile::Dimension& dimension : stored.dimensions) {
      const data::NetcdfAxis& axis = axes_.of(dimension);
      const std::optional<ForecastAxis> kind = axis_of(dimension, axis);
      if (!kind || (*kind != ForecastAxis::single && !of_kind.emplace(*kind, &axis).second)) return;
      stored.axes.push_back(*kind);
    }
    for (const ForecastAxis kind :
         {ForecastAxis::start, ForecastAxis::lead, ForecastAxis::latitude, ForecastAxis::longitude}) {
      if (!of_kind.contains(kind)) return;
    }
    take_axis(variable, *of_kind[ForecastAxis::start], start_);
    take_axis(variable, *of_kind[ForecastAxis::lead], lead_);
    take_grid(variable, *of_kind[ForecastAxis::latitude], *of_kind[ForecastAxis::longitude]);
    stored.packing = data::packing_of(file_, variable);
    const std::string name = file_.name(variable), units = file_.text(variable, "units");
    const auto level = of_kind.find(ForecastAxis::level);
    if (level == of_kind.end()) return add_field(stored, name, units);
    const double scale = data::hectopascals(file_.text(level->second->variable, "units")).value_or(1);
    for (stored.level = 0; stored.level < level->second->size; ++stored.level) {
      add_field(stored, data::name_at_level(name, level->second->values[stored.level] * scale), units);
    }
  }

  void add_field(const StoredForecast& stored, const std::string& name, const std::string& units) {
    stored_.push_back(stored);
    contents_.variables.push_back({.name = name, .units = units});
  }

  void take_axis(int variable, const data::NetcdfAxis& axis, const data::NetcdfAxis*& known) const {
    if (known != nullptr && known != &axis) {
      throw UserError::of("{}: {} has the dimension {}, other variables have {}; make files of one each",
                          file_.path().string(), file_.name(variable), axis.name, known->name);
    }
    known = &axis;
  }

  void take_grid(int variable, const data::NetcdfAxis& latitude, const data::NetcdfAxis& longitude) {
    take_axis(variable, latitude, latitude_);
    take_axis(variable, longitude, longitude_);
    data::check_grid_mapping(file_, variable);
    if (!row_order_.empty()) return;
    data::check_regular_grid(file_, variable, latitude, longitude);
    row_order_ = data::ascending_order(latitude.values, false, contents_.grid.latitudes);
    column_order_ = data::ascending_order(longitude.values, true, contents_.grid.longitudes);
  }

  void take_starts() {
    try {
      const std::string calendar = file_.text(start_->variable, "calendar");
      contents_.calendar = calendar.empty() ? data::Calendar::standard : data::calendar_named(calendar);
      const data::TimeUnits units = data::time_units(contents_.calendar, file_.text(start_->variable, "units"));
      for (const double value : start_->values) {
        contents_.starts.push_back(instant_at(contents_.calendar, value, units));
      }
    } catch (const UserError& error) {
      throw UserError::of("{}: {}", file_.path().string(), error.what());
    }
  }

  static int64_t instant_at(data::Calendar calendar, double value, const data::TimeUnits& units) {
    if (!std::isfinite(value) || std::abs(value * units.seconds) > 1e15) {
      throw UserError::of("a start is {}, which is no time; the file may be truncated or damaged", value);
    }
    return data::instant_of(calendar, units, value);
  }

  void take_leads() {
    if (lead_->variable < 0) {
      throw UserError::of("{}: the dimension {} has no values; add a variable of that name with the leads in hours",
                          file_.path().string(), lead_->name);
    }
    try {
      const double unit = seconds_of_lead_unit(contents_.calendar, file_.text(lead_->variable, "units"));
      for (const double value : lead_->values) contents_.leads.push_back(value * unit);
    } catch (const UserError& error) {
      throw UserError::of("{}: {}", file_.path().string(), error.what());
    }
  }

  data::NetcdfFile file_;
  data::NetcdfAxes axes_;
  ForecastContents contents_;
  std::vector<StoredForecast> stored_;
  const data::NetcdfAxis *start_ = nullptr, *lead_ = nullptr, *latitude_ = nullptr, *longitude_ = nullptr;
  std::vector<size_t> row_order_, column_order_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::unique_ptr<ForecastFile> open_forecasts(const std::filesystem::path& path) {
  return std::make_unique<NetcdfForecastFile>(path);
}

}  // namespace terrace::forecast
