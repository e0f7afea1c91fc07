// terrace status FOLDER..: how far runs are and whether they live, one line a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/json_errors.h"
#include "terrace/base/text/printable.h"
#include "terrace/launch/run_status.h"

namespace terrace::cli {

void add_status_command(CLI::App& app) {
  struct Arguments {
    std::vector<std::filesystem::path> folders;
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("status", "Show how far runs are and whether they live, one line a run");
  command->add_option("folders", arguments->folders, "The runs' folders (checkpoint.folder of their configurations)")
      ->required();
  command->add_flag("--json", arguments->json, "Print one JSON object");
  command->footer(
      "States: queued, held (its job does not begin by itself), running, done, stopped (saved, can be resumed), "
      "failed.\n"
      "Reads the files in the folders and asks squeue for the jobs that are recorded there; needs neither MPI nor a "
      "GPU.");
  command->callback([arguments] {
    with_json_errors(arguments->json, [&] {
      const std::vector<launch::RunStatus> runs = launch::status_of(arguments->folders);
      fmt::print("{}", arguments->json
                           ? launch::json_of(runs).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                           : printable(launch::text_of(runs)));
    });
  });
}

}  // namespace terrace::cli
