// The machine, software and devices for which a run is predicted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "terrace/config/config.h"
#include "terrace/machine/machine.h"
#include "terrace/machine/software.h"

namespace terrace::plan {

// The type of the products of linear layers in transformer blocks: that of the run, or 8-bit floats, to which their
// factors are quantized. Attention, embedding, head, weights, gradients and calls have the run's type either way.
enum class BlockProducts { as_run, fp8 };

struct Target {
  machine::Machine machine;
  machine::Software software;
  int64_t devices = 1;  // as many ranks
  BlockProducts block_products = BlockProducts::as_run;

  // The number of nodes of which devices are used; as many as devices if the machine has no nodes.
  int64_t nodes() const { return (devices + machine.devices_of("node") - 1) / machine.devices_of("node"); }
  // All devices if they are fewer than those of a node.
  int64_t ranks_per_node() const { return std::min(devices, machine.devices_of("node")); }
};

// Throws UserError if the machine has fewer devices, or states no rates of products in the run's precision; with
// products in fp8 also if it states none of these, or the run isn't one in bf16.
void check_target(const config::Config& config, const Target& target);

// A line that says what is computed in fp8; "" if nothing is.
std::string products_line(const Target& target);

}  // namespace terrace::plan
