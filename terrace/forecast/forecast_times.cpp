// Turns dates and lengths of time into times and steps of a dataset.
#include "terrace/forecast/forecast_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/base/error.h"
#include "terrace/base/problem_list.h"
#include "terrace/base/text/plural.h"
#include "terrace/config/domain.h"

namespace terrace::forecast {
namespace {

std::string time_text(const data::FieldsDescription& all, int64_t time) {
  return data::text_of(all.calendar, all.times[static_cast<size_t>(time)]);
}

std::string times_of_data(const data::FieldsSource& source) {
  const data::FieldsDescription& all = source.description();
  return fmt::format("{} has {} from {} to {}, every {}", source.config().fields, counted(all.times.size(), "time"),
                     time_text(all, 0), time_text(all, std::ssize(all.times) - 1), all.step.text());
}

class StartPlanner {
 public:
  explicit StartPlanner(const data::FieldsSource& source) : source_(source), all_(source.description()) {}

  void add(const std::string& date) {
    try {
      const auto [first, end] = times_between(all_, date, date);
      if (end - first == 1) return add(first, "--start " + date);
      problems_.push_back(end == first
                              ? fmt::format("--start {}: {}", date, times_of_data(source_))
                              : fmt::format("--start {} means {} of {}, from {} to {}; name one of them, or all with "
                                            "--starts",
                                            date, counted(static_cast<uint64_t>(end - first), "time"),
                                            source_.config().fields, time_text(all_, first), time_text(all_, end - 1)));
    } catch (const UserError& error) {
      problems_.push_back(fmt::format("--start {}", error.what()));
    }
  }

  void add_range(const std::vector<std::string>& range) {
    const std::string flag = fmt::format("--starts {}", fmt::join(range, " "));
    try {
      const auto [first, end] = times_between(all_, range.at(0), range.at(1));
      const std::optional<double> every = lead_seconds(range.at(2));
      const std::optional<int64_t> steps = every ? all_.step.steps(*every) : std::nullopt;
      if (!steps || *steps < 1) {
        problems_.push_back(fmt::format("{}: {} is no multiple of the {} between two times of {}", flag, range.at(2),
                                        all_.step.text(), source_.config().fields));
      } else if (first >= end) {
        problems_.push_back(fmt::format("{}: {}", flag, times_of_data(source_)));
      } else {
        for (int64_t time = first; time >= 0 && time < end; time = source_.dataset().time_after(time, *steps)) {
          add(time, flag);
        }
      }
    } catch (const UserError& error) {
      problems_.push_back(fmt::format("--starts {}", error.what()));
    }
  }

