// Compares the number of outer updates with the number of them that the momentum remembers.
#include "terrace/config/outer_updates.h"

#include <fmt/format.h>

#include <cmath>

#include "terrace/base/text/plural.h"

namespace terrace::config {
namespace {

// A momentum u remembers 1 / (1 - u) outer updates. With u = 0.9 runs of 4 to 64 updates were measured, which it harms,
// and those of DiLoCo, which it helps, have 128 (arXiv 2311.08105).
constexpr double fewest_of_remembered = 10;

}  // namespace

std::string few_outer_updates(const Config& config) {
  const int64_t every = config.layout.outer_every, updates = every > 0 ? config.train.steps / every : 0;
  const double momentum = config.optimizer.outer_momentum;
  // 1 / (1 - 0.9) is a little above 10.
  const auto fewest = static_cast<int64_t>(std::ceil(fewest_of_remembered / (1 - momentum) - 1e-6));
  if (updates == 0 || momentum == 0 || updates >= fewest || !config.train.initial_weights.empty()) return "";
  return fmt::format(
      "layout.outer_every = {} makes {} in train.steps = {}: from random weights and with fewer than {} of them, "
      "optimizer.outer_momentum = {:g} ends at a higher loss than the mean of the copies; use "
      "outer_learning_rate = 1.0 and outer_momentum = 0.0",
      every, counted(static_cast<uint64_t>(updates), "outer update"), config.train.steps, fewest, momentum);
}

}  // namespace terrace::config
