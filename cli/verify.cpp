// terrace verify CONFIG: whether a layout trains as it should on this machine.
#include "terrace/train/verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "terrace/base/error.h"
#include "terrace/config/config.h"

namespace terrace::cli {

void add_verify_command(CLI::App& app) {
  struct Arguments {
    std::string config;
    std::vector<std::string> overrides;
    int64_t ranks = 0;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "verify", "Check that a layout trains to the same weights as plain data parallelism, and as exactly as one rank");
  command->add_option("config", arguments->config, "Configuration file; its data are not read")->required();
  command->add_option("--set", arguments->overrides, "Replace one key: section.key=value; may be given again")
      ->allow_extra_args(false);
  command
      ->add_option("--ranks", arguments->ranks,
                   "Ranks, as threads of this process; the fewest, from two, that fit where not given")
      ->check(positive());
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer("Exit code 0 where everything holds, 1 where something does not.");
  command->callback([arguments] {
    const config::Config config = config::load(arguments->config, arguments->overrides);
    const train::Verdict verdict = train::verify(config, {.ranks = arguments->ranks});
    fmt::print("{}", arguments->json ? train::json(verdict).dump() + "\n" : train::text(verdict));
    if (!verdict.holds()) {
      throw UserError("the layout does not train as it should; standard output says where", ExitCode::failure);
    }
  });
}

}  // namespace terrace::cli
