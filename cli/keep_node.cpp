// terrace keep-node FOLDER: the process on each node by which terrace launch --run sees that the node lives.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/supervise/keeper.h"

namespace terrace::cli {

void add_keep_node_command(CLI::App& app) {
  struct Arguments {
    std::filesystem::path folder;
    std::filesystem::path memory = "/dev/shm";
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("keep-node", "Show terrace launch --run that this node lives, and keep its copies");
  command->add_option("folder", arguments->folder, "The run's folder (checkpoint.folder of its configuration)")
      ->required();
  command->add_option("--memory", arguments->memory, "The run's checkpoint.memory_folder")->capture_default_str();
  command->footer(
      "terrace launch --run starts it on each node. It writes a line to standard output twice a second until its\n"
      "input ends, and then removes the copies of the run's states from the node's memory.");
  command->callback([arguments] {
    stop_on_signals(std::chrono::hours(24));
    end_start();
    std::signal(SIGUSR1, SIG_IGN);  // Slurm asks the ranks by it to save
    supervise::keep_node(arguments->memory, arguments->folder);
  });
}

}  // namespace terrace::cli
