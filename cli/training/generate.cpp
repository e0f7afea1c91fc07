// terrace generate CHECKPOINT --prompt TEXT: continues a prompt and prints each token as soon as it is drawn.
#include "terrace/generate/generate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/training/precision.h"
#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/json.h"
#include "terrace/base/log.h"
#include "terrace/generate/load.h"
#include "terrace/train/device.h"
#include "terrace/train/trainer.h"

namespace terrace::cli {
namespace {

struct GenerateArguments {
  std::string checkpoint, prompt, prompt_file, tokenizer;
  std::string device = "auto";
  std::string precision = "fp32";
  int threads = 0;
  generate::Request request;
  bool json = false;
};

std::string read_prompt(const GenerateArguments& arguments) {
  if (arguments.prompt_file.empty()) return arguments.prompt;
  if (arguments.prompt_file != "-") return read_text(arguments.prompt_file);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// An empty prompt becomes an end token: in training, a document follows the end token of another one.
std::vector<int64_t> encode_prompt(const std::string& text, const data::Tokenizer& tokenizer) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  std::vector<int64_t> prompt(ids.begin(), ids.end());
  if (!prompt.empty()) return prompt;
  if (tokenizer.end_token() < 0) throw UserError("the prompt is empty: give --prompt TEXT or --prompt-file PATH");
  return {tokenizer.end_token()};
}

std::string text_of(const std::vector<int64_t>& tokens, const data::Tokenizer& tokenizer) {
  std::string text;
  for (int64_t token : tokens) text += tokenizer.text_of(static_cast<int32_t>(token));
  return text;
}

void print_json(const GenerateArguments& arguments, const std::string& prompt, const generate::Loaded& loaded,
                const std::vector<generate::Continuation>& continuations, double tokens_per_second) {
  Json json = {{"checkpoint", loaded.checkpoint.string()},
               {"step", loaded.step},
               {"prompt", prompt},
               {"prompt_tokens", arguments.request.prompt.size()},
               {"seed", arguments.request.sampling.seed},
               {"tokens_per_second", tokens_per_second},
               {"samples", Json::array()}};
  for (const generate::Continuation& continuation : continuations) {
    json["samples"].push_back({{"text", text_of(continuation.tokens, *loaded.tokenizer)},
                               {"tokens", continuation.tokens},
                               {"finish", generate::name_of(continuation.finish)}});
  }
  // Byte tokens can end inside a character, and JSON cannot hold a part of a character.
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::vector<generate::Continuation> print_while_drawn(generate::CachedModel& model, const GenerateArguments& arguments,
                                                      const std::string& prompt, const data::Tokenizer& tokenizer) {
  const int64_t samples = arguments.request.samples;
  int64_t shown = -1;
  const auto start_sample = [&](int64_t sample) {
    if (shown >= 0) fmt::print("\n");
    if (samples > 1) fmt::print("--- sample {} of {} ---\n", sample + 1, samples);
    fmt::print("{}", prompt);
    shown = sample;
  };
  auto continuations = generate::generate(model, arguments.request, [&](int64_t sample, int64_t token) {
    while (shown < sample) start_sample(shown + 1);
    fmt::print("{}", tokenizer.text_of(static_cast<int32_t>(token)));
    std::fflush(stdout);
  });
  // A sample that ended before its first token shows only the prompt.
  while (shown + 1 < samples) start_sample(shown + 1);
  fmt::print("\n");
  return continuations;
}

void report_ends(const std::vector<generate::Continuation>& continuations, const generate::CachedModel& model,
                 double tokens_per_second) {
  std::fflush(stdout);  // the text must appear before the warnings about it
  for (size_t i = 0; i < continuations.size(); ++i) {
    if (continuations[i].finish == generate::Finish::context) {
      log_warning("sample {} stopped after {} tokens: prompt and text fill the model's context of {} (model.sequence)",
                  i + 1, continuations[i].tokens.size(), model.capacity());
    }
  }
  log_info("{:.1f} tokens/s", tokens_per_second);
}

void run_generation(GenerateArguments& arguments) {
  // Overrides what the environment sets for OpenMP, so that the same command gives the same text.
  at::set_num_threads(static_cast<int>(train::choose_threads(arguments.threads)));
  generate::check(arguments.request.sampling);  // before the weights are read
  const std::string prompt = read_prompt(arguments);
  const at::Device device = train::choose_device(arguments.device);
  const generate::Loaded loaded = generate::load(
      arguments.checkpoint,
      {.precision = precision_of(arguments.precision), .device = device, .tokenizer = arguments.tokenizer});
  log_info("generates with the weights of {}, {} thread{}", loaded.checkpoint.string(), at::get_num_threads(),
           at::get_num_threads() == 1 ? "" : "s");
  arguments.request.prompt = encode_prompt(prompt, *loaded.tokenizer);
  arguments.request.end_token = loaded.tokenizer->end_token();
  arguments.request.vocabulary = loaded.tokenizer->vocabulary();

  generate::CachedModel model(*loaded.model);
  const auto start = std::chrono::steady_clock::now();
  const auto continuations = arguments.json ? generate::generate(model, arguments.request, [](int64_t, int64_t) {})
                                            : print_while_drawn(model, arguments, prompt, *loaded.tokenizer);
  size_t tokens = 0;
  for (const generate::Continuation& continuation : continuations) tokens += continuation.tokens.size();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double tokens_per_second = static_cast<double>(tokens) / seconds.count();
  if (arguments.json) print_json(arguments, prompt, loaded, continuations, tokens_per_second);
  report_ends(continuations, model, tokens_per_second);
}

void add_options(CLI::App& command, GenerateArguments& arguments) {
  generate::Request& request = arguments.request;
  command
      .add_option("checkpoint", arguments.checkpoint,
                  "A checkpoint's folder, or a run's folder for its newest complete checkpoint")
      ->required();
  auto* prompt =
      command.add_option("--prompt", arguments.prompt, "The text to continue; an empty one starts a new document");
  command.add_option("--prompt-file", arguments.prompt_file, "Read the prompt from a file; -: from standard input")
      ->excludes(prompt);
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
  command.add_option("--samples", request.samples, "Number of continuations of the prompt")
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
  command.add_flag("--json", arguments.json, "Print one JSON object at the end instead of the text");
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a trained model");
  add_options(*command, *arguments);
  command->callback([arguments] { run_generation(*arguments); });
}

}  // namespace terrace::cli
