// Looks at the ranks and the keepers ten times a second.
#include "terrace/supervise/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "terrace/base/system/stop_request.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/launch/job_script.h"
#include "terrace/supervise/outage.h"
#include "terrace/supervise/watched_node.h"

namespace terrace::supervise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_to_end = 5;     // that ranks have between SIGTERM and SIGKILL
constexpr double seconds_to_begin = 60;  // that a node has for the start of its keeper
constexpr std::chrono::milliseconds between_looks{100};

std::vector<std::string> shell(const std::string& command) { return {"/bin/sh", "-c", command}; }

class Supervisor {
 public:
  explicit Supervisor(const SupervisedRun& run) : run_(run), job_(run.job) {
    for (const std::string& name : run_.nodes) {
      nodes_.emplace_back(name, shell(launch::keeper_command(job_, name)), run_.silence, seconds_to_begin);
    }
    training_.assign(run_.nodes.begin(), run_.nodes.begin() + job_.request.nodes);
    const std::vector<std::string> spares(run_.nodes.begin() + job_.request.nodes, run_.nodes.end());
    log_info("the ranks start on {}{}", fmt::join(training_, ", "),
             spares.empty() ? "; there is no spare node" : fmt::format("; spare: {}", fmt::join(spares, ", ")));
  }

  Supervisor(const Supervisor&) = delete;

  // The keepers end side by side.
  ~Supervisor() {
    for (WatchedNode& node : nodes_) node.release();
    for (WatchedNode& node : nodes_) node.wait_for_end();
  }

  ExitCode run() {
    while (true) {
      const EndOfRanks end = run_ranks();
      if (const std::optional<ExitCode> code = verdict(end)) return *code;
      if (!end.has_lost_node) log_warning("the ranks failed: exit code {}", end.code);
      if (stop_requested() || !count_failure()) return ExitCode::peer_failed;
      choose();
    }
  }

 private:
  // One start of the ranks, to its end and until it is known which nodes are left.
  EndOfRanks run_ranks() {
    FirstStep first(job_.run_folder());
    EndOfRanks end{.had_begun = had_begun_};
    Child ranks(shell(launch::ranks_command(job_, training_)), /*piped=*/false);
    bool asked = false;
    while (!ranks.ended() && lost_in_training().empty()) {
      std::this_thread::sleep_for(between_looks);
      look_at_nodes();
      follow(first);
      if (!stop_requested() || std::exchange(asked, true)) continue;
      log_info("asks the ranks to save and stop");
      ranks.send(SIGUSR1);
    }
    const Clock::time_point noticed = Clock::now();
    ranks.end(seconds_to_end);
    const Clock::time_point ended = Clock::now();
    end.code = *ranks.ended();
    wait_for_signs();
    const std::vector<const WatchedNode*> lost = lost_in_training();
    end.has_begun = first.has_begun();
    had_begun_ |= end.has_begun;
    from_step_ = end.has_begun ? first.from_step() : from_step_;
    if (const auto record = first.record(); record && end.has_begun) {
      end.has_finished = record->state == observe::ProcessState::finished;
      end.has_failed = record->state == observe::ProcessState::failed;
    }
    end.has_lost_node = !lost.empty();
    outage_ = {.what = "a failure of the ranks", .last_sign = noticed, .noticed = noticed, .ended = ended};
    if (!lost.empty()) {
      outage_->what = fmt::format("the loss of {}", lost.front()->name());
      outage_->last_sign = std::min(noticed, lost.front()->last_sign());
    }
    return end;
  }

  void look_at_nodes() {
    for (WatchedNode& node : nodes_) {
      if (node.is_lost()) continue;
      node.look();
      if (node.is_lost()) log_warning("node {} is lost: {}", node.name(), node.why_lost());
    }
  }

  std::vector<const WatchedNode*> lost_in_training() const {
    std::vector<const WatchedNode*> lost;
    for (const WatchedNode& node : nodes_) {
      if (node.is_lost() && std::ranges::find(training_, node.name()) != training_.end()) lost.push_back(&node);
    }
    return lost;
  }

  // The ranks of a node that is lost may end before its keeper is missed: each node that trains has to give a sign.
  void wait_for_signs() {
    const auto since = Clock::now();
    const auto is_known = [&](const WatchedNode& node) {
      return node.is_lost() || node.last_sign() > since || std::ranges::find(training_, node.name()) == training_.end();
    };
    while (!std::ranges::all_of(nodes_, is_known)) {
      std::this_thread::sleep_for(between_looks);
      look_at_nodes();
    }
  }

