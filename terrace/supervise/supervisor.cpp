// Looks at the ranks and the keepers ten times a second.
#include "terrace/supervise/supervisor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <list>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "terrace/base/system/stop_request.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/plural.h"
#include "terrace/base/text/units.h"
#include "terrace/launch/job_script.h"
#include "terrace/observe/last_metrics.h"
#include "terrace/supervise/failure_counts.h"
#include "terrace/supervise/launcher_messages.h"
#include "terrace/supervise/outage.h"
#include "terrace/supervise/watched_node.h"

namespace terrace::supervise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double seconds_to_end = 5;     // that ranks have between SIGTERM and SIGKILL
constexpr double seconds_to_begin = 60;  // that a node has for the start of its keeper
constexpr std::chrono::milliseconds between_looks{100};

std::vector<std::string> shell(const std::string& command) { return {"/bin/sh", "-c", command}; }

void write_errors(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;  // nobody reads them
    text.remove_prefix(static_cast<size_t>(written));
  }
}

int64_t last_step_in(const std::filesystem::path& folder) {
  const observe::RunMetrics metrics = observe::read_last_metrics(folder);
  return metrics.steps.empty() ? 0 : metrics.steps.rbegin()->first;
}

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
      if (!end.has_lost_node) {
        log_warning(
            "the ranks failed{}: exit code {}",
            failed_ ? fmt::format(", rank {} on node {} first ({})", failed_->rank, failed_->node, failed_->how) : "",
            end.code);
      }
      if (stop_requested()) return ExitCode::peer_failed;
      const bool leaves_out = count(end);
      note_failure(job_.run_folder(), record_of(end, leaves_out));
      if (!leaves_out && counts_.is_to_give_up()) {
        log_warning("the ranks failed {} times from step {} on without a checkpoint in between: given up",
                    counts_.without_newer(), from_step_);
        return ExitCode::peer_failed;
      }
      choose();
    }
  }

 private:
  // One start of the ranks, to its end and until it is known which nodes are left.
  EndOfRanks run_ranks() {
    FirstStep first(job_.run_folder());
    EndOfRanks end{.had_begun = had_begun_};
    Child ranks(shell(launch::ranks_command(job_, training_)), Child::Pipes::errors);
    LauncherMessages messages(training_, job_.ranks_per_node);
    bool asked = false;
    while (!ranks.ended() && lost_in_training().empty()) {
      std::this_thread::sleep_for(between_looks);
      write_errors(messages.take(ranks.read_output()));
      look_at_nodes();
      follow(first);
      if (!stop_requested() || std::exchange(asked, true)) continue;
      log_info("asks the ranks to save and stop");
      ranks.send(SIGUSR1);
    }
    const Clock::time_point noticed = Clock::now();
    ranks.end(seconds_to_end);
    const Clock::time_point ended = Clock::now();
    write_errors(messages.take(ranks.read_output(), /*is_last=*/true));
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
    failed_ = lost.empty() ? messages.failed() : std::nullopt;
    outage_ = {.what = failed_ ? "a failure of the ranks on " + failed_->node : "a failure of the ranks",
               .last_sign = noticed,
               .noticed = noticed,
               .ended = ended};
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
    const Clock::time_point now = Clock::now();
    log_info("{}", outage_->text(now));
    note_failure(job_.run_folder(), outage_->json(now));
    outage_.reset();
  }

  // Counts a failure; returns whether the node at which it began is left out from now on.
  bool count(const EndOfRanks& end) {
    counts_.add({.node = failed_ ? failed_->node : "",
                 .rank = failed_ ? failed_->rank : -1,
                 .from_step = from_step_,
                 .last_step = had_begun_ ? last_step_in(job_.run_folder()) : 0});
    const std::string node = counts_.node_to_leave_out();
    if (end.has_lost_node || node.empty() || !can_do_without(node)) return false;
    counts_.forgive();
    left_out_.insert(node);
    log_warning("node {} is left out: the ranks failed there {} times in a row, and made no new step in between", node,
                most_failures_of_node);
    return true;
  }

  // Whether the run goes on without the node, on a spare or at another layout; takes that layout.
  bool can_do_without(const std::string& node) {
    std::vector<std::string> left = usable();
    std::erase(left, node);
    if (std::ssize(left) >= job_.request.nodes) return true;
    std::string why = "it is the only node";
    try {
      if (!left.empty()) {
        job_ = run_.smaller(std::ssize(left));
        return true;
      }
    } catch (const UserError& error) {
      why = error.what();
    }
    log_warning("the ranks fail again and again on node {}, without which the run cannot go on: {}", node, why);
    return false;
  }

  Json record_of(const EndOfRanks& end, bool leaves_out) const {
    Json line = {{"what", outage_->what},
                 {"nodes", training_},
                 {"exit_code", end.code},
                 {"from_step", from_step_},
                 {"last_step", had_begun_ ? last_step_in(job_.run_folder()) : 0},
                 {"left_out", leaves_out}};
    line["failed"] = failed_ ? Json{{"node", failed_->node}, {"rank", failed_->rank}, {"how", failed_->how}} : Json();
    return line;
  }

  std::vector<std::string> usable() const {
    std::vector<std::string> left;
    for (const WatchedNode& node : nodes_) {
      if (!node.is_lost() && !left_out_.contains(node.name())) left.push_back(node.name());
    }
    return left;
  }

  // Chooses the nodes of the next start, and with too few of them another layout.
  void choose() {
    const std::vector<std::string> left = usable();
    if (left.empty()) throw UserError("no node is left: all are lost or left out", ExitCode::peer_failed);
    const std::vector<std::string> before = training_;
    if (std::ssize(left) < std::ssize(before)) {
      log_warning("no spare node is left: the run goes on on {} of its {} nodes", left.size(), before.size());
    }
    if (std::ssize(left) < job_.request.nodes) job_ = run_.smaller(std::ssize(left));
    training_ = chosen_nodes(before, left, job_.request.nodes);
    for (size_t i = 0; i < training_.size(); ++i) {
      if (std::ranges::find(before, training_[i]) == before.end())
        log_info("the spare node {} takes the place of {}", training_[i], before[i]);
    }
    log_info("the ranks start again on {}", fmt::join(training_, ", "));
    outage_->chosen = Clock::now();
  }

  const SupervisedRun& run_;
  launch::Job job_;
  std::list<WatchedNode> nodes_;
  std::vector<std::string> training_;
  std::set<std::string> left_out_;  // nodes that live and are not used any more
  std::optional<Outage> outage_;
  std::optional<FailedRank> failed_;  // of the last start
  FailureCounts counts_;
  bool had_begun_ = false;
  int64_t from_step_ = 0;
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
