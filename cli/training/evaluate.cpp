// terrace evaluate CHECKPOINT --data P: the loss of a checkpoint on held-out data, without a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/json_errors.h"
#include "cli/ranges.h"
#include "cli/training/launched_ranks.h"
#include "terrace/base/error.h"
#include "terrace/base/json.h"
#include "terrace/config/family.h"
#include "terrace/train/agreement.h"
#include "terrace/train/evaluate_checkpoint.h"
#include "terrace/train/stop_request.h"

namespace terrace::cli {
namespace {

struct EvaluateArguments {
  train::EvaluationRequest request;
  bool json = false;
};

bool has_perplexity(const config::Config& config) { return config.family->loss_unit.starts_with("nats"); }

Json figures_json(const config::Config& config, double loss, int64_t count) {
  Json json = {{"loss", loss}};
  if (has_perplexity(config)) json["perplexity"] = std::exp(loss);
  json[config.family->items] = count;
  return json;
}

Json json_of(const train::CheckpointEvaluation& result) {
  const train::Evaluation& evaluation = result.evaluation;
  Json json = {{"checkpoint", result.checkpoint.string()}, {"step", result.step}};
  json.update(figures_json(result.config, evaluation.loss, evaluation.count));
  for (size_t i = 0; i < result.figure_names.size(); ++i) json[result.figure_names[i]] = evaluation.figures[i];
  json["corpora"] = Json::array();
  for (size_t i = 0; i < evaluation.by_corpus.size(); ++i) {
    const auto& [corpus, loss] = evaluation.by_corpus[i];
    Json row = {{"corpus", corpus}};
    row.update(figures_json(result.config, loss, evaluation.counts_by_corpus[i]));
    json["corpora"].push_back(row);
  }
  return json;
}

void print_row(const train::CheckpointEvaluation& result, const std::string& name, size_t width, double loss,
               int64_t count) {
  const std::string perplexity = has_perplexity(result.config) ? fmt::format("  {:>12.4f}", std::exp(loss)) : "";
  fmt::print("{:<{}}  {:>10.6f}{}  {:>12}\n", name, width, loss, perplexity, count);
}

void print_table(const train::CheckpointEvaluation& result) {
  const train::Evaluation& evaluation = result.evaluation;
  size_t width = std::string_view("corpus").size();
  for (const auto& [corpus, loss] : evaluation.by_corpus) width = std::max(width, corpus.size());
  fmt::print("{:<{}}  {:>10}{}  {:>12}\n", "corpus", width, "loss",
             has_perplexity(result.config) ? fmt::format("  {:>12}", "perplexity") : "", result.config.family->items);
  for (size_t i = 0; i < evaluation.by_corpus.size(); ++i) {
    const auto& [corpus, loss] = evaluation.by_corpus[i];
    print_row(result, corpus, width, loss, evaluation.counts_by_corpus[i]);
  }
  if (evaluation.by_corpus.size() > 1) print_row(result, "all", width, evaluation.loss, evaluation.count);
}

void run_evaluation(EvaluateArguments& arguments) {
  train::stop_on_signals();
  LaunchedRanks ranks = connect(arguments.request.ranks);
  const bool is_reporting_rank = ranks.is_reporting_rank();
  arguments.request.world = ranks.world.get();
  std::optional<train::CheckpointEvaluation> result;
  std::optional<train::Refusal> refusal;
  try {
    result = train::evaluate_checkpoint(arguments.request);
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  // All ranks are done, so an error from here on leaves no other rank waiting.
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
  if (!result) throw UserError(is_reporting_rank ? "stopped on request, without a result" : "", ExitCode::stopped);
  if (!is_reporting_rank) return;
  if (arguments.json) {
    fmt::print("{}\n", json_of(*result).dump());
  } else {
    print_table(*result);
  }
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto arguments = std::make_shared<EvaluateArguments>();
  train::EvaluationRequest& request = arguments->request;
  CLI::App* command = app.add_subcommand("evaluate", "Compute the loss of a checkpoint on held-out data");
  command
      ->add_option("checkpoint", request.checkpoint,
                   "A checkpoint's folder, or a run's folder for its newest complete checkpoint")
      ->required();
  command->add_option("--data", request.corpora,
                      "Prepared corpora, as in data.validation; if not given, the held-out data of the run itself");
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
  command->add_flag("--json", arguments->json, "Print one JSON object instead of a table");
  command->footer("Nothing is written. The loss is that of terrace train with evaluate_batches = 0.");
  command->callback([arguments] { with_json_errors(arguments->json, [&] { run_evaluation(*arguments); }); });
}

}  // namespace terrace::cli
