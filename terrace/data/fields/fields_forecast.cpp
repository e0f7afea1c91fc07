// Makes the inputs of forecasts.
#include <algorithm>

#include "terrace/data/fields/fields_source.h"
#include "terrace/data/fields/normalised_fields.h"

namespace terrace::data {

std::vector<std::string> FieldsSource::inputs_without_forecast() const {
  std::vector<std::string> missing;
  std::ranges::copy_if(request_.inputs, std::back_inserter(missing), [&](const std::string& name) {
    return std::ranges::find(request_.outputs, name) == request_.outputs.end();
  });
  return missing;
}

bool FieldsSource::has_inputs(int64_t start) const {
  for (int64_t input = 0; input < config_.inputs; ++input) {
    if (dataset_.time_after(start, -input * input_steps_) < 0) return false;
  }
  return true;
}

void FieldsSource::add_forecast_inputs(const ForecastStep& step, std::vector<float>& values) const {
  const auto places = static_cast<size_t>(description().places());
  for (int64_t input = config_.inputs; input-- > 0;) {
    const int64_t at = step.done - input * input_steps_;
    if (at <= 0) {
      add_fields(dataset_.time_after(step.start, at), inputs_, values);
      continue;
    }
    const std::vector<float>& predicted = step.earlier->at(at);
    for (const std::string& name : request_.inputs) {
      const auto output = std::ranges::find(request_.outputs, name) - request_.outputs.begin();
      const auto first = predicted.begin() + output * static_cast<std::ptrdiff_t>(places);
      values.insert(values.end(), first, first + static_cast<std::ptrdiff_t>(places));
    }
  }
  for (const Channel& constant : constants_) {
    add_normalised(dataset_.constant(constant.variable), constant.moments, values);
  }
}

void FieldsSource::add_last_outputs(const ForecastStep& step, std::vector<float>& values) const {
  if (step.done == 0) return add_fields(step.start, outputs_, values);
  const std::vector<float>& predicted = step.earlier->at(step.done);
  values.insert(values.end(), predicted.begin(), predicted.end());
}

MicroBatch FieldsSource::forecast_batch(const std::vector<ForecastStep>& steps, const TensorNames& names) const {
  const FieldsDescription& all = description();
  const auto samples = std::ssize(steps), rows = std::ssize(all.latitudes), columns = std::ssize(all.longitudes);
  MicroBatch batch;
  for (int64_t sample = 0; sample < samples; ++sample) batch.samples.push_back(sample);
  for (const double count : request_.counts) batch.counts.push_back(count * static_cast<double>(samples));
  std::vector<float> inputs, before, climatology_before, leads, times;
  std::vector<int64_t> targets;
  for (const ForecastStep& step : steps) {
    if (names.contains("inputs")) add_forecast_inputs(step, inputs);
    if (names.contains("before")) add_last_outputs(step, before);
    if (names.contains("climatology_before")) add_climatology_before(step.start, step.done, climatology_before);
    const int64_t now = dataset_.instant_after(step.start, step.done);
    targets.push_back(dataset_.instant_after(step.start, step.done + step.lead));
    leads.push_back(static_cast<float>(static_cast<double>(targets.back() - now) / 3600));
    times.push_back(static_cast<float>(part_of_year(all.calendar, now)));
    times.push_back(static_cast<float>(static_cast<double>(date_of(all.calendar, now).second) / 86400));
  }
  const auto add = [&](const char* name, const std::vector<float>& values, std::vector<int64_t> sizes) {
    if (names.contains(name)) batch.tensors[name] = HostTensor::of(std::span<const float>(values), std::move(sizes));
  };
  const std::vector<int64_t> of_outputs = {samples, std::ssize(outputs_), rows, columns};
  add("inputs", inputs, {samples, config_.inputs * std::ssize(inputs_) + std::ssize(constants_), rows, columns});
  add("before", before, of_outputs);
  add("climatology_before", climatology_before, of_outputs);
  add("leads", leads, {samples});
  add("times", times, {samples, 2});
  if (names.contains("climatology")) batch.tensors["climatology"] = climatology_tensor(targets, of_outputs);
  return batch;
}

}  // namespace terrace::data
