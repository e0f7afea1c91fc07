// terrace generate CHECKPOINT --prompt TEXT: continues prompts and prints each token as soon as it is drawn.
#include "terrace/generate/generate.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/training/generated_text.h"
#include "cli/training/launched_ranks.h"
#include "cli/training/precision.h"
#include "cli/training/prompts.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/plural.h"
#include "terrace/comm/threads/threads.h"
#include "terrace/data/text/generation_config.h"
#include "terrace/generate/load.h"
#include "terrace/generate/memory_check.h"
#include "terrace/mesh/group.h"
#include "terrace/run/run_training.h"
#include "terrace/run/single_checks.h"
#include "terrace/train/agreement.h"
#include "terrace/train/device.h"
#include "terrace/train/prepare_machine.h"
#include "terrace/train/trainer.h"
#include "terrace/train/world_options.h"

namespace terrace::cli {
namespace {

struct GenerateArguments {
  std::string checkpoint, tokenizer;
  PromptSource prompts;
  std::string device = "auto";
  std::string precision = "fp32";
  int64_t ranks = 1;
  int threads = 0;
  std::string begin_token;  // "": the checkpoint's
  bool without_begin = false;
  std::string end_token;  // "": the tokenizer's
  bool ignores_end = false;
  generate::Request request;
  bool json = false;
};

// The token that ends a continuation; -1: none does. Throws UserError if the option names no single token.
int64_t end_token_of(const GenerateArguments& arguments, const data::Tokenizer& tokenizer) {
  const std::string& word = arguments.end_token;
  if (arguments.ignores_end) return -1;
  return word.empty() ? tokenizer.end_token() : tokenizer.token_named("--end-token", word);
}

// The token before each prompt; -1: none. Throws UserError if it is no token of the tokenizer.
int32_t begin_token_of(const GenerateArguments& arguments, const generate::Loaded& loaded) {
  if (arguments.without_begin) return -1;
  const std::string own = models::text_of_family(loaded.config).begin_token(loaded.config);
  if (!arguments.begin_token.empty()) return loaded.tokenizer->token_named("--begin-token", arguments.begin_token);
  return own.empty() ? -1 : loaded.tokenizer->token_named("data.begin_token", own);
}

// Tokens that end a continuation besides the end token: those that the checkpoint keeps of generation_config.json, if
// the options choose nothing.
std::vector<int64_t> more_end_tokens(const GenerateArguments& arguments, const generate::Loaded& loaded) {
  if (arguments.ignores_end || !arguments.end_token.empty() || !arguments.tokenizer.empty()) return {};
  const std::string kept = loaded.reader->attached(data::generation_role).string();
  return kept.empty() ? std::vector<int64_t>{} : data::token_ids(data::read_generation_config(kept), "eos_token_id");
}

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
    log_warning("{}sample {} stopped after {}: prompt and text fill the model's context of {} (model.sequence)",
                prompt.line > 0 ? fmt::format("line {}, ", prompt.line) : "", i % samples + 1,
                counted(continuations[i].tokens.size(), "token"), context);
  }
}

ContinuationPrinter::Form form_of(const GenerateArguments& arguments) {
  if (!arguments.json) return ContinuationPrinter::Form::text;
  return arguments.prompts.has_lines() ? ContinuationPrinter::Form::json_lines : ContinuationPrinter::Form::nothing;
}

// The memory that the continuations may take, before the weights do.
generate::FreeMemory free_memory(const at::Device& device, const comm::World* world) {
  const plan::AvailableMemory available = run::available_memory(device);
  generate::FreeMemory free{
      .machine = available.machine, .gpu = available.gpu.value_or(0), .on_gpu = available.gpu.has_value()};
  if (world != nullptr) {
    free.ranks_here = world->ranks_per_node();
    free.ranks = world->size();
  }
  return free;
}

models::TextLimits limits_of(const generate::Loaded& loaded) {
  return models::text_of_family(loaded.config).limits(loaded.config);
}

// Generates on one rank: `world` is null on a single one. Only the first rank prints.
void generate_on_rank(const GenerateArguments& arguments, std::vector<Prompt> prompts, comm::World* world) {
  const bool reports = world == nullptr || world->rank() == 0;
  generate::LoadOptions options{
      .precision = precision_of(arguments.precision), .tokenizer = arguments.tokenizer, .world = world};
  generate::Loaded loaded;
  std::optional<UserError> problem;
  generate::Request request = arguments.request;
  try {
    options.device = world ? train::choose_device(arguments.device, *world) : train::choose_device(arguments.device);
    const generate::FreeMemory free = free_memory(options.device, world);
    loaded = generate::open(arguments.checkpoint, options);
    encode_prompts(arguments.prompts, *loaded.tokenizer, limits_of(loaded), begin_token_of(arguments, loaded), prompts);
    for (const Prompt& prompt : prompts) request.prompts.push_back(prompt.tokens);
    request.end_token = end_token_of(arguments, *loaded.tokenizer);
    request.more_end_tokens = more_end_tokens(arguments, loaded);
    const std::string too_large = generate::memory_problem(loaded.config, *loaded.model, request, free);
    if (!too_large.empty()) throw UserError(too_large, ExitCode::infeasible);
  } catch (const UserError& error) {
    if (!world) throw;
    problem = error;
  }
  if (world) train::agree(*world, problem);
  if (world) options.device = train::take_device(arguments.device, *world);
  generate::read_weights(loaded, options);
  if (reports) {
    const std::string ranks = world ? ", " + counted(world->size(), "rank") : "";
    log_info("generates with the weights of {}{}, {}", loaded.checkpoint.string(), ranks,
             counted(at::get_num_threads(), "thread"));
  }
  request.vocabulary = loaded.tokenizer->vocabulary();

  ContinuationPrinter printer(reports ? form_of(arguments) : ContinuationPrinter::Form::nothing, prompts,
                              request.samples, *loaded.tokenizer);
  const auto start = std::chrono::steady_clock::now();
  const auto continuations = generate::generate(loaded.config, *loaded.model, request, printer.listener());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!reports) return;
  size_t tokens = 0;
  for (const generate::Continuation& continuation : continuations) tokens += continuation.tokens.size();
  const double tokens_per_second = static_cast<double>(tokens) / seconds.count();
  if (arguments.json && !arguments.prompts.has_lines()) {
    print_json(arguments, prompts.front(), loaded, continuations, tokens_per_second);
  }
  report_ends(arguments, prompts, continuations, limits_of(loaded).longest_sequence);
  log_info("{:.1f} tokens/s", tokens_per_second);
}

