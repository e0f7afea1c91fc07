// Refuses files of forecasts in builds without libnetcdf, and has no coastlines there.
#include "terrace/data/fields/field_file.h"
#include "terrace/forecast/coastlines.h"
#include "terrace/forecast/forecast_file.h"

namespace terrace::forecast {

std::filesystem::path installed_coastlines() { return {}; }

std::vector<CoastLine> read_coastlines(const std::filesystem::path&) { return {}; }

std::unique_ptr<ForecastFile> open_forecasts(const std::filesystem::path& path) {
  data::open_netcdf(path, {});  // throws the error that says what is to install
  return nullptr;
}

std::unique_ptr<ForecastWriter> create_forecasts(const std::filesystem::path& path, const ForecastHeader&) {
  data::open_netcdf(path, {});  // throws the error that says what is to install
  return nullptr;
}

}  // namespace terrace::forecast
