// Sums over rows in eight lanes, whose results do not depend on how many numbers an instruction of the processor holds.
#include "terrace/forecast/scores.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>

#include "terrace/base/vector_clones.h"
#include "terrace/data/fields/statistics/normalised_fields.h"

namespace terrace::forecast {
namespace {

constexpr size_t num_lanes = 8;
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr double beyond_pole = 1e-4;  // degrees by which fp32 may put the pole beyond itself

using Floats = float __attribute__((vector_size(num_lanes * sizeof(float))));
using Lanes = double __attribute__((vector_size(num_lanes * sizeof(double))));

double sum_of(const Lanes& lanes) {
  double sum = 0;
  for (size_t lane = 0; lane < num_lanes; ++lane) sum += lanes[lane];
  return sum;
}

// Returns the numbers of a row from a column on, as far as the row goes; NaN behind its end.
[[gnu::always_inline]] inline Lanes lanes_of(const float* row, size_t column, size_t columns) {
  Floats floats;
  if (column + num_lanes <= columns) {
    std::memcpy(&floats, row + column, sizeof(floats));
  } else {
    for (size_t lane = 0; lane < num_lanes; ++lane) {
      floats[lane] = column + lane < columns ? row[column + lane] : std::numeric_limits<float>::quiet_NaN();
    }
  }
  return __builtin_convertvector(floats, Lanes);
}

// Sums of one row, without weights, of x where it is known.
struct KnownSums {
  Lanes count = {}, sum = {}, square = {};

  [[gnu::always_inline]] void add(const Lanes& x) {
    const Lanes zero = {}, one = zero + 1.0, known = x == x ? x : zero;
    count += x == x ? one : zero;
    sum += known;
    square += known * known;
  }
};

// Sums over the errors of the forecast and of persistence.
struct ErrorSums {
  KnownSums forecast = {}, persistence = {};
  Lanes happened = {};  // places with a truth
};

TERRACE_VECTOR_CLONES
ErrorSums error_sums(const float* forecast, const float* truth, const float* start, size_t columns) {
  ErrorSums sums;
  const Lanes zero = {}, one = zero + 1.0;
  for (size_t column = 0; column < columns; column += num_lanes) {
    const Lanes happened = lanes_of(truth, column, columns);
    sums.happened += happened == happened ? one : zero;
    sums.forecast.add(lanes_of(forecast, column, columns) - happened);
    sums.persistence.add(lanes_of(start, column, columns) - happened);
  }
  return sums;
}

// Sums of products of the anomalies a of a field and b of the truth, over places where both are known.
struct ProductSums {
  Lanes aa = {}, ab = {}, bb = {};

