// Classifies layouts, and divides a predicted step by the errors of published runs of its kind.
#include "terrace/plan/report/published_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "terrace/base/error.h"
#include "terrace/base/text/json_record.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/plan/time/tensor_reach.h"

namespace terrace::plan {

// The file, which cmake/published_errors.cmake puts into the program.
std::string_view built_in_published_errors();

namespace {

// The value with so many of the others below it, by the nearest rank; the share is above 0.
double percentile(const std::vector<double>& ascending, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(ascending.size())));
  return ascending.at(rank - 1);
}

// Three digits after the point, as the file has them.
double rounded(double error) { return std::round(1000 * error) / 1000; }

// Sets what follows from the errors of two runs of one model, machine and program.
void summarize_pairs(const std::vector<ComparedRun>& runs, PublishedErrors& all) {
  using Program = std::tuple<int64_t, std::string, std::string>;
  std::map<Program, std::vector<const ComparedRun*>> groups;
  for (const ComparedRun& one : runs) groups[{one.parameters, one.machine, one.program}].push_back(&one);
  std::vector<double> differences, ratios;
  for (const auto& [of, own] : groups) {
    for (size_t i = 0; i < own.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const auto [less, more] = std::minmax(own[i]->error, own[j]->error);
        differences.push_back(more - less);
        if (own[i]->layout != own[j]->layout || own[i]->devices == own[j]->devices) continue;
        ratios.push_back((1 + more) / (1 + less) - 1);
      }
    }
  }
  if (!differences.empty()) {
    const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
    std::nth_element(differences.begin(), middle, differences.end());
    all.median_difference = rounded(*middle);
  }
  if (ratios.empty()) return;
  std::ranges::sort(ratios);
  const bool many = std::ssize(ratios) >= enough_for_percentiles;
  all.ratio_error = rounded(many ? percentile(ratios, 0.9) : ratios.back());
}

PublishedErrors summary_of(const std::string& kind, const std::vector<ComparedRun>& runs) {
  PublishedErrors all{.kind = kind, .runs = static_cast<int64_t>(runs.size())};
  std::vector<double> errors;
  std::set<std::string> families, machines, programs;
  all.fewest_parameters = runs.front().parameters;
  for (const ComparedRun& one : runs) {
    errors.push_back(one.error);
    families.insert(one.family);
    machines.insert(one.machine);
    programs.insert(one.program);
    all.most_devices = std::max(all.most_devices, one.devices);
    all.fewest_parameters = std::min(all.fewest_parameters, one.parameters);
    all.most_parameters = std::max(all.most_parameters, one.parameters);
  }
  summarize_pairs(runs, all);
  std::ranges::sort(errors);
  const bool many = all.runs >= enough_for_percentiles;
  all.lowest = rounded(many ? percentile(errors, 0.05) : errors.front());
  all.highest = rounded(many ? percentile(errors, 0.95) : errors.back());
  all.families.assign(families.begin(), families.end());
  all.machines.assign(machines.begin(), machines.end());
  all.programs.assign(programs.begin(), programs.end());
  return all;
}

std::string with_sign(double error) { return fmt::format("{:+.0f}%", 100 * error); }

std::string billions(int64_t parameters) { return fmt::format("{:.3g}B", static_cast<double>(parameters) / 1e9); }

}  // namespace

std::string layout_kind(const config::Config& config, const Target& target) {
  return layout_kind(planned_run(config, target), target);
}

std::string layout_kind(const PlannedRun& run, const Target& target) {
  if (run.sizes.weights > 1) return "weights cut";
  if (tensor_leaves_domain(run.mesh, target.machine)) return "tensor over nodes";
  const std::string where = target.nodes() > 1 ? "over nodes" : "in one node";
  return (run.config.layout.pipeline > 1 ? "pipeline " : "one stage ") + where;
}

const PublishedErrors* find_kind(const std::string& kind, const std::vector<PublishedErrors>& errors) {
  const auto found = std::ranges::find(errors, kind, &PublishedErrors::kind);
  return found == errors.end() ? nullptr : &*found;
}

const PublishedErrors* find_kind(const std::string& kind, const machine::Machine& machine,
                                 const std::vector<PublishedErrors>& errors) {
  const PublishedErrors* own = find_kind(kind, machine.errors);
  return own == nullptr ? find_kind(kind, errors) : own;
}

std::vector<PublishedErrors> known_errors(const machine::Machine& machine) {
  std::vector<PublishedErrors> known = machine.errors;
  for (const PublishedErrors& one : published_errors()) {
    if (find_kind(one.kind, machine.errors) == nullptr) known.push_back(one);
  }
  return known;
}

double uncertainty_of(const std::string& kind, const std::vector<PublishedErrors>& errors) {
  const PublishedErrors* found = find_kind(kind, errors);
  return found == nullptr ? 0 : (1 + found->highest) / (1 + found->lowest) - 1;
}

