// Finds a machine's figures by the names that its file has for them.
#include "terrace/score/fit/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

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

Constant bandwidth_of_tier(size_t tier, const std::string& name) {
  return {.key = fmt::format("tiers.{}.link_bandwidth", name),
          .doubt = doubt_of_links,
          .value = [=](const Machine& machine) { return machine.tiers[tier].link_bandwidth; },
          .scale =
              [=](Machine& machine, double factor) {
                machine.tiers[tier].link_bandwidth = product(machine.tiers[tier].link_bandwidth, factor);
              },
          .text = in(Measure::bytes_per_second)};
}

Constant latency_of_tier(size_t tier, const std::string& name) {
  return {.key = fmt::format("tiers.{}.latency", name),
          .doubt = doubt_of_overheads,
          .value = [=](const Machine& machine) { return machine.tiers[tier].latency_seconds; },
          .scale =
              [=](Machine& machine, double factor) {
                machine.tiers[tier].latency_seconds = product(machine.tiers[tier].latency_seconds, factor);
              },
          .text = in(Measure::seconds)};
}

Constant staging_bandwidth() {
  return {
      .key = "host.staging_bandwidth",
      .doubt = doubt_of_links,
      .value = [](const Machine& machine) { return machine.host.staging_bandwidth; },
      .scale = [](Machine& machine,
                  double factor) { machine.host.staging_bandwidth = product(machine.host.staging_bandwidth, factor); },
      .text = in(Measure::bytes_per_second)};
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
    constants.push_back(bandwidth_of_tier(tier, machine.tiers[tier].name));
    constants.push_back(latency_of_tier(tier, machine.tiers[tier].name));
  }
  if (machine.host.staging_bandwidth > 0) constants.push_back(staging_bandwidth());
  return constants;
}

}  // namespace terrace::score
