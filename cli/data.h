// `terrace data prepare` and `terrace data inspect`.
#pragma once

#include <CLI/CLI.hpp>

namespace terrace::cli {

// Adds the subcommand `data`. Its callbacks do the work and throw UserError.
void add_data_command(CLI::App& app);

}  // namespace terrace::cli
