// The keys of a program's description.
#include "terrace/machine/software.h"

#include "terrace/base/error.h"
#include "terrace/config/quantity.h"
#include "terrace/config/section_keys.h"
#include "terrace/config/table_reader.h"
#include "terrace/config/table_writer.h"

namespace terrace::machine {
namespace {

constexpr auto software_keys = [](auto& table) {
  using S = Software;
  using config::Flag;
  using config::Measure;
  using config::Quantity;
  using config::Real;
  const Real kernels{.least = 0, .most = 1'000}, passes{.least = 0, .most = 100, .least_excluded = true};
  table.required("name", &S::name, config::Text{}, "\"our-program\"");
  table.optional("about", &S::about, config::Text{});
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
  table.optional("optimizer_passes", &S::optimizer_passes, passes);
  table.optional("sends_parts", &S::sends_parts, Flag{});
  table.optional("two_hop_routes", &S::two_hop_routes, Flag{});
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

}  // namespace

Software parse_software(const std::string& toml, const std::string& file_name) {
  return config::read_tables<Software>(toml, file_name, software_keys);
}

std::string dump(const Software& software) { return config::write_tables(software, software_keys); }

}  // namespace terrace::machine
