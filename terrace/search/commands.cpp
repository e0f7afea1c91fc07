// Fills the command of a trial, runs it in a shell and reads its result.
#include "terrace/search/commands.h"

#include <algorithm>
#include <cmath>

#include "terrace/base/error.h"
#include "terrace/base/file.h"
#include "terrace/base/json.h"
#include "terrace/base/shell_word.h"
#include "terrace/search/run_folder.h"

namespace terrace::search {
namespace {

bool belongs_to_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Calls plain(text) and name(text) for the parts of the command in turn.
template <typename Plain, typename Name>
void for_each_part(const std::string& command, const Plain& plain, const Name& name) {
  size_t at = 0, done = 0;
  while ((at = command.find('{', at)) != std::string::npos) {
    size_t end = at + 1;
    while (end < command.size() && belongs_to_name(command[end])) ++end;
    const bool is_name = end > at + 1 && end < command.size() && command[end] == '}';
    if (!is_name || (at > 0 && command[at - 1] == '$')) {
      ++at;
      continue;
    }
    plain(command.substr(done, at - done));
    name(command.substr(at + 1, end - at - 1));
    at = done = end + 1;
  }
  plain(command.substr(done));
}

}  // namespace

std::vector<std::string> names_in_command(const std::string& command) {
  std::vector<std::string> names;
  for_each_part(
      command, [](const std::string&) {},
      [&](const std::string& name) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      });
  return names;
}

std::string filled_command(const std::string& command,
                           const std::function<std::string(const std::string& name)>& value_of) {
  std::string text;
  for_each_part(
      command, [&](const std::string& plain) { text += plain; },
      [&](const std::string& name) { text += shell_word(value_of(name)); });
  return text;
}

Commands::Commands(const Study& study, std::filesystem::path folder) : study_(study), folder_(std::move(folder)) {}

std::string Commands::command_for(const Job& job, const std::filesystem::path& folder) const {
  return filled_command(study_.settings.command, [&](const std::string& name) -> std::string {
    if (name == "result") return folder / "result.json";
    if (name == "folder") return folder;
    if (name == "config") return folder / "config.toml";
    if (name == "budget") return std::to_string(job.budget);
    if (name == "trial") return std::to_string(job.trial);
    return study_.space.text_of(job.point, name);
  });
}

Outcome Commands::evaluate(const Job& job) {
  try {
    const std::filesystem::path folder = std::filesystem::absolute(open_trial_folder(folder_, job));
    if (!study_.settings.config.empty()) {
      write_text_atomically(folder / "config.toml", config::dump(configuration_of(study_, job.point)));
    }
    const std::filesystem::path result = folder / "result.json";
    std::filesystem::remove(result);
    const ChildLimits limits = trial_limits(study_.settings);
    const ChildEnd end = children_.run({"sh", "-c", command_for(job, folder)}, log_path(folder), limits);
    return end.succeeded() ? read_result(result) : failed_outcome(end, "error", limits, folder);
  } catch (const UserError& error) {
    return {.failure = "layout", .reason = error.what()};
  } catch (const std::exception& error) {
    return {.failure = "error", .reason = error.what()};
  }
}

Outcome Commands::read_result(const std::filesystem::path& path) const {
  if (!std::filesystem::exists(path)) {
    return {.failure = "objective", .reason = "the command wrote no result; {result} is the path of the file to write"};
  }
  const Json result = Json::parse(read_text(path), nullptr, false);
  if (!result.is_object()) return {.failure = "objective", .reason = "the command's result is no JSON object"};
  if (result.contains("failure")) {
    const Json& reason = result["failure"];
    return {.failure = "reported", .reason = reason.is_string() ? reason.get<std::string>() : reason.dump()};
  }
  std::vector<std::string> given;
  for (const auto& [name, value] : result.items()) {
    if (value.is_number() && std::isfinite(value.get<double>())) given.push_back(name);
  }
  Outcome outcome;
  for (const Figure& figure : study_.figures) {
    const bool is_given = std::ranges::find(given, figure.name) != given.end();
    outcome.figures.push_back(is_given ? result[figure.name].get<double>() : std::nan(""));
  }
  for (const Goal& goal : study_.settings.goals) {
    if (std::ranges::find(given, goal.figure) == given.end()) return without_goal(goal.figure, given);
  }
  return outcome;
}

}  // namespace terrace::search
