// Puts each forecast beside what the data have for its time.
#include "terrace/forecast/forecast_scorer.h"

#include <cmath>
#include <limits>
#include <utility>

#include "terrace/base/error.h"

namespace terrace::forecast {
namespace {

data::TimeSplit split_named(const data::FieldsDataset& data, const std::string& name) {
  const auto found = data.description().splits.find(name);
  if (found != data.description().splits.end()) return found->second;
  throw UserError::of("{} has no {} part; prepare it with --{} FROM TO, or choose another --split", data.prefix(), name,
                      name);
}

bool has_time(const data::TimeSplit& split, int64_t time) { return time >= split.first_time && time < split.end_time; }

}  // namespace

ForecastScorer::ForecastScorer(const data::FieldsDataset& data, ScoreRequest request,
                               const std::function<void(uint64_t)>& look)
    : data_(data),
      request_(std::move(request)),
      split_(split_named(data, request_.split)),
      weights_(grid_weights(data.description().latitudes)),
      sums_(request_.leads.size(), std::vector<ScoreSums>(request_.variables.size())) {
  for (const std::string& name : request_.variables) {
    numbers_.push_back(data::FieldsDescription::find(data.description().variables, name));
    TERRACE_CHECK(numbers_.back() >= 0, "{} has no variable {}", data.prefix(), name);
  }
  fit_damping(look);
}

bool ForecastScorer::is_scored(int64_t start, size_t lead) const {
  return start >= 0 && has_time(split_, data_.time_after(start, request_.leads[lead]));
}

std::span<const float> ForecastScorer::climatology_at(int64_t time, size_t variable) const {
  const data::FieldsDescription& all = data_.description();
  if (all.climatology == data::ClimatologyKind::none) return {};
  return data_.climatology(all.climatology_period(all.times[static_cast<size_t>(time)]), numbers_[variable]);
}

ScoredFields ForecastScorer::fields_of(int64_t start, int64_t target, size_t variable) const {
  return {.truth = data_.field(target, numbers_[variable]),
          .start = data_.field(start, numbers_[variable]),
          .climatology = climatology_at(target, variable),
          .start_climatology = climatology_at(start, variable)};
}

void ForecastScorer::fit_damping(const std::function<void(uint64_t)>& look) {
  const size_t leads = request_.leads.size(), variables = numbers_.size();
  dampings_.assign(leads, std::vector<double>(variables, std::numeric_limits<double>::quiet_NaN()));
  const data::FieldsDescription& all = data_.description();
  const auto train = all.splits.find("train");
  if (train == all.splits.end() || all.climatology == data::ClimatologyKind::none) return;
  std::vector<std::vector<AnomalyProducts>> products(leads, std::vector<AnomalyProducts>(variables));
  for (int64_t start = train->second.first_time; start < train->second.end_time; ++start) {
    look(static_cast<uint64_t>(start - train->second.first_time));
    for (size_t lead = 0; lead < leads; ++lead) {
      const int64_t target = data_.time_after(start, request_.leads[lead]);
      if (!has_time(train->second, target)) continue;
      for (size_t variable = 0; variable < variables; ++variable) {
        const AnomalyProducts more = anomaly_products(weights_, fields_of(start, target, variable));
        products[lead][variable].both += more.both;
        products[lead][variable].first += more.first;
      }
    }
  }
  for (size_t lead = 0; lead < leads; ++lead) {
    for (size_t variable = 0; variable < variables; ++variable) {
      const AnomalyProducts& sums = products[lead][variable];
      if (sums.first > 0) dampings_[lead][variable] = sums.both / sums.first;
    }
  }
}

void ForecastScorer::add(int64_t start, size_t lead, size_t variable, std::span<const float> forecast) {
  TERRACE_CHECK(is_scored(start, lead), "a forecast from time {} of a time outside of the split", start);
  ScoredFields fields = fields_of(start, data_.time_after(start, request_.leads[lead]), variable);
  fields.forecast = forecast;
  fields.damping = dampings_[lead][variable];
  sums_[lead][variable].add(figures_of_field(weights_, fields));
}

Scores ForecastScorer::scores(size_t lead, size_t variable) const { return sums_[lead][variable].scores(); }

}  // namespace terrace::forecast