  [[gnu::always_inline]] void add(const Lanes& a, const Lanes& b) {
    const Lanes zero = {}, product = a * b;
    aa += product == product ? a * a : zero;
    ab += product == product ? product : zero;
    bb += product == product ? b * b : zero;
  }
};

struct AnomalySums {
  ProductSums forecast = {}, persistence = {};  // with the truth
  KnownSums climatology = {}, damped = {};      // errors
};

struct RowPointers {
  const float *forecast, *truth, *start, *climatology, *start_climatology;
};

TERRACE_VECTOR_CLONES
AnomalySums anomaly_sums(const RowPointers& row, size_t columns, double damping) {
  AnomalySums sums;
  for (size_t column = 0; column < columns; column += num_lanes) {
    const Lanes normal = lanes_of(row.climatology, column, columns), start = lanes_of(row.start, column, columns);
    const Lanes truth = lanes_of(row.truth, column, columns) - normal;
    sums.forecast.add(lanes_of(row.forecast, column, columns) - normal, truth);
    sums.persistence.add(start - normal, truth);
    sums.climatology.add(truth);
    sums.damped.add(damping * (start - lanes_of(row.start_climatology, column, columns)) - truth);
  }
  return sums;
}

TERRACE_VECTOR_CLONES
ProductSums start_products(const RowPointers& row, size_t columns) {
  ProductSums sums;
  for (size_t column = 0; column < columns; column += num_lanes) {
    sums.add(lanes_of(row.start, column, columns) - lanes_of(row.start_climatology, column, columns),
             lanes_of(row.truth, column, columns) - lanes_of(row.climatology, column, columns));
  }
  return sums;
}

// The weighted mean sum(w x) / sum(w n).
struct WeightedMean {
  double sum = 0, weight = 0;
  void add(double w, const Lanes& values, const Lanes& counts) {
    sum += w * sum_of(values);
    weight += w * sum_of(counts);
  }
  double value() const { return weight > 0 ? sum / weight : unknown; }
};

struct Correlation {
  double xy = 0, xx = 0, yy = 0;
  void add(double w, const ProductSums& sums) {
    xy += w * sum_of(sums.ab);
    xx += w * sum_of(sums.aa);
    yy += w * sum_of(sums.bb);
  }
  double value() const { return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : unknown; }
};

// Returns pointers to a row, whose first place has the number `first`.
RowPointers row_pointers(const ScoredFields& fields, size_t first) {
  const auto row = [first](std::span<const float> field) { return field.empty() ? nullptr : field.data() + first; };
  return {row(fields.forecast), row(fields.truth), row(fields.start), row(fields.climatology),
          row(fields.start_climatology)};
}

}  // namespace

GridWeights grid_weights(const std::vector<double>& latitudes) {
  GridWeights weights{.cosine = data::cosine_weights(latitudes)};
  std::vector<double> edges = {-90};
  for (size_t i = 1; i < latitudes.size(); ++i) edges.push_back((latitudes[i - 1] + latitudes[i]) / 2);
  edges.push_back(90);
  if (latitudes.size() > 1) {
    const double first = latitudes.front(), last = latitudes.back();
    const double further_south = 2 * first - latitudes[1], further_north = 2 * last - latitudes[latitudes.size() - 2];
    if (further_south > -90 - beyond_pole) edges.front() = (first + further_south) / 2;
    if (further_north < 90 + beyond_pole) edges.back() = (last + further_north) / 2;
  }
  const auto sine = [](double degrees) { return std::sin(degrees * std::numbers::pi / 180); };
  for (size_t i = 0; i < latitudes.size(); ++i) weights.area.push_back(sine(edges[i + 1]) - sine(edges[i]));
  const double mean =
      std::accumulate(weights.area.begin(), weights.area.end(), 0.0) / static_cast<double>(latitudes.size());
  for (double& area : weights.area) area /= mean;
  return weights;
}

FieldFigures figures_of_field(const GridWeights& weights, const ScoredFields& fields) {
  const size_t rows = weights.cosine.size(), columns = fields.truth.size() / rows;
  WeightedMean square, area_square, bias, persistence, climatology, damped;
  Correlation forecast_acc, persistence_acc;
  ScoredPlaces places;
  for (size_t row = 0; row < rows; ++row) {
    const double w = weights.cosine[row];
    const RowPointers at = row_pointers(fields, row * columns);
    const ErrorSums errors = error_sums(at.forecast, at.truth, at.start, columns);
    const auto compared = static_cast<int64_t>(sum_of(errors.forecast.count));
    const auto happened = static_cast<int64_t>(sum_of(errors.happened));
    places.compared += compared;
    places.without_forecast += happened - compared;
    places.without_truth += static_cast<int64_t>(columns) - happened;
    square.add(w, errors.forecast.square, errors.forecast.count);
    area_square.add(weights.area[row], errors.forecast.square, errors.forecast.count);
    bias.add(w, errors.forecast.sum, errors.forecast.count);
    persistence.add(w, errors.persistence.square, errors.persistence.count);
    if (fields.climatology.empty()) continue;
    const AnomalySums sums = anomaly_sums(at, columns, fields.damping);
    climatology.add(w, sums.climatology.square, sums.climatology.count);
    damped.add(w, sums.damped.square, sums.damped.count);
    forecast_acc.add(w, sums.forecast);
    persistence_acc.add(w, sums.persistence);
  }
  return {.square = square.value(),
          .area_square = area_square.value(),
          .bias = bias.value(),
          .acc = forecast_acc.value(),
          .persistence_square = persistence.value(),
          .persistence_acc = persistence_acc.value(),
          .climatology_square = climatology.value(),
          .damped_square = damped.value(),
          .places = places};
}

AnomalyProducts anomaly_products(const GridWeights& weights, const ScoredFields& fields) {
  const size_t rows = weights.cosine.size(), columns = fields.truth.size() / rows;
  AnomalyProducts products;
  for (size_t row = 0; row < rows; ++row) {
    const ProductSums sums = start_products(row_pointers(fields, row * columns), columns);
    products.both += weights.cosine[row] * sum_of(sums.ab);
    products.first += weights.cosine[row] * sum_of(sums.aa);
  }
  return products;
}

void ScoreSums::Mean::add(double value) {
  if (std::isnan(value)) return;
  sum += value;
  ++count;
}

double ScoreSums::Mean::value() const { return count > 0 ? sum / static_cast<double>(count) : unknown; }

void ScoreSums::add(const FieldFigures& figures) {
  ++forecasts_;
  if (std::isnan(figures.square)) ++left_out_;
  places_.compared += figures.places.compared;
  places_.without_forecast += figures.places.without_forecast;
  places_.without_truth += figures.places.without_truth;
  rmse_.add(std::sqrt(figures.square));
  square_.add(figures.square);
  area_square_.add(figures.area_square);
  bias_.add(figures.bias);
  acc_.add(figures.acc);
  persistence_.add(std::sqrt(figures.persistence_square));
  persistence_acc_.add(figures.persistence_acc);
  climatology_.add(std::sqrt(figures.climatology_square));
  damped_.add(std::sqrt(figures.damped_square));
}

Scores ScoreSums::scores() const {
  return {.forecasts = forecasts_,
          .left_out = left_out_,
          .places = places_,
          .rmse = rmse_.value(),
          .rmse_weatherbench1 = std::sqrt(square_.value()),
          .rmse_weatherbench2 = std::sqrt(area_square_.value()),
          .acc = acc_.value(),
          .bias = bias_.value(),
          .persistence_rmse = persistence_.value(),
          .persistence_acc = persistence_acc_.value(),
          .climatology_rmse = climatology_.value(),
          .damped_persistence_rmse = damped_.value()};
}

}  // namespace terrace::forecast
