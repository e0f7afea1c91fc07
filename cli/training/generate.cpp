// terrace generate CHECKPOINT --prompt TEXT: continues prompts and prints each token as soon as it is drawn.
#include "terrace/generate/generate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/training/generated_text.h"
#include "cli/training/precision.h"
#include "cli/training/prompts.h"
#include "terrace/base/error.h"
#include "terrace/base/json.h"
#include "terrace/base/log.h"
#include "terrace/generate/load.h"
#include "terrace/train/device.h"
#include "terrace/train/trainer.h"

namespace terrace::cli {
namespace {

struct GenerateArguments {
  std::string checkpoint, tokenizer;
  PromptSource prompts;
  std::string device = "auto";
  std::string precision = "fp32";
  int threads = 0;
  generate::Request request;
  bool json = false;
};

void print_json(const GenerateArguments& arguments, const Prompt& prompt, const generate::Loaded& loaded,
                const std::vector<generate::Continuation>& continuations, double tokens_per_second) {
  Json json = {{"checkpoint", loaded.checkpoint.string()},
               {"step", loaded.step},
               {"prompt", prompt.text},
               {"prompt_tokens", prompt.tokens.size()},
               {"seed", arguments.request.sampling.seed},
               {"tokens_per_second", tokens_per_second},
               {"samples", Json::array()}};
  for (const generate::Continuation& continuation : continuations) {
    json["samples"].push_back(continuation_json(continuation, *loaded.tokenizer));
  }
  fmt::print("{}", json_line(json));
}

void report_ends(const GenerateArguments& arguments, const std::vector<Prompt>& prompts,
                 const std::vector<generate::Continuation>& continuations, int64_t context) {
  std::fflush(stdout);  // the text must appear before the warnings about it
  const auto samples = static_cast<size_t>(arguments.request.samples);
  for (size_t i = 0; i < continuations.size(); ++i) {
    if (continuations[i].finish != generate::Finish::context) continue;
    const Prompt& prompt = prompts[i / samples];
    log_warning("{}sample {} stopped after {} tokens: prompt and text fill the model's context of {} (model.sequence)",
                prompt.line > 0 ? fmt::format("line {}, ", prompt.line) : "", i % samples + 1,
                continuations[i].tokens.size(), context);
  }
}

ContinuationPrinter::Form form_of(const GenerateArguments& arguments) {
  if (!arguments.json) return ContinuationPrinter::Form::text;
  return arguments.prompts.has_lines() ? ContinuationPrinter::Form::json_lines : ContinuationPrinter::Form::nothing;
}

void run_generation(GenerateArguments& arguments) {
  // Overrides what the environment sets for OpenMP, so that the same command gives the same text.
  at::set_num_threads(static_cast<int>(train::choose_threads(arguments.threads)));
  generate::Request& request = arguments.request;
  generate::check(request.sampling);  // before the weights are read
  std::vector<Prompt> prompts = read_prompts(arguments.prompts);
  const at::Device device = train::choose_device(arguments.device);
  const generate::Loaded loaded = generate::load(
      arguments.checkpoint,
      {.precision = precision_of(arguments.precision), .device = device, .tokenizer = arguments.tokenizer});
  log_info("generates with the weights of {}, {} thread{}", loaded.checkpoint.string(), at::get_num_threads(),
           at::get_num_threads() == 1 ? "" : "s");
  const models::Generator& generator = models::generator_of(*loaded.model);
  encode_prompts(arguments.prompts, *loaded.tokenizer, generator, prompts);
  for (const Prompt& prompt : prompts) request.prompts.push_back(prompt.tokens);
  request.end_token = loaded.tokenizer->end_token();
  request.vocabulary = loaded.tokenizer->vocabulary();

  ContinuationPrinter printer(form_of(arguments), prompts, request.samples, *loaded.tokenizer);
  const auto start = std::chrono::steady_clock::now();
  const auto continuations = generate::generate(*loaded.model, request, printer.listener());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  size_t tokens = 0;
  for (const generate::Continuation& continuation : continuations) tokens += continuation.tokens.size();
  const double tokens_per_second = static_cast<double>(tokens) / seconds.count();
  if (arguments.json && !arguments.prompts.has_lines()) {
    print_json(arguments, prompts.front(), loaded, continuations, tokens_per_second);
  }
  report_ends(arguments, prompts, continuations, generator.longest_sequence());
  log_info("{:.1f} tokens/s", tokens_per_second);
}

void add_options(CLI::App& command, GenerateArguments& arguments) {
  generate::Request& request = arguments.request;
  command
      .add_option("checkpoint", arguments.checkpoint,
                  "A checkpoint's folder, or a run's folder for its newest complete checkpoint")
      ->required();
  PromptSource& prompts = arguments.prompts;
  auto* prompt =
      command.add_option("--prompt", prompts.text, "The text to continue; an empty one starts a new document");
  auto* file = command.add_option("--prompt-file", prompts.file, "Read the prompt from a file; -: from standard input")
                   ->excludes(prompt);
  command.add_option("--prompts", prompts.lines, "Continue each line of a file; -: of standard input")
      ->excludes(prompt)
      ->excludes(file);
  command.add_option("--max-tokens", request.max_tokens, "The most tokens of each continuation")
      ->check(positive())
      ->capture_default_str();
  command.add_option("--temperature", request.sampling.temperature, "0: always the most probable token")
      ->capture_default_str();
  command.add_option("--top-k", request.sampling.top_k, "Draw among the K most probable tokens; 0: all")
      ->check(not_negative())
      ->capture_default_str();
  command
      .add_option("--top-p", request.sampling.top_p, "Draw among the fewest tokens whose probabilities reach this sum")
      ->capture_default_str();
  command.add_option("--seed", request.sampling.seed, "The same seed gives the same text")
      ->check(not_negative())
      ->capture_default_str();
  command.add_option("--samples", request.samples, "Number of continuations of each prompt")
      ->check(positive())
      ->capture_default_str();
  command
      .add_option("--batch", request.batch,
                  "The most continuations that are decoded together; the texts do not depend on it")
      ->check(positive())
      ->capture_default_str();
  command.add_option("--tokenizer", arguments.tokenizer,
                     "A tokenizer other than the checkpoint's: a SentencePiece model or a tokenizer.json");
  command.add_option("--precision", arguments.precision, "Type of weights and activations")
      ->check(CLI::IsMember(precision_words()))
      ->capture_default_str();
  command.add_option("--device", arguments.device, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--threads", arguments.threads, "0: one per core")->check(thread_count())->capture_default_str();
  command.add_flag("--json", arguments.json,
                   "Print one JSON object at the end instead of the text; with --prompts, one for each continuation");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a trained model");
  add_options(*command, *arguments);
  command->callback([arguments] { run_generation(*arguments); });
}

}  // namespace terrace::cli
