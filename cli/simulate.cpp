// terrace simulate CONFIG --trace FILE: writes what each stage does in a predicted step, for trace viewers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/planned_target.h"
#include "terrace/base/error.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
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

}  // namespace

void add_simulate_command(CLI::App& app) {
  struct Arguments {
    PlannedTarget target;
    std::string trace;
    std::vector<int64_t> stages;
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
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer("The exit code is 0 if the run fits the machine and 3 if it does not.");
  command->callback([arguments] {
    stop_on_signals();
    const Activity activity("simulating");
    const plan::Target target = arguments->target.load_target();
    const plan::PlannedRun run = plan::planned_run(arguments->target.load_config(), target);
    const plan::SimulatedStep step(run, target);
    const plan::Prediction prediction = plan::predict(step);
    const std::vector<int64_t> chosen = chosen_stages(arguments->stages, run.placement.stages);
    if (!arguments->trace.empty()) {
      observe::write_chrome_trace(observe::trace_of(plan::step_record(step, prediction, chosen)), arguments->trace);
    }
    fmt::print("{}", arguments->json ? json_of(prediction).dump() + "\n" : line_of(prediction));
    if (!arguments->trace.empty() && !arguments->json) fmt::print("{}\n", arguments->trace);
    if (!prediction.feasible()) throw UserError(prediction.reason, ExitCode::infeasible);
  });
}

}  // namespace terrace::cli
