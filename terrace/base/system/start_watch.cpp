// Runs the thread that watches a start.
#include "terrace/base/system/start_watch.h"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "terrace/base/error.h"
#include "terrace/base/system/stop_request.h"
#include "terrace/base/terminal/log.h"
#include "terrace/base/text/printable.h"
#include "terrace/base/text/units.h"

namespace terrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_every(50);
constexpr std::chrono::seconds first_said_after(2), said_again_after(30);

struct Doing {
  int number;
  std::string what;
  Clock::time_point began;
  Clock::time_point newest_since;  // later than it began where another activity has ended
  std::optional<Clock::time_point> said = {};
};

enum class Phase { none, watched, ended };

struct Watch {
  std::mutex mutex;
  std::list<Doing> doing;  // the newest last
  int made = 0;
  std::mutex at_forced_end_mutex;
  std::function<void(const std::string&)> at_forced_end;
  std::atomic<Phase> phase = Phase::none;
  std::chrono::milliseconds grace{0};
};

// Never destroyed, since the thread may outlive main().
Watch& watch() {
  static Watch* const only = new Watch;
  return *only;
}

// A sentence about the newest activity, if it is time for one.
std::string sentence_due(Watch& own) {
  const std::lock_guard lock(own.mutex);
  if (own.doing.empty()) return "";
  Doing& newest = own.doing.back();
  const Clock::time_point now = Clock::now();
  if (now < newest.newest_since + first_said_after || (newest.said && now < *newest.said + said_again_after)) return "";
  newest.said = now;
  return fmt::format("{}: {} so far; Ctrl-C ends it", newest.what,
                     format_seconds(std::chrono::duration<double>(now - newest.began).count()));
}

std::string reason_of(Watch& own) {
  const std::lock_guard lock(own.mutex);
  return own.doing.empty() ? "stopped on request" : "stopped on request while " + own.doing.back().what;
}

[[noreturn]] void end_process(Watch& own) {
  const std::string reason = reason_of(own);
  // Held until the process ends, so that what is called exists.
  const std::lock_guard lock(own.at_forced_end_mutex);
  if (own.at_forced_end) own.at_forced_end(reason);
  // Only one of the processes of a launch logs.
  if (spdlog::should_log(spdlog::level::info)) std::fprintf(stderr, "error: %s\n", printable(reason).c_str());
  std::_Exit(static_cast<int>(ExitCode::stopped));
}

void look(Watch& own) {
  std::optional<Clock::time_point> asked;
  while (own.phase == Phase::watched) {
    std::this_thread::sleep_for(look_every);
    if (own.phase != Phase::watched) return;
    if (!stop_requested()) {
      const std::string sentence = sentence_due(own);
      if (!sentence.empty()) log_info("{}", sentence);
      continue;
    }
    if (!asked) asked = Clock::now();
    if (Clock::now() >= *asked + own.grace) end_process(own);
  }
}

}  // namespace

void begin_start(std::chrono::milliseconds grace) {
  Watch& own = watch();
  Phase none = Phase::none;
  if (!own.phase.compare_exchange_strong(none, Phase::watched)) return;
  own.grace = grace;
  static const Activity starting("starting");
  std::atexit(end_start);
  // Signals go to the threads that wait for something.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([&own] { look(own); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void end_start() {
  Phase watched = Phase::watched;
  watch().phase.compare_exchange_strong(watched, Phase::ended);
}

bool is_stopped_at_start() { return stop_requested() && watch().phase == Phase::watched; }

void end_if_stopped_at_start() {
  if (is_stopped_at_start()) throw UserError(reason_of(watch()), ExitCode::stopped);
}

Activity::Activity(std::string what) {
  Watch& own = watch();
  const std::lock_guard lock(own.mutex);
  number_ = own.made++;
  const Clock::time_point now = Clock::now();
  own.doing.push_back({.number = number_, .what = std::move(what), .began = now, .newest_since = now});
}

Activity::~Activity() {
  Watch& own = watch();
  const std::lock_guard lock(own.mutex);
  own.doing.remove_if([&](const Doing& one) { return one.number == number_; });
  if (!own.doing.empty()) own.doing.back().newest_since = Clock::now();
}

void Activity::is_said() {
  Watch& own = watch();
  const std::lock_guard lock(own.mutex);
  for (Doing& one : own.doing) {
    if (one.number == number_) one.said = Clock::now();
  }
}

AtForcedEnd::AtForcedEnd(std::function<void(const std::string& reason)> end) {
  const std::lock_guard lock(watch().at_forced_end_mutex);
  watch().at_forced_end = std::move(end);
}

AtForcedEnd::~AtForcedEnd() {
  const std::lock_guard lock(watch().at_forced_end_mutex);
  watch().at_forced_end = nullptr;
}

}  // namespace terrace
