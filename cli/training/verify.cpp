// terrace verify CONFIG: checks on this machine that a layout trains as it should.
#include "terrace/verify/verify.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/ranges.h"
#include "cli/training/launched_ranks.h"
#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/config/config.h"

namespace terrace::cli {
namespace {

// All processes of a launch find the same user's mistake, so only one reports it.
verify::Verdict verify_with_one_report(const config::Config& config, const verify::VerifyOptions& options,
                                       bool is_reporting_rank) {
  try {
    return verify::verify(config, options);
  } catch (const UserError& error) {
    throw UserError(is_reporting_rank ? error.what() : "", error.code);
  }
}

}  // namespace

void add_verify_command(CLI::App& app) {
  struct Arguments {
    std::string config;
    std::vector<std::string> overrides;
    int64_t ranks = 0, seeds = verify::VerifyOptions{}.seeds;
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
                   "Number of ranks, as threads of this process (if not given, the least number from two that fits); "
                   "under mpirun or srun each process is a rank")
      ->check(positive());
  command
      ->add_option("--seeds", arguments->seeds,
                   "Over how many seeds errors are taken: with fewer it is faster, and errors depend more on luck")
      ->capture_default_str()
      ->check(positive());
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer("The exit code is 0 if all checks hold and 1 if one does not.");
  command->callback([arguments] {
    LaunchedRanks ranks = load_and_connect(arguments->config, arguments->overrides, arguments->ranks);
    const bool is_reporting_rank = ranks.is_reporting_rank();
    verify::VerifyOptions options{.ranks = arguments->ranks, .seeds = arguments->seeds};
    if (ranks.launched()) {
      check_same_configuration(ranks);
      options.ranks = ranks.world->size();
      options.processes = ranks.library;
      options.ranks_here = ranks.world->ranks_per_node();
      ranks.world.reset();  // each trial makes a world of its own
    }
    const verify::Verdict verdict = verify_with_one_report(ranks.config, options, is_reporting_rank);
    if (is_reporting_rank)
      fmt::print("{}", arguments->json ? verify::json(verdict).dump() + "\n" : verify::text(verdict));
    if (verdict.holds()) return;
    throw UserError(is_reporting_rank ? "the layout does not train as it should; standard output says where" : "",
                    ExitCode::failure);
  });
}

}  // namespace terrace::cli
