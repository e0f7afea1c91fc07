// Draws the table a few times a second, from a thread of its own.
#include "cli/search_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "terrace/base/text/units.h"
#include "terrace/search/search_report.h"

namespace terrace::cli {
namespace {

constexpr size_t most_best = 5, most_running = 8;

size_t terminal_width() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

}  // namespace

SearchDisplay::SearchDisplay(const search::Study& study, uint64_t expected)
    : study_(study), expected_(expected), terminal_(::isatty(STDERR_FILENO) != 0), progress_("trials", expected) {
  if (!terminal_) return;
  drawer_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    // Nothing is shown of a search that takes less than two seconds.
    auto pause = std::chrono::milliseconds(2000);
    while (!stopped_.wait_for(lock, pause, [this] { return stop_; })) {
      draw();
      pause = std::chrono::milliseconds(300);
    }
    erase();
  });
}

SearchDisplay::~SearchDisplay() { clear(); }

void SearchDisplay::clear() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (drawer_.joinable()) drawer_.join();
  progress_.clear();
}

void SearchDisplay::show_predictions(uint64_t done, uint64_t all) {
  const std::lock_guard lock(mutex_);
  predicted_ = done;
  to_predict_ = all;
  if (terminal_) return;
  if (!predictions_) predictions_.emplace("predictions", all);
  predictions_->update(done);
}

void SearchDisplay::update(const search::SearchState& state) {
  const std::lock_guard lock(mutex_);
  to_predict_ = 0;
  workers_ = state.workers;
  for (; seen_ < state.finished.size(); ++seen_) add(state.finished[seen_]);
  if (!terminal_) {
    const std::vector<search::Trial> best = best_.best(1);
    std::string detail = best.empty() ? "" : "best " + search::shown_goals(study_, best.front());
    if (workers_ > 1) detail += fmt::format("{}{} workers", detail.empty() ? "" : ", ", workers_);
    progress_.update(static_cast<uint64_t>(trials_), detail);
    return;
  }
  // Simulated trials end before they could be read.
  if (study_.settings.evaluator != search::Evaluator::simulate) set_running(state.running);
}

void SearchDisplay::add(const search::Trial& trial) {
  if (trial.job_id == trial.trial) ++trials_;
  if (trial.failed()) {
    ++failed_;
    return;
  }
  best_.trials.push_back(trial);
  best_.trials = best_.best(study_.settings.goals.size() > 1 ? best_.trials.size() : most_best);
}

std::string SearchDisplay::values_of(const search::Point& point) const {
  std::string text;
  const std::vector<std::string> values = study_.space.shown(point);
  for (size_t i = 0; i < values.size(); ++i) {
    if (point[i] == search::absent) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", study_.space.parameters()[i].name, values[i]);
  }
  return text;
}

void SearchDisplay::set_running(const std::vector<search::TrialJob>& jobs) {
  std::vector<Running> running;
  for (const search::TrialJob& job : jobs) {
    const auto same = std::ranges::find_if(
        running_, [&](const Running& one) { return one.trial == job.trial && one.budget == job.budget; });
    running.push_back(same != running_.end() ? *same
                                             : Running{job.trial, job.budget, values_of(job.point), Clock::now()});
  }
  running_ = std::move(running);
}

std::vector<std::string> SearchDisplay::lines() const {
  if (to_predict_ > 0) {
    return {fmt::format("predicted {} of {} points", format_count(static_cast<int64_t>(predicted_)),
                        format_count(static_cast<int64_t>(to_predict_)))};
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  std::string head = fmt::format("trials {}", format_count(trials_));
  if (expected_ > 0) head += fmt::format(" of {}", format_count(static_cast<int64_t>(expected_)));
  if (workers_ > 1) head += fmt::format(" of {} workers", workers_);
  head += fmt::format(", {} failed, {}", format_count(failed_), format_seconds(seconds));
  const double left = progress_.seconds_left(static_cast<uint64_t>(trials_));
  if (left > 0 && expected_ > 0) head += fmt::format(", about {} left", format_seconds(left));
  std::vector<std::string> list = {head};
  const std::string table = search::table_of(study_, best_.best(most_best));
  for (size_t begin = 0; begin < table.size();) {
    const size_t end = table.find('\n', begin);
    list.push_back(table.substr(begin, end - begin));
    begin = end + 1;
  }
  for (size_t i = 0; i < std::min(running_.size(), most_running); ++i) {
    const Running& one = running_[i];
    const double since = std::chrono::duration<double>(Clock::now() - one.since).count();
    list.push_back(fmt::format("trial {} since {}{}: {}", one.trial, format_seconds(since),
                               one.budget > 0 ? fmt::format(", to {}", format_count(one.budget)) : "", one.values));
  }
  return list;
}

std::string SearchDisplay::erasing() const { return drawn_ > 0 ? fmt::format("\033[{}A\r\033[J", drawn_) : ""; }

void SearchDisplay::erase() {
  fmt::print(stderr, "{}", erasing());
  std::fflush(stderr);
  drawn_ = 0;
}

void SearchDisplay::draw() {
  // Lines that wrap would move the table.
  const size_t width = terminal_width() - 1;
  std::string text = erasing();
  const std::vector<std::string> list = lines();
  for (const std::string& line : list) text += line.substr(0, width) + "\n";
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
  drawn_ = list.size();
}

}  // namespace terrace::cli
