// terrace completion SHELL and terrace man: print the completion scripts and the manual page.
#include "cli/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/man_page.h"

namespace terrace::cli {

void add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print the completion script of a shell");
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    const std::vector<Command> commands = commands_of(app);
    fmt::print("{}", *shell == "bash"  ? bash_completion(commands)
                     : *shell == "zsh" ? zsh_completion(commands)
                                       : fish_completion(commands));
  });
}

void add_man_command(CLI::App& app) {
  app.add_subcommand("man", "Print the manual page (roff)")->callback([&app] {
    fmt::print("{}", man_page(commands_of(app)));
  });
}

}  // namespace terrace::cli
