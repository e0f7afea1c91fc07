// Finds a machine's figures by the names that its file has for them.
#include "terrace/score/fit/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "terrace/config/names.h"

namespace terrace::score {
namespace {

using config::Measure;
using config::Precision;
using machine::Machine;

// Rates of devices in descriptions from data sheets and estimates were up to 30% from what runs showed (the runs of
// FSDP on A100 before their program was described), and links half as fast where data passed through the host (LUMI's).
// Overheads and latencies are known to a factor of two.
constexpr double doubt_of_rates = 0.3, doubt_of_links = 0.5, doubt_of_overheads = 0.7;
constexpr double most_attention = 2;  // as the file may have

// The value with so many digits.
double rounded(double value, int digits) { return std::stod(fmt::format("{:.{}e}", value, digits - 1)); }

// Files are read by people, and slopes measured by changes of 2%.
double product(double value, double factor) { return rounded(value * factor, 5); }

std::function<std::string(double)> in(Measure measure) {
  return [measure](double value) { return config::quantity_text(rounded(value, 3), measure); };
}

Constant products(Precision precision) {
  const auto rate_of = [precision](auto& machine) -> auto& {
    return machine.device.products[static_cast<size_t>(precision)];
  };
  return {.key = fmt::format("device.{}.achievable", config::name_of(precision)),
          .doubt = doubt_of_rates,
          .value = [=](const Machine& machine) { return rate_of(machine).achievable; },
          .scale =
              [=](Machine& machine, double factor) {
                machine::ComputeRate& rate = rate_of(machine);
                factor = std::min(factor, rate.peak / rate.achievable);
                rate.achievable = std::min(product(rate.achievable, factor), rate.peak);
                rate.achievable_together = product(rate.achievable_together, factor);
              },
          .text = in(Measure::flops_per_second)};
}

Constant attention() {
  return {.key = "device.attention",
          .doubt = doubt_of_rates,
          .value = [](const Machine& machine) { return machine.device.attention; },
          .scale =
              [](Machine& machine, double factor) {
                const auto scale = [&](double& share) { share = std::min(product(share, factor), most_attention); };
                scale(machine.device.attention);
                for (machine::ComputeRate& rate : machine.device.products) scale(rate.attention);
              },
          .text = [](double share) { return fmt::format("{:.3g}", share); }};
}

Constant memory_bandwidth() {
  return {.key = "device.memory_bandwidth",
          .doubt = doubt_of_rates,
          .value = [](const Machine& machine) { return machine.device.memory_bandwidth; },
          .scale =
              [](Machine& machine, double factor) {
                machine.device.memory_bandwidth = product(machine.device.memory_bandwidth, factor);
                for (machine::ComputeRate& rate : machine.device.products) rate.passes = product(rate.passes, factor);
              },
          .text = in(Measure::bytes_per_second)};
}

// The overheads of kernels are one constant: runs whose kernels are short show their sum alone.
Constant launch_time() {
  return {.key = "device.launch_time",
          .doubt = doubt_of_overheads,
          .value = [](const Machine& machine) { return machine.device.launch_seconds; },
          .scale =
              [](Machine& machine, double factor) {
                machine.device.launch_seconds = product(machine.device.launch_seconds, factor);
                machine.device.kernel_seconds = product(machine.device.kernel_seconds, factor);
              },
          .text = in(Measure::seconds)};
}

// A figure that nothing else depends on; `figure_of` returns a reference to it.
template <typename Figure>
Constant single(std::string key, double doubt, Measure measure, const Figure& figure_of) {
  return {.key = std::move(key),
          .doubt = doubt,
          .value = [=](const Machine& machine) { return figure_of(machine); },
          .scale = [=](Machine& machine, double factor) { figure_of(machine) = product(figure_of(machine), factor); },
          .text = in(measure)};
}

}  // namespace

std::vector<Constant> constants_of(const Machine& machine) {
  std::vector<Constant> constants;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    if (machine.device.rate(precision).peak > 0) constants.push_back(products(precision));
  }
  constants.push_back(attention());
  constants.push_back(memory_bandwidth());
  if (machine.device.launch_seconds > 0) constants.push_back(launch_time());
  for (size_t tier = 0; tier < machine.tiers.size(); ++tier) {
    const std::string path = fmt::format("tiers.{}.", machine.tiers[tier].name);
    constants.push_back(single(
        path + "link_bandwidth", doubt_of_links,
        Measure::bytes_per_second, [=](auto& of) -> auto& { return of.tiers[tier].link_bandwidth; }));
    constants.push_back(single(
        path + "latency", doubt_of_overheads,
        Measure::seconds, [=](auto& of) -> auto& { return of.tiers[tier].latency_seconds; }));
  }
  if (machine.host.staging_bandwidth > 0) {
    constants.push_back(single(
        "host.staging_bandwidth", doubt_of_links, Measure::bytes_per_second,
        [](auto& of) -> auto& { return of.host.staging_bandwidth; }));
  }
  return constants;
}

}  // namespace terrace::score
