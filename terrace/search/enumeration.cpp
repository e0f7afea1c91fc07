// Counts the points, and measures how long some of them take.
#include "terrace/search/enumeration.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "terrace/base/system/on_all_cores.h"
#include "terrace/base/text/units.h"
#include "terrace/search/simulation.h"

namespace terrace::search {
namespace {

using Clock = std::chrono::steady_clock;

// Points that are predicted to know how long one takes, no further one after so many seconds.
constexpr size_t most_timed = 64;
constexpr double longest_timed = 2;
// Seconds of the claim and the row of a trial, which one thread writes. Estimate: two lines appended to files and two
// locks.
constexpr double row_seconds = 1e-4;

// Seconds for which all cores predict one point, on average: of the cores' time, as if nothing else ran on them, so
// that other programs do not change how a search looks; or as they passed, where a limit counts them.
double seconds_of_point(const Study& study, const std::vector<uint64_t>& points, bool counts_waiting) {
  Simulation simulation(study);
  const PhiloxKey key = stream_key(study.settings.seed, "timed predictions");
  std::atomic<size_t> timed = 0;
  const Clock::time_point began = Clock::now();
  const std::clock_t used = std::clock();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  on_all_cores(std::min(most_timed, points.size()), [&](size_t number) {
    if (passed() > longest_timed) return;
    const PhiloxBlock block = philox_at(key, number, 0);
    const auto place = static_cast<size_t>(unit_uniform(block[0], block[1]) * static_cast<double>(points.size()));
    simulation.evaluate({.point = study.space.grid_point(points[std::min(place, points.size() - 1)])});
    ++timed;
  });
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double computed = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC / cores;
  return (counts_waiting ? passed() : computed) / static_cast<double>(std::max<size_t>(1, timed));
}

}  // namespace

std::string choose_method(Study& study, const SearchOptions& options) {
  StudySettings& settings = study.settings;
  if (settings.method != Method::automatic) return "";
  settings.method_is_chosen = true;
  settings.method = Method::bayesian;
  if (settings.evaluator != Evaluator::simulate) return "";
  const std::string trials = format_count(settings.trials > 0 ? settings.trials : default_trials);
  const std::string sampled = trials + " points are sampled: ";
  const std::string other = "; --method exhaustive predicts all";
  if (!options.from.empty()) return sampled + "--from gives results to learn from" + other;
  if (!study.space.grid_size()) {
    return sampled + "points cannot be counted, since a parameter is real or there are too many";
  }
  const std::optional<std::vector<uint64_t>> points = study.space.held_points(Space::most_counted);
  if (!points) {
    return fmt::format(
        "{}the space has {} points, more than the {} of which it is tried how many hold the constraints{}", sampled,
        format_count(static_cast<int64_t>(*study.space.grid_size())),
        format_count(static_cast<int64_t>(Space::most_counted)), other);
  }
  const auto count = static_cast<int64_t>(points->size());
  const double seconds =
      static_cast<double>(count) * std::max(row_seconds, seconds_of_point(study, *points, options.time_limit > 0));
  const double most = options.time_limit > 0 ? options.time_limit / 2 : enumeration_seconds;
  if (seconds > most) {
    return fmt::format("{}predictions of all {} would take about {}, longer than {}{}{}", sampled, format_count(count),
                       format_seconds(seconds), options.time_limit > 0 ? "half of the time limit, " : "",
                       format_seconds(most), other);
  }
  settings.method = Method::exhaustive;
  return fmt::format("all {} points that hold the constraints are predicted, in about {}; --method bayesian samples {}",
                     format_count(count), format_seconds(seconds), trials);
}

}  // namespace terrace::search
