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
  if (steps.empty()) return fmt::format("{} of processors", format_seconds(rehearsal.processor_seconds));
  return fmt::format("steps {}, checkpoint and end {}; {} of processors", steps, format_seconds(rehearsal.end_seconds),
                     format_seconds(rehearsal.processor_seconds));
}

std::string start_text(const Rehearsal& rehearsal) {
  const StartCost& start = rehearsal.start;
  const auto bytes = static_cast<double>(start.bytes);
  std::string text = fmt::format("{} here, {} of processors, {}", format_seconds(start.seconds),
                                 format_seconds(start.processor_seconds), format_bytes(bytes));
  if (!rehearsal.start_of_half) return text;
  const StartCost& half = *rehearsal.start_of_half;
  return text + fmt::format("; {} ranks take {} of processors and {}", half.ranks,
                            format_seconds(half.processor_seconds), format_bytes(static_cast<double>(half.bytes)));
}

std::string killed_text(const Rehearsal& rehearsal) {
  const KillReport& report = *rehearsal.killed;
  std::string text = fmt::format("rank {} in step {}", report.killed.rank, report.killed.step);
  if (rehearsal.nodes > 1) text += fmt::format(", and what the memory of node {} held", report.node);
  text += fmt::format("; all ranks had ended {} later; the run went on ", format_seconds(report.noticed_seconds));
  if (report.from_memory) {
    text += fmt::format("after step {}, from the memory of the other nodes", report.resumed_step);
  } else {
    text += report.resumed_step == 0 ? "from its beginning" : fmt::format("after step {}", report.resumed_step);
  }
  return text + fmt::format("; its next step was done {} after the death; its losses {} those of a run without it",
                            format_seconds(report.next_step_seconds),
                            report.same_bits ? "are bit for bit" : "differ from");
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

// The rows of what the steps showed.
std::string steps_rows(const Rehearsal& rehearsal) {
  std::string text;
  text += row("checkpoint", fmt::format("{}, {}", counted(rehearsal.checkpoint_files, "file"),
                                        format_bytes(static_cast<double>(rehearsal.checkpoint_bytes))));
  text += row("losses", losses_text(rehearsal));
  if (rehearsal.killed) text += row("killed", killed_text(rehearsal));
  if (rehearsal.clocked) text += clocks_text(*rehearsal.clocked);
  for (const observe::Slowness& slow : rehearsal.slow) {
    const int64_t node = slow.rank * rehearsal.nodes / rehearsal.ranks;
    text += row(fmt::format("named in step {}", slow.step),
                slow.rank < 0 ? slow.text : fmt::format("{} (node {} of the machine)", slow.text, node));
  }
  return text;
}

double per_rank(int64_t most, int64_t before, int64_t ranks) {
  return static_cast<double>(most - before) / static_cast<double>(ranks);
}

Json cost_of(const StartCost& cost) {
  return {{"ranks", cost.ranks},
          {"seconds", cost.seconds},
          {"processor_seconds", cost.processor_seconds},
          {"memory_bytes", cost.bytes}};
}

}  // namespace

std::string text_of(const Rehearsal& rehearsal) {
  std::string text;
  text +=
      row("ranks", fmt::format("{} on {}: {}", rehearsal.ranks, counted(rehearsal.nodes, "node"), rehearsal.layout));
  text += row("model", fmt::format("{} parameters in place of {}", format_count(rehearsal.parameters),
                                   format_count(rehearsal.wide_parameters)));
  text += row("micro-batches", fmt::format("{} in each step", rehearsal.micro_batches));
  text += row("start", start_text(rehearsal));
  text += row("time here", seconds_text(rehearsal));
  text +=
      row("memory here", fmt::format("{}, {} a rank", format_bytes(static_cast<double>(rehearsal.most.resident_bytes)),
                                     format_bytes(rehearsal.rank_bytes())));
  text += row("threads, files",
              fmt::format("{:.1f} and {:.1f} a rank",
                          per_rank(rehearsal.most.threads, rehearsal.before.threads, rehearsal.ranks),
                          per_rank(rehearsal.most.open_files, rehearsal.before.open_files, rehearsal.ranks)));
  if (!rehearsal.losses.empty()) text += steps_rows(rehearsal);
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
               {"start", cost_of(rehearsal.start)},
               {"start_of_half", rehearsal.start_of_half ? cost_of(*rehearsal.start_of_half) : Json()},
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
  for (const observe::Slowness& slow : rehearsal.slow) {
    json["slow"].push_back({{"step", slow.step},
                            {"what", slow.what},
                            {"ended", slow.ended},
                            {"rank", slow.rank},
                            {"to", slow.to},
                            {"excess", slow.excess},
                            {"text", slow.text}});
  }
  if (const auto& killed = rehearsal.killed) {
    json["killed"] = {{"rank", killed->killed.rank},
                      {"step", killed->killed.step},
                      {"node", killed->node},
                      {"noticed_seconds", killed->noticed_seconds},
                      {"resumed_step", killed->resumed_step},
                      {"from_memory", killed->from_memory},
                      {"next_step_seconds", killed->next_step_seconds},
                      {"same_bits", killed->same_bits}};
  }
  for (const verify::KeyChange& change : rehearsal.changes) {
    json["changes"].push_back({{"key", change.key}, {"from", change.from}, {"to", change.to}});
  }
  return json;
}

}  // namespace terrace::rehearse
