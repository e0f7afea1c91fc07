// A server with one page.
#include "cli/report_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cli/report_pages.h"
#include "terrace/base/error.h"
#include "terrace/base/terminal/log.h"
#include "terrace/launch/run_status.h"
#include "terrace/observe/last_metrics.h"

namespace terrace::cli {
namespace {

constexpr const char* loopback = "127.0.0.1";
constexpr const char* seconds_between = "5";

// A page of another origin that names this server by a name of its own must not read the answer.
bool names_this_machine(const httplib::Request& request) {
  std::string host = request.get_header_value("Host");
  host = host.substr(0, host.rfind(':'));
  return host == loopback || host == "localhost";
}

std::string escaped(const std::string& text) {
  std::string html;
  for (const char c : text) {
    if (c == '<') {
      html += "&lt;";
    } else if (c == '&') {
      html += "&amp;";
    } else {
      html += c;
    }
  }
  return html;
}

std::string waiting_page(const std::string& problem) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Waiting for a run</title></head>\n"
      "<body style=\"font-family: sans-serif; max-width: 45em; margin: 2em auto\"><h1>Waiting for a run</h1>\n"
      "<p>{}</p>\n<p>This page asks again every {} seconds, and shows the run as soon as it has begun. If the name is "
      "not that of your run, stop the command with Ctrl-C and give the run's folder.</p></body></html>\n",
      escaped(problem), seconds_between);
}

// Says it on the terminal, since the name may be misspelt.
void say_what_is_missing(const ShownRuns& runs) {
  try {
    report_page_of(runs);
  } catch (const std::exception& error) {
    log_warning("the page waits for a run: {}", error.what());
  }
}

// Pages are asked for every few seconds, by each window that shows one; Slurm is asked less often.
class SeldomAsked {
 public:
  std::optional<launch::JobsByNumber> operator()(const std::vector<std::string>& jobs) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    Answer& last = answers_[jobs];
    if (!last.asked || now - *last.asked > std::chrono::seconds(30)) last = {now, launch::ask_squeue(jobs)};
    return last.jobs;
  }

 private:
  struct Answer {
    std::optional<std::chrono::steady_clock::time_point> asked;
    std::optional<launch::JobsByNumber> jobs;
  };
  std::mutex mutex_;
  std::map<std::vector<std::string>, Answer> answers_;
};

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The state of a run as terrace status has it, and how long ago the last step ended.
std::optional<Json> state_of(const std::string& folder, SeldomAsked& slurm) {
  const auto ask = [&](const std::vector<std::string>& jobs) { return slurm(jobs); };
  Json state = launch::json_of(launch::status_of({folder}, ask)).at("runs").at(0);
  const std::optional<double> time = observe::time_of_last_step(folder);
  state["seconds_since_step"] = time ? Json(std::max(0.0, seconds_since_epoch() - *time)) : Json();
  return state;
}

void answer(const ShownRuns& runs, SeldomAsked& slurm, const httplib::Request& request, httplib::Response& response) {
  if (!names_this_machine(request)) {
    response.status = 403;
    return;
  }
  response.set_header("Refresh", seconds_between);
  response.set_header("Cache-Control", "no-store");
  try {
    const auto state = [&](const std::string& folder) { return state_of(folder, slurm); };
    response.set_content(report_page_of(runs, true, state), "text/html; charset=utf-8");
  } catch (const std::exception& error) {
    // A run that has not begun yet.
    response.status = 503;
    response.set_content(waiting_page(error.what()), "text/html; charset=utf-8");
  }
}

}  // namespace

void serve_report(const ShownRuns& runs, int port) {
  httplib::Server server;
  // The library's default shares a port among servers.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  SeldomAsked slurm;
  server.Get("/", [&](const httplib::Request& request, httplib::Response& response) {
    answer(runs, slurm, request, response);
  });
  const int bound = port > 0 ? (server.bind_to_port(loopback, port) ? port : -1) : server.bind_to_any_port(loopback);
  if (bound < 0) throw UserError::of("--port {} is taken or not allowed; leave it out for any free port", port);
  fmt::print("http://{}:{}/\n", loopback, bound);
  std::fflush(stdout);
  say_what_is_missing(runs);
  server.listen_after_bind();
  throw UserError("the server has ended", ExitCode::failure);
}

}  // namespace terrace::cli