  std::vector<int64_t> starts() {
    std::ranges::sort(starts_);
    starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
    return starts_;
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void add(int64_t time, const std::string& flag) {
    if (source_.has_inputs(time)) return starts_.push_back(time);
    const std::vector<int64_t>& times = all_.times;
    int64_t first = 0;
    while (first < std::ssize(times) && !source_.has_inputs(first)) ++first;
    problems_.push_back(fmt::format(
        "{}: the model reads {} and {} lacks some of those before {}{}", flag,
        counted(static_cast<uint64_t>(source_.config().inputs), "time"), source_.config().fields, time_text(all_, time),
        first < std::ssize(times) ? fmt::format("; the first possible start is {}", time_text(all_, first)) : ""));
  }

  const data::FieldsSource& source_;
  const data::FieldsDescription& all_;
  std::vector<int64_t> starts_;
  std::vector<std::string> problems_;
};

std::vector<int64_t> trained_leads(const data::FieldsSource& source) {
  std::vector<int64_t> steps;
  for (const double lead : source.config().leads) steps.push_back(*source.description().step.steps(lead));
  std::ranges::sort(steps);
  return steps;
}

// A sentence where the model was not trained for the lead, else "".
std::string problem_with_lead(const data::FieldsSource& source, int64_t lead, bool knows_lead) {
  const std::vector<int64_t> trained = trained_leads(source);
  const bool fits = knows_lead ? lead >= trained.front() && lead <= trained.back()
                               : std::ranges::find(trained, lead) != trained.end();
  if (fits) return "";
  std::vector<std::string> words;
  for (const int64_t steps : trained) words.push_back(lead_text(source.description().step, steps));
  return fmt::format("the model was trained for {} {}, not {}; give such a --lead, or reach further with --rollout {}",
                     words.size() == 1 ? "the lead" : "leads",
                     knows_lead && words.size() > 1 ? fmt::format("from {} to {}", words.front(), words.back())
                                                    : fmt::format("{}", fmt::join(words, ", ")),
                     lead_text(source.description().step, lead), words.front());
}

void plan_rollout(const data::FieldsSource& source, const ForecastTimes& times, bool knows_lead, ForecastPlan& plan,
                  std::vector<std::string>& problems) {
  const data::FieldsDescription& all = source.description();
  plan.rollout = lead_steps("--rollout", {times.rollout}, all, source.config().fields).front();
  const std::string step = lead_text(all.step, plan.rollout);
  if (std::string problem = problem_with_lead(source, plan.rollout, knows_lead); !problem.empty()) {
    problems.push_back(fmt::format("--rollout {}: {}", times.rollout, problem));
  }
  if (const std::vector<std::string> missing = source.inputs_without_forecast(); !missing.empty()) {
    problems.push_back(fmt::format(
        "--rollout {}: the model reads {} and does not predict {}, so its forecast cannot be its next input; leave "
        "--rollout out, or train with {} among model.outputs",
        times.rollout, fmt::join(missing, ", "), missing.size() == 1 ? "it" : "them",
        missing.size() == 1 ? "it" : "them"));
  }
  if (source.config().inputs > 1 && source.input_steps() % plan.rollout != 0) {
    problems.push_back(
        fmt::format("--rollout {}: the model reads {} that lie {} apart, which is no multiple of it; use --rollout {}",
                    times.rollout, counted(static_cast<uint64_t>(source.config().inputs), "time"),
                    lead_text(all.step, source.input_steps()), lead_text(all.step, source.input_steps())));
  }
  for (const int64_t lead : plan.leads) {
    if (lead % plan.rollout == 0) continue;
    problems.push_back(fmt::format("--lead {} is no multiple of --rollout {}; use {} or {}", lead_text(all.step, lead),
                                   times.rollout,
                                   lead_text(all.step, std::max<int64_t>(1, lead / plan.rollout) * plan.rollout),
                                   lead_text(all.step, (lead / plan.rollout + 1) * plan.rollout)));
  }
  const int64_t longest = plan.leads.back();
  plan.leads.clear();
  for (int64_t lead = plan.rollout; lead <= longest; lead += plan.rollout) plan.leads.push_back(lead);
}

ForecastPlan plan_leads(const data::FieldsSource& source, const ForecastTimes& times, bool knows_lead,
                        std::vector<std::string>& problems) {
  ForecastPlan plan;
  plan.leads = times.leads.empty() ? trained_leads(source)
                                   : lead_steps("--lead", times.leads, source.description(), source.config().fields);
  if (!times.rollout.empty()) {
    plan_rollout(source, times, knows_lead, plan, problems);
    return plan;
  }
  for (const int64_t lead : plan.leads) {
    if (std::string problem = problem_with_lead(source, lead, knows_lead); !problem.empty()) {
      problems.push_back(fmt::format("--lead {}: {}", lead_text(source.description().step, lead), problem));
    }
  }
  return plan;
}

}  // namespace

std::pair<int64_t, int64_t> times_between(const data::FieldsDescription& all, const std::string& from,
                                          const std::string& to) {
  const int64_t first = data::instants_of(all.calendar, from).first, last = data::instants_of(all.calendar, to).second;
  const auto begin = std::ranges::lower_bound(all.times, first), end = std::ranges::upper_bound(all.times, last);
  return {begin - all.times.begin(), end - all.times.begin()};
}

std::optional<double> lead_seconds(const std::string& text) { return config::parse_duration(text); }

std::string lead_text(const data::TimeStep& step, int64_t steps) {
  if (step.months > 0 && step.months % 12 == 0) return fmt::format("{}y", steps * step.months / 12);
  if (step.months > 0) return fmt::format("{}mo", steps * step.months);
  const int64_t seconds = steps * step.seconds;
  if (seconds % 3600 == 0) return fmt::format("{}h", seconds / 3600);
  return seconds % 60 == 0 ? fmt::format("{}m", seconds / 60) : fmt::format("{}s", seconds);
}

std::vector<int64_t> lead_steps(const std::string& flag, const std::vector<std::string>& leads,
                                const data::FieldsDescription& description, const std::string& prefix) {
  std::vector<int64_t> list;
  std::vector<std::string> problems;
  for (const std::string& text : leads) {
    const std::optional<double> seconds = lead_seconds(text);
    const std::optional<int64_t> steps = seconds ? description.step.steps(*seconds) : std::nullopt;
    if (!seconds) {
      problems.push_back(fmt::format("{} {} is no length of time; give one such as {} or {}", flag, text,
                                     lead_text(description.step, 1), lead_text(description.step, 4)));
    } else if (!steps || *steps < 1) {
      problems.push_back(fmt::format("{} {} is no multiple, from {} on, of the {} between two times of {}", flag, text,
                                     lead_text(description.step, 1), description.step.text(), prefix));
    } else {
      list.push_back(*steps);
    }
  }
  throw_problems(problems, "lengths of time that cannot be used");
  std::ranges::sort(list);
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

ForecastPlan plan_forecasts(const data::FieldsSource& source, const ForecastTimes& times, bool knows_lead) {
  StartPlanner planner(source);
  for (const std::string& start : times.starts) planner.add(start);
  if (!times.range.empty()) planner.add_range(times.range);
  std::vector<std::string> problems = planner.problems();
  if (times.starts.empty() && times.range.empty()) problems.emplace_back("no start is given; use --start or --starts");
  ForecastPlan plan = plan_leads(source, times, knows_lead, problems);
  throw_problems(problems, "problems with the starts and leads");
  plan.starts = planner.starts();
  return plan;
}

ForecastPlan plan_forecasts_of_split(const data::FieldsSource& source, const std::string& split,
                                     const ForecastTimes& times, bool knows_lead) {
  std::vector<std::string> problems;
  ForecastPlan plan = plan_leads(source, times, knows_lead, problems);
  throw_problems(problems, "problems with the leads");
  const auto found = source.description().splits.find(split);
  if (found == source.description().splits.end()) {
    throw UserError::of("{} has no {} part; prepare it with --{} FROM TO, or choose another --split",
                        source.config().fields, split, split);
  }
  for (const int64_t lead : plan.leads) {
    const std::vector<int64_t> starts = source.starts_into(split, lead);
    plan.starts.insert(plan.starts.end(), starts.begin(), starts.end());
  }
  std::ranges::sort(plan.starts);
  plan.starts.erase(std::unique(plan.starts.begin(), plan.starts.end()), plan.starts.end());
  if (plan.starts.empty()) {
    throw UserError::of(
        "no time of the {} part of {}, which has {}, can be predicted {} ahead from {} of the data; choose another "
        "--split or --lead",
        split, source.config().fields, counted(static_cast<uint64_t>(found->second.count()), "time"),
        lead_text(source.description().step, plan.leads.front()),
        counted(static_cast<uint64_t>(source.config().inputs), "input time"));
  }
  return plan;
}

}  // namespace terrace::forecast
