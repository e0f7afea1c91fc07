// Says how the samples of a step are chosen: the values of data.order and its companions.
#pragma once

#include <cstdint>
#include <string>

namespace terrace::data {

struct OrderConfig {
  std::string order = "global";  // or "node"
  int64_t shares = 0;            // number of parts of the data with "node"; divides the global batch
  int64_t exchange_epochs = 1;   // after which nodes exchange shares

  bool by_node() const { return order == "node"; }
  bool operator==(const OrderConfig&) const = default;
};

}  // namespace terrace::data
