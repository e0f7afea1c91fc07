// Writes explanations as text and as JSON, which is the data of the page too.
#include "terrace/search/explain/explain_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/observe/html_page.h"
#include "terrace/search/explain/explain_template.h"
#include "terrace/search/search_report.h"

namespace terrace::search {
namespace {

constexpr size_t listed_pairs = 3;    // in text
constexpr size_t listed_trials = 20;  // on the page

std::map<std::string, int64_t> kinds_of_failure(const TrialTable& trials) {
  std::map<std::string, int64_t> counts;
  for (const std::string& failure : trials.failures) {
    if (!failure.empty()) ++counts[failure];
  }
  return counts;
}

// Three digits. Effects on failing are differences of a probability.
std::string shown_effect(const Attribution& attribution, double effect) {
  return attribution.is_failure ? fmt::format("{:.1f}%", 100 * effect)
                                : shown_figure(attribution.name, std::stod(fmt::format("{:.3g}", effect)));
}

std::string heading(const TrialTable& trials, const Attribution& attribution, FailuresAs failures) {
  const std::string fit = attribution.fit ? fmt::format("R^2 {:.2f}", *attribution.fit) : "R^2 unknown";
  if (attribution.is_failure) {
    return fmt::format("What makes a trial fail ({} trials of which {:.1f}% failed, {})",
                       format_count(static_cast<int64_t>(attribution.trials)), 100 * attribution.mean, fit);
  }
  const std::string of = trials.failed() == 0            ? "trials"
                         : failures == FailuresAs::worst ? "trials, those that failed with the worst value"
                                                         : "trials that did not fail";
  return fmt::format("What {} depends on ({} {}, {})", attribution.name,
                     format_count(static_cast<int64_t>(attribution.trials)), of, fit);
}

Json array_of(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? Json(value) : Json());
  return list;
}

Json figures_json(const std::vector<TriedFigure>& figures) {
  Json list = Json::array();
  for (const TriedFigure& figure : figures) {
    list.push_back(
        {{"name", figure.name}, {"smaller_is_better", figure.smaller_is_better}, {"values", array_of(figure.values)}});
  }
  return list;
}

Json parameters_json(const TrialTable& trials) {
  Json list = Json::array();
  for (const TriedParameter& parameter : trials.parameters) {
    list.push_back({{"name", parameter.name},
                    {"numeric", parameter.is_numeric},
                    {"values", parameter.values},
                    {"indices", parameter.indices}});
  }
  return list;
}

Json attribution_json(const TrialTable& trials, const Attribution& attribution) {
  const auto name = [&](size_t parameter) { return trials.parameters[parameter].name; };
  Json ranking = Json::array(), pairs = Json::array(), contributions = Json::array();
  for (const size_t i : attribution.ranking()) {
    ranking.push_back({{"parameter", name(i)},
                       {"trials", attribution.trials_with[i]},
                       {"effect", attribution.effects[i]},
                       {"share", attribution.share(attribution.effects[i])},
                       {"own_effect", attribution.own_effects[i]}});
  }
  for (const PairEffect& pair : attribution.pairs) {
    pairs.push_back({{"parameters", {name(pair.first), name(pair.second)}}, {"effect", pair.effect}});
  }
  const size_t parameters = trials.parameters.size();
  for (size_t i = 0; i < parameters; ++i) {
    Json own = Json::array();
    for (size_t row = 0; row < attribution.rows.size(); ++row) {
      // XGBoost computes them in fp32, whose digits are enough.
      const auto value = static_cast<float>(attribution.contributions[row * parameters + i]);
      own.push_back(trials.parameters[i].exists(attribution.rows[row]) ? Json(value) : Json());
    }
    contributions.push_back(std::move(own));
  }
  return {{"name", attribution.name},
          {"failure", attribution.is_failure},
          {"smaller_is_better", attribution.smaller_is_better},
          {"trials", attribution.trials},
          {"mean", attribution.mean},
          {"fit", attribution.fit ? Json(*attribution.fit) : Json()},
          {"poor", attribution.is_poor()},
          {"ranking", std::move(ranking)},
          {"pairs", std::move(pairs)},
          {"rows", attribution.rows},
          {"contributions", std::move(contributions)}};
}

}  // namespace

std::string text_of(const TrialTable& trials, const Explanation& explanation) {
  const auto count = static_cast<int64_t>(trials.size()), failed = static_cast<int64_t>(trials.failed());
  std::string text = fmt::format("{} in {}: {} done, {} failed", counted(count, "trial"), trials.path.string(),
                                 format_count(count - failed), format_count(failed));
  std::string kinds;
  for (const auto& [kind, own] : kinds_of_failure(trials)) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", format_count(own), kind);
  }
  text += kinds.empty() ? "\n" : fmt::format(" ({})\n", kinds);
  for (const Attribution& attribution : explanation.attributions) {
    text += "\n" + heading(trials, attribution, explanation.failures) + "\n";
    std::vector<std::vector<std::string>> rows = {{"", "parameter", "share", "mean |SHAP|"}};
    for (const size_t i : attribution.ranking()) {
      rows.push_back({std::to_string(rows.size()), trials.parameters[i].name,
                      fmt::format("{:.1f}%", 100 * attribution.share(attribution.effects[i])),
                      shown_effect(attribution, attribution.effects[i])});
    }
    text += aligned(rows);
    for (size_t i = 0; i < std::min(listed_pairs, attribution.pairs.size()); ++i) {
      const PairEffect& pair = attribution.pairs[i];
      text += fmt::format("{}{} with {}: {}", i == 0 ? "together: " : ", ", trials.parameters[pair.first].name,
                          trials.parameters[pair.second].name, shown_effect(attribution, pair.effect));
    }
    if (!attribution.pairs.empty()) text += "\n";
    for (const size_t i : attribution.ranking()) {
      if (attribution.trials_with[i] == attribution.trials) continue;
      text += fmt::format("{} exists in {} of these trials; its figures are of them alone\n", trials.parameters[i].name,
                          format_count(static_cast<int64_t>(attribution.trials_with[i])));
    }
  }
  return text;
}

Json json_of(const TrialTable& trials, const Explanation& explanation) {
  Json attributions = Json::array(), failures = Json::array(), best_so_far = Json::array();
  for (const Attribution& one : explanation.attributions) attributions.push_back(attribution_json(trials, one));
  for (const std::string& failure : trials.failures) failures.push_back(failure.empty() ? Json() : Json(failure));
  for (const auto& best : explanation.best_so_far) best_so_far.push_back(best ? Json(*best) : Json());
  const size_t best = std::min(listed_trials, explanation.best.size());
  return {{"file", trials.path.string()},
          {"trials", trials.size()},
          {"failed", trials.failed()},
          {"failure_kinds", kinds_of_failure(trials)},
          {"failures_as", explanation.failures == FailuresAs::worst ? "worst" : "leave-out"},
          {"attributions", std::move(attributions)},
          {"best", std::vector(explanation.best.begin(), explanation.best.begin() + static_cast<int64_t>(best))},
          {"tied", explanation.tied},
          {"pareto_front", explanation.pareto_front},
          {"parameters", parameters_json(trials)},
          {"objectives", figures_json(trials.objectives)},
          {"figures", figures_json(trials.figures)},
          {"failures", std::move(failures)},
          {"job_ids", trials.job_ids},
          {"best_so_far", std::move(best_so_far)}};
}

std::string explain_page(const TrialTable& trials, const Explanation& explanation) {
  return observe::html_page(explain_template(), trials.path.string(), json_of(trials, explanation));
}

}  // namespace terrace::search
