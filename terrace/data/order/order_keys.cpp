// Checks the order of nodes against the batch.
#include "terrace/data/order/order_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "terrace/config/divisors.h"

namespace terrace::data {

std::string problem_with_order(const config::Config& config, const OrderConfig& order) {
  if (!order.by_node()) return "";
  const int64_t batch = config.train.global_batch;
  if (order.shares == 0) {
    return fmt::format(
        "data.order = \"node\" needs data.shares, usually the number of nodes; train.global_batch = {} allows {}",
        batch, config::listed(config::divisors_near(batch, 2)));
  }
  if (batch % order.shares != 0) {
    return fmt::format("data.order = \"node\": data.shares = {} does not divide train.global_batch = {}; use {}",
                       order.shares, batch, config::listed(config::divisors_near(batch, order.shares)));
  }
  if (config.train.ramp_start > 0) {
    return fmt::format(
        "data.order = \"node\" needs steps of one size, and train.ramp_start = {} makes them smaller at first; use 0, "
        "or "
        "data.order = \"global\"",
        config.train.ramp_start);
  }
  const auto other =
      std::ranges::find_if(config.phases, [&](const config::Phase& phase) { return phase.global_batch != batch; });
  if (other == config.phases.end()) return "";
  return fmt::format(
      "data.order = \"node\" needs steps of one size, and the phase from step {} has train.global_batch = {} in place "
      "of "
      "{}; leave it out, or use data.order = \"global\"",
      other->from_step, other->global_batch, batch);
}

std::vector<std::string> keys_of_order() {
  return {"data.order", "data.shares", "train.global_batch", "train.ramp_start"};
}

std::vector<config::IdleRule> order_idle_rules(std::string (*without_node)(const config::Config&)) {
  return {{.key = "data.shares", .causes = {"data.order"}, .off = "0", .beside = without_node},
          {.key = "data.exchange_epochs", .causes = {"data.order"}, .off = "1", .beside = without_node}};
}

}  // namespace terrace::data
