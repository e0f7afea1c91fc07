// Puts a plan into sentences and rows, and its simulated step beside them.
#include "terrace/plan/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/plan/noise/noise_report.h"
#include "terrace/plan/report/step_record.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::plan {
namespace {

std::string devices_of(const Target& target) {
  return fmt::format("{} {} of {}", format_count(target.devices),
                     plural(static_cast<uint64_t>(target.devices), "device"), target.machine.name);
}

int64_t data_ranks_of(const Plan& plan) {
  const config::LayoutConfig& layout = plan.config.layout;
  return plan.target.devices / layout.ranks_of_samples();
}

std::string verdict_of(const Plan& plan) {
  const Prediction& prediction = plan.prediction;
  if (!prediction.feasible()) return fmt::format("Does not fit: {}.", prediction.reason);
  const machine::Device& device = plan.target.machine.device;
  return fmt::format("Fits: stage {}, the fullest of {}, needs {} of {}.",
                     &prediction.fullest() - prediction.stages.data(), prediction.stages.size(),
                     format_bytes(prediction.fullest().needed_bytes()),
                     format_bytes(device.memory_bytes - device.reserved_bytes));
}

std::string layout_of(const Plan& plan) {
  const config::LayoutConfig& layout = plan.config.layout;
  std::string text = fmt::format("tensor {}{}, pipeline {}", layout.tensor,
                                 layout.sequence_parallel ? " with sequence parallelism" : "", layout.pipeline);
  if (layout.pipeline > 1) {
    text += fmt::format(" ({}{})", config::name_of(layout.schedule),
                        layout.chunks > 1 ? fmt::format(", {}", counted(static_cast<uint64_t>(layout.chunks), "chunk"))
                                          : std::string());
  }
  return text + fmt::format(", data {}, sharding {}", data_ranks_of(plan), config::name_of(layout.sharding));
}

std::string batch_of(const Plan& plan) {
  const config::Config& config = plan.config;
  const int64_t data_ranks = data_ranks_of(plan);
  const int64_t micro_batches = schedule::pipeline_of(config, data_ranks).micro_batches;
  const bool holds_fewer = !config.family->settings.equal_shares && config.train.micro_batch_sizes.empty();
  return fmt::format(
      "{} {} a step; {} of {}{} on each of {}", format_count(config.train.global_batch), config.family->samples,
      counted(static_cast<uint64_t>(micro_batches), "micro-batch", "micro-batches"), holds_fewer ? "at most " : "",
      micro_batch_text(plan), counted(static_cast<uint64_t>(data_ranks), "data-parallel rank"));
}

std::string precision_of(const Plan& plan) {
  const std::string precision(config::name_of(plan.config.train.precision));
  return plan.target.block_products == BlockProducts::fp8 ? precision + ", products of blocks in fp8" : precision;
}

}  // namespace

observe::PlanStatements statements_of(const Plan& plan, const std::string& command) {
  const Prediction& prediction = plan.prediction;
  observe::PlanStatements said{.fits = prediction.feasible(), .verdict = verdict_of(plan)};
  const std::string slowest = prediction.stages.size() > 1 ? fmt::format("Of the slowest stage, {} of {}, ",
                                                                         prediction.slowest, prediction.stages.size())
                                                           : std::string();
  said.limit = slowest + limit(prediction) + ".";
  said.facts = {{"devices", devices_of(plan.target)},
                {"layout", layout_of(plan)},
                {"batch", batch_of(plan)},
                {"recompute", recompute_text(plan.config, prediction)},
                {"precision", precision_of(plan)},
                {"software", plan.target.software.name}};
  if (const std::string sizes = sizes_text(plan); !sizes.empty()) said.facts.push_back({"sizes", sizes});
  if (plan.groups) said.facts.emplace_back("network", text_of(*plan.groups));
  if (plan.noise) said.facts.emplace_back("with the machine's noise", text_of(*plan.noise));
  said.facts.emplace_back("step as measured", text_of(plan.interval));
  said.facts.emplace_back("arithmetic intensity", text_of(arithmetic_intensity(prediction, plan.target, plan.config)));
  if (plan.tensor_reach) {
    const TensorReach& reach = *plan.tensor_reach;
    if (reach.leaves_domain) said.warnings.push_back(reach.warning());
    for (const SmallerGroups& groups : reach.smaller) {
      said.facts.emplace_back(fmt::format("tensor {}, inside a {}", groups.tensor, groups.tier),
                              text_of(groups, reach));
    }
  }
  said.command = command;
  for (const Change& change : plan.changes) {
    said.changes.push_back(
        {.settings = options_of(change), .step_seconds = change.prediction.step_seconds, .gain = change.gain});
  }
  return said;
}

std::string plan_page(const Plan& plan, const std::string& configuration, const std::string& command) {
  const Prediction& prediction = plan.prediction;
  const Json figures = {{"step_seconds", prediction.step_seconds},
                        {plan.config.family->items + "_per_second", prediction.items_per_second()},
                        {"mfu", prediction.mfu()},
                        {"hfu", prediction.hfu()},
                        {"bubble_share", prediction.bubble_share},
                        {"peak_flops_per_second", prediction.peak_flops},
                        {"memory_bytes", prediction.fullest().memory.total()},
                        {"parameters", prediction.parameters}};
  const std::string devices = devices_of(plan.target);
  return observe::report_page(fmt::format("{} on {}", configuration, devices),
                              {{.name = devices,
                                .figures = figures,
                                .predicted = step_record(plan.config, plan.target),
                                .plan = statements_of(plan, command)}});
}

}  // namespace terrace::plan
