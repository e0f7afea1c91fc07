// The keys data.order, data.shares and data.exchange_epochs, and their rules.
#pragma once

#include <string>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/config/domain.h"
#include "terrace/config/idle.h"
#include "terrace/config/rules.h"
#include "terrace/config/section_keys.h"
#include "terrace/data/order/order_config.h"

namespace terrace::data {

// Adds the keys to those of a struct whose member `order` is an OrderConfig. `find` gives the struct of a Config.
template <typename Find>
void add_order_keys(const Find& find, std::vector<config::Key>& list) {
  const config::SectionKeys data{"data", [find](auto& config) -> decltype(auto) { return (find(config).order); }, list};
  data.feature("order", &OrderConfig::order, config::Word{{"global", "node"}}, config::OnResume::fixed,
               "`global`: each step draws from all data. `node`: the data are cut into `shares`, each data-parallel "
               "rank draws from its share only, and shares move on (docs/staging.md).");
  data.feature("shares", &OrderConfig::shares, config::Whole{0, config::most_ranks}, config::OnResume::fixed,
               "Shares of `order = \"node\"`, usually the number of nodes. Divides train.global_batch.");
  data.feature("exchange_epochs", &OrderConfig::exchange_epochs, config::Whole{1, config::most_steps},
               config::OnResume::fixed, "Epochs of a share after which it moves to the node before.");
}

// Returns a sentence about what does not go with this order in a configuration whose data have it, or "".
std::string problem_with_order(const config::Config& config, const OrderConfig& order);
// Returns the keys that problem_with_order() looks at.
std::vector<std::string> keys_of_order();
// Returns the rules of data.shares and data.exchange_epochs. `without_node` gives a reason where data.order is not
// "node".
std::vector<config::IdleRule> order_idle_rules(std::string (*without_node)(const config::Config&));
inline constexpr const char* shares_without_node = "without data.order = \"node\"; give that, or remove it";

}  // namespace terrace::data
