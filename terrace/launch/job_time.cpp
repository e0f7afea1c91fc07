// Reads and writes days, hours, minutes and seconds.
#include "terrace/launch/job_time.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "terrace/config/domain.h"

namespace terrace::launch {
namespace {

std::optional<double> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > 100'000'000) {
    return std::nullopt;
  }
  return static_cast<double>(number);
}

// Hours, minutes and seconds; without days two numbers are minutes and seconds, and one is minutes.
std::optional<double> clock_seconds(std::string_view text, bool after_days) {
  std::vector<double> numbers;
  while (true) {
    const size_t colon = text.find(':');
    const std::optional<double> number = whole_number(text.substr(0, colon));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  const size_t hours_at = after_days || numbers.size() == 3 ? 0 : 1;  // how many of the larger units are left out
  if (numbers.size() + hours_at > 3) return std::nullopt;
  constexpr double units[] = {3600, 60, 1};
  double seconds = 0;
  for (size_t i = 0; i < numbers.size(); ++i) seconds += numbers[i] * units[i + hours_at];
  return seconds;
}

std::optional<double> slurm_seconds(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return clock_seconds(text, false);
  const std::optional<double> days = whole_number(text.substr(0, dash));
  const std::optional<double> clock = clock_seconds(text.substr(dash + 1), true);
  if (!days || !clock) return std::nullopt;
  return *days * 86'400 + *clock;
}

}  // namespace

std::optional<double> parse_job_time(const std::string& text) {
  std::optional<double> seconds = slurm_seconds(text);
  if (!seconds) seconds = config::parse_duration(text);
  return seconds && *seconds > 0 ? seconds : std::nullopt;
}

std::string job_time_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  const int64_t days = whole / 86'400, rest = whole % 86'400;
  const std::string clock = fmt::format("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
  return days > 0 ? fmt::format("{}-{}", days, clock) : clock;
}

}  // namespace terrace::launch
