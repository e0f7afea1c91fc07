// Reads the tables and writes the score in the format that the file's name asks for.
#include "cli/score_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/measured_runs.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/score/score_report.h"

namespace terrace::cli {
namespace {

void check_ending(const std::string& file) {
  if (file.empty() || file.ends_with(".json") || file.ends_with(".csv") || file.ends_with(".svg")) return;
  throw UserError::of("--output {} must end in .json, .csv or .svg", file);
}

void write_score(const std::string& file, const score::Score& score) {
  if (file.ends_with(".json")) write_text_atomically(file, score::json_of(score).dump(2) + "\n");
  if (file.ends_with(".csv")) write_text_atomically(file, score::csv_of(score));
  if (file.ends_with(".svg")) write_text_atomically(file, score::picture_of(score));
}

}  // namespace

CLI::Option* add_score_options(CLI::App& command, ScoreArguments& arguments) {
  CLI::Option* score = command.add_option("--score", arguments.tables,
                                          "Instead of planning a configuration: compare predictions with a table of "
                                          "published runs, a CSV file, or with the folder of a finished run; may be "
                                          "given again (docs/planning.md)");
  score->allow_extra_args(false);
  command.add_option("--output", arguments.output, "File for the score: .json, .csv, or .svg for a picture")
      ->needs(score);
  command
      .add_option("--errors", arguments.errors,
                  "File for the errors by kind of layout, as JSON, from which plans take their intervals")
      ->needs(score);
  return score;
}

void print_score(const CLI::App& command, const PlannedTarget& planned, const ScoreArguments& arguments, bool json) {
  check_ending(arguments.output);
  const score::Score score = score::score(measured_runs(command, planned, arguments.tables));
  if (json) {
    fmt::print("{}\n", score::json_of(score).dump());
  } else {
    fmt::print("{}", score::text_of(score));
  }
  if (!arguments.output.empty()) write_score(arguments.output, score);
  if (!arguments.errors.empty()) {
    const std::vector<plan::PublishedErrors> errors = plan::summarize(score::compared(score));
    write_text_atomically(arguments.errors, plan::json_of(errors).dump(2) + "\n");
  }
  if (score.scored.empty()) throw UserError("no run can be scored", ExitCode::infeasible);
}

}  // namespace terrace::cli
