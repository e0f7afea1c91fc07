// Compares a file of forecasts with a dataset.
#include "terrace/forecast/score_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/spelling.h"
#include "terrace/data/fields/physical_units.h"
#include "terrace/data/fields/scanned_fields.h"
#include "terrace/forecast/forecast_times.h"

namespace terrace::forecast {
namespace {

class ForecastMatcher {
 public:
  ForecastMatcher(const ForecastContents& contents, const data::FieldsDataset& data)
      : contents_(contents), data_(data), all_(data.description()), file_(contents.path.string()) {}

  MatchedForecasts match(const WantedForecasts& wanted) {
    check_grid();
    match_variables(wanted.variables);
    match_leads(wanted.leads);
    throw_problems(problems_, "problems with the forecasts");
    for (const int64_t start : contents_.starts) matched_.starts.push_back(time_at(start));
    return matched_;
  }

 private:
  void check_grid() {
    const data::FieldGrid grid{all_.latitudes, all_.longitudes};
    if (!data::are_same_grid(contents_.grid, grid)) {
      problems_.push_back(fmt::format("{} has {}, and {} has {}; interpolate one of them to the grid of the other",
                                      file_, data::grid_text(contents_.grid), data_.prefix(), data::grid_text(grid)));
    }
    if (!data::calendars_agree(contents_.calendar, contents_.starts, all_.calendar, all_.times)) {
      problems_.push_back(fmt::format("{} has the calendar {}, and {} has {}; score fields of the same calendar", file_,
                                      data::name_of(contents_.calendar), data_.prefix(), data::name_of(all_.calendar)));
    }
  }

  void match_variables(const std::vector<std::string>& wanted) {
    std::vector<std::string> names;
    for (const ForecastVariable& variable : contents_.variables) names.push_back(variable.name);
    for (const std::string& name : wanted.empty() ? names : wanted) {
      const auto place = std::ranges::find(names, name);
      if (place == names.end()) {
        problems_.push_back(fmt::format("--variables {}: {} has {}", name, file_, fmt::join(names, ", ")));
        continue;
      }
      const int64_t number = data::FieldsDescription::find(all_.variables, name);
      if (number < 0) {
        const std::vector<std::string> known = data::FieldsDescription::names(all_.variables);
        const std::string nearest = nearest_word(name, known);
        problems_.push_back(fmt::format(
            "{} has no variable {}{}, which {} forecasts; it has {}; choose with --variables", data_.prefix(), name,
            nearest.empty() ? "" : fmt::format(" (like {}?)", nearest), file_, fmt::join(known, ", ")));
        continue;
      }
      const auto at = static_cast<size_t>(place - names.begin());
      check_units(contents_.variables[at], all_.variables[static_cast<size_t>(number)]);
      matched_.variables.push_back(name);
      matched_.variable_places.push_back(at);
    }
  }

  void check_units(const ForecastVariable& forecast, const data::FieldOfDataset& truth) {
    const auto of_file = data::canonical_units(forecast.units), of_data = data::canonical_units(truth.units);
    if (forecast.units.empty() || truth.units.empty() || !of_file || !of_data ||
        data::are_same_units(forecast.units, truth.units))
      return;
    problems_.push_back(fmt::format("{} has {} in {}, and {} has it in {}; convert one of them", file_, forecast.name,
                                    forecast.units, data_.prefix(), truth.units));
  }

  void match_leads(const std::vector<std::string>& wanted) {
    std::vector<std::pair<int64_t, size_t>> found;  // steps and place in the file
    std::vector<std::string> unusable, words;
    for (size_t place = 0; place < contents_.leads.size(); ++place) {
      const std::optional<int64_t> steps = all_.step.steps(contents_.leads[place]);
      if (steps && *steps == 0) continue;
      if (steps && *steps > 0) {
        found.emplace_back(*steps, place);
        words.push_back(lead_text(all_.step, *steps));
      } else {
        unusable.push_back(fmt::format("{:g} h", contents_.leads[place] / 3600));
      }
    }
    if (!wanted.empty()) {
      const std::vector<int64_t> steps = lead_steps("--lead", wanted, all_, data_.prefix());
      for (const int64_t lead : steps) {
        const auto place = std::ranges::find(found, lead, &std::pair<int64_t, size_t>::first);
        if (place != found.end()) continue;
        problems_.push_back(fmt::format("{} has no lead of {}; it has {}", file_, lead_text(all_.step, lead),
                                        words.empty() ? "none that is a multiple of the step of the data"
                                                      : fmt::format("{}", fmt::join(words, ", "))));
      }
      std::erase_if(found, [&](const auto& one) { return std::ranges::find(steps, one.first) == steps.end(); });
    } else if (!unusable.empty() || found.empty()) {
      problems_.push_back(
          fmt::format("{} has {}, of which none is a multiple of the {} between two times of {}{}", file_,
                      unusable.empty() ? "no leads above 0" : fmt::format("leads of {}", fmt::join(unusable, ", ")),
                      all_.step.text(), data_.prefix(),
                      words.empty() ? "" : fmt::format("; choose others with --lead {}", fmt::join(words, ","))));
    }
    std::ranges::sort(found);
    for (size_t i = 1; i < found.size(); ++i) {
      if (found[i].first != found[i - 1].first) continue;
      problems_.push_back(fmt::format("{} has the lead {} twice, as entries {} and {}; leave one of them out", file_,
                                      lead_text(all_.step, found[i].first), found[i - 1].second + 1,
                                      found[i].second + 1));
    }
    for (const auto& [steps, place] : found) {
      matched_.leads.push_back(steps);
      matched_.lead_places.push_back(place);
    }
  }

  int64_t time_at(int64_t instant) const {
    const std::optional<int64_t> steps = all_.step.between(all_.calendar, all_.times.front(), instant);
    return steps ? data_.time_after(0, *steps) : -1;
  }

  const ForecastContents& contents_;
  const data::FieldsDataset& data_;
  const data::FieldsDescription& all_;
  std::string file_;
  MatchedForecasts matched_;
  std::vector<std::string> problems_;
};

}  // namespace

MatchedForecasts match_forecasts(const ForecastContents& contents, const data::FieldsDataset& data,
                                 const WantedForecasts& wanted) {
  return ForecastMatcher(contents, data).match(wanted);
}

int64_t leave_out_repeats(ForecastFile& file, const data::FieldsDataset& data, MatchedForecasts& matched) {
  const ForecastContents& contents = file.contents();
  std::map<int64_t, size_t> first_of;  // by number of the time
  int64_t repeats = 0;
  std::vector<float> first, second;
  for (size_t place = 0; place < matched.starts.size(); ++place) {
    const int64_t start = matched.starts[place];
    if (start < 0) continue;
    const auto [earlier, is_new] = first_of.emplace(start, place);
    if (is_new) continue;
    for (const size_t lead : matched.lead_places) {
      for (const size_t variable : matched.variable_places) {
        file.read(earlier->second, lead, variable, first);
        file.read(place, lead, variable, second);
        if (std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0) continue;
        throw UserError::of(
            "{} has two forecasts of {} from the time {} of {}: as start {}, {}, and as start {}, {}; leave one of "
            "them out",
            contents.path.string(), contents.variables[variable].name,
            data::text_of(data.description().calendar, data.description().times[static_cast<size_t>(start)]),
            data.prefix(), earlier->second + 1, data::text_of(contents.calendar, contents.starts[earlier->second]),
            place + 1, data::text_of(contents.calendar, contents.starts[place]));
      }
    }
    matched.starts[place] = -1;
    ++repeats;
  }
  return repeats;
}

}  // namespace terrace::forecast
