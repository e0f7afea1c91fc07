// Writes what a rehearsal showed as text and as JSON.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/rehearse/rehearsal.h"

namespace terrace::rehearse {
namespace {

std::string row(const std::string& name, const std::string& text) { return fmt::format("{:<24}{}\n", name, text); }

std::string losses_text(const Rehearsal& rehearsal) {
  std::string text;
  for (const double loss : rehearsal.losses) text += fmt::format("{}{:.6g}", text.empty() ? "" : ", ", loss);
  if (!rehearsal.loss_error) return text;
  return text + fmt::format("; their error is {:.2f} times one rank's{}", rehearsal.loss_error->ratio(),
                            rehearsal.loss_error->holds() ? "" : ", more than twice");
}

std::string seconds_text(const Rehearsal& rehearsal) {
  std::string steps;
  for (const double seconds : rehearsal.step_seconds) {
    steps += (steps.empty() ? "" : ", ") + format_seconds(seconds);
  }
  return fmt::format("start {}, steps {}, checkpoint and end {}; {} of processors",
                     format_seconds(rehearsal.start_seconds), steps, format_seconds(rehearsal.end_seconds),
                     format_seconds(rehearsal.processor_seconds));
}

std::string clocks_text(const ClockedSteps& clocked) {
  const double step = clocked.seconds.back();
  std::string text =
      row("step on the machine",
          fmt::format("{} on the clocks of the ranks, {} simulated ({:+.1f}%)", format_seconds(step),
                      format_seconds(clocked.simulated_seconds), 100 * (step / clocked.simulated_seconds - 1)));
  text += row("exposed movements",
              fmt::format("at most {} of a stage, {} simulated", format_seconds(clocked.exposed_seconds),
                          format_seconds(clocked.simulated_exposed_seconds)));
  text += row("order", clocked.other_order.empty() ? "as simulated" : clocked.other_order);
  if (!clocked.shifted.empty()) {
    text += row("furthest", fmt::format("{} ends {} {} than simulated", clocked.shifted,
                                        format_seconds(std::abs(clocked.shift_seconds)),
                                        clocked.shift_seconds > 0 ? "later" : "earlier"));
  }
  return text;
}

double per_rank(int64_t most, int64_t before, int64_t ranks) {
  return static_cast<double>(most - before) / static_cast<double>(ranks);
}

}  // namespace

std::string text_of(const Rehearsal& rehearsal) {
  std::string text;
  text +=
      row("ranks", fmt::format("{} on {}: {}", rehearsal.ranks, counted(rehearsal.nodes, "node"), rehearsal.layout));
  text += row("model", fmt::format("{} parameters in place of {}", format_count(rehearsal.parameters),
                                   format_count(rehearsal.wide_parameters)));
  text += row("micro-batches", fmt::format("{} in each step", rehearsal.micro_batches));
  text += row("time here", seconds_text(rehearsal));
  text +=
      row("memory here", fmt::format("{}, {} a rank", format_bytes(static_cast<double>(rehearsal.most.resident_bytes)),
                                     format_bytes(rehearsal.rank_bytes())));
  text += row("threads, files",
              fmt::format("{:.1f} and {:.1f} a rank",
                          per_rank(rehearsal.most.threads, rehearsal.before.threads, rehearsal.ranks),
                          per_rank(rehearsal.most.open_files, rehearsal.before.open_files, rehearsal.ranks)));
  text += row("checkpoint", fmt::format("{}, {}", counted(rehearsal.checkpoint_files, "file"),
                                        format_bytes(static_cast<double>(rehearsal.checkpoint_bytes))));
  text += row("losses", losses_text(rehearsal));
  if (rehearsal.clocked) text += clocks_text(*rehearsal.clocked);
  for (const std::string& finding : rehearsal.findings) text += "note: " + finding + "\n";
  return text;
}

Json json_of(const Rehearsal& rehearsal) {
  Json json = {{"ranks", rehearsal.ranks},
               {"nodes", rehearsal.nodes},
               {"stages", rehearsal.stages},
               {"micro_batches", rehearsal.micro_batches},
               {"layout", rehearsal.layout},
               {"parameters", rehearsal.parameters},
               {"parameters_of_configuration", rehearsal.wide_parameters},
               {"start_seconds", rehearsal.start_seconds},
               {"step_seconds", rehearsal.step_seconds},
               {"end_seconds", rehearsal.end_seconds},
               {"processor_seconds", rehearsal.processor_seconds},
               {"memory_bytes", rehearsal.most.resident_bytes},
               {"memory_bytes_a_rank", rehearsal.rank_bytes()},
               {"threads", rehearsal.most.threads},
               {"open_files", rehearsal.most.open_files},
               {"checkpoint_files", rehearsal.checkpoint_files},
               {"checkpoint_bytes", rehearsal.checkpoint_bytes},
               {"losses", rehearsal.losses},
               {"findings", rehearsal.findings},
               {"holds", rehearsal.holds()}};
  json["loss_error_ratio"] = rehearsal.loss_error ? Json(rehearsal.loss_error->ratio()) : Json();
  if (const auto& clocked = rehearsal.clocked) {
    json["clocked"] = {{"step_seconds", clocked->seconds},
                       {"simulated_step_seconds", clocked->simulated_seconds},
                       {"exposed_seconds", clocked->exposed_seconds},
                       {"simulated_exposed_seconds", clocked->simulated_exposed_seconds},
                       {"other_order", clocked->other_order},
                       {"shifted", clocked->shifted},
                       {"shift_seconds", clocked->shift_seconds}};
  }
  for (const verify::KeyChange& change : rehearsal.changes) {
    json["changes"].push_back({{"key", change.key}, {"from", change.from}, {"to", change.to}});
  }
  return json;
}

}  // namespace terrace::rehearse
