// Tells how far forecasts are from what happened, in physical units: figures of one field, and their means over starts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terrace::forecast {

// The weights of places in the mean over a field, by latitude, each divided by the mean of all latitudes.
struct GridWeights {
  std::vector<double> cosine = {};  // of the latitude
  // The sine of the upper edge of the latitude's cell minus that of the lower one: the cell's share of the sphere.
  // Edges lie midway between two latitudes. The outer ones lie at the poles where a pole is nearer than a further
  // latitude would be, and else half a distance beyond the outermost latitude, where a region ends.
  std::vector<double> area = {};
};
// Returns the weights for ascending latitudes in degrees.
GridWeights grid_weights(const std::vector<double>& latitudes);

// Fields [latitudes, longitudes] of one variable; missing values are NaN.
struct ScoredFields {
  std::span<const float> forecast = {};
  std::span<const float> truth = {};  // at the time that is predicted
  std::span<const float> start = {};  // what was there at the start: the forecast of persistence
  // The climatology at the time that is predicted, and at the start; empty where the data have none.
  std::span<const float> climatology = {}, start_climatology = {};
  // Damped persistence predicts climatology + damping * (start - start_climatology); NaN: not known.
  double damping = 0;
};

// Numbers of places of a field by what is known of them.
struct ScoredPlaces {
  int64_t compared = 0;
  int64_t without_forecast = 0;  // where the truth has a value
  int64_t without_truth = 0;
};

// The figures of one forecast. Places where one of the two fields of a figure is missing are left out of its mean; a
// figure without any place is NaN.
struct FieldFigures {
  double square = 0;       // the mean squared error, weighted by cosines
  double area_square = 0;  // weighted by areas
  double bias = 0;         // the mean error, weighted by cosines
  double acc = 0;  // sum(w a b) / sqrt(sum(w a^2) sum(w b^2)) of the anomalies a of the forecast and b of the truth
  double persistence_square = 0, persistence_acc = 0;  // as square and acc
  double climatology_square = 0, damped_square = 0;    // as square
  ScoredPlaces places = {};
};
// Computes the figures in double precision, in one pass over the fields.
FieldFigures figures_of_field(const GridWeights& weights, const ScoredFields& fields);

// The sums sum(w a b) and sum(w a a) over a field, with a = start - start_climatology and b = truth - climatology, of
// which the coefficient of damped persistence is made.
struct AnomalyProducts {
  double both = 0, first = 0;
};
AnomalyProducts anomaly_products(const GridWeights& weights, const ScoredFields& fields);

// Means over forecasts; NaN where no forecast has the figure.
struct Scores {
  int64_t forecasts = 0;
  int64_t left_out = 0;           // forecasts of which no place could be compared
  ScoredPlaces places = {};       // of all forecasts
  double rmse = 0;                // the mean over forecasts of the root of `square`, as ClimaX has it
  double rmse_weatherbench1 = 0;  // the root of the mean over forecasts of `square`, as WeatherBench has it
  double rmse_weatherbench2 = 0;  // the root of the mean over forecasts of `area_square`, as WeatherBench 2 has it
  double acc = 0, bias = 0;
  double persistence_rmse = 0, persistence_acc = 0, climatology_rmse = 0, damped_persistence_rmse = 0;  // as rmse, acc
};

// Adds up figures in the order in which they are given.
class ScoreSums {
 public:
  void add(const FieldFigures& figures);
  Scores scores() const;

 private:
  struct Mean {
    double sum = 0;
    int64_t count = 0;
    void add(double value);
    double value() const;
  };
  int64_t forecasts_ = 0, left_out_ = 0;
  ScoredPlaces places_;
  Mean rmse_, square_, area_square_, bias_, acc_, persistence_, persistence_acc_, climatology_, damped_;
};

}  // namespace terrace::forecast
