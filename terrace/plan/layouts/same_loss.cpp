// Multiplies times of steps by the steps that a batch needs.
#include "terrace/plan/layouts/same_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "terrace/base/error.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/observe/noise_scale.h"
#include "terrace/plan/time/variation.h"

namespace terrace::plan {
namespace {

constexpr double most_samples = 1e15;

// One number of devices beside the first.
struct SameLossPoint {
  const ScalingPoint* point;
  SameLoss to_loss;
  double device_hours;  // multiple
};

std::vector<SameLossPoint> points_of(const GivenNoiseScale& noise, const Scaling& scaling) {
  std::vector<SameLossPoint> points;
  for (const ScalingPoint& one : scaling.weak) {
    const ScalingPoint& first = scaling.weak.front();
    const SameLoss to_loss = same_loss(noise.samples, one.global_batch, one.prediction.step_seconds, first.global_batch,
                                       first.prediction.step_seconds);
    points.push_back(
        {&one, to_loss, to_loss.seconds * static_cast<double>(one.devices) / static_cast<double>(first.devices)});
  }
  return points;
}

// The first to reach the loss among those that fit; null if none does.
const SameLossPoint* fastest(const std::vector<SameLossPoint>& points) {
  const SameLossPoint* best = nullptr;
  for (const SameLossPoint& one : points) {
    if (!one.point->prediction.feasible()) continue;
    if (best == nullptr || one.to_loss.seconds < best->to_loss.seconds) best = &one;
  }
  return best;
}

}  // namespace

GivenNoiseScale noise_scale_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end == text.data() + text.size() && error == std::errc() && !std::isnan(number)) {
    if (number > 0 && number <= most_samples) return {.samples = number};
    throw UserError::of("must be above 0 and at most {:g} samples; give such as 512, or the folder of a run",
                        most_samples);
  }
  if (!std::filesystem::exists(std::filesystem::path(text) / "metrics.jsonl")) {
    throw UserError(
        "is neither a number of samples nor the folder of a run: there is no metrics.jsonl in it; give such as 512, or "
        "the checkpoint.folder of a run that measured it");
  }
  const observe::NoiseScaleAtStep found = observe::read_noise_scale(text);
  return {.samples = found.samples, .source = fmt::format(", from {} at step {}", text, format_count(found.step))};
}

SameLoss same_loss(double noise_scale, int64_t batch, double seconds, int64_t reference, double reference_seconds) {
  const auto own = static_cast<double>(batch), other = static_cast<double>(reference);
  const double steps = observe::steps_ratio(noise_scale, own, other);
  return {.steps = steps,
          .samples = observe::samples_ratio(noise_scale, own, other),
          .seconds = steps * seconds / reference_seconds};
}

Json json_of(const GivenNoiseScale& noise, int64_t batch) {
  const auto own = static_cast<double>(batch);
  return {{"samples", noise.samples},
          {"batch", batch},
          {"steps_over_fewest", observe::steps_over_fewest(noise.samples, own)},
          {"samples_over_fewest", observe::samples_over_fewest(noise.samples, own)}};
}

std::string text_of(const GivenNoiseScale& noise, int64_t batch, const std::string& samples) {
  const auto own = static_cast<double>(batch);
  std::string text = fmt::format(
      "noise scale {:.4g} {}{}\n    the batch of {} takes {:.3g} times the fewest steps and {:.3g} times the "
      "fewest {} to a loss\n",
      noise.samples, samples, noise.source, format_count(batch), observe::steps_over_fewest(noise.samples, own),
      observe::samples_over_fewest(noise.samples, own), samples);
  for (const double other : {own / 2, 2 * own}) {
    text += fmt::format("    a batch of {:<8g} {:.3g} times its steps, {:.3g} times its {}\n", other,
                        observe::steps_ratio(noise.samples, other, own),
                        observe::samples_ratio(noise.samples, other, own), samples);
  }
  return text;
}

Json json_of(const GivenNoiseScale& noise, const Scaling& scaling) {
  Json list = Json::array();
  for (const SameLossPoint& one : points_of(noise, scaling)) {
    list.push_back({{"devices", one.point->devices},
                    {"global_batch", one.point->global_batch},
                    {"steps", one.to_loss.steps},
                    {"samples", one.to_loss.samples},
                    {"seconds", one.to_loss.seconds},
                    {"device_hours", one.device_hours}});
  }
  return {{"noise_scale", noise.samples}, {"weak", list}};
}

