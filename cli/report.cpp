// terrace report RUN: shows the loss curve and the figures of a run in the terminal.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "terrace/observe/summary.h"

namespace terrace::cli {

void add_report_command(CLI::App& app) {
  struct Arguments {
    std::string run;
    bool files = false, json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("report", "Show the loss curve, speed, memory and size of a run");
  command->add_option("run", arguments->run, "The run's folder (checkpoint.folder of its configuration)")->required();
  command->add_flag("--files", arguments->files, "List the run's files with their sizes (--json always does)");
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->callback([arguments] {
    if (arguments->json) {
      fmt::print("{}\n", observe::summarize_run(arguments->run).dump());
    } else {
      fmt::print("{}", observe::draw_summary(arguments->run));
      if (arguments->files) fmt::print("{}", observe::draw_files(arguments->run));
    }
  });
}

}  // namespace terrace::cli
