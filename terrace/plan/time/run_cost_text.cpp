// Writes what a run costs, part by part.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/config/family.h"
#include "terrace/plan/time/run_cost.h"

namespace terrace::plan {
namespace {

constexpr double fewest_failures = 0.01;  // that are worth a line

std::string nodes_text(const RunCost& cost) { return counted(static_cast<uint64_t>(cost.nodes), "node"); }

// "3", "0.588": an expected number.
std::string expected(double number) {
  return number >= 100 ? format_count(std::llround(number)) : fmt::format("{:.3g}", number);
}

std::string limit_text(const RunCost& cost) {
  return fmt::format("jobs of {} may take {}", nodes_text(cost), format_seconds(cost.job_limit_seconds));
}

bool is_interrupted(const RunCost& cost) { return cost.calendar.failures >= fewest_failures; }

std::string saving_text(const RunCost& cost) {
  const RunCourse& course = cost.course;
  const int64_t ends = cost.calendar.full_jobs + 1;
  std::vector<std::string> parts;
  if (course.saves > 0) {
    parts.push_back(fmt::format("{} that {} training for {}", format_count(course.saves),
                                course.saves == 1 ? "stops" : "stop", format_seconds(course.stall)));
  }
  if (course.save > 0) {
    parts.push_back(fmt::format("{} of {} at the {}", format_count(ends), format_seconds(course.save),
                                ends == 1 ? "end" : "ends of jobs"));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string evaluating_text(const RunCost& cost) {
  const double step = cost.course.computing / static_cast<double>(cost.steps);
  return fmt::format("{} of {}, {:.3g} steps each", format_count(cost.evaluations),
                     format_seconds(cost.evaluation_seconds), cost.evaluation_seconds / step);
}

std::string starts_text(const RunCost& cost) {
  return fmt::format("{} of {}", expected(cost.calendar.jobs()), format_seconds(cost.course.start));
}

std::string part_lines(const RunCost& cost) {
  const RunCalendar& calendar = cost.calendar;
  std::string text;
  const auto line = [&](std::string_view what, double seconds, const std::string& how) {
    if (seconds <= 0) return;
    text += fmt::format("      {:<22}{:>14}{}{}\n", what, format_days(seconds), how.empty() ? "" : "  ", how);
  };
  line("steps", calendar.computing, "");
  line("checkpoints", calendar.saving, saving_text(cost));
  line("copies in memory", calendar.copying,
       fmt::format("{} that {} training for {}", format_count(cost.course.copies),
                   cost.course.copies == 1 ? "stops" : "stop", format_seconds(cost.course.copy_stall)));
  line("evaluations", calendar.evaluating, evaluating_text(cost));
  if (is_interrupted(cost)) {
    line("repeated work", calendar.repeated,
         fmt::format("{} failures of {}, each since the last {}", expected(calendar.failures), nodes_text(cost),
                     cost.course.falls_back_to_copies() ? "copy in memory" : "checkpoint"));
    line("finding failures", calendar.detecting,
         fmt::format("{} each, layout.timeout", format_seconds(cost.course.detection)));
  }
  line("starts", calendar.starting, starts_text(cost));
  if (is_interrupted(cost) || calendar.full_jobs > 0) {
    line("reading checkpoints", calendar.reading, fmt::format("{} each", format_seconds(cost.course.read)));
  }
  line("waiting in the queue", calendar.queueing, fmt::format("{} before each job", format_seconds(cost.course.queue)));
  return text;
}

// Young's intervals of both levels.
std::string interval_line(const RunCost& cost) {
  if (cost.best_copy_interval_seconds == 0) return "";
  const double step_seconds = cost.course.computing / static_cast<double>(cost.steps);
  const auto of = [&](double seconds) {
    const int64_t steps = std::max<int64_t>(1, std::llround(seconds / step_seconds));
    return fmt::format("{} ({})", format_days(seconds), counted(static_cast<uint64_t>(steps), "step"));
  };
  std::string text = fmt::format("    best for the machine's failures: copies in memory every {}",
                                 of(cost.best_copy_interval_seconds));
  if (cost.best_checkpoint_interval_seconds > 0) {
    text += fmt::format(", checkpoints every {} for the {:.2g}% of failures that copies do not mend",
                        of(cost.best_checkpoint_interval_seconds), 100 * cost.course.not_mended);
  }
  return text + "\n";
}

std::string jobs_line(const RunCost& cost) {
  if (cost.job_limit_seconds == 0 || cost.calendar.full_jobs == 0) return "";
  const std::string failed =
      cost.calendar.failures >= 0.5 ? fmt::format(", and {} after failures", expected(cost.calendar.failures)) : "";
  return fmt::format("    {} jobs that train for {} at most, since {} ([launch]){}\n",
                     format_count(cost.calendar.full_jobs + 1), format_seconds(cost.course.job), limit_text(cost),
                     failed);
}

std::string endless_text(const RunCost& cost, const config::Config& config) {
  if (cost.course.job <= 0) {
    return fmt::format(
        "    never ends: {} ([launch]), of which a start takes {}, reading a checkpoint {}, and saving with a step the "
        "rest; use more nodes, a smaller train.global_batch, or another partition\n",
        limit_text(cost), format_seconds(cost.course.start), format_seconds(cost.course.read));
  }
  const std::string saved =
      config.checkpoint.every == 0
          ? "without checkpoints before the end (checkpoint.every = 0)"
          : fmt::format("with a checkpoint every {} steps ({})", format_count(config.checkpoint.every),
                        format_seconds(cost.checkpoint_interval_seconds));
  return fmt::format("    never ends: {} fail every {} on average, too often for a run {}\n", nodes_text(cost),
                     format_seconds(cost.course.between_failures), saved);
}

std::string failure_line(const RunCost& cost) {
  if (!cost.restarts || is_interrupted(cost)) return "";
  return fmt::format("    fewer than 0.01 failures of {} are to be expected\n", nodes_text(cost));
}

// The fewest steps between checkpoints that are written before the next one, and for which training waits for little.
int64_t least_steps(const RunCost& cost, const config::Config& config, double step_seconds, double most_waiting) {
  const double save = cost.checkpoint.seconds;
  const double least =
      config.checkpoint.background ? std::max(save, cost.checkpoint.copy_seconds / most_waiting) : save / most_waiting;
  return static_cast<int64_t>(std::ceil(least / step_seconds));
}

// Warns where checkpoints follow each other faster than they are written, or training waits for much of its time.
std::string checkpoint_warning(const RunCost& cost, const config::Config& config) {
  const RunCourse& course = cost.course;
  if (course.saves == 0 || cost.checkpoint.seconds == 0) return "";
  constexpr double most_waiting = 0.05;  // of the time of the steps
  const double waiting = static_cast<double>(course.saves) * course.stall / course.computing;
  const bool is_too_fast = cost.checkpoint.seconds > cost.checkpoint_interval_seconds;
  if (!is_too_fast && waiting <= most_waiting) return "";
  const double step_seconds = course.computing / static_cast<double>(cost.steps);
  const int64_t least = least_steps(cost, config, step_seconds, most_waiting);
  std::string text = fmt::format(
      "warning: a checkpoint every {} ({}) takes {} to be written, for which training waits {:.{}f}% of the time "
      "of its steps; ",
      counted(static_cast<uint64_t>(config.checkpoint.every), "step"), format_seconds(cost.checkpoint_interval_seconds),
      format_seconds(cost.checkpoint.seconds), 100 * waiting, waiting < 0.0995 ? 1 : 0);
  if (least >= cost.steps) return text + "one at the end is enough for so short a run: checkpoint.every = 0\n";
  text += fmt::format("set checkpoint.every to {} or more", format_count(least));
  const double young = std::round(cost.checkpoint.interval_seconds / step_seconds);
  if (young >= static_cast<double>(least) && young < static_cast<double>(cost.steps)) {
    text += fmt::format("; {} is best for the machine's failures", format_count(static_cast<int64_t>(young)));
  }
  return text + "\n";
}

// Warns where failures repeat much, and checkpoints at shorter intervals would repeat less.
std::string failure_warning(const RunCost& cost, const config::Config& config) {
  constexpr double much = 0.05;  // of the time of the steps
  const double share = cost.calendar.repeated / cost.course.computing;
  if (!cost.calendar.ends() || share < much || cost.checkpoint.interval_seconds == 0) return "";
  const double step_seconds = cost.course.computing / static_cast<double>(cost.steps);
  const auto young = static_cast<int64_t>(std::max(1.0, std::round(cost.checkpoint.interval_seconds / step_seconds)));
  if (config.checkpoint.every > 0 && young >= config.checkpoint.every) return "";
  return fmt::format(
      "warning: failures repeat {:.0f}% of the time of the steps, since checkpoint.every = {}; {} is best for the "
      "machine's failures\n",
      100 * share, format_count(config.checkpoint.every), format_count(young));
}

std::string missing_lines(const RunCost& cost, const config::Config& config, const Target& target) {
  std::vector<std::string> missing;
  if (!cost.energy_joules) missing.emplace_back("the energy (no power in [device])");
  if (!cost.restarts) missing.emplace_back("failures (no node_failure_time)");
  if (cost.checkpoint.seconds == 0) missing.emplace_back("the writing of checkpoints (no [storage])");
  const bool waits = cost.nodes > 1 || target.machine.launch != machine::Launch{};
  if (waits && !target.machine.start.queue_seconds) {
    missing.emplace_back("the wait in the queue (no queue_wait in [start])");
  }
  std::string text;
  if (!missing.empty()) {
    text += fmt::format("    not known from {}: {}\n", target.machine.source(), fmt::join(missing, ", "));
  }
  if (config.train.evaluate_every > 0 && config.train.evaluate_batches == 0) {
    text += "    not counted: evaluations, since train.evaluate_batches = 0 takes all held-out data\n";
  }
  return text;
}

Json json_of(const std::optional<double>& figure) {
  return figure && std::isfinite(*figure) ? Json(*figure) : Json(nullptr);
}

Json positive_or_null(double figure) { return figure > 0 ? Json(figure) : Json(nullptr); }

}  // namespace

Json json_of(const RunCost& cost, const config::Config& config) {
  const RunCalendar& calendar = cost.calendar;
  const auto known = [](double figure) { return json_of(std::optional(figure)); };
  Json json = {{"steps", cost.steps},
               {config.family->items, cost.items},
               {"seconds", known(cost.seconds())},
               {"device_hours", known(cost.device_hours)},
               {"energy_joules", json_of(cost.energy_joules)},
               {"restarts", calendar.ends() ? json_of(cost.restarts) : Json(nullptr)},
               {"repeated_seconds", cost.restarts ? known(calendar.repeated) : Json(nullptr)},
               {"jobs", calendar.ends() ? Json(calendar.jobs()) : Json(nullptr)},
               {"full_jobs", calendar.ends() ? Json(calendar.full_jobs) : Json(nullptr)},
               {"job_limit_seconds", positive_or_null(cost.job_limit_seconds)},
               {"checkpoints", cost.course.saves},
               {"checkpoint_stall_seconds", cost.course.stall},
               {"memory_copies", cost.course.copies},
               {"memory_copy_stall_seconds", cost.course.copy_stall},
               {"best_memory_interval_seconds", positive_or_null(cost.best_copy_interval_seconds)},
               {"best_checkpoint_interval_seconds", positive_or_null(cost.best_checkpoint_interval_seconds)},
               {"evaluations", cost.evaluations},
               {"evaluation_seconds", cost.evaluation_seconds}};
  json["parts"] = {
      {"steps", calendar.computing},        {"checkpoints", calendar.saving},       {"copies", calendar.copying},
      {"evaluations", calendar.evaluating}, {"repeated", known(calendar.repeated)}, {"detection", calendar.detecting},
      {"starts", calendar.starting},        {"reading", calendar.reading},          {"queue", calendar.queueing}};
  return json;
}

std::string text_of(const RunCost& cost, const config::Config& config, const Target& target) {
  const std::string warning = checkpoint_warning(cost, config) + failure_warning(cost, config);
  if (!cost.calendar.ends()) return endless_text(cost, config) + warning;
  std::string text = fmt::format("    {} of {:.3g} {}: {}, {:.3g} device-hours{}\n",
                                 counted(static_cast<uint64_t>(cost.steps), "step"), cost.items, config.family->items,
                                 format_days(cost.seconds()), cost.device_hours,
                                 cost.energy_joules ? ", " + format_energy(*cost.energy_joules) : "");
  text += part_lines(cost) + interval_line(cost) + jobs_line(cost) + failure_line(cost);
  return text + missing_lines(cost, config, target) + warning;
}

}  // namespace terrace::plan
