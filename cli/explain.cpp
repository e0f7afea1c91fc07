// terrace explain RESULTS: shows which parameters of a search matter, in the terminal and on an HTML page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "terrace/base/files/file.h"
#include "terrace/base/terminal/log.h"
#include "terrace/search/explain/explain_report.h"

namespace terrace::cli {
namespace {

struct ExplainArguments {
  std::string results, output, failures = "leave-out";
  bool json = false;
};

void warn_of_poor_fits(const search::Explanation& explanation) {
  for (const search::Attribution& one : explanation.attributions) {
    if (!one.is_poor()) continue;
    const std::string fit = one.fit ? fmt::format("its R^2 is {:.2f}", *one.fit) : "it has too few trials to tell";
    log_warning("the model does not predict {} of trials that it has not seen ({}): take its ranking with care",
                one.name, fit);
  }
}

void run_explain(const ExplainArguments& arguments) {
  const search::TrialTable trials = search::read_trial_table(arguments.results);
  const search::Explanation explanation =
      search::explain(trials, arguments.failures == "worst" ? search::FailuresAs::worst : search::FailuresAs::left_out);
  const std::filesystem::path page =
      arguments.output.empty() ? trials.path.parent_path() / "explain.html" : std::filesystem::path(arguments.output);
  warn_of_poor_fits(explanation);
  if (!arguments.json || !arguments.output.empty()) {
    write_text_atomically(page, search::explain_page(trials, explanation));
  }
  if (arguments.json) {
    fmt::print("{}\n", search::json_of(trials, explanation).dump(-1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{}\nThe page is {}\n", search::text_of(trials, explanation), page.string());
}

}  // namespace

void add_explain_command(CLI::App& app) {
  auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command = app.add_subcommand("explain", "Show which parameters of a search matter, as a table and a page");
  command->add_option("results", arguments->results, "results.csv of terrace search or DeepHyper, or its folder")
      ->required();
  command->add_option("--output", arguments->output, "The page's file (default: explain.html beside the results)");
  command
      ->add_option("--failures", arguments->failures,
                   "What explains an objective: the trials that did not fail, or all, failures with the worst value")
      ->check(CLI::IsMember({"leave-out", "worst"}))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print one JSON object, and write a page only with --output");
  command->callback([arguments] { run_explain(*arguments); });
}

}  // namespace terrace::cli
