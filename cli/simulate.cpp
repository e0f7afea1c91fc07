// terrace simulate CONFIG: times a predicted step, writes what each stage does in it for trace viewers, and draws steps
// with the noise of the machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/planned_target.h"
#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/plan/noise/drawn_steps.h"
#include "terrace/plan/noise/noise_report.h"
#include "terrace/plan/report/step_record.h"

namespace terrace::cli {
namespace {

std::vector<int64_t> chosen_stages(std::vector<int64_t> given, int64_t stages) {
  if (given.empty()) {
    given.resize(static_cast<size_t>(stages));
    std::iota(given.begin(), given.end(), 0);
  }
  for (const int64_t stage : given) {
    if (stage < 0 || stage >= stages) {
      throw UserError::of("--stages has {}, and the run has the stages 0 to {}", stage, stages - 1);
    }
  }
  return given;
}

Json json_of(const plan::Prediction& prediction) {
  Json json = {{"feasible", prediction.feasible()},
               {"reason", prediction.reason},
               {"step_seconds", prediction.step_seconds},
               {"bubble_share", prediction.bubble_share},
               {"queued_share", prediction.queued_share}};
  for (const plan::StagePrediction& stage : prediction.stages) {
    json["stages"].push_back({{"computation_seconds", stage.computation.total()},
                              {"waiting_seconds", stage.waiting_seconds()},
                              {"bubble_seconds", stage.bubble_seconds},
                              {"queued_seconds", stage.queued_seconds},
                              {"update_seconds", stage.update_seconds}});
  }
  return json;
}

std::string line_of(const plan::Prediction& prediction) {
  const std::string queued =
      prediction.queued_share > 0.0005 ? fmt::format("queued transfers {:.1f}%, ", 100 * prediction.queued_share) : "";
  return fmt::format("step {}, bubble {:.1f}%, {}{}\n", format_seconds(prediction.step_seconds),
                     100 * prediction.bubble_share, queued, counted(prediction.stages.size(), "stage"));
}

void check_noise(const machine::Machine& machine) {
  if (machine.noise.is_stated()) return;
  throw UserError::of(
      "--draws needs the noise of the machine, and {} states none; add a table [noise], for example with "
      "instruction_spread = 0.02 (terrace calibrate measures it), or leave --draws out",
      machine.source());
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  struct Arguments {
    PlannedTarget target;
    std::string trace;
    std::vector<int64_t> stages;
    int64_t draws = 0, seed = 0;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Simulate one step on a machine, instruction by instruction, and write a trace of it");
  arguments->target.add_to(*command);
  CLI::Option* trace =
      command->add_option("--trace", arguments->trace, "File for the trace, which Perfetto and chrome://tracing open");
  command->add_option("--stages", arguments->stages, "With --trace: the pipeline stages in it (if not given, all)")
      ->delimiter(',')
      ->needs(trace);
  CLI::Option* draws = command
                           ->add_option("--draws", arguments->draws,
                                        "Draw so many steps with the noise that the machine's description states, and "
                                        "say how much longer they take and what they wait for")
                           ->check(positive());
  command->add_option("--seed", arguments->seed, "With --draws: the same seed gives the same steps")
      ->check(not_negative())
      ->needs(draws);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer("The exit code is 0 if the run fits the machine and 3 if it does not.");
  command->callback([arguments] {
    stop_on_signals();
    const Activity activity("simulating");
    const plan::Target target = arguments->target.load_target();
    if (arguments->draws > 0) check_noise(target.machine);
    const plan::PlannedRun run = plan::planned_run(arguments->target.load_config(), target);
    const plan::SimulatedStep step(run, target);
    const plan::Prediction prediction = plan::predict(step);
    const std::vector<int64_t> chosen = chosen_stages(arguments->stages, run.placement.stages);
    if (!arguments->trace.empty()) {
      observe::write_chrome_trace(observe::trace_of(plan::step_record(step, prediction, chosen)), arguments->trace);
    }
    std::optional<plan::DrawnSteps> drawn;
    const auto seed = static_cast<uint64_t>(arguments->seed);
    if (arguments->draws > 0) drawn = plan::draw_steps(plan::noisy_step(step), arguments->draws, seed);
    if (arguments->json) {
      Json json = json_of(prediction);
      if (drawn) json["noise"] = plan::json_of(*drawn, seed);
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{}{}{}", line_of(prediction), plan::products_line(target),
                 drawn ? plan::text_of(*drawn, prediction.step_seconds) : "");
    }
    if (!arguments->trace.empty() && !arguments->json) fmt::print("{}\n", arguments->trace);
    if (!prediction.feasible()) throw UserError(prediction.reason, ExitCode::infeasible);
  });
}

}  // namespace terrace::cli
