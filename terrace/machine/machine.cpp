// The keys of a machine's description, and the rules among its figures.
#include "terrace/machine/machine.h"

#include <algorithm>
#include <type_traits>

#include "terrace/base/error.h"
#include "terrace/config/names.h"
#include "terrace/config/quantity.h"
#include "terrace/config/section_keys.h"
#include "terrace/config/table_reader.h"
#include "terrace/config/table_writer.h"
#include "terrace/machine/launch_keys.h"

template <>
struct terrace::config::Names<terrace::machine::Exchange> {
  static constexpr std::array<std::string_view, 2> words = {"ring", "direct"};
};

namespace terrace::machine {
namespace {

using config::Measure;
using config::Precision;
using config::Quantity;
using config::Real;
using config::Text;
using config::Whole;

// Figures outside of these ranges are taken for mistakes: of the unit, or of a digit.
constexpr Quantity memory{Measure::bytes, 16e6, 20e12};
constexpr Quantity reserved{Measure::bytes, 0, 20e12};
constexpr Quantity communicator{Measure::bytes, 0, 100e9};
constexpr Quantity memory_bandwidth{Measure::bytes_per_second, 100e6, 1e15};
constexpr Quantity link_bandwidth{Measure::bytes_per_second, 1e6, 100e12};
constexpr Quantity storage_bandwidth{Measure::bytes_per_second, 1e6, 1e15};
constexpr Quantity product_rate{Measure::flops_per_second, 1e6, 1e18};
constexpr Real attention_share{.least = 0, .most = 2, .least_excluded = true};
constexpr Quantity overhead{Measure::seconds, 0, 0.01};
constexpr Quantity latency{Measure::seconds, 1e-9, 0.1};
constexpr Quantity power{Measure::watts, 0.1, 1e6};
constexpr Quantity failure_time{Measure::hours, 1, 1e7};
constexpr Quantity rank_start{Measure::seconds, 0, 10};

// A length of time that may be left out, where none is not the same as no time.
struct OptionalDuration {
  std::string description() const { return config::Duration{}.description(); }
  std::string read(const toml::node& node, std::optional<double>& seconds) const {
    return config::Duration{}.read(node, seconds.emplace());
  }
  std::string text(const std::optional<double>& seconds) const { return config::toml_text(seconds.value_or(0)); }
};

// Keys of the rates of products alone.
template <typename Table>
void product_rate_keys(Table& table) {
  table.required("peak", &ComputeRate::peak, product_rate, "\"312 TFLOP/s\"");
  table.required("achievable", &ComputeRate::achievable, product_rate, "\"250 TFLOP/s\"");
  table.optional("achievable_together", &ComputeRate::achievable_together, product_rate);
  table.rule({"achievable", "peak"}, [](const ComputeRate& rate) {
    if (rate.achievable <= rate.peak) return std::string();
    return fmt::format("is more than the peak, {}", product_rate.text(rate.peak));
  });
  table.rule({"achievable_together", "achievable"}, [](const ComputeRate& rate) {
    if (rate.achievable_together <= rate.achievable) return std::string();
    return fmt::format("is more than achievable, {}", product_rate.text(rate.achievable));
  });
}

template <typename Table>
void rate_keys(Table& table) {
  product_rate_keys(table);
  table.optional("attention", &ComputeRate::attention, attention_share);
  table.optional("passes", &ComputeRate::passes, memory_bandwidth);
}

template <typename Table>
void tile_keys(Table& table) {
  table.required("rows", &Tile::rows, Whole{1, 65'536}, "128");
  table.required("columns", &Tile::columns, Whole{1, 65'536}, "128");
  table.required("efficiency", &Tile::efficiency, Real{.least = 0, .most = 1, .least_excluded = true}, "0.9");
}

// Says what is wrong if no type has a rate; "" otherwise.
std::string missing_rates(const Device& device) {
  const bool has_rate = std::ranges::any_of(device.products, [](const ComputeRate& rate) { return rate.peak > 0; });
  return has_rate ? ""
                  : "is missing, as fp32 and fp16 are; add a table [device.bf16] with peak and achievable, or one "
                    "for another type";
}

template <typename Table>
void device_keys(Table& table) {
  table.required("name", &Device::name, Text{}, "\"NVIDIA A100 SXM4 80GB\"");
  table.required("memory", &Device::memory_bytes, memory, "\"80 GiB\"");
  table.optional("reserved", &Device::reserved_bytes, reserved);
  table.required("memory_bandwidth", &Device::memory_bandwidth, memory_bandwidth, "\"1.7 TB/s\"");
  table.optional("compute_units", &Device::compute_units, Whole{1, 1'000'000});
  table.optional("tile_start", &Device::tile_start, Real{.least = 0, .most = 1e6});
  table.optional("attention", &Device::attention, attention_share);
  table.optional("encode", &Device::encode, memory_bandwidth);
  table.optional("encode_at_random", &Device::encode_at_random, memory_bandwidth);
  table.optional("decode", &Device::decode, memory_bandwidth);
  table.required("kernel_time", &Device::kernel_seconds, overhead, "\"2 us\"");
  table.required("launch_time", &Device::launch_seconds, overhead, "\"5 us\"");
  table.optional("power", &Device::power_watts, power);
  table.optional("computing_beside_calls", &Device::computing_beside_calls, config::Real{.least = 1, .most = 4});
  const auto rate = [&]<Precision precision>(std::integral_constant<Precision, precision>) {
    const auto field = [](auto& device) -> auto& { return device.products[static_cast<size_t>(precision)]; };
    table.optional_table(config::name_of(precision), field, [](auto& keys) { rate_keys(keys); });
  };
  rate(std::integral_constant<Precision, Precision::fp32>());
  rate(std::integral_constant<Precision, Precision::bf16>());
  rate(std::integral_constant<Precision, Precision::fp16>());
  table.optional_table("fp8", &Device::fp8, [](auto& keys) { product_rate_keys(keys); });
  table.list(
      "tiles", &Device::tiles, [](auto& tile) { tile_keys(tile); }, [](auto&) {});
  table.rule({"reserved", "memory"}, [](const Device& device) {
    if (device.reserved_bytes < device.memory_bytes) return std::string();
    return fmt::format("leaves nothing of the memory, {}", memory.text(device.memory_bytes));
  });
  table.rule({"bf16", "fp16", "fp32"}, missing_rates);
}

template <typename Table>
void tier_keys(Table& table) {
  const config::Word names{{"pair", "socket", "node", "rack", "pod", "group", "network"}};
  table.required("name", &Tier::name, names, "\"node\"");
  table.required("devices", &Tier::devices, Whole{1, config::most_ranks}, "8");
  table.required("link_bandwidth", &Tier::link_bandwidth, link_bandwidth, "\"25 GB/s\"");
  table.optional("devices_per_link", &Tier::devices_per_link, config::positive);
  table.required("latency", &Tier::latency_seconds, latency, "\"5 us\"");
  table.optional("exchange", &Tier::exchange, config::Choice<Exchange>{});
  table.optional("message_time", &Tier::message_seconds, overhead);
  table.optional("direct_ranks", &Tier::direct_ranks, Whole{0, config::most_ranks});
  table.optional("direct_share", &Tier::direct_share, Real{.least = 0, .most = 1, .least_excluded = true});
  table.rule({"message_time", "latency"}, [](const Tier& tier) {
    if (tier.message_seconds <= tier.latency_seconds) return std::string();
    return fmt::format("is more than the latency, {}, of a step alone", latency.text(tier.latency_seconds));
  });
  table.rule({"direct_share", "direct_ranks"}, [](const Tier& tier) -> std::string {
    if ((tier.direct_ranks > 0) == (tier.direct_share < 1)) return "";
    return tier.direct_ranks > 0 ? "must be below 1 beside direct_ranks, such as 0.1"
                                 : "has no effect without direct_ranks; add it, such as 256";
  });
}

std::string repeated_name(const std::vector<Tier>& tiers, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (tiers[i].name == tiers[index].name) return "is the name of two tiers; every name may be used once";
  }
  return "";
}

std::string nesting_problem(const std::vector<Tier>& tiers, size_t index) {
  if (index == 0) return "";
  const Tier& inside = tiers[index - 1];
  const int64_t devices = tiers[index].devices;
  if (devices % inside.devices == 0) return "";
  // The last group of a whole machine may have fewer nodes than the others.
  const auto node = std::ranges::find(tiers, std::string_view("node"), &Tier::name);
  const bool node_within = node < tiers.begin() + static_cast<int64_t>(index) - 1;
  const bool whole_nodes = node_within && devices > inside.devices && devices % node->devices == 0;
  if (whole_nodes && index + 1 == tiers.size()) return "";
  const int64_t below = devices / inside.devices * inside.devices, above = below + inside.devices;
  return fmt::format("is not a multiple of the {} devices of the tier \"{}\" inside it; use {}", inside.devices,
                     inside.name, below == 0 ? std::to_string(above) : fmt::format("{} or {}", below, above));
}

std::string link_problem(const std::vector<Tier>& tiers, size_t index) {
  const int64_t inside = index == 0 ? 1 : tiers[index - 1].devices;
  if (tiers[index].devices_per_link <= static_cast<double>(inside)) return "";
  const std::string unit = index == 0 ? "device" : fmt::format("{} of {} devices", tiers[index - 1].name, inside);
  return fmt::format("leaves a {} without a link of its own; use at most {}", unit, inside);
}

template <typename Table>
void machine_keys(Table& table) {
  table.required("name", &Machine::name, Text{}, "\"our-cluster\"");
  table.optional("about", &Machine::about, Text{});
  table.optional("known_as", &Machine::known_as, config::Texts{});
  table.optional("node_failure_time", &Machine::node_failure_hours, failure_time);
  table.table("device", &Machine::device, [](auto& device) { device_keys(device); });
  table.list(
      "tiers", &Machine::tiers, [](auto& tier) { tier_keys(tier); },
      [&](auto& tier) {
        const std::vector<Tier>& tiers = table.value().tiers;
        const auto index = static_cast<size_t>(&tier.value() - tiers.data());
        tier.rule({"name"}, [&](const Tier&) { return repeated_name(tiers, index); });
        tier.rule({"devices"}, [&](const Tier&) { return nesting_problem(tiers, index); });
        tier.rule({"devices_per_link"}, [&](const Tier&) { return link_problem(tiers, index); });
      });
  table.optional_table("host", &Machine::host, [](auto& host) {
    host.optional("memory", &Host::memory_bytes, memory);
    host.optional("holds_devices", &Host::holds_devices, config::Flag{});
    host.optional("staging_bandwidth", &Host::staging_bandwidth, link_bandwidth);
    host.rule({"holds_devices", "memory"}, [](const Host& one) -> std::string {
      return one.holds_devices && one.memory_bytes == 0 ? "has no effect without memory; add it, such as \"64 GiB\""
                                                        : "";
    });
  });
  table.optional_table("communicators", &Machine::communicators, [](auto& each) {
    each.optional("memory", &Communicators::bytes, communicator);
    each.optional("memory_of_two", &Communicators::pair_bytes, communicator);
    each.optional("channels", &Communicators::channels, Whole{1, 1'000});
    each.rule({"memory_of_two", "memory"}, [](const Communicators& one) -> std::string {
      if (one.pair_bytes <= one.bytes) return "";
      return one.bytes == 0 ? "has no effect without memory, that of communicators with more members; add it"
                            : fmt::format("is more than that with more members, {}", communicator.text(one.bytes));
    });
  });
  table.optional_table("storage", &Machine::storage, [](auto& storage) {
    storage.optional("node_bandwidth", &Storage::node_bandwidth, storage_bandwidth);
    storage.optional("total_bandwidth", &Storage::total_bandwidth, storage_bandwidth);
    storage.rule({"total_bandwidth", "node_bandwidth"}, [](const Storage& bandwidth) {
      if (bandwidth.total_bandwidth == 0 || bandwidth.total_bandwidth >= bandwidth.node_bandwidth) return std::string();
      return fmt::format("is less than that of one node, {}", storage_bandwidth.text(bandwidth.node_bandwidth));
    });
  });
  table.optional_table("start", &Machine::start, [](auto& start) {
    start.optional("time", &Start::seconds, config::Duration{});
    start.optional("time_per_rank", &Start::seconds_per_rank, rank_start);
    start.optional("queue_wait", &Start::queue_seconds, OptionalDuration{});
  });
  table.optional_table("launch", &Machine::launch, [](auto& launch) { launch_keys(launch); });
  table.optional_table("noise", &Machine::noise, [](auto& noise) { noise_keys(noise); });
  table.list(
      "errors", &Machine::errors, [](auto& errors) { prediction_errors_keys(errors); }, [](auto&) {});
}

constexpr auto keys = [](auto& table) { machine_keys(table); };

}  // namespace

double Device::attention_rate(Precision precision) const {
  const ComputeRate& own = rate(precision);
  return (own.attention > 0 ? own.attention : attention) * own.achievable;
}

double Device::pass_bandwidth(Precision precision) const {
  const ComputeRate& own = rate(precision);
  return own.passes > 0 ? own.passes : memory_bandwidth;
}

namespace {

// Attention is a share of the rate of products, so that its own rate is found by both shares.
void take_shares(Device& device, const Software& software) {
  const double of_products = software.attention / software.products;
  device.attention *= of_products;
  for (ComputeRate& rate : device.products) {
    rate.achievable *= software.products;
    rate.attention *= of_products;
  }
  device.fp8.achievable *= software.products;
}

void take_rate_together(ComputeRate& rate) {
  if (rate.achievable_together > 0) rate.achievable = rate.achievable_together;
}

}  // namespace

Machine for_job(const Machine& machine, const Software& software, int64_t devices) {
  Machine job = machine;
  if (devices > 1) {
    std::ranges::for_each(job.device.products, take_rate_together);
    take_rate_together(job.device.fp8);
  }
  take_shares(job.device, software);
  const int64_t in_node = machine.devices_of("node");
  if (devices <= in_node || software.host_staging == HostStaging::none) return job;
  const double of_device = machine.host.staging_bandwidth / static_cast<double>(in_node);
  for (Tier& tier : job.tiers) {
    const bool is_network = tier.devices > in_node, is_innermost = &tier == &job.tiers.front();
    if (!is_network && !(is_innermost && software.host_staging == HostStaging::neighbours)) continue;
    tier.link_bandwidth = std::min(tier.link_bandwidth, of_device * tier.devices_per_link);
  }
  return job;
}

int64_t Machine::devices_of(std::string_view tier) const {
  const auto found = std::ranges::find(tiers, tier, &Tier::name);
  return found == tiers.end() ? 1 : found->devices;
}

Machine parse(const std::string& toml, const std::string& file_name) {
  Machine machine = config::read_tables<Machine>(toml, file_name, keys);
  machine.file = file_name;
  for (PredictionErrors& errors : machine.errors) errors.machines = {machine.name};
  return machine;
}

std::string missing_rate(const Machine& machine, Precision precision) {
  if (machine.device.rate(precision).peak > 0) return "";
  std::vector<std::string> words;
  for (const Precision one : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    if (machine.device.rate(one).peak > 0) words.emplace_back(config::name_of(one));
  }
  return fmt::format("has no [device.{}]; add it, or set train.precision to {}", config::name_of(precision),
                     config::listed(words, "or"));
}

std::string missing_fp8(const Machine& machine) {
  if (machine.device.fp8.peak > 0) return "";
  std::vector<std::string> with_rates;
  for (const std::string& name : names()) {
    if (load(name).device.fp8.peak > 0) with_rates.push_back(name);
  }
  return fmt::format("has no [device.fp8]; add it with peak and achievable, or name {}",
                     config::listed(with_rates, "or"));
}

std::string dump(const Machine& machine) { return config::write_tables(machine, keys); }

}  // namespace terrace::machine