  // Says how long a failure took once the next step is made.
  void follow(FirstStep& first) {
    if (!outage_) return;
    if (!outage_->begun && first.has_begun()) {
      outage_->begun = Clock::now();
      outage_->from_step = first.from_step();
    }
    if (!first.is_made()) return;
    log_info("{}", outage_->text(Clock::now()));
    outage_.reset();
  }

  // Whether the ranks may start again: they got further than at the last failures.
  bool count_failure() {
    failures_ = from_step_ > furthest_start_ ? 1 : failures_ + 1;
    furthest_start_ = std::max(furthest_start_, from_step_);
    if (failures_ < most_failures) return true;
    log_warning("the ranks failed {} times from step {} on without a checkpoint in between: given up", failures_,
                furthest_start_);
    return false;
  }

  // Chooses the nodes of the next start, and with too few of them another layout.
  void choose() {
    std::vector<std::string> left;
    for (const WatchedNode& node : nodes_) {
      if (!node.is_lost()) left.push_back(node.name());
    }
    if (left.empty()) throw UserError("all nodes are lost", ExitCode::peer_failed);
    const std::vector<std::string> before = training_;
    if (std::ssize(left) < job_.request.nodes) {
      log_warning("no spare node is left: the run goes on on {} of its {} nodes", left.size(), job_.request.nodes);
      job_ = run_.smaller(std::ssize(left));
    }
    training_ = chosen_nodes(before, left, job_.request.nodes);
    for (const std::string& node : training_) {
      if (std::ranges::find(before, node) == before.end())
        log_info("the spare node {} takes the place of a lost one", node);
    }
    log_info("the ranks start again on {}", fmt::join(training_, ", "));
    outage_->chosen = Clock::now();
  }

  const SupervisedRun& run_;
  launch::Job job_;
  std::list<WatchedNode> nodes_;
  std::vector<std::string> training_;
  std::optional<Outage> outage_;
  bool had_begun_ = false;
  int64_t from_step_ = 0, furthest_start_ = -1, failures_ = 0;
};

}  // namespace

std::optional<ExitCode> verdict(const EndOfRanks& end) {
  if (end.has_finished) return ExitCode::done;
  if (end.code == static_cast<int>(ExitCode::stopped)) return ExitCode::stopped;
  if (end.has_lost_node) return std::nullopt;
  const bool is_own_code =
      end.code >= static_cast<int>(ExitCode::failure) && end.code <= static_cast<int>(ExitCode::infeasible);
  // A start that the run refused, or an error that it met, comes again. A run that began before was not refused.
  if (is_own_code && (end.has_begun ? end.has_failed : !end.had_begun)) return static_cast<ExitCode>(end.code);
  return std::nullopt;
}

std::vector<std::string> chosen_nodes(const std::vector<std::string>& trained, const std::vector<std::string>& left,
                                      int64_t count) {
  const auto is_in = [](const std::vector<std::string>& list, const std::string& node) {
    return std::ranges::find(list, node) != list.end();
  };
  std::vector<std::string> spares;
  std::ranges::copy_if(left, std::back_inserter(spares),
                       [&](const std::string& node) { return !is_in(trained, node); });
  std::vector<std::string> chosen;
  auto spare = spares.begin();
  for (const std::string& node : trained) {
    if (is_in(left, node)) {
      chosen.push_back(node);
    } else if (spare != spares.end()) {
      chosen.push_back(*spare++);
    }
  }
  if (std::ssize(chosen) > count) chosen.resize(static_cast<size_t>(count));
  return chosen;
}

ExitCode supervise(const SupervisedRun& run) {
  if (std::ssize(run.nodes) < run.job.request.nodes) {
    throw UserError::of("the run needs {}, and {} given: {}; name more of them, or give fewer to --nodes",
                        counted(static_cast<uint64_t>(run.job.request.nodes), "node"),
                        run.nodes.size() == 1 ? "one is" : fmt::format("{} are", run.nodes.size()),
                        fmt::join(run.nodes, ", "));
  }
  return Supervisor(run).run();
}

}  // namespace terrace::supervise