std::vector<PublishedErrors> summarize(const std::vector<ComparedRun>& runs) {
  std::map<std::string, std::vector<ComparedRun>> by_kind;
  for (const ComparedRun& one : runs) by_kind[one.kind].push_back(one);
  std::vector<PublishedErrors> errors;
  for (const auto& [kind, of] : by_kind) errors.push_back(summary_of(kind, of));
  return errors;
}

Json json_of(const std::vector<PublishedErrors>& errors) {
  Json list = Json::array();
  for (const PublishedErrors& one : errors) list.push_back(json_of_record(one));
  return list;
}

std::vector<PublishedErrors> read_published_errors(const std::string& json) {
  try {
    std::vector<PublishedErrors> errors;
    for (const Json& one : Json::parse(json)) errors.push_back(record_of<PublishedErrors>(one));
    return errors;
  } catch (const Json::exception& error) {
    throw UserError::of("the errors of published runs are not as terrace plan --score --errors writes them: {}",
                        error.what());
  }
}

const std::vector<PublishedErrors>& published_errors() {
  static const std::vector<PublishedErrors> errors = read_published_errors(std::string(built_in_published_errors()));
  return errors;
}

StepInterval step_interval(const config::Config& config, const Prediction& prediction, const Target& target,
                           const std::vector<PublishedErrors>& errors) {
  return step_interval(planned_run(config, target), prediction, target, errors);
}

StepInterval step_interval(const PlannedRun& run, const Prediction& prediction, const Target& target,
                           const std::vector<PublishedErrors>& errors) {
  StepInterval interval{.errors = {.kind = layout_kind(run, target)}};
  const PublishedErrors* found = find_kind(interval.errors.kind, target.machine, errors);
  interval.of_machine = found != nullptr && find_kind(interval.errors.kind, target.machine.errors) != nullptr;
  if (found == nullptr) {
    interval.outside.push_back(
        fmt::format("no run was compared whose layout is of the kind \"{}\"", interval.errors.kind));
    return interval;
  }
  interval.errors = *found;
  if (std::ranges::find(found->families, run.config.family->name) == found->families.end()) {
    interval.outside.push_back(fmt::format("runs of this kind were of the family {}, not {}",
                                           fmt::join(found->families, ", "), run.config.family->name));
  }
  if (target.block_products == BlockProducts::fp8) {
    interval.outside.push_back("no run with products in fp8 was compared");
  }
  if (std::ranges::find(found->machines, target.machine.name) == found->machines.end()) {
    interval.outside.push_back(fmt::format("runs of this kind were compared on {}, not on {}",
                                           fmt::join(found->machines, ", "), target.machine.name));
  }
  if (target.devices > found->most_devices) {
    interval.outside.push_back(fmt::format("runs of this kind were compared on up to {} devices, not on {}",
                                           format_count(found->most_devices), format_count(target.devices)));
  }
  if (prediction.parameters < found->fewest_parameters || prediction.parameters > found->most_parameters) {
    interval.outside.push_back(fmt::format("models of this kind had {} to {} parameters, not {}",
                                           billions(found->fewest_parameters), billions(found->most_parameters),
                                           billions(prediction.parameters)));
  }
  if (!interval.outside.empty()) return interval;
  interval.shortest_seconds = prediction.step_seconds / (1 + found->highest);
  interval.longest_seconds = prediction.step_seconds / (1 + found->lowest);
  return interval;
}

std::optional<RatioInterval> ratio_interval(const StepInterval& of, const StepInterval& base) {
  if (!of.outside.empty() || !base.outside.empty()) return std::nullopt;
  const double error = of.errors.kind == base.errors.kind ? of.errors.ratio_error : 0;
  if (error > 0) return RatioInterval{1 / (1 + error), 1 + error, true};
  return RatioInterval{(1 + base.errors.lowest) / (1 + of.errors.highest),
                       (1 + base.errors.highest) / (1 + of.errors.lowest), false};
}

std::string text_of(const StepInterval& interval) {
  if (!interval.outside.empty()) return fmt::format("outside what was compared: {}", fmt::join(interval.outside, "; "));
  const PublishedErrors& errors = interval.errors;
  return fmt::format(
      "{} to {} if it errs as for {} of {} ({}; errors of {} to {})", format_seconds(interval.shortest_seconds),
      format_seconds(interval.longest_seconds),
      counted(static_cast<uint64_t>(errors.runs), interval.of_machine ? "measured run" : "published run"),
      fmt::join(errors.programs, ", "), errors.kind, with_sign(errors.lowest), with_sign(errors.highest));
}

Json json_of(const StepInterval& interval) {
  const bool holds = interval.outside.empty();
  return {{"kind", interval.errors.kind},
          {"runs", interval.errors.runs},
          {"of_machine", interval.of_machine},
          {"shortest_seconds", holds ? Json(interval.shortest_seconds) : Json(nullptr)},
          {"longest_seconds", holds ? Json(interval.longest_seconds) : Json(nullptr)},
          {"lowest_error", holds ? Json(interval.errors.lowest) : Json(nullptr)},
          {"highest_error", holds ? Json(interval.errors.highest) : Json(nullptr)},
          {"programs", interval.errors.programs},
          {"outside", interval.outside}};
}

}  // namespace terrace::plan
