// Fills the command of a trial, runs it in a shell and reads its result.
#include "terrace/search/commands.h"

#include "terrace/base/files/file.h"
#include "terrace/base/text/json.h"
#include "terrace/base/text/shell_word.h"
#include "terrace/search/run_folder.h"
#include "terrace/search/study/placeholders.h"

namespace terrace::search {
Commands::Commands(const Study& study, std::filesystem::path folder) : study_(study), folder_(std::move(folder)) {}

std::string Commands::command_for(const TrialJob& job, const std::filesystem::path& folder) const {
  return filled(study_.settings.command, [&](const std::string& name) -> std::string {
    if (name == "result") return shell_word(folder / "result.json");
    if (name == "folder") return shell_word(folder);
    if (name == "config") return shell_word(folder / "config.toml");
    if (name == "budget") return std::to_string(job.budget);
    if (name == "trial") return std::to_string(job.trial);
    return shell_word(study_.space.text_of(job.point, name));
  });
}

Outcome Commands::run(const TrialJob& job) {
  const std::filesystem::path folder = std::filesystem::absolute(open_trial_folder(folder_, job));
  if (!study_.settings.config.empty()) {
    write_text_atomically(folder / "config.toml", config::dump(configuration_of(study_, job.point)));
  }
  const std::filesystem::path result = folder / "result.json";
  std::filesystem::remove(result);
  const ChildLimits limits = trial_limits(study_.settings);
  const ChildEnd end = children_.run({"sh", "-c", command_for(job, folder)}, log_path(folder), limits);
  return end.succeeded() ? read_result(result) : failed_outcome(end, "error", limits, folder);
}

Outcome Commands::read_result(const std::filesystem::path& path) const {
  if (!std::filesystem::exists(path)) {
    return {.failure = "objective", .reason = "the command wrote no result; {result} is the path of the file to write"};
  }
  const Json result = parse_json_or_discard(read_text(path));
  if (!result.is_object()) return {.failure = "objective", .reason = "the command's result is no JSON object"};
  if (result.contains("failure")) {
    const Json& reason = result["failure"];
    return {.failure = "reported", .reason = reason.is_string() ? reason.get<std::string>() : reason.dump()};
  }
  return outcome_of(study_, result);
}

}  // namespace terrace::search
