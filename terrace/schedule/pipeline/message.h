// Determines which tensors pass between two virtual stages, and which computations produce and consume them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "terrace/schedule/pipeline/placement.h"
#include "terrace/schedule/step/instruction.h"

namespace terrace::schedule {

// The activation from virtual stage `lower` to virtual stage `lower` + 1, or the gradient of that activation.
struct Message {
  bool gradient;
  int64_t micro_batch;
  int64_t lower;

  int64_t from(const Placement& placement) const { return placement.stage_of(gradient ? lower + 1 : lower); }
  int64_t to(const Placement& placement) const { return placement.stage_of(gradient ? lower : lower + 1); }
  auto operator<=>(const Message&) const = default;
};

// The tensor that a computation of the stage takes from another virtual stage or makes for one; nothing at the model's
// ends and for weight gradients.
std::optional<Message> taken(const Instruction& computation, const Placement& placement, int64_t stage);
std::optional<Message> made(const Instruction& computation, const Placement& placement, int64_t stage);

// The tensor that a send or receive of the stage carries; nothing at the model's ends.
std::optional<Message> carried(const Instruction& transfer, const Placement& placement, int64_t stage);

// `message` if it passes between two stages, nothing if both of its virtual stages are on one stage.
std::optional<Message> between_stages(std::optional<Message> message, const Placement& placement);

// The messages of a step with this many micro-batches are numbered 0 .. num_messages - 1, so that what is known of them
// is in a vector.
size_t num_messages(const Placement& placement, int64_t micro_batches);
size_t number_of(const Message& message, const Placement& placement, int64_t micro_batches);

}  // namespace terrace::schedule
