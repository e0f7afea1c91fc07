// terrace import FOLDER --output CHECKPOINT: makes a checkpoint of another program's model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/units.h"
#include "terrace/exchange/hf.h"

namespace terrace::cli {

void add_import_command(CLI::App& app) {
  struct Arguments {
    exchange::ImportOptions options;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("import", "Make a checkpoint of a model in the layout of Hugging Face");
  command->add_option("folder", arguments->options.folder, "Folder with config.json and safetensors, GPT-2 or Llama")
      ->required();
  command->add_option("--output", arguments->options.output, "The folder to write")->required();
  CLI::Option* given =
      command->add_option("--tokenizer", arguments->options.tokenizer, "A tokenizer other than the folder's");
  command->add_flag("--without-tokenizer", arguments->options.without_tokenizer, "Leave the tokenizer out")
      ->excludes(given);
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments] {
    const exchange::Imported result = exchange::import_hf(arguments->options);
    if (arguments->json) {
      const Json json = {{"checkpoint", result.checkpoint.string()},
                         {"config", result.config.string()},
                         {"tokenizer", result.tokenizer.string()},
                         {"parameters", result.parameters}};
      fmt::print("{}\n", json.dump());
    } else {
      fmt::print("{} weights from {} in {}; {} starts training from them\n", format_count(result.parameters),
                 arguments->options.folder.string(), result.checkpoint.string(), result.config.string());
    }
  });
}

}  // namespace terrace::cli
