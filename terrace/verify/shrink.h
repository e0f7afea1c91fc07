// Makes a small configuration that keeps what matters to a layout: family, kinds of layers, ratios of sizes, precision,
// recompute, [layout].
#pragma once

#include <cstdint>
#include <vector>

#include "terrace/config/config.h"
#include "terrace/verify/verify.h"

namespace terrace::verify {

// Whether weights or gradients are sent in bf16, in whatever type the model computes.
bool travels_in_bf16(const config::LayoutConfig& layout);

// The small configuration. The step of `config` must be divisible among the ranks.
config::Config shrunk(const config::Config& config, int64_t ranks, int64_t steps);

// Keys whose values differ, in the order of the file.
std::vector<KeyChange> key_changes(const config::Config& from, const config::Config& to);

}  // namespace terrace::verify
