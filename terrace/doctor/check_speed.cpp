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

// A spread above which times of equal products are unequal, and twice that of half of the ranks or of the description.
constexpr double least_spread_of_gpus = 0.03, least_spread_of_ranks = 0.15, times_of_others = 2;

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

CheckOutcome check_equal_products(const JobReadings& job) {
  const double least = has_gpus(job) ? least_spread_of_gpus : least_spread_of_ranks;
  std::vector<double> spreads;
  for (const Readings& rank : job) spreads.push_back(rank.measured.product_spread);
  const double middle = middle_of(spreads);
  const std::vector<std::string> found = found_on(job, [&](const Readings& rank) -> std::string {
    const double spread = rank.measured.product_spread, described = rank.described.product_spread;
    if (spread < least) return "";
    const std::string text =
        fmt::format("times of equal products spread by {:.0f}%, the longest took {:.1f} times as long as most",
                    100 * spread, rank.measured.longest_product);
    if (spread > times_of_others * middle) {
      return fmt::format("{}, where those of half of the ranks spread by {:.0f}%", text, 100 * middle);
    }
    if (described > 0 && spread > times_of_others * described) {
      return fmt::format("{}, where the machine's description has {:.0f}%", text, 100 * described);
    }
    return "";
  });
  return outcome_of(
      job, found,
      {.severity = Severity::warning,
       .why = all_wait,
       .fix = "look on that node for other programs and for services of the system that run on the cores of "
              "the ranks; or leave it out: srun --exclude=NODE"});
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
