// The terrace binary: one subcommand a file; errors become exit codes here.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/commands.h"
#include "terrace/base/error.h"
#include "terrace/base/log.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Trains large models on one machine or a supercomputer.\n"
      "Exit codes: 0 done; 2 bad configuration or arguments; 3 not feasible on that machine; 4 stopped on request with "
      "a\n"
      "checkpoint written; 5 a peer or the machine failed; 1 anything else.");
  app.set_version_flag("--version", "terrace " TERRACE_VERSION);
  app.require_subcommand(1);
  terrace::cli::add_train_command(app);
  terrace::cli::add_data_command(app);
  terrace::cli::add_generate_command(app);
  terrace::cli::add_export_command(app);
  terrace::cli::add_import_command(app);
  terrace::cli::add_report_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(terrace::ExitCode::bad_input);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  terrace::start_log();
  try {
    const int code = run(argc, argv);
    // A result that could not be written, to a full disk for example, is no success.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "error: the result could not be written to standard output\n");
    return static_cast<int>(terrace::ExitCode::failure);
  } catch (const terrace::UserError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(terrace::ExitCode::failure);
  }
}
