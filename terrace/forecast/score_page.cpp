// Turns fields into bytes of maps, and puts them beside the figures.
#include "terrace/forecast/score_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "terrace/base/error.h"
#include "terrace/forecast/coastlines.h"
#include "terrace/forecast/forecast_times.h"
#include "terrace/forecast/score_template.h"
#include "terrace/observe/html_page.h"

namespace terrace::forecast {
namespace {

constexpr int64_t most_columns_of_map = 720;
constexpr double map_levels = 254;  // between the least and the largest byte of a value

std::string in_base64(const std::vector<uint8_t>& bytes) {
  static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8U | (j < count ? bytes[i + j] : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? letters[(bits >> (18 - 6 * j)) & 63U] : '=';
  }
  return text;
}

struct MapScale {
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void include(const std::vector<float>& values) {
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      least = std::min(least, static_cast<double>(value));
      most = std::max(most, static_cast<double>(value));
    }
  }
  // A scale of one number, or of none, has a width too.
  void widen() {
    if (least > most) least = most = 0;
    if (least == most) most = least + 1;
  }
};

std::string map_text(const std::vector<float>& values, const MapScale& scale) {
  std::vector<uint8_t> bytes;
  for (const float value : values) {
    const double share = (static_cast<double>(value) - scale.least) / (scale.most - scale.least);
    bytes.push_back(
        !std::isfinite(value) ? 0 : static_cast<uint8_t>(1 + std::lround(std::clamp(share, 0.0, 1.0) * map_levels)));
  }
  return in_base64(bytes);
}

Json coastlines_json() {
  Json lines = Json::array();
  for (const CoastLine& line : read_coastlines(installed_coastlines())) {
    Json points = Json::array();
    for (const float degrees : line) points.push_back(std::round(static_cast<double>(degrees) * 100) / 100);
    lines.push_back(points);
  }
  return lines;
}

}  // namespace

ScoreMaps::ScoreMaps(const data::FieldsDataset& data, ScoreRequest request, int64_t start)
    : data_(data),
      request_(std::move(request)),
      start_(start),
      block_((std::ssize(data.description().longitudes) + most_columns_of_map - 1) / most_columns_of_map),
      rows_((std::ssize(data.description().latitudes) + block_ - 1) / block_),
      columns_((std::ssize(data.description().longitudes) + block_ - 1) / block_) {}

std::vector<float> ScoreMaps::averaged(std::span<const float> field) const {
  if (block_ == 1) return {field.begin(), field.end()};
  const auto all_rows = std::ssize(data_.description().latitudes);
  const auto all_columns = std::ssize(data_.description().longitudes);
  std::vector<float> values;
  for (int64_t row = 0; row < rows_; ++row) {
    for (int64_t column = 0; column < columns_; ++column) {
      double sum = 0, count = 0;
      for (int64_t r = row * block_; r < std::min((row + 1) * block_, all_rows); ++r) {
        for (int64_t c = column * block_; c < std::min((column + 1) * block_, all_columns); ++c) {
          const float value = field[static_cast<size_t>(r * all_columns + c)];
          if (std::isnan(value)) continue;
          sum += static_cast<double>(value);
          ++count;
        }
      }
      values.push_back(count > 0 ? static_cast<float>(sum / count) : std::numeric_limits<float>::quiet_NaN());
    }
  }
  return values;
}

void ScoreMaps::add(size_t lead, size_t variable, std::span<const float> forecast) {
  const data::FieldsDescription& all = data_.description();
  const int64_t number = data::FieldsDescription::find(all.variables, request_.variables[variable]);
  const int64_t target = data_.time_after(start_, request_.leads[lead]);
  const std::vector<float> truth = averaged(data_.field(target, number)), predicted = averaged(forecast);
  std::vector<float> error(truth.size());
  MapScale scale, errors;
  for (size_t i = 0; i < truth.size(); ++i) error[i] = predicted[i] - truth[i];
  scale.include(truth);
  scale.include(predicted);
  errors.include(error);
  scale.widen();
  errors.widen();
  errors.most = std::max(std::abs(errors.least), std::abs(errors.most));
  errors.least = -errors.most;
  list_.push_back({{"variable", request_.variables[variable]},
                   {"units", all.variables[static_cast<size_t>(number)].units},
                   {"lead", lead_text(all.step, request_.leads[lead])},
                   {"time", data::text_of(all.calendar, all.times[static_cast<size_t>(target)])},
                   {"least", scale.least},
                   {"most", scale.most},
                   {"limit", errors.most},
                   {"truth", map_text(truth, scale)},
                   {"forecast", map_text(predicted, scale)},
                   {"error", map_text(error, errors)}});
}

Json ScoreMaps::json() const {
  const data::FieldsDescription& all = data_.description();
  const std::vector<double>&latitudes = all.latitudes, &longitudes = all.longitudes;
  const auto half_step = [](const std::vector<double>& values) {
    return values.size() > 1 ? (values.back() - values.front()) / static_cast<double>(values.size() - 1) / 2 : 0.5;
  };
  return {{"start", data::text_of(all.calendar, all.times[static_cast<size_t>(start_)])},
          {"rows", rows_},
          {"columns", columns_},
          {"south", latitudes.front() - half_step(latitudes)},
          {"north", latitudes.back() + half_step(latitudes)},
          {"west", longitudes.front() - half_step(longitudes)},
          {"east", longitudes.back() + half_step(longitudes)},
          {"list", list_}};
}

int64_t map_start(const std::string& text, const ForecastScorer& scorer, const data::FieldsDataset& data,
                  const std::vector<int64_t>& starts) {
  const data::FieldsDescription& all = data.description();
  const auto leads = std::ssize(scorer.request().leads);
  std::vector<int64_t> scored, complete;
  for (const int64_t start : starts) {
    int64_t possible = 0;
    for (int64_t lead = 0; lead < leads && start >= 0; ++lead) {
      possible += scorer.is_scored(start, static_cast<size_t>(lead)) ? 1 : 0;
    }
    if (possible > 0) scored.push_back(start);
    if (possible == leads) complete.push_back(start);
  }
  TERRACE_CHECK(!scored.empty(), "no forecast of {} is scored", data.prefix());
  if (text.empty()) return complete.empty() ? scored.front() : complete.front();
  const auto [first, end] = times_between(all, text, text);
  for (const int64_t start : scored) {
    if (start >= first && start < end) return start;
  }
  const auto [least, most] = std::ranges::minmax(scored);
  const auto date = [&](int64_t time) { return data::text_of(all.calendar, all.times[static_cast<size_t>(time)]); };
  throw UserError::of("--map-start {}: no scored forecast begins then; they begin from {} to {}", text, date(least),
                      date(most));
}

std::string score_page(const ScoreReport& report, const Json& maps) {
  Json data = score_json(report);
  data["title"] = fmt::format("Forecasts of {}", report.source);
  data["maps"] = maps;
  data["coastlines"] = coastlines_json();
  return observe::html_page(score_template(), data["title"].get<std::string>(), data);
}

}  // namespace terrace::forecast
