// Sums over rows in eight lanes, so that the loops become vector instructions whose results do not depend on how many
// numbers an instruction holds.
#include "terrace/data/fields/scores.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "terrace/base/vector_clones.h"
#include "terrace/data/fields/normalised_fields.h"

namespace terrace::data {
namespace {

constexpr size_t num_lanes = 8;
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

using Lanes = std::array<double, num_lanes>;

double sum_of(const Lanes& lanes) { return std::accumulate(lanes.begin(), lanes.end(), 0.0); }

// Sums over one row, without weights.
struct ErrorSums {
  Lanes count = {}, error = {}, square = {}, kept_count = {}, kept_square = {};

  [[gnu::always_inline]] void add(size_t lane, float forecast_value, float true_value, float start_value) {
    const auto truth = static_cast<double>(true_value);
    const double error_here = static_cast<double>(forecast_value) - truth;
    const double kept = static_cast<double>(start_value) - truth;
    const bool has_error = error_here == error_here, has_kept = kept == kept;
    const double e = has_error ? error_here : 0.0, p = has_kept ? kept : 0.0;
    count[lane] += has_error ? 1.0 : 0.0;
    error[lane] += e;
    square[lane] += e * e;
    kept_count[lane] += has_kept ? 1.0 : 0.0;
    kept_square[lane] += p * p;
  }
};

TERRACE_VECTOR_CLONES
ErrorSums error_sums(const float* forecast, const float* truth, const float* start, size_t columns) {
  ErrorSums sums;
  size_t column = 0;
  for (; column + num_lanes <= columns; column += num_lanes) {
    for (size_t lane = 0; lane < num_lanes; ++lane) {
      sums.add(lane, forecast[column + lane], truth[column + lane], start[column + lane]);
    }
  }
  for (; column < columns; ++column) sums.add(column % num_lanes, forecast[column], truth[column], start[column]);
  return sums;
}

// Of anomalies: f of the forecast, s of what was there at the start, b of the truth.
struct AnomalySums {
  Lanes ff = {}, fb = {}, bb_of_f = {}, ss = {}, sb = {}, bb_of_s = {}, count = {}, bb = {}, damped_count = {},
        damped = {};

  [[gnu::always_inline]] void add(size_t lane, double forecast, double truth, double start, double climatology,
                                  double start_climatology, double damping) {
    const double b = truth - climatology, f = forecast - climatology, s = start - climatology;
    const double damped_error = damping * (start - start_climatology) - b;
    const bool has_b = b == b, has_f = has_b & (f == f), has_s = has_b & (s == s), has_d = damped_error == damped_error;
    const double b0 = has_b ? b : 0.0, f0 = has_f ? f : 0.0, s0 = has_s ? s : 0.0, d0 = has_d ? damped_error : 0.0;
    count[lane] += has_b ? 1.0 : 0.0;
    bb[lane] += b0 * b0;
    ff[lane] += f0 * f0;
    fb[lane] += f0 * b0;
    bb_of_f[lane] += has_f ? b0 * b0 : 0.0;
    ss[lane] += s0 * s0;
    sb[lane] += s0 * b0;
    bb_of_s[lane] += has_s ? b0 * b0 : 0.0;
    damped_count[lane] += has_d ? 1.0 : 0.0;
    damped[lane] += d0 * d0;
  }
};

struct RowPointers {
  const float *forecast, *truth, *start, *climatology, *start_climatology;
};

TERRACE_VECTOR_CLONES
AnomalySums anomaly_sums(const RowPointers& row, size_t columns, double damping) {
  AnomalySums sums;
  const float *forecast = row.forecast, *truth = row.truth, *start = row.start, *climatology = row.climatology;
  const float* start_climatology = row.start_climatology;
  size_t column = 0;
  for (; column + num_lanes <= columns; column += num_lanes) {
    for (size_t lane = 0; lane < num_lanes; ++lane) {
      const size_t at = column + lane;
      sums.add(lane, forecast[at], truth[at], start[at], climatology[at], start_climatology[at], damping);
    }
  }
  for (; column < columns; ++column) {
    sums.add(column % num_lanes, forecast[column], truth[column], start[column], climatology[column],
             start_climatology[column], damping);
  }
  return sums;
}

// sum(w x) / sum(w n).
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
  void add(double w, const Lanes& products, const Lanes& first, const Lanes& second) {
    xy += w * sum_of(products);
    xx += w * sum_of(first);
    yy += w * sum_of(second);
  }
  double value() const { return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : unknown; }
};

// The number of the row's first place.
RowPointers row_pointers(const ScoredFields& fields, size_t first) {
  return {fields.forecast.data() + first, fields.truth.data() + first, fields.start.data() + first,
          fields.climatology.data() + first, fields.start_climatology.data() + first};
}

}  // namespace

GridWeights grid_weights(const std::vector<double>& latitudes) {
  GridWeights weights{.cosine = cosine_weights(latitudes)};
  std::vector<double> edges = {-90};
  for (size_t i = 1; i < latitudes.size(); ++i) edges.push_back((latitudes[i - 1] + latitudes[i]) / 2);
  edges.push_back(90);
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
  for (size_t row = 0; row < rows; ++row) {
    const double w = weights.cosine[row];
    const RowPointers at = row_pointers(fields, row * columns);
    const ErrorSums errors = error_sums(at.forecast, at.truth, at.start, columns);
    square.add(w, errors.square, errors.count);
    area_square.add(weights.area[row], errors.square, errors.count);
    bias.add(w, errors.error, errors.count);
    persistence.add(w, errors.kept_square, errors.kept_count);
    if (fields.climatology.empty()) continue;
    const AnomalySums sums = anomaly_sums(at, columns, fields.damping);
    climatology.add(w, sums.bb, sums.count);
    damped.add(w, sums.damped, sums.damped_count);
    forecast_acc.add(w, sums.fb, sums.ff, sums.bb_of_f);
    persistence_acc.add(w, sums.sb, sums.ss, sums.bb_of_s);
  }
  return {.square = square.value(),
          .area_square = area_square.value(),
          .bias = bias.value(),
          .acc = forecast_acc.value(),
          .persistence_square = persistence.value(),
          .persistence_acc = persistence_acc.value(),
          .climatology_square = climatology.value(),
          .damped_square = damped.value()};
}

AnomalyProducts anomaly_products(const GridWeights& weights, const ScoredFields& fields) {
  const size_t rows = weights.cosine.size(), columns = fields.truth.size() / rows;
  AnomalyProducts products;
  for (size_t row = 0; row < rows; ++row) {
    Lanes both = {}, first = {};
    for (size_t place = row * columns; place < (row + 1) * columns; ++place) {
      const double a = static_cast<double>(fields.start[place]) - static_cast<double>(fields.start_climatology[place]);
      const double b = static_cast<double>(fields.truth[place]) - static_cast<double>(fields.climatology[place]);
      const bool has_both = a == a && b == b;
      both[place % num_lanes] += has_both ? a * b : 0.0;
      first[place % num_lanes] += has_both ? a * a : 0.0;
    }
    products.both += weights.cosine[row] * sum_of(both);
    products.first += weights.cosine[row] * sum_of(first);
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

}  // namespace terrace::data