std::string text_of(const GivenNoiseScale& noise, const Scaling& scaling, const std::string& samples) {
  const std::vector<SameLossPoint> points = points_of(noise, scaling);
  if (points.empty()) return "";
  const size_t width = std::max<size_t>(12, samples.size() + 2);  // of the column of samples
  std::string text = fmt::format(
      "weak scaling to the same loss, as multiples of the first row; noise scale {:.4g} {}{}\n    "
      "{:>8}{:>13}{:>9}{:>{}}"
      "{:>9}{:>14}\n",
      noise.samples, samples, noise.source, "devices", "global batch", "steps", samples, width, "time", "device-hours");
  for (const SameLossPoint& one : points) {
    text += fmt::format("    {:>8}{:>13}{:>9.3f}{:>{}.3f}{:>9.3f}{:>14.3f}{}\n", one.point->devices,
                        one.point->global_batch, one.to_loss.steps, one.to_loss.samples, width, one.to_loss.seconds,
                        one.device_hours, one.point->prediction.feasible() ? "" : " does not fit");
  }
  const SameLossPoint* best = fastest(points);
  if (best == nullptr) return text;
  return text + fmt::format(
                    "    first at the loss: {} with a batch of {}, in {:.3g} of the time and {:.3g} times the "
                    "device-hours of {}\n",
                    counted(static_cast<uint64_t>(best->point->devices), "device"),
                    format_count(best->point->global_batch), best->to_loss.seconds, best->device_hours,
                    counted(static_cast<uint64_t>(points.front().point->devices), "device"));
}

BestBatches best_batches(const config::Config& config, const Target& target, const BestOptions& options,
                         const GivenNoiseScale& noise, const std::vector<int64_t>& batches) {
  BestBatches best{.noise = noise, .reference = config.train.global_batch};
  BestOptions fastest_only = options;
  fastest_only.count = 1;
  for (size_t number = 0; number < batches.size(); ++number) {
    const int64_t batch = batches[number];
    config::Config other = config;
    other.train.global_batch = batch;
    if (options.progress) {
      fastest_only.progress = [&](double share) {
        options.progress((static_cast<double>(number) + share) / static_cast<double>(batches.size()));
      };
    }
    try {
      const Change layout = best_layouts(other, target, fastest_only).layouts.front();
      // The reference is a step of one second, so the seconds are those in which the batch comes as far as that step.
      const SameLoss to_loss = same_loss(noise.samples, batch, layout.prediction.step_seconds, best.reference, 1);
      best.batches.push_back({.batch = batch,
                              .layout = layout,
                              .steps = to_loss.steps,
                              .samples = to_loss.samples,
                              .seconds_of_reference_step = to_loss.seconds});
      best.batches.back().layout.settings = differences(config, layout.config);
    } catch (const UserError& error) {
      best.left_out.push_back(fmt::format("a batch of {}: {}", format_count(batch), error.what()));
    }
  }
  if (best.batches.empty()) {
    throw UserError(fmt::format("no batch has a layout:\n  {}", fmt::join(best.left_out, "\n  ")),
                    ExitCode::infeasible);
  }
  std::ranges::stable_sort(best.batches, {}, &BatchLayout::seconds_of_reference_step);
  return best;
}

Json json_of(const BestBatches& best, const Target& target) {
  Json json = {{"machine", target.machine.name},    {"software", target.software.name},  {"devices", target.devices},
               {"noise_scale", best.noise.samples}, {"reference_batch", best.reference}, {"left_out", best.left_out},
               {"batches", Json::array()}};
  for (const BatchLayout& one : best.batches) {
    json["batches"].push_back({{"global_batch", one.batch},
                               {"set", one.layout.settings},
                               {"step_seconds", one.layout.prediction.step_seconds},
                               {"mfu", one.layout.prediction.mfu()},
                               {"steps", one.steps},
                               {"samples", one.samples},
                               {"seconds_of_reference_step", one.seconds_of_reference_step}});
  }
  return json;
}

std::string text_of(const BestBatches& best, const Target& target, const std::string& samples) {
  std::string text = fmt::format(
      "the fastest layout of each batch on {} of {}, by the time to the same loss; noise scale {:.4g} {}{}\n"
      "steps and {} are multiples of those of a batch of {}, and \"advance\" is the time in which a layout comes as "
      "far "
      "as a step of it\n",
      counted(static_cast<uint64_t>(target.devices), "device"), target.machine.name, best.noise.samples, samples,
      best.noise.source, samples, format_count(best.reference));
  text += products_line(target);
  for (const BatchLayout& one : best.batches) {
    text +=
        fmt::format("batch {}: advance {}, step {}, {:.3f} times the steps, {:.3f} times the {}, MFU {:.1f}%\n    {}\n",
                    format_count(one.batch), format_seconds(one.seconds_of_reference_step),
                    format_seconds(one.layout.prediction.step_seconds), one.steps, one.samples, samples,
                    100 * one.layout.prediction.mfu(), fmt::join(one.layout.settings, " "));
  }
  for (const std::string& sentence : best.left_out) text += "left out: " + sentence + "\n";
  return text;
}

}  // namespace terrace::plan
