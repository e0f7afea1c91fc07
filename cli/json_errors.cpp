// Splits the text of an error into its problems.
#include "cli/json_errors.h"

#include <fmt/format.h>

#include <exception>
#include <sstream>
#include <string>

#include "terrace/base/error.h"
#include "terrace/base/text/json.h"
#include "terrace/comm/comm.h"

namespace terrace::cli {
namespace {

// "2 problems in run.toml:\n  run.toml:1:2: ..\n  run.toml:3:4: .." is a list of two, any other text one error.
Json errors_of(const std::string& text) {
  const size_t heading = text.find(":\n  ");
  if (heading == std::string::npos || heading > text.find('\n')) return Json::array({text});
  Json errors = Json::array();
  std::istringstream lines(text.substr(heading + 2));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) return Json::array({text});
    errors.push_back(line.substr(2));
  }
  return errors;
}

void print(const std::string& text, ExitCode code) {
  if (text.empty() || code == ExitCode::stopped) return;
  const Json json = {{"errors", errors_of(text)}, {"exit_code", static_cast<int>(code)}};
  fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void with_json_errors(bool json, const std::function<void()>& run) {
  if (!json) return run();
  try {
    run();
  } catch (const UserError& error) {
    print(error.what(), error.code);
    throw;
  } catch (const comm::CommError& error) {
    print(error.what(), ExitCode::peer_failed);
    throw;
  } catch (const std::exception& error) {
    print(error.what(), ExitCode::failure);
    throw;
  }
}

}  // namespace terrace::cli
