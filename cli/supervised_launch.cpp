// Finds the nodes of the allocation and hands them to the supervisor.
#include "cli/supervised_launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "cli/interruption.h"
#include "terrace/base/error.h"
#include "terrace/base/files/file.h"
#include "terrace/base/system/start_watch.h"
#include "terrace/base/system/stop_request.h"
#include "terrace/base/text/plural.h"
#include "terrace/launch/slurm.h"
#include "terrace/supervise/supervisor.h"

namespace terrace::cli {
namespace {

// The first word of each line, as in mpirun's hostfiles, whose lines may go on with "slots=8", and "#" begins a
// comment.
std::vector<std::string> hosts_in(const std::string& file) {
  std::vector<std::string> hosts;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (std::string host; words >> host) hosts.push_back(host);
  }
  if (hosts.empty()) throw UserError::of("--hostfile {} names no host; write one to a line", file);
  return hosts;
}

std::vector<std::string> hosts_of_job() {
  if (std::getenv("SLURM_JOB_NODELIST") == nullptr) {
    throw UserError(
        "--run starts ranks now, and this is no job of Slurm: call it in one (salloc, or a script of sbatch), or give "
        "--with mpirun and the nodes by --hosts A,B,C or --hostfile FILE");
  }
  const launch::CommandOutput found = launch::output_of("scontrol show hostnames");
  if (found.code != 0) throw UserError::of("scontrol show hostnames failed: {}", found.output);
  std::istringstream lines(found.output);
  std::vector<std::string> hosts;
  for (std::string host; lines >> host;) hosts.push_back(host);
  return hosts;
}

std::vector<std::string> hosts_of(const SupervisedLaunch& launch) {
  if (!launch.hostfile.empty()) return hosts_in(launch.hostfile);
  if (!launch.hosts.empty()) return CLI::detail::split(launch.hosts, ',');
  return hosts_of_job();
}

void check_hosts(const std::vector<std::string>& hosts, const launch::Job& job) {
  std::vector<std::string> sorted = hosts;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) throw UserError::of("node {} is named twice; name each node once", *twice);
  if (std::ranges::find(sorted, "") != sorted.end()) throw UserError("--hosts has an empty name; write A,B,C");
  if (std::ssize(hosts) == job.all_nodes()) return;
  throw UserError::of("--nodes {} and --spares {} are {}, and {} are there: {}; with these use --nodes {} --spares {}",
                      job.request.nodes, job.request.spares, counted(static_cast<uint64_t>(job.all_nodes()), "node"),
                      hosts.size(), fmt::join(hosts, ", "), std::min(job.request.nodes, std::ssize(hosts)),
                      std::max<int64_t>(0, std::ssize(hosts) - job.request.nodes));
}

}  // namespace

void add_supervised_options(CLI::App& command, SupervisedLaunch& launch) {
  CLI::Option* run = command.add_flag(
      "--run", launch.runs,
      "Train now, on the nodes of this job of Slurm or of --hosts, and start the ranks again after the loss "
      "of a rank or node (docs/failures.md)");
  CLI::Option* hosts = command.add_option("--hosts", launch.hosts,
                                          "With --run --with mpirun: the nodes and then the spares, such as a,b,c");
  hosts->needs(run);
  command.add_option("--hostfile", launch.hostfile, "With --run --with mpirun: a file with a node in each line")
      ->needs(run)
      ->excludes(hosts);
  command
      .add_option("--node-timeout", launch.node_timeout,
                  "With --run: seconds without a sign of a node after which it counts as lost")
      ->needs(run)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

void check_supervised(const SupervisedLaunch& launch, bool with_mpirun) {
  const bool names = !launch.hosts.empty() || !launch.hostfile.empty();
  if (names && !with_mpirun) {
    throw UserError(
        "--hosts and --hostfile are for mpirun, and Slurm names the nodes of its jobs; add --with mpirun, or "
        "leave them out");
  }
  if (launch.runs && with_mpirun && !names) {
    throw UserError("--run with mpirun needs the nodes, those that train first: --hosts A,B,C or --hostfile FILE");
  }
}

void run_supervised(const SupervisedLaunch& launch, const launch::Job& job,
                    const std::function<launch::Job(int64_t nodes)>& smaller) {
  const std::vector<std::string> hosts = hosts_of(launch);
  check_hosts(hosts, job);
  stop_on_signals(std::chrono::hours(24));
  end_start();  // from here on the supervisor looks for requests
  struct sigaction action {};
  action.sa_handler = [](int) { request_stop(); };
  ::sigaction(SIGUSR1, &action, nullptr);
  const ExitCode code =
      supervise::supervise({.job = job, .nodes = hosts, .smaller = smaller, .silence = launch.node_timeout});
  if (code == ExitCode::done) return;
  const std::string folder = job.run_folder().string();
  throw UserError(code == ExitCode::stopped ? fmt::format("the run in {} was stopped and saved", folder)
                  : code == ExitCode::peer_failed
                      ? fmt::format("the run in {} was given up", folder)
                      : fmt::format("the run in {} ended with exit code {}", folder, static_cast<int>(code)),
                  code);
}

}  // namespace terrace::cli
