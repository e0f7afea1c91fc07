// terrace report RUN..: shows runs side by side on one HTML page, or the figures of each in the terminal.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/report_pages.h"
#include "cli/report_server.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/text/character_set.h"
#include "terrace/base/text/printable.h"
#include "terrace/observe/curve.h"
#include "terrace/observe/report_page.h"
#include "terrace/observe/run_settings.h"
#include "terrace/observe/summary.h"

namespace terrace::cli {
std::string report_page_of(const ShownRuns& runs, bool some_later, const StateOf& state_of) {
  std::vector<observe::ReportedRun> reported;
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> later;
  std::string title;
  for (const std::string& folder : runs.folders) {
    try {
      reported.push_back(observe::read_reported_run(folder));
    } catch (const UserError& error) {
      if (!some_later) throw;
      later.emplace_back(error.what());
      continue;
    }
    if (state_of) reported.back().state = state_of(folder);
    folders.emplace_back(folder);
    title += (title.empty() ? "" : ", ") + reported.back().name;
  }
  if (reported.empty()) throw UserError(later.front());
  reported.front().notes = later;
  const std::vector<std::string> names = observe::names_by_settings(folders, runs.by);
  for (size_t i = 0; i < names.size(); ++i) reported[i].name = names[i];
  return observe::report_page(title, reported);
}

void add_report_command(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> runs, by;
    std::string output;
    bool text = false, files = false, json = false, watch = false;
    int port = 0;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Show runs on an HTML page: loss, speed, and the predicted step above the measured one");
  command->add_option("run", arguments->runs, "The runs' folders (checkpoint.folder of their configurations)")
      ->required();
  CLI::Option* output =
      command->add_option("--output", arguments->output, "The page's file (default: report.html in the first folder)");
  CLI::Option* text = command->add_flag("--text", arguments->text,
                                        "Print the loss curve, speed, memory and size of each run, and write no page");
  command->add_flag("--files", arguments->files, "With --text: list the run's files with their sizes")->needs(text);
  CLI::Option* json =
      command->add_flag("--json", arguments->json, "Print one JSON object a run with its figures and files");
  text->excludes(json)->excludes(output);
  json->excludes(output);
  CLI::Option* watch = command->add_flag(
      "--watch", arguments->watch,
      "Serve the page to a browser of this machine, as the runs are at each moment, until Ctrl-C; writes no file");
  watch->excludes(text)->excludes(json)->excludes(output);
  command->add_option("--port", arguments->port, "With --watch: the port; default: any free one")
      ->check(CLI::Range(1, 65535))
      ->needs(watch);
  command
      ->add_option("--by", arguments->by,
                   "Name the runs by these keys of their configurations, as optimizer.learning_rate; default: by the "
                   "keys that differ, if at most two do")
      ->delimiter(',')
      ->excludes(text)
      ->excludes(json);
  command->callback([arguments] {
    const ShownRuns shown{.folders = arguments->runs, .by = arguments->by};
    if (arguments->watch) serve_report(shown, arguments->port);
    if (!arguments->text && !arguments->json) {
      const std::filesystem::path in_folder = std::filesystem::path(arguments->runs.front()) / "report.html";
      const std::string path = arguments->output.empty() ? in_folder.string() : arguments->output;
      write_text_atomically(path, report_page_of(shown));
      fmt::print("{}\n", path);
      return;
    }
    for (const std::string& run : arguments->runs) {
      if (arguments->json) {
        fmt::print("{}\n", observe::summarize_run(run).dump(-1, ' ', false, Json::error_handler_t::replace));
        continue;
      }
      const std::string summary = printable(observe::draw_summary(run));
      fmt::print("{}", locale_is_utf8() ? summary : observe::in_ascii(summary));
      if (arguments->files) fmt::print("{}", printable(observe::draw_files(run)));
    }
  });
}

}  // namespace terrace::cli
