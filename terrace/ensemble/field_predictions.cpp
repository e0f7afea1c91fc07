// Lays out the fields of the file in blocks of all outputs, and combines them.
#include "terrace/ensemble/field_predictions.h"

#include <fmt/format.h>

#include <limits>
#include <set>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/forecast/scores.h"

namespace terrace::ensemble {
namespace {

// The blocks of the file; those of the models follow. One model has its values in the first block.
constexpr size_t mean_block = 0, label_block = 1, spread_block = 2, first_member_block = 3;

void add_block(const std::vector<data::FieldOfDataset>& outputs, const std::string& suffix, const std::string& about,
               const std::string& standard_name_suffix, std::vector<data::FieldOfDataset>& fields) {
  for (const data::FieldOfDataset& output : outputs) {
    data::FieldOfDataset& field = fields.emplace_back(output);
    field.name += suffix;
    field.variable += suffix;
    field.long_name = fmt::format("{} {}", about, output.long_name.empty() ? output.variable : output.long_name);
    if (!field.standard_name.empty()) field.standard_name += standard_name_suffix;
  }
}

std::vector<data::FieldOfDataset> fields_of_file(const std::vector<data::FieldOfDataset>& outputs, size_t members) {
  std::vector<data::FieldOfDataset> fields = outputs;
  add_block(outputs, "_label", "label of", "", fields);
  if (members > 1) {
    // CF's modifier of the standard name of what a value is uncertain by.
    add_block(outputs, "_std", "spread of", " standard_error", fields);
    for (size_t member = 1; member <= members; ++member) {
      add_block(outputs, fmt::format("_{}", member), fmt::format("model {}:", member), "", fields);
    }
  }
  std::set<std::string> names;
  for (const data::FieldOfDataset& field : fields) {
    if (names.insert(field.name).second) continue;
    throw UserError::of(
        "two variables of the file would have the name {}: an output has a name that another one gets for its mean, "
        "spread, label or models; prepare the data with another name of the variable",
        field.name);
  }
  return fields;
}

forecast::ForecastHeader header_of_file(forecast::ForecastHeader header, size_t members) {
  header.fields = fields_of_file(header.fields, members);
  return header;
}

}  // namespace

FieldPredictions::FieldPredictions(const std::filesystem::path& path, const forecast::ForecastHeader& header,
                                   size_t members)
    : outputs_(header.fields.size()),
      members_(members),
      starts_(header.starts.size()),
      leads_(header.leads.size()),
      places_(header.grid.places()),
      file_(forecast::create_forecasts(path, header_of_file(header, members))) {}

void FieldPredictions::add(size_t member, size_t start, size_t lead, std::span<const float> fields) {
  TERRACE_CHECK(fields.size() == outputs_ * places_, "{} values of {} outputs", fields.size(), outputs_);
  file_->write(start, lead, (members_ > 1 ? first_member_block + member : mean_block) * outputs_, fields);
}

Distribution FieldPredictions::combined_field(size_t start, size_t lead, size_t output) const {
  std::vector<std::vector<double>> members;
  std::vector<float> values(places_);
  for (size_t member = 0; member < members_; ++member) {
    const size_t block = members_ > 1 ? first_member_block + member : mean_block;
    file_->read(start, lead, block * outputs_ + output, values);
    members.emplace_back(values.begin(), values.end());
  }
  return combined(members, {});
}

void FieldPredictions::combine(const Labels& labels, const Take& take) {
  const std::vector<float> missing(places_, std::numeric_limits<float>::quiet_NaN());
  const auto write = [&](size_t start, size_t lead, size_t field, const std::vector<double>& values) {
    file_->write(start, lead, field, std::vector<float>(values.begin(), values.end()));
  };
  for (size_t start = 0; start < starts_; ++start) {
    for (size_t lead = 0; lead < leads_; ++lead) {
      for (size_t output = 0; output < outputs_; ++output) {
        const Distribution all = combined_field(start, lead, output);
        if (members_ > 1) {
          write(start, lead, mean_block * outputs_ + output, all.mean);
          write(start, lead, spread_block * outputs_ + output, all.deviation);
        }
        const std::span<const float> known = labels(start, lead, output);
        const std::span<const float> label = known.empty() ? missing : known;
        file_->write(start, lead, label_block * outputs_ + output, label);
        take(start, lead, output, all, label);
      }
    }
  }
}

JudgedFields::JudgedFields(const data::FieldGrid& grid, size_t leads, size_t outputs, std::vector<double> scales)
    : outputs_(outputs),
      longitudes_(grid.longitudes.size()),
      weights_(forecast::grid_weights(grid.latitudes).cosine),
      scales_(std::move(scales)),
      own_(leads * outputs) {
  TERRACE_CHECK(scales_.empty() || scales_.size() == own_.size(), "{} scales of {}", scales_.size(), own_.size());
  for (const double scale : scales_) scaled_.emplace_back(scale);
}

void JudgedFields::add(size_t lead, size_t output, const Distribution& predicted, std::span<const float> label) {
  const size_t number = place(lead, output);
  for (size_t i = 0; i < label.size(); ++i) {
    const double weight = weights_[i / longitudes_], known = static_cast<double>(label[i]);
    if (!(weight > 0)) continue;  // a pole
    own_[number].add(predicted.mean[i], predicted.deviation[i], known, weight);
    if (!scaled_.empty()) scaled_[number].add(predicted.mean[i], predicted.deviation[i], known, weight);
  }
}

std::vector<double> JudgedFields::fitted_scales() const {
  std::vector<double> scales;
  for (const StreamedCalibration& one : own_) scales.push_back(one.fitted_scale());
  return scales;
}

Json JudgedFields::json(size_t lead, size_t output) const {
  const size_t number = place(lead, output);
  Json json = json_of(own_[number].figures());
  if (!scaled_.empty()) {
    json["scale"] = scales_[number];
    json["scaled"] = json_of(scaled_[number].figures());
  }
  return json;
}

}  // namespace terrace::ensemble
