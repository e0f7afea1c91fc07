// Describes the file of planned forecasts.
#pragma once

#include <string>

#include "terrace/data/fields/fields_source.h"
#include "terrace/forecast/forecast_file.h"
#include "terrace/forecast/forecast_times.h"

namespace terrace::forecast {

// Returns the contents of a file with the outputs of a model that reads `source`, at the starts and leads of the plan;
// `model` is the file's attribute `source`.
ForecastHeader forecast_header(const data::FieldsSource& source, const ForecastPlan& plan, const std::string& model);

}  // namespace terrace::forecast
