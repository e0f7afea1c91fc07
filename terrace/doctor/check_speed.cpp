// Compares what the ranks reached with each other and with the machine's description.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "terrace/base/text/units.h"
#include "terrace/doctor/checks.h"

namespace terrace::doctor {
namespace {

// Shares of what half of the ranks reach and of the description, below which a rank counts as slow. GPUs run nothing
// else, so that their products differ less; a link is measured for a shorter time, and its rate in a description is
// that of large groups.
constexpr double least_of_gpus = 0.95, least_of_ranks = 0.85, least_of_description = 0.7, least_of_links = 0.6,
                 least_of_described_links = 0.5;

std::string format_rate(double bytes) { return fmt::format("{}/s", format_bytes(bytes)); }

// Reached by half of them or, of an odd number, by more.
double middle_of(std::vector<double> rates) {
  std::erase(rates, 0.0);
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::ranges::nth_element(rates, middle);
  return *middle;
}

std::string problem_of(double reached, double middle, double described, double share, double share_of_description,
                       const std::function<std::string(double)>& format) {
  if (reached > 0 && reached < share * middle) {
    return fmt::format("{}, where half of them reach {}", format(reached), format(middle));
  }
  if (reached > 0 && reached < share_of_description * described) {
    return fmt::format("{}, where the machine's description has {}", format(reached), format(described));
  }
  return "";
}

CheckOutcome compared_rates(const JobReadings& job, double Speed::*rate, double least,
                            const std::function<std::string(double)>& format, Finding finding) {
  std::vector<double> rates;
  for (const Readings& rank : job) rates.push_back(rank.measured.*rate);
  const double middle = middle_of(rates);
  const std::vector<std::string> found = found_on(job, [&](const Readings& rank) {
    return problem_of(rank.measured.*rate, middle, rank.described.*rate, least, least_of_description, format);
  });
  return outcome_of(job, found, std::move(finding));
}

constexpr const char* all_wait = "all ranks wait in every step for the slowest";

double rate_to(const Speed& speed, int64_t rank) {
  const auto found = std::ranges::find(speed.links, rank, &std::pair<int64_t, double>::first);
  return found == speed.links.end() ? 0 : found->second;
}

}  // namespace

CheckOutcome check_products(const JobReadings& job) {
  return compared_rates(
      job, &Speed::product_flops, has_gpus(job) ? least_of_gpus : least_of_ranks, format_flops,
      {.severity = Severity::warning,
       .why = all_wait,
       .fix = "look on that node for other programs, limits of power and heat (nvidia-smi -q -d PERFORMANCE, "
              "rocm-smi), and a rank with fewer cores than the others; or leave it out: srun --exclude=NODE"});
}

CheckOutcome check_copies(const JobReadings& job) {
  return compared_rates(
      job, &Speed::copied_bytes, least_of_ranks, format_rate,
      {.severity = Severity::warning,
       .why = all_wait,
       .fix = "look on that node for other programs and for ranks that are bound to memory of another socket; or "
              "leave it out: srun --exclude=NODE"});
}

CheckOutcome check_links(const JobReadings& job) {
  if (job.size() < 2) return does_not_apply("there is one rank");
  std::vector<double> inside, between;
  const auto is_inside = [&](const Readings& rank, int64_t other) {
    return rank.host == job.at(static_cast<size_t>(other)).host;
  };
  for (const Readings& rank : job) {
    for (const auto& [other, rate] : rank.measured.links) (is_inside(rank, other) ? inside : between).push_back(rate);
  }
  const double middle_inside = middle_of(inside), middle_between = middle_of(between);
  const std::vector<std::string> found = found_on(job, [&](const Readings& rank) -> std::string {
    for (const auto& [other, rate] : rank.measured.links) {
      const std::string problem =
          problem_of(rate, is_inside(rank, other) ? middle_inside : middle_between, rate_to(rank.described, other),
                     least_of_links, least_of_described_links, format_rate);
      if (!problem.empty()) return fmt::format("to rank {} {}", other, problem);
    }
    return "";
  });
  return outcome_of(
      job, found,
      {.severity = Severity::warning,
       .why = "a collective is as slow as the slowest link of its ranks",
       .fix = "if one rank is at all of the slow links, leave its node out: srun --exclude=NODE; otherwise see "
              "docs/doctor.md for the checks of the network"});
}

}  // namespace terrace::doctor
