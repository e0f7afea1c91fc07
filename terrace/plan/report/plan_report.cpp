// Writes a plan.
#include "terrace/plan/report/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/config/names.h"
#include "terrace/observe/step_record.h"
#include "terrace/plan/memory/memory_table.h"
#include "terrace/plan/noise/noise_report.h"
#include "terrace/schedule/rank_share.h"

namespace terrace::plan {
namespace {

constexpr size_t most_changes = 3;

Json memory_json(const StageMemory& memory) {
  Json json;
  for (size_t kind = 0; kind < num_memory_kinds; ++kind) {
    json[std::string(name_of(static_cast<MemoryKind>(kind)))] = memory.bytes[kind];
  }
  json["total"] = memory.total();
  return json;
}

Json stage_json(const StagePrediction& stage) {
  Json sent = Json::object();
  for (const ExposedTime& exposed : stage.exposed) sent[exposed.group] = exposed.sent_bytes;
  if (stage.shares_bytes > 0) sent["tensor_shares"] = stage.shares_bytes;
  return {{"parameters", stage.parameters},
          {"live_micro_batches", stage.memory.live_micro_batches},
          {"recomputed_layers", stage.recomputed_layers},
          {"recomputable_layers", stage.recomputable_layers},
          {"computation_seconds", stage.computation.total()},
          {"waiting_seconds", stage.waiting_seconds()},
          {"bubble_seconds", stage.bubble_seconds},
          {"queued_seconds", stage.queued_seconds},
          {"slowed_seconds", stage.slowed_seconds},
          {"memory_bytes", memory_json(stage.memory)},
          {"communicators",
           {{"groups", stage.communicators.groups},
            {"pairs", stage.communicators.pairs},
            {"directions", stage.communicators.directions},
            {"bytes", stage.communicator_bytes}}},
          {"whole_weights_bytes", {{"layer", stage.layer_weights_bytes}, {"other", stage.other_weights_bytes}}},
          {"sent_bytes", std::move(sent)}};
}

Json changes_json(const Plan& plan) {
  Json list = Json::array();
  for (const Change& change : plan.changes) {
    list.push_back({{"set", change.settings},
                    {"step_seconds", change.prediction.step_seconds},
                    {"gain", change.gain},
                    {"mfu", change.prediction.mfu()}});
  }
  return list;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

int64_t data_ranks_of_plan(const Plan& plan) { return plan.target.devices / plan.config.layout.ranks_of_samples(); }

// The average and the largest of each size that differs between micro-batches of the same samples.
std::map<std::string, std::pair<int64_t, int64_t>> counted_sizes(const Plan& plan) {
  std::map<std::string, std::pair<int64_t, int64_t>> sizes;
  if (plan.config.family->settings.sizes.empty()) return sizes;
  const schedule::MicroBatchSizes all = schedule::micro_batch_sizes_of(plan.config, data_ranks_of_plan(plan));
  for (const std::string& name : plan.config.family->settings.sizes) {
    sizes[name] = {all.average.sizes.at(name), all.largest.sizes.at(name)};
  }
  return sizes;
}

std::string layout_line(const Plan& plan) {
  const config::Config& config = plan.config;
  const config::LayoutConfig& layout = config.layout;
  return fmt::format(
      "{} {} of {}: tensor {}, pipeline {} ({}{}), data {}, sharding {}, micro-batch {}, recompute {}, {}",
      plan.target.devices, plural(plan.target.devices, "device"), plan.target.machine.name, layout.tensor,
      layout.pipeline, config::name_of(layout.schedule),
      layout.chunks > 1 ? fmt::format(", {} chunks", layout.chunks) : "", data_ranks_of_plan(plan),
      config::name_of(layout.sharding), micro_batch_text(plan), recompute_text(config, plan.prediction),
      config::name_of(config.train.precision));
}

// The share of the step for each thing that it consists of, in the slowest stage.
std::string step_lines(const Plan& plan) {
  const Prediction& prediction = plan.prediction;
  const StagePrediction& stage = prediction.stages[static_cast<size_t>(prediction.slowest)];
  std::string text;
  const auto line = [&](std::string_view what, double seconds) {
    if (seconds < 0.0005 * prediction.step_seconds) return;
    text += fmt::format("    {:<28}{:>12}  {:>6}\n", what, format_seconds(seconds),
                        percent(seconds / prediction.step_seconds));
  };
  for (size_t i = 0; i < num_time_kinds; ++i) {
    const auto kind = static_cast<TimeKind>(i);
    if (!is_waited_for(kind)) line(name_of(kind), stage.computation.of(kind));
  }
  line("slower beside calls", stage.slowed_seconds);
  for (const ExposedTime& exposed : stage.exposed) line("waits for " + exposed.group, exposed.seconds);
  line(observe::bubble_waits, stage.bubble_seconds);
  line(observe::queued_waits, stage.queued_seconds);
  line("update", stage.update_seconds);
  return text;
}

// The time of the steps of a training, and of all that stands beside them in a calendar.
RunCost calendar_of(const Plan& plan, double items) {
  return run_cost(plan.config, plan.prediction, plan.target, items, plan.cost.evaluation_round_seconds);
}

std::string calendar_text(const RunCost& cost) {
  if (!cost.calendar.ends()) return "but failures or the limits of jobs never let it end";
  return fmt::format("{} by the calendar", format_days(cost.seconds()));
}

std::string checkpoint_line(const Plan& plan) {
  const CheckpointEstimate& checkpoint = plan.cost.checkpoint;
  std::string text = fmt::format("    a checkpoint of {}", format_bytes(checkpoint.bytes));
  if (checkpoint.seconds > 0) text += fmt::format(" takes {}", format_seconds(checkpoint.seconds));
  if (checkpoint.interval_seconds == 0) return text + "\n";
  const double steps = checkpoint.interval_seconds / plan.prediction.step_seconds;
  if (steps >= static_cast<double>(plan.cost.steps)) {
    return text + fmt::format("; for failures, one in {}, this run needs none before its end\n",
                              format_days(plan.cost.course.between_failures));
  }
  return text + fmt::format("; best every {} ({}) for the machine's failures, one in {}\n",
                            format_seconds(checkpoint.interval_seconds),
                            counted(static_cast<uint64_t>(std::max(1.0, std::round(steps))), "step"),
                            format_days(plan.cost.course.between_failures));
}

std::string training_lines(const Plan& plan) {
  std::string text;
  const double stored = stored_token_bytes(plan.config);
  for (const TrainingEstimate& one : usual_trainings(plan.prediction, plan.target, plan.config)) {
    text += fmt::format("    {:.0f} {} a parameter: {:.3g} {}, {} of steps, {}\n", one.items_per_parameter,
                        plan.config.family->items, one.items, plan.config.family->items, format_days(one.seconds),
                        calendar_text(calendar_of(plan, one.items)));
    text += fmt::format("      {:.3g} device-hours{}; {:.3g} exaFLOP of the model; {} to {} of text, {} as tokens\n",
                        one.device_hours, one.energy_joules > 0 ? ", " + format_energy(one.energy_joules) : "",
                        one.flops / 1e18, format_bytes(least_text_bytes * one.items),
                        format_bytes(most_text_bytes * one.items), format_bytes(stored * one.items));
  }
  return text + checkpoint_line(plan);
}

Json trainings_json(const Plan& plan) {
  Json list = Json::array();
  for (const TrainingEstimate& estimate : usual_trainings(plan.prediction, plan.target, plan.config)) {
    const RunCost calendar = calendar_of(plan, estimate.items);
    const bool ends = calendar.calendar.ends();
    list.push_back({{plan.config.family->items + "_per_parameter", estimate.items_per_parameter},
                    {plan.config.family->items, estimate.items},
                    {"seconds", estimate.seconds},
                    {"calendar_seconds", ends ? Json(calendar.seconds()) : Json(nullptr)},
                    {"device_hours", estimate.device_hours},
                    {"energy_joules", estimate.energy_joules},
                    {"flops", estimate.flops},
                    {"stored_bytes", stored_token_bytes(plan.config) * estimate.items}});
  }
  return list;
}

std::string change_lines(const Plan& plan) {
  if (!plan.none_fits.empty()) return plan.none_fits + "\n";
  if (plan.changes.empty()) return "";
  std::string text = plan.prediction.feasible() ? "what would help most\n" : "the nearest layouts that fit\n";
  for (const Change& change : plan.changes) {
    const std::string gain = plan.prediction.feasible() ? fmt::format(", {:>5} less", percent(change.gain)) : "";
    text += fmt::format("    step {:>10}{}: {}\n", format_seconds(change.prediction.step_seconds), gain,
                        options_of(change));
  }
  return text;
}

// "3", "2 to 5".
std::string range_text(int64_t least, int64_t most) {
  return least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
}

}  // namespace

std::string recompute_text(const config::Config& config, const Prediction& prediction) {
  std::string mode(config::name_of(config.train.recompute));
  const auto is_whole = [](const StagePrediction& stage) {
    return stage.recomputed_layers == stage.recomputable_layers;
  };
  const bool has_list = config.layout.recompute_layers.word != config::RecomputeLayers::Word::all;
  if (config.train.recompute == config::Recompute::none || !has_list) return mode;
  if (std::ranges::all_of(prediction.stages, is_whole)) return mode + " of all layers";
  const auto [least, most] = std::ranges::minmax(prediction.stages, {}, &StagePrediction::recomputed_layers);
  const auto [fewest, largest] = std::ranges::minmax(prediction.stages, {}, &StagePrediction::recomputable_layers);
  return fmt::format("{} of {} of the {} layers of a stage", mode,
                     range_text(least.recomputed_layers, most.recomputed_layers),
                     range_text(fewest.recomputable_layers, largest.recomputable_layers));
}

std::string micro_batch_text(const Plan& plan) {
  const Sizes& budget = plan.config.train.micro_batch_sizes;
  if (!budget.empty()) return "up to " + terrace::sizes_text(budget);
  return std::to_string(schedule::micro_batch_of(plan.config, data_ranks_of_plan(plan)));
}

std::string sizes_text(const Plan& plan) {
  std::string text;
  for (const auto& [name, sizes] : counted_sizes(plan)) {
    text += fmt::format("{}{} {} on average, at most {} a micro-batch", text.empty() ? "" : "; ", name,
                        format_count(sizes.first), format_count(sizes.second));
  }
  return text;
}

std::string options_of(const Change& change) {
  std::string options;
  for (const std::string& setting : change.settings) {
    options += (options.empty() ? "--set " : " --set ") + shell_word(setting);
  }
  return options;
}

Plan predicted_plan(const config::Config& config, const Target& target, std::optional<double> items,
                    const std::optional<GivenNoiseScale>& noise_scale) {
  const PlannedRun run = planned_run(config, target);
  const SimulatedStep step(run, target);
  Plan plan{.config = config, .target = target, .prediction = predict(step)};
  plan.cost = run_cost(config, plan.prediction, target, items);
  plan.storage = storage_need(run, plan.cost, plan.prediction.step_seconds, target);
  plan.groups = spanned_groups(run.mesh, target.machine);
  plan.interval = step_interval(config, plan.prediction, target, published_errors());
  if (target.machine.noise.is_stated()) plan.noise = expected_step(noisy_step(step));
  plan.noise_scale = noise_scale;
  return plan;
}

void add_advice(Plan& plan) {
  const config::Config& config = plan.config;
  const Target& target = plan.target;
  plan.changes = plan.prediction.feasible() ? best_changes(config, target, plan.prediction.step_seconds, most_changes)
                                            : nearest_feasible(config, target, most_changes);
  if (!plan.prediction.feasible() && plan.changes.empty()) {
    try {
      plan.changes = best_layouts(config, target, {.count = most_changes}).layouts;
    } catch (const UserError& error) {
      plan.none_fits = error.what();
    }
  }
  plan.tensor_reach = tensor_reach(config, target, plan.prediction);
}

Plan make_plan(const config::Config& config, const Target& target, std::optional<double> items,
               const std::optional<GivenNoiseScale>& noise_scale) {
  Plan plan = predicted_plan(config, target, items, noise_scale);
  add_advice(plan);
  return plan;
}

Json json_of(const Plan& plan) {
  const Prediction& prediction = plan.prediction;
  const StagePrediction& slowest = prediction.stages.at(static_cast<size_t>(prediction.slowest));
  Json json = {{"feasible", prediction.feasible()},
               {"reason", prediction.reason},
               {"machine", plan.target.machine.name},
               {"software", plan.target.software.name},
               {"devices", plan.target.devices},
               {"fp8_products", plan.target.block_products == BlockProducts::fp8},
               {"parameters", prediction.parameters},
               {"active_parameters", prediction.active_parameters},
               {"model_flops", prediction.model_flops},
               {"hardware_flops", prediction.hardware_flops},
               {"step_seconds", prediction.step_seconds},
               {"interval", json_of(plan.interval)},
               {"samples_per_second", static_cast<double>(prediction.samples) / prediction.step_seconds},
               {plan.config.family->items + "_per_second", prediction.items_per_second()},
               {"mfu", prediction.mfu()},
               {"hfu", prediction.hfu()},
               {"bubble_share", prediction.bubble_share},
               {"queued_share", prediction.queued_share}};
  for (const ExposedTime& exposed : slowest.exposed) json["exposed_seconds"][exposed.group] = exposed.seconds;
  for (size_t i = 0; i < num_time_kinds; ++i) {
    const auto kind = static_cast<TimeKind>(i);
    json["computation_seconds"][std::string(name_of(kind))] = slowest.computation.of(kind);
  }
  json["update_seconds"] = slowest.update_seconds;
  for (const auto& [name, sizes] : counted_sizes(plan)) {
    json["micro_batch_sizes"][name] = {{"average", sizes.first}, {"largest", sizes.second}};
  }
  json["limit"] = limit(prediction);
  json["tensor_groups"] = plan.tensor_reach ? json_of(*plan.tensor_reach, plan.config.family->items) : nullptr;
  json["network_groups"] = plan.groups ? json_of(*plan.groups) : nullptr;
  json["run"] = json_of(plan.cost, plan.config);
  json["trainings"] = trainings_json(plan);
  const CheckpointEstimate& checkpoint = plan.cost.checkpoint;
  json["checkpoint"] = {{"bytes", checkpoint.bytes},
                        {"seconds", checkpoint.seconds},
                        {"copy_seconds", checkpoint.copy_seconds},
                        {"interval_seconds", checkpoint.interval_seconds}};
  json["node_memory"] = json_of(prediction.node, plan.target);
  json["rank_overhead_bytes"] = prediction.rank_overhead_bytes;
  json["storage"] = json_of(plan.storage);
  for (const RooflinePoint& point : roofline(prediction, plan.target, plan.config)) {
    json["roofline"].push_back({{"kind", name_of(point.kind)},
                                {"seconds", point.seconds},
                                {"share", point.share},
                                {"flops_per_second", point.flops_per_second},
                                {"peak_share", point.peak_share}});
  }
  const ArithmeticIntensity intensity = arithmetic_intensity(prediction, plan.target, plan.config);
  json["arithmetic_intensity"] = {{"flops", intensity.flops},
                                  {"bytes", intensity.bytes},
                                  {"flops_per_byte", intensity.flops_per_byte},
                                  {"ridge_flops_per_byte", intensity.ridge}};
  json["changes"] = changes_json(plan);
  json["none_fits"] = plan.none_fits;
  json["noise"] = plan.noise ? json_of(*plan.noise) : nullptr;
  json["noise_scale"] = plan.noise_scale ? json_of(*plan.noise_scale, prediction.samples) : nullptr;
  json["stages"] = Json::array();
  for (const StagePrediction& stage : prediction.stages) json["stages"].push_back(stage_json(stage));
  return json;
}

std::string prediction_text(const Plan& plan) {
  const Prediction& prediction = plan.prediction;
  std::string text = layout_line(plan) + "\n" + products_line(plan.target);
  text += prediction.feasible() ? "fits\n" : fmt::format("does not fit: {}\n", prediction.reason);
  const bool all_active = prediction.active_parameters == prediction.parameters;
  text += fmt::format("{} parameters{}; a step of {} {}: {:.4g} FLOPs of the model, {:.4g} executed\n",
                      format_count(prediction.parameters),
                      all_active ? "" : fmt::format(", {} of them active", format_count(prediction.active_parameters)),
                      format_count(prediction.samples), plan.config.family->samples, prediction.model_flops,
                      prediction.hardware_flops);
  const std::string sizes = sizes_text(plan);
  if (!sizes.empty()) text += sizes + "\n";
  text += fmt::format("step {}, {:.4g} {}/s, MFU {}, HFU {}, bubble {}\n", format_seconds(prediction.step_seconds),
                      prediction.items_per_second(), plan.config.family->items, percent(prediction.mfu()),
                      percent(prediction.hfu()), percent(prediction.bubble_share));
  if (plan.groups) text += text_of(*plan.groups) + "\n";
  if (plan.noise) text += fmt::format("with the machine's noise {}\n", text_of(*plan.noise));
  text += text_of(plan.interval) + "\n";
  text +=
      fmt::format("the slowest stage, {} of {}: {}\n", prediction.slowest, prediction.stages.size(), limit(prediction));
  text += step_lines(plan);
  text += fmt::format("arithmetic intensity {}\n", text_of(arithmetic_intensity(prediction, plan.target, plan.config)));
  if (plan.noise_scale) text += text_of(*plan.noise_scale, prediction.samples, plan.config.family->samples);
  text += memory_table(prediction, plan.config);
  text += fmt::format("beside tensors a rank takes {} of its node's memory, and its process the libraries\n",
                      format_bytes(prediction.rank_overhead_bytes));
  text += text_of(prediction.node, plan.config, plan.target);
  if (!prediction.feasible()) return text;
  text += "this run\n" + text_of(plan.cost, plan.config, plan.target) + text_of(plan.storage, plan.target);
  return text + "training\n" + training_lines(plan);
}

std::string advice_text(const Plan& plan) {
  const std::string groups = plan.tensor_reach ? text_of(*plan.tensor_reach, plan.config.family->items) : "";
  return groups + change_lines(plan);
}

std::string text_of(const Plan& plan) { return prediction_text(plan) + advice_text(plan); }

Json json_of(const BestLayouts& best, const Target& target) {
  Json json = {{"machine", target.machine.name},
               {"software", target.software.name},
               {"devices", target.devices},
               {"fp8_products", target.block_products == BlockProducts::fp8},
               {"legal", best.legal},
               {"fitting", best.fitting},
               {"simulated", best.simulated},
               {"kept", best.kept},
               {"limits", best.allowed},
               {"why", best.why}};
  json["layouts"] = Json::array();
  for (const Change& layout : best.layouts) {
    const Prediction& prediction = layout.prediction;
    json["layouts"].push_back(
        {{"set", layout.settings},
         {"step_seconds", prediction.step_seconds},
         {"mfu", prediction.mfu()},
         {"hfu", prediction.hfu()},
         {"bubble_share", prediction.bubble_share},
         {"queued_share", prediction.queued_share},
         {"memory_bytes", prediction.fullest().memory.total()},
         {"interval", json_of(step_interval(layout.config, prediction, target, published_errors()))}});
  }
  json["tied"] = best.tied;
  json["all_tied"] = best.all_tied;
  json["choice"] = best.choice ? json_of(*best.choice) : nullptr;
  json["over_nodes"] = nullptr;
  if (best.over_nodes) {
    json["over_nodes"] = {{"set", best.over_nodes->settings},
                          {"step_seconds", best.over_nodes->prediction.step_seconds}};
  }
  return json;
}

namespace {

std::string tie_text(const BestLayouts& best) {
  const int64_t others = best.all_tied - best.tied;
  if (best.all_tied == 1) return "";
  std::string text = best.tied > 1 ? fmt::format("the first {} are a tie", best.tied) : "the first is tied with";
  if (others > 0) {
    text += fmt::format("{} {} {}, which --best {} lists", best.tied > 1 ? ", with" : "", others,
                        best.tied > 1 ? "more" : plural(static_cast<uint64_t>(others), "other"), best.all_tied);
  }
  return text + ": their steps differ by less than the errors of published layouts of one model\n";
}

}  // namespace

std::string text_of(const BestLayouts& best, const Target& target) {
  std::string text = fmt::format("{} on {} {} of {}: {} fit, {} were simulated, the others are slower\n",
                                 counted(best.legal, "layout"), target.devices, plural(target.devices, "device"),
                                 target.machine.name, format_count(best.fitting), format_count(best.simulated));
  text += products_line(target);
  if (!best.kept.empty()) text += fmt::format("kept as --set gives them: {}\n", fmt::join(best.kept, " "));
  if (!best.allowed.empty()) text += fmt::format("only layouts with {}\n", best.allowed);
  for (const Change& layout : best.layouts) {
    const Prediction& prediction = layout.prediction;
    const bool is_partly = layout.config.layout.recompute_layers.word != config::RecomputeLayers::Word::all;
    text += fmt::format("step {}, MFU {}, HFU {}, bubble {}, {} of memory{}\n    {}\n",
                        format_seconds(prediction.step_seconds), percent(prediction.mfu()), percent(prediction.hfu()),
                        percent(prediction.bubble_share), format_bytes(prediction.fullest().memory.total()),
                        is_partly ? ", recompute " + recompute_text(layout.config, prediction) : "",
                        fmt::join(layout.settings, " "));
    const StepInterval interval = step_interval(layout.config, prediction, target, published_errors());
    if (interval.outside.empty()) text += fmt::format("    {}\n", text_of(interval));
  }
  text += best.why + "\n";
  text += tie_text(best);
  if (best.choice) text += text_of(*best.choice);
  if (best.over_nodes) {
    text += fmt::format(
        "with tensor groups that leave the node the step would be predicted to take {}, which is less, but by less "
        "than such "
        "predictions err:\n    {}\n",
        format_seconds(best.over_nodes->prediction.step_seconds), fmt::join(best.over_nodes->settings, " "));
  }
  return text;
}

}  // namespace terrace::plan
