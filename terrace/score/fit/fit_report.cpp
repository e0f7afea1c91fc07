// Writes the report of a fit, and the file of the fitted machine.
#include "terrace/score/fit/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/score/score_report.h"

namespace terrace::score {
namespace {

std::string with_sign(double share) { return fmt::format("{:+.1f}%", 100 * share); }
std::string mean_percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

// The runs that say most about the constant, unless none says twice as much as runs do on average.
std::string evidence_text(const Fit& fit, const FittedConstant& constant) {
  if (constant.set_by.front().share * static_cast<double>(fit.runs.size()) < 2) return "all runs about equally";
  std::vector<std::string> parts;
  for (const Evidence& one : constant.set_by) {
    parts.push_back(fmt::format("{} {:.0f}%", label_of(fit.runs[one.run].scored.run), 100 * one.share));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string line_of(const Fit& fit, const FittedConstant& constant) {
  return fmt::format("  {:28} {:>16} -> {:>16}  {} to {}; set by {}\n", constant.key, constant.before_text,
                     constant.after_text, constant.least_text, constant.most_text, evidence_text(fit, constant));
}

std::string line_of(const FittedRun& one) {
  const PublishedRun& run = one.scored.run;
  return fmt::format("  {:24} {:16} {:>6} devices  {:>9} measured {:>7} before {:>7} after {:>7} left out{}\n",
                     label_of(run), run.model, run.target.devices, format_seconds(one.scored.measured),
                     with_sign(one.scored.error()), with_sign(one.error()), with_sign(one.left_out_error()),
                     one.weight < 1 ? fmt::format("; off by more than others, counts {:.0f}%", 100 * one.weight) : "");
}

std::string line_of(const plan::PublishedErrors& errors) {
  return fmt::format("  {:24} {:>5} {} to {}, on up to {} devices\n", errors.kind, errors.runs,
                     with_sign(errors.lowest), with_sign(errors.highest), format_count(errors.most_devices));
}

Json json_of(const FittedConstant& constant) {
  Json json = {{"key", constant.key},          {"before", constant.before_text},
               {"after", constant.after_text}, {"least", constant.least_text},
               {"most", constant.most_text},   {"factor", constant.after / constant.before},
               {"known", constant.known},      {"set_by", Json::array()}};
  for (const Evidence& one : constant.set_by) json["set_by"].push_back({{"run", one.run}, {"share", one.share}});
  return json;
}

Json json_of(const FittedRun& one) {
  const PublishedRun& run = one.scored.run;
  return {{"table", run.table},
          {"line", run.line},
          {"id", run.name},
          {"model", run.model},
          {"devices", run.target.devices},
          {"software", run.target.software.name},
          {"kind", one.scored.kind},
          {"measured_seconds", one.scored.measured},
          {"before_seconds", one.scored.predicted},
          {"fitted_seconds", one.seconds},
          {"left_out_seconds", one.left_out_seconds},
          {"weight", one.weight}};
}

// The means of absolute errors as one sentence without its end.
std::string errors_text(const Fit& fit) {
  return fmt::format("mean error {} before, {} after, {} of each run by a fit to the others",
                     mean_percent(fit.error_before()), mean_percent(fit.error_after()),
                     mean_percent(fit.error_left_out()));
}

std::string runs_text(const Fit& fit) { return counted(fit.runs.size(), "run"); }

}  // namespace

std::string text_of(const Fit& fit) {
  std::string text = fmt::format("{} fitted to {}: {}\n", fit.machine.name, runs_text(fit), errors_text(fit));
  text += "constants, with intervals of 90% and the runs that say most about each\n";
  for (const FittedConstant& one : fit.constants) text += line_of(fit, one);
  if (!fit.unknown.empty()) {
    text += fmt::format("  unchanged, since the runs say nothing about them: {}\n", fmt::join(fit.unknown, ", "));
  }
  text += "runs\n";
  for (const FittedRun& one : fit.runs) text += line_of(one);
  if (fit.machine.errors.empty()) {
    text += "no kind of layout has three runs, so that intervals stay those of published runs\n";
  } else {
    text += "errors to be expected, by kind of layout and number of runs\n";
    for (const plan::PublishedErrors& one : fit.machine.errors) text += line_of(one);
  }
  return text + left_out_text(fit.left_out);
}

Json json_of(const Fit& fit) {
  Json json = {{"machine", fit.machine.name},
               {"error_before", fit.error_before()},
               {"error_after", fit.error_after()},
               {"error_left_out", fit.error_left_out()},
               {"spread", fit.spread},
               {"constants", Json::array()},
               {"unknown", fit.unknown},
               {"runs", Json::array()},
               {"errors", plan::json_of(fit.machine.errors)},
               {"left_out", left_out_json(fit.left_out)}};
  for (const FittedConstant& one : fit.constants) json["constants"].push_back(json_of(one));
  for (const FittedRun& one : fit.runs) json["runs"].push_back(json_of(one));
  return json;
}

std::string description_of(const Fit& fit, const std::string& name) {
  std::string text = fmt::format("# {} as fitted to {}: {}.\n", fit.machine.name, runs_text(fit), errors_text(fit));
  for (const FittedConstant& one : fit.constants) {
    text += fmt::format("# {}: {} before, {} to {} with a probability of 90%; set by {}\n", one.key, one.before_text,
                        one.least_text, one.most_text, evidence_text(fit, one));
  }
  machine::Machine machine = fit.machine;
  machine.name = name;
  machine.known_as.clear();
  return text + machine::dump(machine);
}

}  // namespace terrace::score
