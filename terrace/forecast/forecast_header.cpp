// Takes the header from the dataset and the plan.
#include "terrace/forecast/forecast_header.h"

namespace terrace::forecast {

ForecastHeader forecast_header(const data::FieldsSource& source, const ForecastPlan& plan, const std::string& model) {
  const data::FieldsDescription& all = source.description();
  ForecastHeader header{.grid = {all.latitudes, all.longitudes}, .calendar = all.calendar, .source = model};
  for (const int64_t lead : plan.leads) header.leads.push_back(lead_seconds(lead_text(all.step, lead)).value());
  for (const int64_t start : plan.starts) {
    header.starts.push_back(all.times[static_cast<size_t>(start)]);
    for (const int64_t lead : plan.leads) header.valid_times.push_back(source.dataset().instant_after(start, lead));
  }
  for (const std::string& name : source.request().outputs) {
    header.fields.push_back(all.variables[static_cast<size_t>(data::FieldsDescription::find(all.variables, name))]);
  }
  return header;
}

}  // namespace terrace::forecast
