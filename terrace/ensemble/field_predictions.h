// Predictions of fields by several models, in a file: each model's values, their mean and spread, and labels.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "terrace/base/text/json.h"
#include "terrace/ensemble/streamed_calibration.h"
#include "terrace/ensemble/uncertainty.h"
#include "terrace/forecast/forecast_file.h"

namespace terrace::ensemble {

// The file gets the values of one model after another and is then read back field by field, so that the memory in use
// is that of one field of each model. It gets its name in commit(), and without it nothing is left.
class FieldPredictions {
 public:
  // `header` has the outputs; the file has of each output NAME the mean NAME, NAME_label and, of several models, the
  // spread NAME_std (combined()) and NAME_1, NAME_2 and so on. Throws UserError where two of these are equal.
  FieldPredictions(const std::filesystem::path& path, const forecast::ForecastHeader& header, size_t members);

  // The outputs [outputs, latitudes, longitudes] of a model, in physical units.
  void add(size_t member, size_t start, size_t lead, std::span<const float> fields);

  // The true values of an output [latitudes, longitudes], NaN where one is missing; empty where nothing is known of the
  // time.
  using Labels = std::function<std::span<const float>(size_t start, size_t lead, size_t output)>;
  using Take = std::function<void(size_t start, size_t lead, size_t output, const Distribution& predicted,
                                  std::span<const float> label)>;
  // Writes means, spreads and labels once all models are added, and hands them on.
  void combine(const Labels& labels, const Take& take);

  void commit() { file_->commit(); }

 private:
  Distribution combined_field(size_t start, size_t lead, size_t output) const;

  size_t outputs_, members_, starts_, leads_, places_;
  std::unique_ptr<forecast::ForecastWriter> file_;
};

// Judges how the spread of each output at each lead fits the errors. A place counts as the cosine of its latitude over
// the mean of the cosines, as in the scores of forecasts.
class JudgedFields {
 public:
  // `scales` [leads, outputs] of the spread, or none.
  JudgedFields(const data::FieldGrid& grid, size_t leads, size_t outputs, std::vector<double> scales = {});

  void add(size_t lead, size_t output, const Distribution& predicted, std::span<const float> label);

  // [leads, outputs], each fitted to what was added.
  std::vector<double> fitted_scales() const;
  // The figures in the form of json_of() of a JudgedOutput.
  Json json(size_t lead, size_t output) const;

 private:
  size_t place(size_t lead, size_t output) const { return lead * outputs_ + output; }

  size_t outputs_, longitudes_;
  std::vector<double> weights_;  // of latitudes
  std::vector<double> scales_;
  std::vector<StreamedCalibration> own_, scaled_;  // [leads, outputs]
};

}  // namespace terrace::ensemble
