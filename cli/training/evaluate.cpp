// terrace evaluate CHECKPOINT --data P: the loss of a checkpoint on held-out data, without a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/ranges.h"
#include "cli/training/launched_ranks.h"
#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/config/family.h"
#include "terrace/run/evaluate_checkpoint.h"
#include "terrace/train/agreement.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

struct EvaluateArguments {
  run::EvaluationRequest request;
  bool whole_samples = false;
  bool json = false;
};

// A count of the family's items; a sum of weights may be a fraction.
Json count_json(double count) { return count == std::floor(count) ? Json(static_cast<int64_t>(count)) : Json(count); }

Json figures_json(const run::CheckpointEvaluation& result, const train::HeldOutFigures& found) {
  Json json = {{"loss", found.loss}};
  for (size_t i = 0; i < result.figures.size(); ++i) json[result.figures[i].name] = found.figures[i];
  json[result.config.family->items] = count_json(found.count);
  return json;
}

void add_bytes(const train::HeldOutFigures& found, uint64_t bytes, Json& json) {
  json["bits_per_byte"] = run::CheckpointEvaluation::bits_per_byte(found, bytes);
  json["bytes"] = bytes;
}

Json json_of(const run::CheckpointEvaluation& result) {
  Json json = {{"checkpoint", result.checkpoint.string()}, {"step", result.step}};
  json.update(figures_json(result, result.evaluation.all));
  if (!result.bytes.empty()) add_bytes(result.evaluation.all, result.all_bytes(), json);
  json["datasets"] = Json::array();
  for (size_t i = 0; i < result.evaluation.by_dataset.size(); ++i) {
    const train::HeldOutFigures& found = result.evaluation.by_dataset[i];
    Json row = {{"dataset", found.dataset}};
    row.update(figures_json(result, found));
    if (!result.bytes.empty()) add_bytes(found, result.bytes.at(i), row);
    json["datasets"].push_back(row);
  }
  return json;
}

// The name of a column with its unit: "rmse_temperature [K]".
std::string heading_of(const observe::Figure& figure) {
  return figure.unit.empty() ? figure.name : fmt::format("{} [{}]", figure.name, figure.unit);
}

// A row for each dataset; of a family with many figures, a row for each figure instead.
void print_table(const run::CheckpointEvaluation& result) {
  std::vector<train::HeldOutFigures> rows = result.evaluation.by_dataset;
  if (rows.size() > 1) {
    rows.push_back(result.evaluation.all);
    rows.back().dataset = "all";
  }
  size_t width = std::string_view("dataset").size();
  for (const train::HeldOutFigures& row : rows) width = std::max(width, row.dataset.size());
  constexpr size_t most_columns = 3;
  const bool in_columns = result.figures.size() <= most_columns;
  std::string header = fmt::format("{:<{}}  {:>10}", "dataset", width, "loss");
  for (const observe::Figure& figure : result.figures) {
    if (in_columns) header += fmt::format("  {:>12}", heading_of(figure));
  }
  fmt::print("{}  {:>12}\n", header, result.config.family->items);
  for (const train::HeldOutFigures& row : rows) {
    std::string line = fmt::format("{:<{}}  {:>10.6f}", row.dataset, width, row.loss);
    for (size_t i = 0; in_columns && i < result.figures.size(); ++i) {
      const size_t column = std::max<size_t>(12, heading_of(result.figures[i]).size());
      line += fmt::format("  {:>{}.4f}", row.figures[i], column);
    }
    fmt::print("{}  {:>12}\n", line, count_json(row.count).dump());
    for (size_t i = 0; !in_columns && i < result.figures.size(); ++i) {
      fmt::print("  {:<{}}  {:>12.6g}\n", heading_of(result.figures[i]), width + 10, row.figures[i]);
    }
  }
}

