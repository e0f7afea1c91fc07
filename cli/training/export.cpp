// terrace export CHECKPOINT --format hf --output FOLDER: writes a model for other programs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/training/precision.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/units.h"
#include "terrace/exchange/hf.h"

namespace terrace::cli {

void add_export_command(CLI::App& app) {
  struct Arguments {
    exchange::ExportOptions options;
    std::string format, precision = "fp32";
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("export", "Write a model for other programs");
  command
      ->add_option("checkpoint", arguments->options.checkpoint,
                   "A checkpoint's folder, or a run's folder for its newest complete checkpoint")
      ->required();
  command->add_option("--format", arguments->format, "hf: GPT-2's or Llama's layout, for Python's transformers")
      ->required()
      ->check(CLI::IsMember({"hf"}));
  command->add_option("--output", arguments->options.output, "The folder to write")->required();
  command->add_option("--tokenizer", arguments->options.tokenizer, "A tokenizer other than the checkpoint's");
  command->add_option("--precision", arguments->precision, "Type of the written weights; fp32 keeps every bit")
      ->check(CLI::IsMember(precision_words()))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments] {
    arguments->options.precision = precision_of(arguments->precision);
    const exchange::Exported result = exchange::export_hf(arguments->options);
    const std::string output = arguments->options.output.string();
    if (arguments->json) {
      const Json json = {{"checkpoint", result.checkpoint.string()},
                         {"output", output},
                         {"architecture", result.architecture},
                         {"parameters", result.parameters},
                         {"tokenizer", result.tokenizer}};
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{} of {} weights from {} in {}\n", result.architecture, format_count(result.parameters),
                 result.checkpoint.string(), output);
    }
  });
}

}  // namespace terrace::cli