// All ranks know of a refusal, but only one of them has its text.
void generate_on_threads(const GenerateArguments& arguments, const std::vector<Prompt>& prompts, int64_t ranks,
                         const comm::WorldOptions& options) {
  std::mutex mutex;
  std::string refused;
  std::optional<ExitCode> code;
  comm::run_threads(ranks, options, [&](comm::World& world) {
    try {
      generate_on_rank(arguments, prompts, &world);
    } catch (const train::Refusal& refusal) {
      const std::lock_guard lock(mutex);
      refused += refusal.what();
      code = refusal.code;
    }
  });
  if (code) throw UserError(refused, *code);
}

// The first rank alone has the standard input of a launch.
void generate_on_processes(const GenerateArguments& arguments, comm::World& world) {
  const auto all = world.connect(mesh::all_ranks("prompts", world.size()));
  const std::string text = train::broadcast_result(*all, [&] { return read_prompt_text(arguments.prompts); });
  std::vector<Prompt> prompts;
  std::optional<UserError> problem;
  try {
    prompts = split_prompts(arguments.prompts, text);
  } catch (const UserError& error) {
    problem = error;
  }
  train::agree(world, problem);
  generate_on_rank(arguments, prompts, &world);
}

void run_generation(const GenerateArguments& arguments) {
  generate::check(arguments.request.sampling);  // before the weights are read
  LaunchedRanks ranks = connect(arguments.ranks);
  const int64_t here = ranks.launched() ? 1 : arguments.ranks;
  const int64_t cores = ranks.launched() ? ranks.world->cores_per_rank() : train::choose_threads(0) / here;
  // Overrides what the environment sets for OpenMP, so that the same command gives the same text.
  train::prepare_machine(arguments.threads > 0 ? arguments.threads : std::max<int64_t>(1, cores));
  if (!ranks.launched()) {
    train::choose_device_of_threads(arguments.device, here, "--device cpu");
    const std::vector<Prompt> prompts = split_prompts(arguments.prompts, read_prompt_text(arguments.prompts));
    if (here == 1) return generate_on_rank(arguments, prompts, nullptr);
    return generate_on_threads(arguments, prompts, here, train::world_options(ranks.config));
  }
  std::optional<train::Refusal> refusal;
  try {
    train::abort_on_error(*ranks.world, [&] { generate_on_processes(arguments, *ranks.world); });
  } catch (const train::Refusal& all_know) {
    refusal = all_know;
  }
  ranks.world.reset();
  if (refusal) throw UserError(*refusal);
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
  auto* begin = command.add_option("--begin-token", arguments.begin_token,
                                   "Put this token before each prompt, a number or a text (default: data.begin_token)");
  command.add_flag("--no-begin-token", arguments.without_begin, "Put no token before prompts")->excludes(begin);
  auto* end =
      command.add_option("--end-token", arguments.end_token,
                         "End a continuation at this token, a number or a text, not at the tokenizer's end token");
  command.add_flag("--ignore-eos", arguments.ignores_end, "Go on after an end token, which then is part of the text")
      ->excludes(end);
  command
      .add_option_function<std::string>(
          "--special-tokens",
          [&prompts](const std::string& word) {
            prompts.special_tokens = word == "keep" ? data::SpecialTokens::keep : data::SpecialTokens::split;
          },
          "Texts of control tokens in prompts, such as <|im_start|>: keep as these tokens, or split into plain text")
      ->check(CLI::IsMember({"keep", "split"}))
      ->default_str("keep");
  command.add_option("--tokenizer", arguments.tokenizer,
                     "A tokenizer other than the checkpoint's: a SentencePiece model or a tokenizer.json");
  command.add_option("--precision", arguments.precision, "Type of weights and activations")
      ->check(CLI::IsMember(precision_words()))
      ->capture_default_str();
  command.add_option("--device", arguments.device, "Where to compute")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command
      .add_option("--ranks", arguments.ranks,
                  "Divide the model among so many threads of this process; under mpirun or srun each process is a rank")
      ->check(positive());
  command.add_option("--threads", arguments.threads, "CPU threads of each rank; 0: the cores, divided among the ranks")
      ->check(thread_count())
      ->capture_default_str();
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