// The loss in bits, and by how many bytes of text it is divided, which does not depend on the tokenizer.
void print_bits_per_byte(const run::CheckpointEvaluation& result) {
  if (result.bytes.empty()) return;
  const auto print = [](const std::string& dataset, const train::HeldOutFigures& found, uint64_t bytes) {
    fmt::print("{}: {:.6f} bits per byte of {} bytes of text\n", dataset,
               run::CheckpointEvaluation::bits_per_byte(found, bytes), bytes);
  };
  const std::vector<train::HeldOutFigures>& rows = result.evaluation.by_dataset;
  for (size_t i = 0; i < rows.size(); ++i) print(rows[i].dataset, rows[i], result.bytes.at(i));
  if (rows.size() > 1) print("all", result.evaluation.all, result.all_bytes());
}

// A loss that is no number says that the weights are none, or that the model overflows.
void check_finite(const run::CheckpointEvaluation& result) {
  std::vector<std::string> problems;
  for (const train::HeldOutFigures& found : result.evaluation.by_dataset) {
    if (!std::isfinite(found.loss)) problems.push_back(fmt::format("{}: the loss is {}", found.dataset, found.loss));
  }
  if (problems.empty()) return;
  throw UserError(fmt::format("{} has a loss that is not finite: its weights hold NaN or infinite values, or the model "
                              "overflows in its precision:\n  {}",
                              result.checkpoint.string(), fmt::join(problems, "\n  ")),
                  ExitCode::failure);
}

void run_evaluation(EvaluateArguments& arguments) {
  train::stop_on_signals();
  arguments.request.held_out.every_item = !arguments.whole_samples;
  LaunchedRanks ranks = connect(arguments.request.ranks);
  const bool is_reporting_rank = ranks.is_reporting_rank();
  arguments.request.world = ranks.world.get();
  std::optional<run::CheckpointEvaluation> result;
  std::optional<train::Refusal> refusal;
  try {
    result = run::evaluate_checkpoint(arguments.request);
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  // All ranks are done, so an error from here on leaves no other rank waiting.
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
  if (!result) throw UserError(is_reporting_rank ? "stopped on request, without a result" : "", ExitCode::stopped);
  if (!is_reporting_rank) return;
  if (arguments.json) {
    check_finite(*result);
    fmt::print("{}\n", json_of(*result).dump());
    return;
  }
  print_table(*result);
  print_bits_per_byte(*result);
  std::fflush(stdout);  // before an error about it
  check_finite(*result);
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto arguments = std::make_shared<EvaluateArguments>();
  run::EvaluationRequest& request = arguments->request;
  CLI::App* command = app.add_subcommand("evaluate", "Compute the loss of a checkpoint on held-out data");
  command
      ->add_option("checkpoint", request.checkpoint,
                   "A checkpoint's folder, or a run's folder for its newest complete checkpoint")
      ->required();
  command->add_option("--data", request.datasets,
                      "Prepared datasets, as in data.validation; if not given, the held-out data of the run itself");
  command
      ->add_option("--ranks", request.ranks,
                   "Number of ranks, as threads of this process; under mpirun or srun each process is a rank")
      ->check(positive());
  command->add_option("--device", request.device, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--threads", request.threads, "CPU threads of each rank; 0: the cores, divided among the ranks")
      ->check(thread_count())
      ->capture_default_str();
  CLI::Option* whole = command->add_flag("--whole-samples", arguments->whole_samples,
                                         "Leave out the tokens behind the last whole sample of a corpus, as the "
                                         "evaluations of a run do: the loss has its bits");
  command
      ->add_option(
          "--stride", request.held_out.stride,
          "Move the model's window by so many tokens and count a token where it is new, so that it sees more text "
          "before it (default: model.sequence)")
      ->check(positive())
      ->excludes(whole);
  command->add_flag("--json", arguments->json, "Print one JSON object instead of a table");
  command->footer(
      "Nothing is written. All that is held out counts; with --whole-samples the loss is that of terrace train with "
      "evaluate_batches = 0.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_evaluation(*arguments); }); });
}

}  // namespace terrace::cli
