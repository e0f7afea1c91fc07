// The terrace binary: parses the command line, runs a subcommand and turns errors into exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/build_facts.h"
#include "cli/build_kind.h"
#include "cli/check_words.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/examples.h"
#include "cli/exit_codes.h"
#include "cli/help_text.h"
#include "cli/meant_words.h"
#include "cli/reporting_process.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/printable.h"
#include "terrace/base/version.h"
#include "terrace/comm/comm.h"

namespace {

std::string description() {
  std::string text = fmt::format("{}\nExit codes:", terrace::cli::build_kind().about);
  for (const terrace::cli::ExitMeaning& exit : terrace::cli::exit_meanings) {
    text += fmt::format("{} {} {}", &exit == terrace::cli::exit_meanings.data() ? "" : ";", static_cast<int>(exit.code),
                        exit.meaning);
  }
  return text + ".";
}

int run(int argc, char** argv) {
  CLI::App app(description());
  app.formatter(terrace::cli::help_formatter(terrace::cli::output_columns()));  // of the subcommands too
  app.set_version_flag(
      "--version",
      fmt::format("terrace {}{}\ncommit: {}\n{}", terrace::version(), terrace::cli::build_kind().version_note,
                  terrace::cli::commit(), terrace::cli::build_facts()),
      "Print the version and what this program was built with, and exit");
  app.require_subcommand(1);
  terrace::cli::add_train_command(app);
  terrace::cli::add_evaluate_command(app);
  terrace::cli::add_data_command(app);
  terrace::cli::add_generate_command(app);
  terrace::cli::add_forecast_command(app);
  terrace::cli::add_score_command(app);
  terrace::cli::add_predict_command(app);
  terrace::cli::add_export_command(app);
  terrace::cli::add_import_command(app);
  terrace::cli::add_report_command(app);
  terrace::cli::add_verify_command(app);
  terrace::cli::add_rehearse_command(app);
  terrace::cli::add_plan_command(app);
  terrace::cli::add_simulate_command(app);
  terrace::cli::add_search_command(app);
  terrace::cli::add_explain_command(app);
  terrace::cli::add_ensemble_command(app);
  terrace::cli::add_calibrate_command(app);
  terrace::cli::add_launch_command(app);
  terrace::cli::add_status_command(app);
  terrace::cli::add_keep_node_command(app);
  terrace::cli::add_doctor_command(app);
  terrace::cli::add_completion_command(app);
  terrace::cli::add_man_command(app);
  terrace::cli::show_examples(app);
  const std::vector<std::string> words = terrace::cli::meant_words({argv + 1, argv + argc});
  // All processes of a launch have the same command line, so one of them reports its mistakes.
  const bool is_reporting_rank = terrace::cli::is_reporting_process();
  try {
    terrace::cli::check_words(terrace::cli::commands_of(app), words);
  } catch (const terrace::UserError& error) {
    throw terrace::UserError(is_reporting_rank ? error.what() : "", error.code);
  }
  try {
    std::vector<const char*> line = {argv[0]};
    for (const std::string& word : words) line.push_back(word.c_str());
    app.parse(static_cast<int>(line.size()), line.data());
  } catch (const CLI::ParseError& error) {
    if (!is_reporting_rank)
      throw terrace::UserError("", error.get_exit_code() == 0 ? terrace::ExitCode::done : terrace::ExitCode::bad_input);
    std::ostringstream problem;
    const int code = app.exit(error, std::cout, problem);
    std::fputs(terrace::printable(problem.str()).c_str(), stderr);
    return code == 0 ? 0 : static_cast<int>(terrace::ExitCode::bad_input);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  terrace::start_log();
  try {
    const int code = run(argc, argv);
    // The program has failed if its result could not be written, for example to a full disk.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "error: the result could not be written to standard output\n");
    return static_cast<int>(terrace::ExitCode::failure);
  } catch (const terrace::UserError& error) {
    if (*error.what() != '\0') {
      std::fprintf(stderr, "error: %s\n", terrace::printable(error.what()).c_str());
    } else if (error.code != terrace::ExitCode::done) {
      // Gives the process that reports the error time to do so, since mpirun ends it as soon as this one fails.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    return static_cast<int>(error.code);
  } catch (const terrace::comm::CommError& error) {
    std::fprintf(stderr, "error: %s\n", terrace::printable(error.what()).c_str());
    return static_cast<int>(terrace::ExitCode::peer_failed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", terrace::printable(error.what()).c_str());
    return static_cast<int>(terrace::ExitCode::failure);
  }
}
