// Makes the inputs of forecasts.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "terrace/data/fields/fields_source.h"
#include "terrace/data/fields/statistics/normalised_fields.h"
#include "terrace/data/tensor_writer.h"

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

void FieldsSource::add_forecast_inputs(const ForecastStep& step, TensorWriter& values) const {
  const auto places = static_cast<size_t>(description().places());
  for (int64_t input = config_.inputs; input-- > 0;) {
    const int64_t at = step.done - input * input_steps_;
    if (at <= 0) {
      add_fields(dataset_.time_after(step.start, at), inputs_, values);
      continue;
    }
    const std::vector<float>& predicted = step.earlier->at(at);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto output = std::ranges::find(request_.outputs, request_.inputs[i]) - request_.outputs.begin();
      const std::span<const float> start = dataset_.field(step.start, inputs_[i].variable);
      const auto* from = predicted.data() + static_cast<size_t>(output) * places;
      // A place that the start lacks is an input of 0 at every step, as in training.
      std::ranges::transform(start, std::span(from, places), values.next(places).begin(),
                             [](float known, float value) { return std::isnan(known) ? 0.0F : value; });
    }
  }
  for (const Channel& constant : constants_) {
    normalise(dataset_.constant(constant.variable), constant.moments, values.next(places));
  }
}

void FieldsSource::add_last_outputs(const ForecastStep& step, TensorWriter& values) const {
  if (step.done == 0) return add_fields(step.start, outputs_, values);
  const std::vector<float>& predicted = step.earlier->at(step.done);
  const std::span<float> written = values.next(predicted.size());
  std::ranges::copy(predicted, written.begin());
  keep_missing(step.start, written, 0);
}

void FieldsSource::keep_missing(int64_t start, std::span<float> outputs, float in_place) const {
  if (!description().has_missing) return;
  const auto places = static_cast<size_t>(description().places());
  const auto is_missing = [](float value) { return std::isnan(value); };
  for (size_t output = 0; output < outputs_.size(); ++output) {
    const std::span<const float> known = dataset_.field(start, outputs_[output].variable);
    const bool is_read = std::ranges::find(request_.inputs, request_.outputs[output]) != request_.inputs.end();
    if (!is_read && std::ranges::all_of(known, is_missing)) continue;
    for (size_t place = 0; place < places; ++place) {
      if (is_missing(known[place])) outputs[output * places + place] = in_place;
    }
  }
}

MicroBatch FieldsSource::forecast_batch(const std::vector<ForecastStep>& steps, const TensorNames& names) const {
  const FieldsDescription& all = description();
  const auto samples = std::ssize(steps), rows = std::ssize(all.latitudes), columns = std::ssize(all.longitudes);
  check_climatology(names);
  MicroBatch batch;
  for (int64_t sample = 0; sample < samples; ++sample) batch.samples.push_back(sample);
  for (const double count : request_.counts) batch.counts.push_back(count * static_cast<double>(samples));
  const auto add = [&](const char* name, std::vector<int64_t> sizes, const auto& values_of_step) {
    if (!names.contains(name)) return;
    TensorWriter values(std::move(sizes));
    for (const ForecastStep& step : steps) values_of_step(step, values);
    batch.tensors[name] = values.finish();
  };
  const auto now = [&](const ForecastStep& step) { return dataset_.instant_after(step.start, step.done); };
  const auto target = [&](const ForecastStep& step) {
    return dataset_.instant_after(step.start, step.done + step.lead);
  };
  const std::vector<int64_t> of_outputs = {samples, std::ssize(outputs_), rows, columns};
  add("inputs", {samples, config_.inputs * std::ssize(inputs_) + std::ssize(constants_), rows, columns},
      [&](const ForecastStep& step, TensorWriter& values) { add_forecast_inputs(step, values); });
  add("before", of_outputs, [&](const ForecastStep& step, TensorWriter& values) { add_last_outputs(step, values); });
  add("climatology_before", of_outputs,
      [&](const ForecastStep& step, TensorWriter& values) { add_climatology_before(step.start, step.done, values); });
  add("leads", {samples}, [&](const ForecastStep& step, TensorWriter& values) {
    values.add(static_cast<float>(static_cast<double>(target(step) - now(step)) / 3600));
  });
  add("times", {samples, 2}, [&](const ForecastStep& step, TensorWriter& values) {
    values.add(static_cast<float>(part_of_year(all.calendar, now(step))));
    values.add(static_cast<float>(static_cast<double>(date_of(all.calendar, now(step)).second) / 86400));
  });
  add("climatology", of_outputs,
      [&](const ForecastStep& step, TensorWriter& values) { add_climatology(target(step), values); });
  return batch;
}

}  // namespace terrace::data
