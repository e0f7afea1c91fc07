// terrace plan CONFIG: says whether a run fits a machine, how long its steps take and what limits them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/best_layouts.h"
#include "cli/commands.h"
#include "cli/fit_machine.h"
#include "cli/interruption.h"
#include "cli/item_count.h"
#include "cli/plan_command.h"
#include "cli/planned_target.h"
#include "cli/ranges.h"
#include "cli/score_table.h"
#include "cli/translated_launch.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/config/domain.h"
#include "terrace/config/family.h"
#include "terrace/plan/layouts/same_loss.h"
#include "terrace/plan/layouts/scaling.h"
#include "terrace/plan/report/plan_page.h"
#include "terrace/plan/report/plan_report.h"
#include "terrace/translate/translation_report.h"

namespace terrace::cli {
namespace {

void print_scaling(const config::Config& config, const plan::Target& target, const std::vector<int64_t>& devices,
                   const std::optional<plan::GivenNoiseScale>& noise_scale, const PlannedTarget& planned, bool json) {
  const plan::Scaling table = plan::scaling(config, target, devices);
  if (json) {
    Json object = plan::json_of(table);
    object["fp8_products"] = target.block_products == plan::BlockProducts::fp8;
    if (noise_scale) object["same_loss"] = plan::json_of(*noise_scale, table);
    if (planned.translation) object["translation"] = translate::json_of(*planned.translation);
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{}{}{}{}", planned.translation_text(), plan::products_line(target),
               plan::text_of(table, config.family->items),
               noise_scale ? plan::text_of(*noise_scale, table, config.family->samples) : "");
  }
  const std::string reason = plan::why_none_fits(table);
  if (!reason.empty()) throw UserError(reason, ExitCode::infeasible);
}

// Shows a part of the answer at once, also on a pipe.
void show(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

// The advice takes longer than the prediction, which is shown first.
plan::Plan print_plan(plan::Plan plan, const PlannedTarget& planned, const std::string& written, bool json) {
  if (!json) show(planned.translation_text() + plan::prediction_text(plan));
  plan::add_advice(plan);
  if (!json) {
    show(plan::advice_text(plan) + (written.empty() ? "" : written + "\n"));
    return plan;
  }
  Json object = plan::json_of(plan);
  if (planned.translation) object["translation"] = translate::json_of(*planned.translation);
  if (!written.empty()) object["written"] = written;
  fmt::print("{}\n", object.dump());
  return plan;
}

// Returns no noise scale where the option has no text.
std::optional<plan::GivenNoiseScale> noise_scale_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  try {
    return plan::noise_scale_of(text);
  } catch (const UserError& error) {
    throw UserError::of("--noise-scale {} {}", text, error.what());
  }
}

// The machine with this time of a job in the queue, if one is given.
plan::Target with_queue_wait(plan::Target target, const std::string& text) {
  if (text.empty()) return target;
  target.machine.start.queue_seconds = config::parse_duration(text);
  if (target.machine.start.queue_seconds.value_or(-1) < 0) {
    throw UserError::of("--queue-wait {} is no length of time; write for example 6h, 1h30m or 0s", text);
  }
  return target;
}

struct PlanArguments {
  PlannedTarget target;
  TranslationArguments launch;
  BestArguments best;
  ScoreArguments score;
  std::vector<std::string> fit;
  std::string tokens, noise_scale, queue_wait;
  std::vector<int64_t> scaling;
  std::string report;
  bool json = false;
};

void plan_as_asked(PlanArguments& arguments, const CLI::App& command) {
  stop_on_signals();
  if (!arguments.score.tables.empty()) {
    return print_score(command, arguments.target, arguments.score, arguments.json);
  }
  if (!arguments.fit.empty()) {
    return print_fit(command, arguments.target, arguments.fit, arguments.best.file, arguments.json);
  }
  const Activity activity("planning");
  const std::optional<plan::GivenNoiseScale> noise_scale = noise_scale_of(arguments.noise_scale);
  translate_launch(arguments.launch, arguments.scaling.empty() ? arguments.target.devices : arguments.scaling.front(),
                   arguments.target);
  const std::string& written = arguments.best.file;
  if (!written.empty() && arguments.best.count == 0 &&
      (arguments.target.translation == std::nullopt || !arguments.scaling.empty())) {
    throw UserError("--write requires --best, or a launch to translate, such as by --from-megatron");
  }
  if (arguments.best.count > 0) {
    return print_best_layouts(arguments.target, arguments.best, noise_scale, arguments.json);
  }
  const config::Config config = arguments.target.load_config();
  if (!arguments.scaling.empty()) arguments.target.devices = arguments.scaling.front();
  const plan::Target target = with_queue_wait(arguments.target.load_target(), arguments.queue_wait);
  if (!arguments.scaling.empty()) {
    return print_scaling(config, target, arguments.scaling, noise_scale, arguments.target, arguments.json);
  }
  std::optional<double> items;
  if (!arguments.tokens.empty()) items = item_count_of("--tokens", arguments.tokens);
  plan::Plan predicted = plan::predicted_plan(config, target, items, noise_scale);
  if (!written.empty()) write_translation(arguments.target, config, written);
  const plan::Plan plan = print_plan(std::move(predicted), arguments.target, written, arguments.json);
  if (!arguments.report.empty()) {
    write_text_atomically(arguments.report, plan::plan_page(plan, arguments.target.config,
                                                            plan_command(arguments.target, target.devices)));
  }
  if (!plan.prediction.feasible()) throw UserError(plan.prediction.reason, ExitCode::infeasible);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Predict the memory and the time of a step on a machine, without running anything");
  arguments->target.add_to(*command);
  add_launch_options(*command, arguments->launch);
  CLI::Option* best = add_best_options(*command, arguments->best);
  CLI::Option* score = add_score_options(*command, arguments->score);
  CLI::Option* fit = add_fit_option(*command, arguments->fit);
  CLI::Option* scaling =
      command
          ->add_option(
              "--scaling", arguments->scaling,
              "Numbers of devices, with commas between: tables of weak and strong scaling by data parallelism; "
              "train.global_batch is that of the first number")
          ->delimiter(',')
          ->check(positive());
  scaling->excludes(best)->excludes(command->get_option("--devices"))->excludes(command->get_option("--groups"));
  command
      ->add_option(
          "--report", arguments->report,
          "File for an HTML page of the predicted step; for the page of the fastest layout plan the file of --write")
      ->excludes(best)
      ->excludes(scaling);
  command
      ->add_option("--tokens", arguments->tokens,
                   "Tokens (or what the model's family counts) that the run trains on, such as 300B or 15T, for its "
                   "cost; if not given, those of train.steps")
      ->excludes(best)
      ->excludes(scaling);
  command
      ->add_option("--queue-wait", arguments->queue_wait,
                   "How long a job waits in the queue, such as 6h or 0s, instead of the machine's queue_wait")
      ->excludes(best)
      ->excludes(scaling);
  command->add_option("--noise-scale", arguments->noise_scale,
                      "The gradient noise scale in samples, or the folder of a run that measured it: batches are "
                      "compared by steps, samples and time to the same loss");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  for (const char* other :
       {"config", "--devices", "--groups", "--products", "--best", "--scaling", "--report", "--tokens", "--queue-wait",
        "--noise-scale", "--from-megatron", "--from-deepspeed", "--from-torchtitan"}) {
    score->excludes(command->get_option(other));
    fit->excludes(command->get_option(other));
  }
  fit->excludes(score);
  command->footer(
      "The exit code is 0 if the run fits the machine and 3 if it does not, as if no layout or no number of devices "
      "does.");
  command->callback([arguments, command] { plan_as_asked(*arguments, *command); });
}

}  // namespace terrace::cli
