// The keys of a program's description.
#include "terrace/machine/software.h"

#include <toml++/toml.h>

#include "terrace/base/error.h"
#include "terrace/config/names.h"
#include "terrace/config/quantity.h"
#include "terrace/config/section_keys.h"
#include "terrace/config/table_reader.h"
#include "terrace/config/table_writer.h"

template <>
struct terrace::config::Names<terrace::machine::HostStaging> {
  static constexpr std::array<std::string_view, 3> words = {"none", "nodes", "neighbours"};
};

namespace terrace::machine {
namespace {

constexpr auto software_keys = [](auto& table) {
  using S = Software;
  using config::Flag;
  using config::Measure;
  using config::Quantity;
  using config::Real;
  const Real kernels{.least = 0, .most = 1'000}, passes{.least = 0, .most = 100, .least_excluded = true};
  const Real share{.least = 0, .most = 2, .least_excluded = true};
  table.required("name", &S::name, config::Text{}, "\"our-program\"");
  table.optional("base", &S::base, config::Text{});
  table.optional("about", &S::about, config::Text{});
  table.optional("known_as", &S::known_as, config::Texts{});
  table.optional("products", &S::products, share);
  table.optional("attention", &S::attention, share);
  table.optional("host_staging", &S::host_staging, config::Choice<HostStaging>{});
  table.optional("fused_attention", &S::fused_attention, Flag{});
  table.optional("score_passes", &S::score_passes, Real{.least = 0, .most = 100});
  table.optional("backward_score_passes", &S::backward_score_passes, Real{.least = 0, .most = 100});
  table.optional("activation_passes", &S::activation_passes, Real{.least = 0, .most = 100});
  table.optional("logit_bytes", &S::logit_bytes, Real{.least = 0, .most = 1'000});
  table.optional("element_passes", &S::element_passes, passes);
  table.optional("passes_like_copies", &S::passes_like_copies, Flag{});
  table.optional("copies_sequences", &S::copies_sequences, Flag{});
  table.optional("selective_products", &S::selective_products, Real{.least = 0, .most = 1});
  table.optional("stops_recompute", &S::stops_recompute, Flag{});
  table.optional("forward_kernels", &S::forward_kernels, kernels);
  table.optional("backward_kernels", &S::backward_kernels, kernels);
  table.optional("reduces_while_computing", &S::reduces_while_computing, Flag{});
  table.optional("gathers_while_computing", &S::gathers_while_computing, Flag{});
  table.optional("sends_while_computing", &S::sends_while_computing, Flag{});
  table.optional("send_bandwidth", &S::send_bandwidth, Quantity{Measure::bytes_per_second, 1e6, 100e12});
  table.optional("pause_between_passes", &S::pause_seconds, Quantity{Measure::seconds, 0, 1});
  table.optional("sums_while_computing", &S::sums_while_computing, Flag{});
  table.optional("stages_by_layers", &S::stages_by_layers, Flag{});
  table.optional("sums_whole_gradients", &S::sums_whole_gradients, Flag{});
  table.optional("pause_between_steps", &S::pause_between_steps_seconds, Quantity{Measure::seconds, 0, 100});
  table.optional("optimizer_passes", &S::optimizer_passes, passes);
  table.optional("sends_parts", &S::sends_parts, Flag{});
  table.optional("two_hop_routes", &S::two_hop_routes, Flag{});
  table.optional("score_memory", &S::score_memory, Real{.least = 0, .most = 100});
  table.optional("logit_memory", &S::logit_memory, Real{.least = 0, .most = 100});
  table.optional("selective_kept", &S::selective_kept, share);
  table.optional("copies_gradients", &S::copies_gradients, Flag{});
  table.optional("allocator_slack", &S::allocator_slack, Real{.least = 0, .most = 10});
  table.rule({"backward_score_passes", "fused_attention"}, [](const Software& software) -> std::string {
    if (!software.fused_attention || software.backward_score_passes == 0) return "";
    return "has no effect beside fused_attention = true; remove it";
  });
  table.rule({"score_passes", "fused_attention"}, [](const Software& software) -> std::string {
    if (software.fused_attention == (software.score_passes == 0)) return "";
    return software.fused_attention ? "has no effect beside fused_attention = true; remove it"
                                    : "must be above 0 beside fused_attention = false";
  });
};

// The name that the key has in a file that is TOML; read_tables() refuses all else.
std::string base_of(const std::string& toml) {
  try {
    return toml::parse(toml)["base"].value_or(std::string());
  } catch (const toml::parse_error&) {
    return "";
  }
}

}  // namespace

Software parse_software(const std::string& toml, const std::string& file_name) {
  const std::string base = base_of(toml);
  if (base.empty()) return config::read_tables<Software>(toml, file_name, software_keys);
  Software start;
  try {
    start = load_software(base);
  } catch (const UserError& error) {
    throw UserError::of("{}: base = \"{}\": {}", file_name, base, error.what());
  }
  start.known_as.clear();
  return config::read_tables<Software>(toml, file_name, software_keys, start);
}

std::string dump(const Software& software) {
  Software whole = software;
  whole.base.clear();
  return config::write_tables(whole, software_keys);
}

}  // namespace terrace::machine
